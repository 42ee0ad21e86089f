"""All groups and committed offsets of one partition of `__consumer_offsets`, and how they are loaded from it.

Groups of all kinds are in one table, by id. A record of another kind of group begins that kind anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Any, TypeAlias

from ...protocol.errors import ProtocolError
from ...protocol.messages import consumer_group_log, share_group_log, streams_group_log
from ...protocol.messages.consumer_offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ...protocol.records import Record, RecordBatch
from ..coordination import shard as coordination
from ..coordination.deadlines import Deadline
from ..coordination.jobs import Job, to_the_end
from ..partitions.internal_topics import OFFSETS_TOPIC
from .classic.group import ClassicGroup, ClassicMember, ClassicState
from .classic.protocol import ClassicProtocol
from .consumer import replay as consumer_replay
from .consumer.group import ConsumerGroup
from .offset_table import GroupOffsets, TopicId
from .reconciled import ReconciledGroup
from .records import (
    OFFSET_KEY_START,
    Change,
    CommittedOffset,
    GroupRecord,
    KindRecord,
    OffsetRecord,
    ReadyChange,
    read_record,
)
from .share import replay as share_replay
from .share.group import ShareGroup
from .streams import replay as streams_replay
from .streams.group import StreamsGroup

log = logging.getLogger("ottla.groups")

# Key of a transaction marker: version i16, type i16 (0 abort, 1 commit).
_MARKER_KEY = Struct(">hh")
_COMMIT_MARKER = 1
_MARKERS = (0, _COMMIT_MARKER)

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup


class GroupShard(coordination.Shard):
    """One partition's groups by id, and their offsets.

    Args:
        expire: Called with (this shard, now_ms) when `expiry` is due.
    """

    topic = OFFSETS_TOPIC

    def __init__(self, partition: int, classic: ClassicProtocol, expire: Callable[[GroupShard, int], None]) -> None:
        super().__init__(partition)
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = GroupOffsets()
        self.expiry = Deadline(partial(expire, self))
        self._classic = classic
        self.topics_seen: set[TopicId] = set()
        """Each topic that a record of the log commits an offset in."""
        self.topics_gone: set[TopicId] = set()
        """Topics that were deleted, and in which groups are still to be searched for offsets."""
        self.is_forgetting = False
        """A job is at that."""
        self.is_settling = False
        """A job is at carrying out the ends of transactions."""
        self.groups_going: set[str] = set()
        """Those that are being deleted: nobody joins them."""
        self._commits: list[Record] = []

    def serves(self, group: AnyGroup | ReconciledGroup[Any, Any]) -> bool:
        """Whether the group is still there: those that are not are closed one after the other."""
        return self.state is coordination.ShardState.ACTIVE and self.groups.get(group.group_id) is group

    def drop(self) -> Job:
        """The groups go as they are closed."""
        yield from self.offsets.drop()

    def _replay_batch(self, batch: RecordBatch) -> None:
        is_plain = not batch.is_control and not batch.is_transactional
        transaction_of = batch.producer_id if batch.is_transactional else None
        for record in self._records_of(batch):
            if is_plain and record.key is not None and record.key.startswith(OFFSET_KEY_START):
                self._commits.append(record)
                continue
            self._apply_commits()
            if batch.is_control:
                self._apply_or_pass(record, partial(self._apply_marker, batch.producer_id))
            else:
                self._apply_or_pass(record, partial(self._apply_data, transaction_of))

    def _replayed(self) -> None:
        self._apply_commits()

    def _apply_commits(self) -> None:
        """Apply the last of each run of commits to one place; the others need not be looked at, and in a topic that
        was not compacted lately they are nearly all there is."""
        commits, self._commits = self._commits, []
        try:
            for record in {record.key: record for record in commits}.values():
                self._apply_data(None, record)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - found again, and told, below
            # The one before a commit that makes no sense counts.
            for record in commits:
                self._apply_or_pass(record, partial(self._apply_data, None))

    def _apply_marker(self, producer_id: int, record: Record) -> None:
        if record.key is None or len(record.key) < _MARKER_KEY.size:
            raise ProtocolError("control record without a type")
        _, kind = _MARKER_KEY.unpack_from(record.key)
        if kind in _MARKERS:  # Other control records tell nothing of transactions.
            self.offsets.end_transaction(producer_id, commit=kind == _COMMIT_MARKER)

    def _apply_data(self, transaction_of: int | None, record: Record) -> None:
        """Apply a record that was committed by the transaction of this producer, or by none."""
        content = read_record(record.key, record.value)
        match content:
            case OffsetRecord():
                self._apply_offset(content, transaction_of)
            case GroupRecord(key, value) | KindRecord(key, value):
                self.apply([(key, value)])
            case None:
                log.warning("%s-%d: unknown record type at offset %d", self.topic, self.partition, record.offset)

    def apply(self, changes: Iterable[Change | ReadyChange]) -> None:
        """Change groups as records of them say, which were just written or are loaded; None deletes."""
        for change in changes:
            key, value = change.change if isinstance(change, ReadyChange) else change
            if isinstance(key, GroupMetadataKey):
                self._apply_to_classic_group(key, value)
                continue
            kind, act = REPLAY[type(key)]
            group = self.groups.get(key.group_id)
            if not isinstance(group, kind):
                if value is None:
                    continue
                group = self.groups[key.group_id] = kind(key.group_id, self.partition)
            if value is None and type(key) in _OF_WHOLE_GROUPS:
                del self.groups[key.group_id]
            elif isinstance(change, ReadyChange):
                _TAKE[type(key)](group, key, change.made_of)
            else:
                act(group, key, value)

    def _apply_to_classic_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.groups[key.group] = self._loaded_group(key.group, value)
        else:
            self.groups.pop(key.group, None)

    def _apply_offset(self, record: OffsetRecord, transaction_of: int | None) -> None:
        group_id, place, value = record.key.group, (record.key.topic, record.key.partition), record.value
        if value is None:
            self.offsets.remove(group_id, place)
            return
        self.topics_seen.add((record.key.topic, value.topic_id))
        if group_id not in self.groups:
            self.groups[group_id] = self._classic.new_group(group_id, self.partition, value.commit_timestamp)
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        if transaction_of is None:
            self.offsets.put(group_id, {place: committed})
        else:
            self.offsets.put_pending(transaction_of, group_id, {place: committed})

    def _loaded_group(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        group = self._classic.new_group(group_id, self.partition, value.current_state_timestamp)
        group.generation = value.generation
        for metadata in value.members:
            if metadata.member_id not in group.members and metadata.group_instance_id not in group.static_members:
                group.add(self._classic.adopt(group, _loaded_member(metadata, value)))
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        if value.leader in group.members:
            group.leader = value.leader
        if group.members:
            group.state = ClassicState.STABLE
        to_the_end(group.read_subscriptions())
        return group


REPLAY: dict[type, tuple[type[Any], Callable[[Any, Any, Any], None]]] = {
    key: (kind, act)
    for kind, acts in (
        (ConsumerGroup, consumer_replay.APPLY),
        (ShareGroup, share_replay.APPLY),
        (StreamsGroup, streams_replay.APPLY),
    )
    for key, act in acts.items()
}
"""By the key of a record of such a group: the group's kind, and what changes the group as the record says."""

_TAKE: dict[type, Callable[[Any, Any, Any], None]] = consumer_replay.TAKE | share_replay.TAKE | streams_replay.TAKE
"""The same of a record that was made in pieces: it is given what the record was made of."""

_OF_WHOLE_GROUPS = (
    consumer_group_log.ConsumerGroupMetadataKey,
    share_group_log.ShareGroupMetadataKey,
    streams_group_log.StreamsGroupMetadataKey,
)
"""The keys whose tombstones delete a group."""


def _loaded_member(metadata: MemberMetadata, value: GroupMetadataValue) -> ClassicMember:
    has_rebalance_timeout = metadata.rebalance_timeout != -1
    return ClassicMember(
        metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout if has_rebalance_timeout else metadata.session_timeout,
        session_timeout_ms=metadata.session_timeout,
        protocol_type=value.protocol_type,
        protocols=((value.protocol or "", metadata.subscription),),
        assignment=metadata.assignment,
    )
