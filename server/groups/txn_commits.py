"""Committing offsets as part of a transaction (KIP-98, KIP-447): they are written at once, and take effect when the transaction
is committed.

`groups.coordinator` calls it with an active shard, after the transaction coordinator has added the shard's partition to the
transaction. The batch has the producer's id and epoch, and readers of the partition see it as pending until the transaction's
marker follows. `GroupOffsets.end_transaction` handles the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..coordination.jobs import Steps
from ..coordination.records import Producer
from ..coordination.store import RecordStore
from .assigning.topics import TopicView
from .classic.group import ClassicGroup
from .classic.protocol import ClassicProtocol
from .kinds import PartitionCheck
from .offset_commits import PreparedCommit, TopicCommit, check_places, prepare
from .offset_table import Place
from .settings import GroupSettings
from .shard import GroupShard

# From this version of TxnOffsetCommit on, a group that does not exist and an old member epoch have errors of their own (KIP-1319).
_OWN_ERRORS_VERSION = 6


class TxnCommits:
    """Commits of offsets in transactions. All state is in the shards."""

    def __init__(
        self, settings: GroupSettings, store: RecordStore, topics: TopicView, classic: ClassicProtocol
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._classic = classic

    def prepare(
        self, request: TxnOffsetCommitRequest, topics: Sequence[TopicCommit], now_ms: int, max_bytes: Callable[[], int]
    ) -> Steps[PreparedCommit]:
        """`offset_commits.prepare` for `commit`."""
        return prepare(
            request.group_id,
            topics,
            now_ms=now_ms,
            expire_ms=-1,
            metadata_max=self._settings.offset_metadata_max_bytes,
            max_bytes=max_bytes,
            known=self._topics,
        )

    def commit(
        self, shard: GroupShard, request: TxnOffsetCommitRequest, version: int, prepared: PreparedCommit, now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Write all offsets with metadata of allowed size in one batch of the transaction, and keep them pending.

        Args:
            request: Request with the producer, the group and the member; its `topics` are not used.
            prepared: The offsets to commit.

        Returns:
            Errors of the refused partitions: OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`; ILLEGAL_GENERATION for either kind of epoch, later
                STALE_MEMBER_EPOCH), or does not exist (ILLEGAL_GENERATION, later GROUP_ID_NOT_FOUND); the partition has seen a later epoch of the producer (INVALID_PRODUCER_EPOCH) or
                cannot be written. Then nothing is committed.
        """
        try:
            check, new_group = self._check(shard, request, version, now_ms)
            check_places(prepared, check)
        except KafkaError as error:
            raise (error if version >= _OWN_ERRORS_VERSION else _in_old_words(error)) from error
        if prepared.accepted:
            producer = Producer(request.producer_id, request.producer_epoch)
            self._store.append(shard.partition, prepared.records, now_ms, producer=producer)
            if new_group is not None:
                shard.groups[request.group_id] = new_group
            shard.offsets.put_pending(producer.producer_id, request.group_id, prepared.accepted)
        return prepared.refused

    def _check(
        self, shard: GroupShard, request: TxnOffsetCommitRequest, version: int, now_ms: int
    ) -> tuple[PartitionCheck | None, ClassicGroup | None]:
        """Check the commit. Return the check that is left for each partition, and the group if it must be created.

        A producer that names no generation belongs to no group, or its request has no such field (before version 3).
        """
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                if version >= _OWN_ERRORS_VERSION:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"group {request.group_id} does not exist")
            return None, self._classic.new_group(request.group_id, shard.partition, now_ms)
        check = group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            version,
            is_transactional=True,
        )
        return check, None


def _in_old_words(error: KafkaError) -> KafkaError:
    """Replace an error that is unknown to transactional producers: they know only generations."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)
    return error
