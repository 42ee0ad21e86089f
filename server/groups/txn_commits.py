"""Committing offsets as part of a transaction (KIP-98, KIP-447): written now, real once the transaction is committed.

Called by `coordinator` with an active shard, after the transaction coordinator has said that the transaction writes to
the shard's partition. The batch carries the producer's id and epoch, and readers of the partition see it as pending
until the transaction's marker follows. What happens then is `Offsets.end_transaction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from ...protocol.wire import ZERO_UUID
from ..coordination.store import Pair, Producer, RecordStore
from .classic import ClassicProtocol
from .commits import is_metadata_too_large
from .group import ClassicGroup
from .kinds import PartitionCheck
from .offsets import Place
from .records import CommittedOffset, offset_key, offset_value
from .settings import GroupSettings
from .shard import Shard

_NO_EXPIRY = -1


class TxnTopicCommit(NamedTuple):
    """Offsets to commit in one topic, which exists and has these partitions."""

    topic: str
    topic_id: bytes
    partitions: Sequence[TxnOffsetCommitRequestPartition]


class TxnCommits:
    """The state is all in the shards."""

    def __init__(self, settings: GroupSettings, store: RecordStore, classic: ClassicProtocol) -> None:
        self._settings = settings
        self._store = store
        self._classic = classic

    def commit(
        self, shard: Shard, request: TxnOffsetCommitRequest, version: int, topics: Sequence[TxnTopicCommit], now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Write all offsets with metadata of allowed size in one batch of the transaction, and keep them pending.

        Args:
            request: Says which producer, group and member commits; its `topics` are not looked at.
            topics: What to commit instead.

        Returns:
            What was refused: OFFSET_METADATA_TOO_LARGE.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`), or does not exist (ILLEGAL_GENERATION for
                either kind of epoch); the partition has seen a later epoch of the producer (INVALID_PRODUCER_EPOCH) or
                cannot be written. Nothing is committed then.
        """
        group_id = request.group_id
        check, new_group = self._check(shard, request, version, now_ms)
        refused: dict[Place, ErrorCode] = {}
        records: list[Pair] = []
        pending: list[tuple[Place, CommittedOffset]] = []
        for topic, topic_id, partitions in topics:
            for partition in partitions:
                place = topic, partition.partition_index
                metadata = partition.committed_metadata or ""
                if is_metadata_too_large(metadata, self._settings.offset_metadata_max_bytes):
                    refused[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                if check is not None:
                    _check_partition(check, topic_id, partition.partition_index)
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    _NO_EXPIRY,
                    ZERO_UUID,  # Apache Kafka names no topic ids here: the request has none.
                    len(records),
                )
                records.append((offset_key(group_id, *place), offset_value(committed)))
                pending.append((place, committed))
        if records:
            producer = Producer(request.producer_id, request.producer_epoch)
            base_offset = self._store.append(shard.partition, records, now_ms, producer=producer)
            if new_group is not None:
                shard.groups[group_id] = new_group
            for place, committed in pending:
                in_log = committed._replace(record_offset=base_offset + committed.record_offset)
                shard.offsets.put_pending(producer.producer_id, group_id, place, in_log)
        return refused

    def _check(
        self, shard: Shard, request: TxnOffsetCommitRequest, version: int, now_ms: int
    ) -> tuple[PartitionCheck | None, ClassicGroup | None]:
        """What is left to check for each partition, and the group if it has to be made.

        A producer that names no generation belongs to no group, or is too old to know it (before version 3).
        """
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"group {request.group_id} does not exist")
            return None, self._classic.new_group(request.group_id, shard.partition, now_ms)
        try:
            return (
                group.check_commit(
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    version,
                    is_transactional=True,
                ),
                None,
            )
        except KafkaError as error:
            raise _in_old_words(error) from error


def _check_partition(check: PartitionCheck, topic_id: bytes, partition: int) -> None:
    try:
        check(topic_id, partition)
    except KafkaError as error:
        raise _in_old_words(error) from error


def _in_old_words(error: KafkaError) -> KafkaError:
    """Transactional producers know of generations alone."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)
    return error
