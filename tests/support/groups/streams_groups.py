"""Members of streams groups: heartbeats without the arguments that rarely matter, and a client that reconciles.

groups = StreamsGroups(orders=4)
groups.enter("a")
assert active(groups.beat("a", 2)) == {"0": {0, 1, 2, 3}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    EndpointToPartitions,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.server.coordination.jobs import Steps, never, to_the_end
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.streams.answering import HeartbeatResult
from ottla.server.groups.streams.configured import StatusCode
from ottla.server.groups.streams.group import StreamsGroup
from support.groups.groups import FakeTopics, Groups, MemoryStore

SESSION_MS = 45_000
REBALANCE_MS = 10_000

Tasks = Mapping[str, Iterable[int]]
"""Subtopology id -> partitions."""


def info(name: str, partitions: int = 0, configs: Mapping[str, str] | None = None) -> TopicInfo:
    rows = tuple(KeyValue(key=key, value=value) for key, value in (configs or {}).items())
    return TopicInfo(name=name, partitions=partitions, topic_configs=rows)


def subtopology(
    key: str = "0",
    *sources: str,
    repartition: Iterable[TopicInfo] = (),
    sinks: Iterable[str] = (),
    changelogs: Iterable[TopicInfo] = (),
    together: Iterable[tuple[tuple[int, ...], tuple[int, ...]]] = (),
) -> Subtopology:
    """Return a subtopology; `together` says which sources, and which repartition topics, are joined."""
    return Subtopology(
        subtopology_id=key,
        source_topics=sources,
        repartition_source_topics=tuple(repartition),
        repartition_sink_topics=tuple(sinks),
        state_changelog_topics=tuple(changelogs),
        copartition_groups=tuple(
            CopartitionGroup(source_topics=mine, repartition_source_topics=internal) for mine, internal in together
        ),
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=subtopologies or (subtopology("0", "orders"),))


COUNTS = topology(
    subtopology("0", "orders", sinks=["words"]),
    subtopology("1", repartition=[info("words")], changelogs=[info("counts", configs={"cleanup.policy": "compact"})]),
)
"""A topology that counts orders: a repartition topic between two subtopologies, and a store."""


def active(answer: StreamsGroupHeartbeatResponse) -> dict[str, set[int]] | None:
    return _tasks(answer.active_tasks)


def standby(answer: StreamsGroupHeartbeatResponse) -> dict[str, set[int]] | None:
    return _tasks(answer.standby_tasks)


def _tasks(rows: Iterable[TaskIds] | None) -> dict[str, set[int]] | None:
    return None if rows is None else {one.subtopology_id: set(one.partitions) for one in rows}


def statuses(answer: StreamsGroupHeartbeatResponse) -> dict[StatusCode, str]:
    return {StatusCode(one.status_code): one.status_detail for one in answer.status or ()}


def ids_of(tasks: Tasks) -> tuple[TaskIds, ...]:
    return tuple(TaskIds(subtopology_id=key, partitions=tuple(sorted(one))) for key, one in sorted(tasks.items()))


class StreamsGroups(Groups):
    """`Groups` over topics with these partition counts. By default a group does not wait for more members, and a target may
    follow the last at once. Other keyword arguments are GroupSettings.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        elapsed_ms: int = 1_000_000,
        wall_ahead_ms: int = 0,
        topics: FakeTopics | None = None,
        settings: Mapping[str, Any] | None = None,
        **partition_counts: int,
    ) -> None:
        self.works_at_once = True
        """Whether the work that a heartbeat leaves is done as soon as it is answered."""
        self.settings = {
            "group_streams_assignment_interval_ms": 0,
            "group_streams_initial_rebalance_delay_ms": 0,
            **(settings or {}),
        }
        super().__init__(
            store,
            elapsed_ms=elapsed_ms,
            wall_ahead_ms=wall_ahead_ms,
            topics=topics or FakeTopics(**partition_counts),
            **self.settings,
        )

    def restarted(self, **settings: Any) -> StreamsGroups:
        """Return a new coordinator that finds what this one has written; the given settings replace the old ones."""
        return StreamsGroups(
            self.store,
            elapsed_ms=self.elapsed_ms,
            wall_ahead_ms=self._wall_ahead_ms,
            topics=self.topics,
            settings={**self.settings, **settings},
        )

    def hear(self, *arguments: Any, **fields: Any) -> HeartbeatResult:
        """Handle one heartbeat; see `hearing`."""
        heard = to_the_end(self.hearing(*arguments, **fields))
        if self.works_at_once:
            self.coordinator._jobs.run(never)
        return heard

    def hearing(
        self,
        member: str,
        epoch: int,
        *,
        owns: Tasks | None = None,
        standbys: Tasks | None = None,
        group: str = "g",
        client: str = "c",
        version: int = 0,
        **fields: Any,
    ) -> Steps[HeartbeatResult]:
        """Return the pieces of one heartbeat; `owns` are the tasks reported as active, None if nothing is reported."""
        if owns is not None:
            fields |= {"active_tasks": ids_of(owns), "standby_tasks": ids_of(standbys or {}), "warmup_tasks": ()}
        request = StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        shard = self.coordinator.shard_for(group)
        return self.coordinator.streams_heartbeat(shard, request, Caller(client, "/host", version), lambda: self.now_ms)

    def beat(self, *arguments: Any, **fields: Any) -> StreamsGroupHeartbeatResponse:
        return self.hear(*arguments, **fields).response

    def enter(self, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Send the first heartbeat of a member, in a process of its own; by default its topology reads "orders"."""
        return self.hear_enter(member, **fields).response

    def hear_enter(self, member: str, **fields: Any) -> HeartbeatResult:
        return self.hear(
            member,
            0,
            **{
                "owns": {},
                "rebalance_timeout_ms": REBALANCE_MS,
                "topology": topology(),
                "process_id": f"process-{member}",
                "client_tags": (),
                **fields,
            },
        )

    def make_missing(self, heard: HeartbeatResult) -> None:
        """Create the missing internal topics, as the handler does."""
        for one in heard.missing.values():
            self.create_topic(one.name, one.partitions)

    def endpoints(self, member: str, group: str = "g") -> tuple[EndpointToPartitions, ...]:
        return to_the_end(self.coordinator.streams_endpoints(self.coordinator.shard_for(group), group, member))

    def described(self, group: str = "g") -> DescribedGroup:
        return to_the_end(self.coordinator.describe_streams_group(group))

    def table(self, group: str = "g") -> StreamsGroup:
        found = self.coordinator.shard_of(group).groups[group]
        assert isinstance(found, StreamsGroup)
        return found

    def create_topic(self, name: str, partition_count: int) -> None:
        self.topics.put(name, partition_count)
        self.coordinator.topics_changed([name], self.now_ms, has_new=True)

    def grow_topic(self, name: str, partition_count: int) -> None:
        self.topics.put(name, partition_count)
        self.coordinator.topics_changed([name], self.now_ms, has_new=False)

    def delete_topic(self, name: str) -> None:
        topic_id = self.topics.id_of(name)
        assert topic_id is not None
        self.topics.delete(name)
        self.coordinator.topics_changed([name], self.now_ms, has_new=False)
        self.coordinator.topic_deleted(name, topic_id, self.now_ms)
        self.advance(0)


def table_of(groups: StreamsGroups, group: str = "g") -> dict[str, Any]:
    """Return the state of a group, without the parts that a load resets."""
    return table_of_group(groups.table(group))


def table_of_group(table: StreamsGroup) -> dict[str, Any]:
    """Return the state of any coordinator's group; later changes of the group do not change it."""
    volatile = {
        *("sessions", "waits", "initial_delay", "refresh_at_ms", "topics_known_to", "assigned_at_ms", "is_assigning"),
        *("configured", "shutdown_by", "untold", "endpoint_epoch", "endpoints", "departed", "kept_epoch"),
        *("description", "description_wait"),
    }
    return {name: copied(value) for name, value in vars(table).items() if name not in volatile}


def copied(value: Any) -> Any:
    """Return a copy of a dict, two levels deep; members, targets and topologies are values."""
    if isinstance(value, dict):
        return {key: Counter(one) if isinstance(one, Counter) else one for key, one in value.items()}
    return value


def compacted(groups: StreamsGroups) -> StreamsGroups:
    """Return a new coordinator, over what compaction leaves of the log."""
    store = MemoryStore(len(groups.store.partitions))
    for partition in range(len(store.partitions)):
        if table := groups.store.table(partition):
            store.append(partition, list(table.items()), groups.now_ms)
    return StreamsGroups(store, elapsed_ms=groups.elapsed_ms, topics=groups.topics, settings=groups.settings)


class StreamsMember:
    """A client of the streams protocol.

    It gives up revoked tasks, reports that with its next heartbeat, and joins again when it is fenced.

    Attributes:
        has: (role, subtopology id, partition) of all that it works on now; the roles are 0 (active) and 1 (standby).
        slowness: Number of heartbeats before it has given up its revoked tasks.
    """

    def __init__(
        self, member_id: str, process_id: str, application: Topology, *, instance_id: str | None = None
    ) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.instance_id = instance_id
        self.application = application
        self.epoch = 0
        self.has: set[tuple[int, str, int]] = set()
        self.slowness = 0
        self._given: set[tuple[int, str, int]] = set()
        self._beats_to_go = 0
        self._has_lost_answer = False

    def act(self, groups: StreamsGroups, *, is_answer_lost: bool = False) -> None:
        """Send one heartbeat; its answer may get lost."""
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        if self.epoch == 0:
            fields |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "topology": self.application,
                "process_id": self.process_id,
                "client_tags": (),
            }
        try:
            heard = groups.hear(self.member_id, self.epoch, owns=self._of(0), standbys=self._of(1), **fields)
        except KafkaError as error:
            assert error.code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), error
            self.abandon()
            return
        groups.make_missing(heard)
        if not is_answer_lost:
            self.answered(heard.response)
        self.reconcile()

    def request(self, group: str) -> StreamsGroupHeartbeatRequest:
        """Return the member's next heartbeat, for a caller that sends it itself."""
        joins = self.epoch == 0
        return StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=self.application if joins else None,
            process_id=self.process_id if joins else None,
            client_tags=() if joins else None,
            active_tasks=ids_of(self._of(0)),
            standby_tasks=ids_of(self._of(1)),
            warmup_tasks=(),
        )

    def leave(self, groups: StreamsGroups, epoch: int = -1) -> None:
        """Leave, for good or (-2, static members) for a while; errors are ignored."""
        with suppress(KafkaError):
            groups.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.abandon()

    def abandon(self) -> None:
        self.has, self._given = set(), set()
        self.epoch, self.slowness = 0, 0

    def _of(self, role: int) -> dict[str, set[int]]:
        tasks: dict[str, set[int]] = {}
        for one, key, partition in self.has:
            if one == role:
                tasks.setdefault(key, set()).add(partition)
        return tasks

    def answered(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            roles = enumerate((answer.active_tasks, answer.standby_tasks or ()))
            self._given = {
                (role, one.subtopology_id, index) for role, rows in roles for one in rows for index in one.partitions
            }
            self._beats_to_go = self.slowness

    def reconcile(self) -> None:
        """Take new tasks, and other roles, only after all revoked tasks are given up."""
        tasks, given = ({one[1:] for one in ones} for ones in (self.has, self._given))
        if tasks <= given or not self._beats_to_go:
            self.has = set(self._given)
        else:
            self._beats_to_go -= 1
