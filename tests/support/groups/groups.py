"""Group coordination without broker, disk or clock: a store in memory, and a coordinator whose time the test moves.

groups = Groups(group_initial_rebalance_delay_ms=0)
one = groups.join("g")
groups.advance(0)
assert one.answer.generation_id == 1
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from ottla.protocol.batch_builder import assign_in_place
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_groups import DescribedGroup
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.records import Record, RecordBatch, batches
from ottla.server.coordination.jobs import IsOver, never, to_the_end
from ottla.server.coordination.records import Pair, Producer, Records
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.coordinator import GroupCoordinator
from ottla.server.groups.offset_commits import Fetched, TopicCommit
from ottla.server.groups.offset_table import Place
from ottla.server.groups.share.protocol import StatesToInitialize
from support.groups.settings import group_settings

Answer = TypeVar("Answer")

TOPIC_IDS = {"orders": b"\1" * 16, "bills": b"\2" * 16}
"""Topics in which tests commit offsets, and their ids when they are created for the first time."""


class FakeTopics:
    """`TopicView` of topics that the test creates, grows and deletes; by default no node has a rack.

    A topic that is created again after its deletion has another id.
    """

    def __init__(self, **partition_counts: int) -> None:
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._counts: dict[bytes, int] = {}
        self._made = 0
        self._known_before: set[str] = set()
        self.rack_of_all: list[str] = []
        for name, count in partition_counts.items():
            self.put(name, count)

    def put(self, name: str, partition_count: int) -> bytes:
        """Create the topic, or let it grow; return its id."""
        if name not in self._ids:
            self._made += 1
            is_first = name not in self._known_before
            self._known_before.add(name)
            self._ids[name] = (
                TOPIC_IDS[name] if is_first and name in TOPIC_IDS else (0x1000 + self._made).to_bytes(2, "big") * 8
            )
        self._names[self._ids[name]] = name
        self._counts[self._ids[name]] = partition_count
        return self._ids[name]

    def delete(self, name: str) -> None:
        topic_id = self._ids.pop(name)
        del self._counts[topic_id], self._names[topic_id]

    def names(self) -> list[str]:
        return list(self._ids)

    def id_of(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, topic_id: bytes) -> int:
        return self._counts.get(topic_id, 0)

    def racks(self, topic_id: bytes) -> list[list[str]]:
        return [self.rack_of_all] * self.partition_count(topic_id)


class MemoryChunk:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        return self.data


class MemoryStore:
    """`RecordStore` over bytes in memory. `failure`, when set, is the error that every append raises.

    As in the real one, a batch above `batch_bytes_max` is refused.
    """

    def __init__(self, partition_count: int = 4) -> None:
        self.partitions = [bytearray() for _ in range(partition_count)]
        self.end_offsets = [0] * partition_count
        self.failure: ErrorCode | None = None
        self.batch_bytes_max = 1_048_588
        self.appends = 0
        self.leader_epochs: dict[int, int] = {}
        self.member_numbers = itertools.count(1)
        """Kept here because member ids stay unique across restarts."""

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        if self.failure is not None:
            raise KafkaError(self.failure, "the store was told to fail")
        made = records if isinstance(records, Records) else Records(records)
        if made.batch_bytes > self.batch_bytes_max:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch of {made.batch_bytes} bytes is too large")
        return self.append_batch(partition, made.sealed(now_ms, producer))

    def max_batch_bytes(self, partition: int) -> int:
        return self.batch_bytes_max

    def leader_epoch(self, partition: int) -> int:
        return self.leader_epochs.get(partition, 0)

    def append_batch(self, partition: int, batch: bytearray) -> int:
        """Append a batch made by the test, whatever its base offset is."""
        self.appends += 1
        base_offset = self.end_offset(partition)
        assign_in_place(batch, base_offset, 0)
        self.partitions[partition] += batch
        self.end_offsets[partition] = RecordBatch(memoryview(batch)).next_offset
        return base_offset

    def start_offset(self, partition: int) -> int:
        return 0

    def end_offset(self, partition: int) -> int:
        return self.end_offsets[partition]

    def read(self, partition: int, offset: int) -> MemoryChunk:
        later = (batch for batch in self.batches(partition) if batch.next_offset > offset)
        return MemoryChunk(b"".join(bytes(batch.view) for batch in later))

    def batches(self, partition: int) -> list[RecordBatch]:
        return list(batches(bytes(self.partitions[partition])))

    def records(self, partition: int) -> list[Record]:
        return [record for batch in self.batches(partition) for record in batch.records()]

    def table(self, partition: int) -> dict[bytes, bytes]:
        """Return the result of compaction: the last value of every key that was not deleted."""
        last = {record.key: record.value for record in self.records(partition) if record.key is not None}
        return {key: value for key, value in last.items() if value is not None}


class Reply(Generic[Answer]):
    """A receiver of a parked answer, which fails on a second one."""

    def __init__(self) -> None:
        self._answer: Answer | None = None

    def __call__(self, answer: Answer) -> None:
        assert self._answer is None, f"answered twice: {self._answer}, {answer}"
        self._answer = answer

    @property
    def is_parked(self) -> bool:
        return self._answer is None

    @property
    def answer(self) -> Answer:
        assert self._answer is not None, "still parked"
        return self._answer


def subscription(*topics: str, version: int = 0) -> bytes:
    """Return the metadata of a consumer that subscribes to these topics, without user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Groups:
    """A coordinator at a time that only `advance` moves; `set_wall` moves the wall time.

    Member ids are `<client or instance id>-1`, `-2`, … Keyword arguments are GroupSettings; the initial delay is 0 by default.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        elapsed_ms: int = 1_000_000,
        wall_ahead_ms: int = 0,
        topics: FakeTopics | None = None,
        loads: bool = True,
        **settings: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.topics = topics or FakeTopics(orders=8, bills=8)
        self.elapsed_ms = elapsed_ms
        self._wall_ahead_ms = wall_ahead_ms
        self.wakes = 0
        self.wishes: list[StatesToInitialize] = []
        """Requested states of share partitions; see `support.groups.share_groups`."""
        self.is_over: IsOver = never
        """Whether the coordinator's time slice is over, while due work is left. Then, and at the end, `between` is called."""
        self.between: Callable[[], None] = lambda: None
        self.coordinator = GroupCoordinator(
            group_settings(**{"group_initial_rebalance_delay_ms": 0, **settings}),
            self.store,
            topics=self.topics,
            elapsed_ms=lambda: self.elapsed_ms,
            new_id=lambda: str(next(self.store.member_numbers)),
            on_earlier=self._count_wake,
            request_states=self.wishes.append,
        )
        if loads:
            self.load()

    @property
    def now_ms(self) -> int:
        """Return the wall time."""
        return self.elapsed_ms + self._wall_ahead_ms

    def set_wall(self, by_ms: int) -> None:
        """Set the wall clock ahead, or with a negative number back."""
        self._wall_ahead_ms += by_ms

    def _count_wake(self) -> None:
        self.wakes += 1

    def load(self) -> None:
        """Read all partitions of the store, as at the start of a broker, and do the work that is due then."""
        self.load_only()
        self.advance(0)

    def load_only(self) -> None:
        """Read all partitions of the store; the work that is due then has not begun."""
        coordinator = self.coordinator
        coordinator.open(len(self.store.partitions))
        for shard in coordinator.shards:
            try:
                shard.replay(self.store.read(shard.partition, 0).read())
            except KafkaError as error:
                coordinator.fail(shard, error)
            else:
                coordinator.activate(shard, self.now_ms)

    def restarted(self, **settings: Any) -> Groups:
        """Return a new coordinator that finds what this one has written."""
        return Groups(
            self.store,
            elapsed_ms=self.elapsed_ms,
            wall_ahead_ms=self._wall_ahead_ms,
            topics=self.topics,
            **settings,
        )

    def advance(self, by_ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end_ms = self.elapsed_ms + by_ms
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.elapsed_ms = max(self.elapsed_ms, due_ms)
            self.coordinator.run_due(self.now_ms, self.is_over)
            self.between()
        self.elapsed_ms = end_ms

    # Requests, with arguments that rarely matter left out

    def join(
        self,
        group: str = "g",
        member: str = "",
        *,
        instance: str | None = None,
        client: str = "c",
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 3,
    ) -> Reply[JoinGroupResponse]:
        """Send JoinGroup; in version 3 a new member needs no second request."""
        request = JoinGroupRequest(
            group_id=group,
            member_id=member,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=blob) for name, blob in protocols),
        )
        reply: Reply[JoinGroupResponse] = Reply()
        self.coordinator.join(
            self.coordinator.shard_for(group), request, Caller(client, "/host", version), self.now_ms, reply
        )
        return reply

    def sync(
        self,
        member: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Reply[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=one, assignment=blob) for one, blob in (assignments or {}).items()
            ),
        )
        reply: Reply[SyncGroupResponse] = Reply()
        self.coordinator.sync(self.coordinator.shard_for(group), request, self.now_ms, reply)
        return reply

    def heartbeat(self, member: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        return self.coordinator.heartbeat(self.coordinator.shard_for(group), group, member, instance, generation)

    def leave(self, *members: str | tuple[str, str | None], group: str = "g") -> list[ErrorCode]:
        """Send LeaveGroup for member ids, or for (member id, instance id)."""
        pairs = [(one, None) if isinstance(one, str) else one for one in members]
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in pairs]
        return [
            ErrorCode(one.error_code)
            for one in to_the_end(
                self.coordinator.leave(self.coordinator.shard_for(group), group, identities, self.now_ms)
            )
        ]

    def commit(
        self,
        offsets: dict[Place, int],
        *,
        group: str = "g",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        version: int = 8,
    ) -> dict[Place, ErrorCode]:
        """Send OffsetCommit; return the refused partitions."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
        )
        topics = [
            TopicCommit(
                topic,
                self.topics.id_of(topic) or TOPIC_IDS[topic],
                [
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ]
        return self.commit_all(request, version, topics, self.now_ms)

    def fetch(self, topic: str, *partitions: int, group: str = "g", stable: bool = False) -> list[Fetched]:
        return self.fetch_by_id(group, topic, TOPIC_IDS[topic], partitions, stable=stable)

    # Requests that the coordinator answers in pieces, all at once

    def commit_all(
        self, request: OffsetCommitRequest, version: int, topics: Sequence[TopicCommit], now_ms: int
    ) -> dict[Place, ErrorCode]:
        prepared = to_the_end(
            self.coordinator.prepare(self.coordinator.shard_for(request.group_id), request, topics, now_ms)
        )
        return self.coordinator.commit(self.coordinator.shard_for(request.group_id), request, version, prepared, now_ms)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, topics: Sequence[TopicCommit], now_ms: int
    ) -> dict[Place, ErrorCode]:
        prepared = to_the_end(
            self.coordinator.prepare(self.coordinator.shard_for(request.group_id), request, topics, now_ms)
        )
        return self.coordinator.commit_in_transaction(
            self.coordinator.shard_for(request.group_id), request, version, prepared, now_ms
        )

    def fetch_by_id(
        self, group: str, topic: str, topic_id: bytes, partitions: Iterable[int], *, stable: bool
    ) -> list[Fetched]:
        positions = self.coordinator.positions(self.coordinator.shard_of(group), group, stable=stable)
        return to_the_end(self.coordinator.fetch(positions, topic, topic_id, partitions))

    def list_groups(
        self, partitions: Iterable[int], states: Collection[str], types: Collection[str]
    ) -> list[ListedGroup]:
        return to_the_end(self.coordinator.list_groups(partitions, states, types))

    def describe_group(self, group: str, version: int) -> DescribedGroup:
        return to_the_end(self.coordinator.describe_group(group, version))

    def delete_group(self, group: str, now_ms: int) -> None:
        to_the_end(self.coordinator.delete_group(group, now_ms))

    def delete_offsets(self, group: str, places: Sequence[Place], now_ms: int) -> list[ErrorCode]:
        errors = to_the_end(self.coordinator.delete_offsets(self.coordinator.shard_for(group), group, places, now_ms))
        return [errors[place] for place in places]

    def committed(self, *, group: str = "g") -> dict[Place, int]:
        """Return all committed offsets of the group."""
        everything = to_the_end(
            self.coordinator.fetch_all(
                self.coordinator.positions(self.coordinator.shard_of(group), group, stable=False)
            )
        )
        return {
            (topic, one.partition): one.committed.offset
            for topic, fetched in everything.items()
            for one in fetched
            if one.committed is not None
        }

    def state(self, group: str = "g") -> str:
        return self.describe_group(group, 0).group_state

    def members(self, group: str = "g") -> list[str]:
        return [member.member_id for member in self.describe_group(group, 0).members]

    def stable(self, count: int, *, group: str = "g", **arguments: Any) -> tuple[list[str], int]:
        """Create a stable group of new dynamic members, without initial delay; the assignment of each is its member id.

        Returns:
            The member ids, the leader's first, and the generation.
        """
        joins = [self.join(group, client=f"c{number}", **arguments) for number in range(count)]
        self.advance(0)
        ids = [join.answer.member_id for join in joins]
        generation = joins[0].answer.generation_id
        self.sync_all(ids, generation, group=group)
        return ids, generation

    def sync_all(self, ids: Sequence[str], generation: int, *, group: str = "g") -> None:
        """Send SyncGroup for all members, the leader (first) last."""
        syncs = [self.sync(member, generation, group=group) for member in ids[1:]]
        syncs.append(self.sync(ids[0], generation, {member: member.encode() for member in ids}, group=group))
        assert [ErrorCode.NONE] * len(ids) == [sync.answer.error_code for sync in syncs]


def error_of(call: Callable[[], object]) -> ErrorCode:
    """Return the code of the KafkaError that `call` raises; NONE if it raises none."""
    try:
        call()
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE
