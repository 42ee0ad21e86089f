"""The entry of group coordination: it finds the group, and calls the protocol that has its rules.

The request handlers and `service`, which supplies the time, call it. One coordinator serves all nodes of the process; routing
decides which node may answer for a group. A handler looks the shard up once and passes it to the methods here; each step checks
whether the shard is still served.

Every method raises KafkaError if the whole request fails: INVALID_GROUP_ID, NOT_COORDINATOR (no such partition, or one that
could not be loaded), COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ...protocol.messages.describe_groups import DescribedGroup
from ...protocol.messages.join_group import JoinGroupRequest
from ...protocol.messages.leave_group import MemberIdentity, MemberResponse
from ...protocol.messages.list_groups import ListedGroup
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ...protocol.messages.streams_group_heartbeat import EndpointToPartitions, StreamsGroupHeartbeatRequest
from ...protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ...protocol.messages.sync_group import SyncGroupRequest
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.wire import ZERO_UUID
from ..coordination.bell import Bell
from ..coordination.coordinator import Coordinator
from ..coordination.jobs import Job, Steps, for_each, to_the_end
from ..coordination.shard import ShardState
from ..coordination.store import RecordStore
from ..partitions.internal_topics import OFFSETS_TOPIC
from .assigning.topics import TopicView
from .classic.group import ClassicGroup, ClassicState, JoinReply, SyncReply
from .classic.protocol import Caller, ClassicProtocol
from .classic.records import LEAST_MEMBER_BYTES, group_value
from .classic_requests import ClassicRequests, same_error
from .consumer.classic_members import ClassicMembers
from .consumer.group import ConsumerGroup
from .consumer.member import check_request
from .consumer.migration import Migration
from .consumer.protocol import ConsumerProtocol
from .consumer.records import group_epoch, target_metadata
from .descriptions import describe_classic, describe_consumer, describe_share, describe_streams, list_groups
from .kinds import GroupKind
from .maintenance import GroupMaintenance
from .offset_commits import Commits, Fetched, Positions, PreparedCommit, TopicCommit, chunks, is_current
from .offset_table import Place
from .reconciled_protocol import ReconciledProtocol
from .records import group_key
from .settings import MEMBERS_A_PIECE, PLACES_A_PIECE, WAITING_MAX, GroupSettings
from .shard import AnyGroup, GroupShard
from .share.group import ShareGroup
from .share.member import check_request as check_share_request
from .share.protocol import ShareProtocol, StatesToInitialize
from .share.states import Topics, TopicStates
from .streams.answering import HeartbeatResult
from .streams.group import StreamsGroup
from .streams.member import check_request as check_streams_request
from .streams.protocol import StreamsProtocol
from .txn_commits import TxnCommits


class QuietMember(NamedTuple):
    """A member that has nothing to do before its group changes.

    Attributes:
        bell: Bell of its group; for a member that waits for others, the one that rings when they give something up.
        rings: How often that had rung.
        session_ms: Time that is left of its session.
        classic: Its group, if that is classic. An open connection must not keep a group that is gone.
        is_waiting: Whether it waits for others.
    """

    bell: Bell
    rings: int
    session_ms: int
    classic: ReferenceType[ClassicGroup] | None
    is_waiting: bool


class GroupCoordinator(Coordinator[GroupShard]):
    """All groups, by partition of `__consumer_offsets`.

    Args:
        topics: Topics that groups consume.
        elapsed_ms: Monotonic time; see `Coordinator`.
        new_id: Function that makes the unique part of member ids.
        request_states: Function that requests the initialization of share states. Its result is reported to `note_share_states_initialized` or
            `note_share_states_refused`.
    """

    topic = OFFSETS_TOPIC

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        *,
        topics: TopicView,
        elapsed_ms: Callable[[], int],
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        on_earlier: Callable[[], None] = lambda: None,
        request_states: Callable[[StatesToInitialize], None] = lambda _: None,
    ) -> None:
        super().__init__(store, elapsed_ms, on_earlier)
        self._settings = settings
        self._topics = topics
        self._classic = ClassicProtocol(
            settings,
            self._deadlines,
            self._persist,
            new_id,
            self._start_job_of,
            self._is_served,
        )
        self._migration = migration = Migration(settings, store, topics, self._classic)
        self._consumer = ConsumerProtocol(
            settings, store, self._deadlines, topics, migration, new_id, self._start_job, self._farewells.start
        )
        members = ClassicMembers(settings, self._consumer, migration, new_id)
        self._classic_requests = ClassicRequests(settings, store, self._classic, members, self._closing)
        self._share = ShareProtocol(settings, store, self._deadlines, topics, self._start_job, request_states)
        self._streams = StreamsProtocol(settings, store, self._deadlines, topics, self._start_job, self._close_classic)
        self._protocols: dict[type[Any], ReconciledProtocol[Any]] = {
            ConsumerGroup: self._consumer,
            ShareGroup: self._share,
            StreamsGroup: self._streams,
        }
        self._commits = Commits(settings, store, topics, self._classic)
        self._txn_commits = TxnCommits(settings, store, topics, self._classic)
        self._maintenance = GroupMaintenance(
            settings, self._deadlines, topics, self._commits, self._share, self._start_job, self._drop
        )
        self._kinds: dict[type[Any], GroupKind] = {
            ClassicGroup: GroupKind(
                take_up=lambda _, group, now_ms: self._classic.loaded(group, now_ms),
                close=self._classic.close,
            ),
            ConsumerGroup: GroupKind(
                take_up=self._consumer.loaded,
                close=lambda group, _error, _now_ms: self._consumer.close(group),
            ),
            ShareGroup: GroupKind(
                take_up=self._share.loaded,
                close=lambda group, _error, _now_ms: self._share.close(group),
            ),
            StreamsGroup: GroupKind(
                take_up=self._streams.loaded,
                close=lambda group, _error, _now_ms: self._streams.close(group),
            ),
        }

    def _new_shard(self, partition: int) -> GroupShard:
        return GroupShard(partition, self._classic, self._maintenance.expire)

    def _activated(self, shard: GroupShard, now_ms: int) -> None:
        self._consumer.activated(now_ms)
        self._start_job(shard, self._take_up(shard, now_ms))
        self._maintenance.settle(shard)
        self._maintenance.repeat_expiry(shard)
        self._maintenance.forget_gone(shard, now_ms)

    def _take_up(self, shard: GroupShard, now_ms: int) -> Job:
        """Start the session times of all loaded groups; clients may have used some of the groups before."""

        def take_up(group: AnyGroup) -> Job:
            return self._kinds[type(group)].take_up(shard, group, now_ms)

        failing = f"members in {OFFSETS_TOPIC}-{shard.partition} have no session timeout until their next heartbeat"
        yield from for_each(tuple(shard.groups.values()), take_up, failing)

    def _unloaded(self, shard: GroupShard, error: ErrorCode, now_ms: int) -> Job:
        self._deadlines.forget(shard.expiry)
        while shard.groups:
            _, group = shard.groups.popitem()
            yield from self._closing(group, error, now_ms)
            yield

    def _start_job_of(self, group: ClassicGroup, job: Job) -> None:
        if group.partition < len(self.shards):  # otherwise its topic was deleted
            self._start_job(self.shards[group.partition], job)

    def _is_served(self, group: ClassicGroup) -> bool:
        """Whether the group is in the tables of a partition that is served."""
        shard = self.shards[group.partition] if group.partition < len(self.shards) else None
        return shard is not None and shard.state is ShardState.ACTIVE and shard.groups.get(group.group_id) is group

    # Members

    def consumer_heartbeat(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: Callable[[], int]
    ) -> Steps[ConsumerGroupHeartbeatResponse]:
        """Let a member of a consumer group join, stay or leave, in the last piece (`ConsumerProtocol.heartbeat`)."""
        check_request(request, caller.version, self._settings.group_consumer_assignors)
        shard.check_active()
        if (answer := self._consumer.unchanged(shard, request, caller)) is not None:
            return answer
        prepared = yield from self._consumer.preparing(shard, request, caller)
        group, upgrade = shard.groups.get(request.group_id), None
        if request.member_epoch == 0 and isinstance(group, ClassicGroup) and group.members:
            upgrade = yield from self._migration.upgrade(group)
        _check_stays(shard, request.group_id)
        return self._consumer.heartbeat(shard, request, caller, now_ms(), upgrade, prepared)

    def share_heartbeat(
        self, shard: GroupShard, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: Callable[[], int]
    ) -> Steps[ShareGroupHeartbeatResponse]:
        """Let a member of a share group join, stay or leave, in the last piece (`ShareProtocol.heartbeat`)."""
        check_share_request(request)
        shard.check_active()
        if (answer := self._share.unchanged(shard, request, caller)) is not None:
            return answer
        ready = yield from self._share.preparing(shard, request, caller)
        _check_stays(shard, request.group_id)
        return self._share.heartbeat(shard, request, caller, now_ms(), ready)

    def streams_heartbeat(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: Callable[[], int]
    ) -> Steps[HeartbeatResult]:
        """Let a member of a streams group join, stay or leave (`StreamsProtocol.heartbeat`). The partitions served at each
        endpoint are added by the caller, a member a piece."""
        check_streams_request(request)
        shard.check_active()
        if (heard := self._streams.unchanged(shard, request, caller)) is not None:
            return heard
        ready = yield from self._streams.preparing(shard, request)
        _check_stays(shard, request.group_id)
        return self._streams.heartbeat(shard, request, caller, now_ms(), ready)

    def describe_streams_topology(
        self, shard: GroupShard, request: StreamsGroupTopologyDescriptionUpdateRequest, now_ms: Callable[[], int]
    ) -> Steps[None]:
        """Store a description of a streams group's topology (`StreamsProtocol.describe_topology`)."""
        return self._streams.describe_topology(shard, request, now_ms)

    def note_share_states_initialized(self, group_id: str, partitions: Topics, now_ms: int) -> None:
        """Note that the states of these partitions were initialized (`ShareProtocol.note_initialized`)."""
        self._share.note_initialized(self.shard_of(group_id), group_id, partitions, now_ms)

    def note_share_states_refused(self, group_id: str, partitions: Topics, now_ms: int) -> None:
        """Note that the states were not initialized, and must be requested again (`ShareProtocol.note_refused`)."""
        self._share.note_refused(self.shard_of(group_id), group_id, partitions, now_ms)

    def note_share_states_requested(self, group_id: str, partitions: Topics) -> None:
        """Note the start of a request for states of the group that `request_states` did not start; `note_share_states_answered` ends it."""
        self._share.note_requested(group_id, partitions)

    def note_share_states_answered(self, group_id: str, partitions: Topics) -> None:
        """Note that a request for states of the group has ended, whatever its result."""
        self._share.note_answered(group_id, partitions)

    def prepare_share_state_move(self, group_id: str, partitions: Topics, now_ms: int) -> int:
        """Prepare new start offsets for these partitions of an empty share group (`ShareProtocol.prepare_move`)."""
        shard = self._group_shard(group_id)
        _check_stays(shard, group_id)
        return self._share.prepare_move(shard, group_id, partitions, now_ms)

    def prepare_share_state_reset(self, group_id: str, topic_ids: Collection[bytes], now_ms: int) -> Topics:
        """Prepare to reset an empty share group in these topics (`ShareProtocol.prepare_reset`)."""
        return self._share.prepare_reset(self._group_shard(group_id), group_id, topic_ids, now_ms)

    def note_share_states_deleted(self, group_id: str, topic_ids: Collection[bytes], now_ms: int) -> None:
        """Note that the states in these topics were deleted (`ShareProtocol.note_deleted`)."""
        self._share.note_deleted(self.shard_of(group_id), group_id, topic_ids, now_ms)

    def prepare_share_state_deletion(self, shard: GroupShard, group_id: str, now_ms: int) -> Topics:
        """Prepare the deletion of a share group (`ShareProtocol.prepare_deletion`)."""
        return self._share.prepare_deletion(shard, group_id, now_ms)

    def initialized_share_partitions(self, group_id: str) -> Mapping[bytes, TopicStates]:
        """Return the group's partitions with initialized states; none if it is not a share group."""
        group = self._group_shard(group_id).groups.get(group_id)
        return group.initialized if isinstance(group, ShareGroup) else {}

    @contextmanager
    def deleting_group(self, group_id: str) -> Iterator[GroupShard]:
        """Context in which no member can join the group, as it is being deleted; its value is the group's shard.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS: the group is already being deleted.
        """
        shard = self.shard_of(group_id)
        _check_stays(shard, group_id)
        shard.groups_going.add(group_id)
        try:
            yield shard
        finally:
            shard.groups_going.discard(group_id)

    def streams_endpoints(
        self, shard: GroupShard, group_id: str, member_id: str
    ) -> Steps[tuple[EndpointToPartitions, ...]]:
        """Return the answer's partitions by endpoint of the group's members, for this member; a member a piece."""
        shard.check_active()
        return self._streams.endpoints(shard.groups.get(group_id), member_id)

    def _close_classic(self, group: ClassicGroup, now_ms: int) -> None:
        """Close a classic group without members that was replaced by another group."""
        to_the_end(self._classic.close(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms))

    def join(self, shard: GroupShard, request: JoinGroupRequest, caller: Caller, now_ms: int, reply: JoinReply) -> None:
        """Handle a JoinGroup; `reply` is called exactly once, perhaps much later (`ClassicProtocol.join`,
        `ClassicMembers.join`).

        Raises:
            KafkaError: also INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL (too many protocols), UNKNOWN_SERVER_ERROR
                (more metadata than can be written), or the error of writing a new group. Then `reply` is not called.
        """
        _check_served(shard, request.group_id)
        self._classic_requests.check_session_timeout(request)
        _check_stays(shard, request.group_id)
        self._classic_requests.join(shard, request, caller, now_ms, reply)

    def sync(self, shard: GroupShard, request: SyncGroupRequest, now_ms: int, reply: SyncReply) -> None:
        """Handle a SyncGroup (`ClassicRequests.sync`)."""
        _check_served(shard, request.group_id)
        self._classic_requests.sync(shard, request, now_ms, reply)

    def heartbeat(
        self, shard: GroupShard, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Keep a classic member alive (`ClassicRequests.heartbeat`)."""
        _check_served(shard, group_id)
        return self._classic_requests.heartbeat(shard, group_id, member_id, instance_id, generation)

    def leave(
        self, shard: GroupShard, group_id: str, leaving: Sequence[MemberIdentity], now_ms: int
    ) -> Steps[tuple[MemberResponse, ...]]:
        """Remove classic members, some hundred at a time, as if each part were a request of its own. If a later part fails, its
        members' answers contain the error.

        Raises:
            KafkaError: No member was removed.
        """
        answers: list[MemberResponse] = []
        for at in range(0, len(leaving) or 1, MEMBERS_A_PIECE):
            some = leaving[at : at + MEMBERS_A_PIECE]
            try:
                _check_served(shard, group_id)
                answers += self._classic_requests.leave(shard, group_id, some, now_ms)
            except KafkaError as error:
                if not at:
                    raise
                answers += same_error(some, error.code)
            yield
        return tuple(answers)

    def quiet(self, group_id: str, member_id: str) -> QuietMember | None:
        """Return the member if it has nothing to do before the bell rings, and WAITING_MAX allows it to wait."""
        shard = self.shard_for(group_id)
        group = shard.groups.get(group_id)
        member: Any = None if group is None or shard.state is not ShardState.ACTIVE else group.members.get(member_id)
        if group is None or member is None:
            return None
        bell: Bell | None
        is_waiting = False
        if isinstance(group, ClassicGroup):
            bell, session = group.bell if group.state is ClassicState.STABLE else None, member.session
        else:
            protocol = self._protocols[type(group)]
            bell = group.bell
            if not protocol.is_quiet(group, member):
                is_waiting = len(group.released) < WAITING_MAX and protocol.is_waiting(group, member)
                bell = group.released if is_waiting else None
            session = group.sessions.get(member_id)
        if bell is None or session is None or session.due_ms is None:
            return None
        session_ms = session.due_ms - self._deadlines.elapsed_ms()
        classic = ref(group) if isinstance(group, ClassicGroup) else None
        return QuietMember(bell, bell.rings, session_ms, classic, is_waiting)

    def keep_alive(self, quiet: QuietMember, member_id: str) -> bool:
        """Restart the session of a classic member that sends the same heartbeat again. Return False if its group has changed, or
        is no longer served. The bell rings later than that: groups of an unloaded shard are closed one after the other."""
        group = None if quiet.classic is None else quiet.classic()
        if group is None or quiet.rings != quiet.bell.rings or not self._is_served(group):
            return False
        self._classic.rebalancing.keep_alive(group.members[member_id])
        return True

    def member_ids(self, shard: GroupShard, group_id: str) -> Collection[str]:
        """Return a live view of the group's member ids; empty if the group does not exist."""
        _check_served(shard, group_id)
        group = shard.groups.get(group_id)
        return () if group is None else group.members.keys()

    # Offsets

    def prepare(
        self,
        shard: GroupShard,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        topics: Sequence[TopicCommit],
        now_ms: int,
    ) -> Steps[PreparedCommit]:
        """Return the input of `commit` and `commit_in_transaction` (`offset_commits.prepare`)."""
        max_bytes = partial(self._store.max_batch_bytes, shard.partition)
        if isinstance(request, OffsetCommitRequest):
            return self._commits.prepare(request, topics, now_ms, max_bytes)
        return self._txn_commits.prepare(request, topics, now_ms, max_bytes)

    def is_current(self, prepared: PreparedCommit) -> bool:
        """Whether it may be written in this step: no topic was deleted since it was prepared."""
        return is_current(prepared, self._topics)

    def commit(
        self, shard: GroupShard, request: OffsetCommitRequest, version: int, prepared: PreparedCommit, now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Commit offsets (`Commits.commit`)."""
        shard.check_active()
        return self._commits.commit(shard, request, version, prepared, now_ms)

    def check_fetch(self, shard: GroupShard, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError also if this member may not read committed offsets (`Commits.check_fetch`)."""
        shard.check_active()
        self._commits.check_fetch(shard, group_id, member_id, epoch)

    @staticmethod
    def positions(shard: GroupShard, group_id: str, *, stable: bool) -> Positions:
        """Return the group's committed offsets for `fetch` and `fetch_all`. They are a copy: a transaction that ends between
        two pieces must be visible in all partitions or in none.

        Args:
            stable: Answer UNSTABLE_OFFSET_COMMIT for partitions with pending commits of a transaction.
        """
        offsets = shard.offsets
        unstable = frozenset(offsets.unstable_places(group_id)) if stable else frozenset()
        return Positions(offsets.of_group(group_id).copy(), unstable)

    def fetch(
        self, positions: Positions, topic: str, topic_id: bytes, partitions: Iterable[int]
    ) -> Steps[list[Fetched]]:
        """Return committed offsets of some partitions (`Commits.fetch`). If the topic's id is zero, its name means the present
        topic of that name."""
        wanted = self._present_id(topic) if topic_id == ZERO_UUID else topic_id
        return self._commits.fetch(positions, topic, wanted, partitions)

    def fetch_all(self, positions: Positions) -> Steps[dict[str, list[Fetched]]]:
        """Return all committed offsets by topic (`Commits.fetch_all`)."""
        return self._commits.fetch_all(positions, self._present_id)

    def _present_id(self, topic: str) -> bytes:
        """Return the id of the topic that has this name; zero if no such topic exists."""
        return self._topics.id_of(topic) or ZERO_UUID

    def commit_in_transaction(
        self, shard: GroupShard, request: TxnOffsetCommitRequest, version: int, prepared: PreparedCommit, now_ms: int
    ) -> dict[Place, ErrorCode]:
        """Commit offsets as part of a transaction (`TxnCommits.commit`)."""
        _check_served(shard, request.group_id)
        return self._txn_commits.commit(shard, request, version, prepared, now_ms)

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Apply the offsets that the producer's transaction committed in this partition, or drop them.

        The marker is in the log: a shard that is not active reads it there.
        """
        if partition < len(self.shards) and (shard := self.shards[partition]).state is ShardState.ACTIVE:
            shard.offsets.end_transaction(producer_id, commit=commit)
            self._maintenance.settle(shard)

    def delete_offsets(
        self, shard: GroupShard, group_id: str, places: Sequence[Place], now_ms: int
    ) -> Steps[dict[Place, ErrorCode]]:
        """Delete offsets, some hundred a piece (`Commits.delete`).

        Raises:
            KafkaError: The group refuses; parts that were deleted before stay deleted.
        """
        errors: dict[Place, ErrorCode] = {}
        for some in chunks(places) or [()]:
            _check_served(shard, group_id)
            errors |= self._commits.delete(shard, group_id, some, now_ms)
            yield
        return errors

    def _group_shard(self, group_id: str) -> GroupShard:
        shard = self.shard_for(group_id)
        _check_served(shard, group_id)
        return shard

    def _persist(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        max_bytes = self._store.max_batch_bytes(group.partition)
        if len(group.members) * LEAST_MEMBER_BYTES > max_bytes:
            # Encoding a group of hundreds of thousands, only to find that it is too large, takes long.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{len(group.members)} members exceed the limit of {max_bytes} bytes in one batch",
            )
        self._store.append(group.partition, [(group_key(group.group_id), group_value(group, assignments))], now_ms)

    # Groups in administrators' requests

    def describe_group(self, group_id: str, version: int) -> Steps[DescribedGroup]:
        """Describe a classic group (`descriptions.describe_classic`), a member a piece."""
        return describe_classic(group_id, self.shard_of(group_id).groups.get(group_id), version)

    def describe_consumer_group(self, group_id: str) -> Steps[DescribedConsumerGroup]:
        """Describe a consumer group (`descriptions.describe_consumer`), a topic of a member a piece."""
        group = self._group_shard(group_id).groups.get(group_id)
        return describe_consumer(group_id, group, self._topics, self._settings.group_consumer_assignors[0])

    def describe_share_group(self, group_id: str) -> Steps[DescribedShareGroup]:
        """Describe a share group (`descriptions.describe_share`), a topic of a member a piece."""
        return describe_share(group_id, self._group_shard(group_id).groups.get(group_id), self._topics)

    def describe_streams_group(self, group_id: str, *, with_description: bool = False) -> Steps[DescribedStreamsGroup]:
        """Describe a streams group (`descriptions.describe_streams`), a member or a subtopology a piece."""
        group = self._group_shard(group_id).groups.get(group_id)
        return describe_streams(group_id, group, with_description=with_description)

    def list_groups(
        self, partitions: Iterable[int], states: Collection[str], types: Collection[str]
    ) -> Steps[list[ListedGroup]]:
        """List the groups of these partitions (`descriptions.list_groups`).

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS if one of the partitions is loading, or is unloaded before it has been
                listed. A partition that could not be loaded has no groups.
        """
        shards = [self.shards[partition] for partition in partitions]
        if any(shard.state is ShardState.LOADING for shard in shards):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups are loading")
        return (yield from list_groups(self._each_in(shards, lambda shard: shard.groups), states, types))

    def begin_at(self, group_id: str, epoch: int, now_ms: int) -> None:
        """Create an empty consumer group (KIP-848) with this epoch.

        Raises:
            KafkaError: also NON_EMPTY_GROUP (a group of that name exists), or the error of the append.
        """
        shard = self._group_shard(group_id)
        _check_stays(shard, group_id)
        if group_id in shard.groups:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} already exists")
        # With the time 0 its first member need not wait for `group.consumer.assignment.interval.ms`.
        changes = [group_epoch(group_id, epoch, 0), target_metadata(group_id, epoch, 0)]
        self._consumer.write(shard, group_id, changes, now_ms)

    def delete_group(self, group_id: str, now_ms: int) -> Job:
        """Delete a group without members, and all its offsets, some hundred a piece. No member can join during that: it would
        find only some of the offsets, and the group could not be deleted then.

        Raises:
            KafkaError: also GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_LOAD_IN_PROGRESS (it is already being deleted), or
                the error of writing the tombstones. The group still exists; after the last error some of its offsets may be
                deleted.
        """
        with self.deleting_group(group_id) as shard:
            while True:
                group = shard.groups.get(group_id)
                if group is None:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
                if not group.is_empty:
                    raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
                places = list(islice(shard.offsets.each_place(group_id), PLACES_A_PIECE + 1))
                if len(places) <= PLACES_A_PIECE:
                    self._commits.remove(shard, group_id, places, now_ms, with_group=True)
                    self._drop(shard, group, now_ms)
                    return
                self._commits.remove(shard, group_id, places, now_ms)
                yield
                if self.shard_of(group_id) is not shard:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR, f"the coordinator of group {group_id} has changed")

    def topics_changed(self, names: Collection[str], now_ms: int, *, has_new: bool) -> None:
        """Note that topics were created (`has_new`), deleted or got more partitions."""
        if has_new:
            self._consumer.topics_are_new(now_ms)
        self._consumer.topics_changed(names)
        self._share.topics_changed(names)
        self._streams.topics_changed(names)

    def topic_deleted(self, name: str, topic_id: bytes, now_ms: int) -> None:
        """Forget the offsets, and the states of share groups, in a deleted topic. A partition that cannot be written keeps
        them.

        This is a job: before it is done, a topic of the same name may exist and have commits. The topic's id distinguishes
        them.
        """
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                self._maintenance.forget(shard, {(name, topic_id), (name, ZERO_UUID)}, now_ms)

    def _drop(self, shard: GroupShard, group: AnyGroup, now_ms: int) -> None:
        """Forget a group without members."""
        del shard.groups[group.group_id]
        to_the_end(self._closing(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms))

    def _closing(self, group: AnyGroup, error: ErrorCode, now_ms: int) -> Job:
        return self._kinds[type(group)].close(group, error, now_ms)


def _check_served(shard: GroupShard, group_id: str) -> None:
    """Raise INVALID_GROUP_ID for an empty id, or as `Shard.check_active`."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group ID is empty")
    shard.check_active()


def _check_stays(shard: GroupShard, group_id: str) -> None:
    """Raise as `Shard.check_active`, since the shard may have changed between two pieces. Also raise
    COORDINATOR_LOAD_IN_PROGRESS while the group is being deleted; clients retry after that error."""
    shard.check_active()
    if group_id in shard.groups_going:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id} is being deleted")
