"""Committing offsets as part of a transaction (KIP-98, KIP-447): written now, real once the transaction is committed.

Called by `groups.coordinator` with an active shard, after the transaction coordinator has said that the transaction writes to
the shard's partition. The batch carries the producer's id and epoch, and readers of the partition see it as pending
until the transaction's marker follows. What happens then is `Offsets.end_transaction`.
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


class TxnCommits:
    """The state is all in the shards."""

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
            request: Says which producer, group and member commits; its `topics` are not looked at.
            prepared: What to commit instead.

        Returns:
            What was refused: OFFSET_METADATA_TOO_LARGE.

        Raises:
            KafkaError: The group does not allow it (`Group.check_commit`), or does not exist (ILLEGAL_GENERATION for
                either kind of epoch); the partition has seen a later epoch of the producer (INVALID_PRODUCER_EPOCH) or
                cannot be written. Nothing is committed then.
        """
        try:
            check, new_group = self._check(shard, request, version, now_ms)
            check_places(prepared, check)
        except KafkaError as error:
            raise _in_old_words(error) from error
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
        """What is left to check for each partition, and the group if it has to be made.

        A producer that names no generation belongs to no group, or is too old to know it (before version 3).
        """
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"group {request.group_id} does not exist")
            return None, self._classic.new_group(request.group_id, shard.partition, now_ms)
        check = group.check_commit(
            request.member_id, request.group_instance_id, request.generation_id, version, is_transactional=True
        )
        return check, None


def _in_old_words(error: KafkaError) -> KafkaError:
    """Transactional producers know of generations alone."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)
    return error
