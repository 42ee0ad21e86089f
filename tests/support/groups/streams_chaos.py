"""A streams group on several nodes, under random events.

Members come, go, crash, lag and lose answers, and the coordinator moves. Nodes stop and start, topics grow and are deleted, the
disk is full. The broker is stopped, killed, or loses power during a heartbeat.

The handlers of the nodes receive all requests, in an order that the seed alone decides; only the test moves time. After every
step the coordinator's table is compared with the answers to members (`streams_model`), and after each load with its earlier
content.
"""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ottla.server.broker.broker import Broker
from ottla.server.control.nodes import move_coordinator, start_node, stop_node
from ottla.server.coordination.shard import ShardState
from ottla.server.groups.streams.configured import StatusCode
from ottla.server.groups.streams.group import StreamsGroup
from ottla.server.partitions.internal_topics import OFFSETS_TOPIC
from support.broker.in_process_broker import InProcessClient, pass_time
from support.disk.crash_files import CrashFiles
from support.groups.streams_groups import (
    REBALANCE_MS,
    SESSION_MS,
    StreamsMember,
    info,
    subtopology,
    table_of_group,
    topology,
)
from support.groups.streams_model import StreamsModel

E = ErrorCode
NODES, GROUP = 3, "g"
SOURCES = {"orders": 4, "bills": 4, "more": 1}
MORE_MAX = 6
INTERNAL = ("words", "kept")
BEAT_MS = 3_000
MEMBERS_MAX = 6
SAID_MAX = 60
EXPELLED = (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND)


def application(epoch: int = 1) -> Any:
    return topology(
        subtopology("0", "orders", sinks=["words"]),
        subtopology("1", "bills", repartition=[info("words")], changelogs=[info("kept")]),
        subtopology("2", "more"),
        epoch=epoch,
    )


class StreamsChaos:
    """A random test over several runs of the broker; members and the model outlive them.

    Attributes:
        seen: Names of the events that happened.
        cut: The disk as the power loss left it, if one happened during a heartbeat.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.options = {
            "group_streams_num_standby_replicas": str(self.rng.randrange(3)),
            "group_streams_assignment_interval_ms": self.rng.choice(("0", "1000")),
            "group_streams_initial_rebalance_delay_ms": self.rng.choice(("0", "3000")),
            "group_streams_session_timeout_ms": str(SESSION_MS),
            "log_flush_interval_messages": "1",
            "log_segment_delete_delay_ms": "1000",
        }
        self.model = StreamsModel(int(self.options["group_streams_num_standby_replicas"]))
        self.members: list[StreamsMember] = []
        self.names = 0
        self.seen: set[str] = set()
        self.said: deque[tuple[str, StreamsGroupHeartbeatRequest]] = deque(maxlen=SAID_MAX)
        self.stopped: int | None = None
        self.is_full = False
        self.cut: CrashFiles | None = None
        self.tables: list[dict[str, Any] | None] = [None]
        """Tables of which the next load finds one."""
        self.broker: Broker
        self.files: CrashFiles

    # A run of the broker

    async def live(self, broker: Broker, files: CrashFiles, steps: int) -> None:
        """Do `steps` steps with a broker that has just started, or fewer if one of them loses power."""
        self.broker, self.files, self.stopped, self.cut = broker, files, None, None
        if broker.services.topics.get("orders") is None:
            await self.create_topics()
        await pass_time(broker, 0)  # Sessions begin before time passes.
        self.loaded()
        for _ in range(steps):
            await self.step()
            if self.cut is not None:
                return
        self.tables = [self.table()]

    def loaded(self) -> None:
        """Check a group that a coordinator has just loaded: it is as persisted, and sessions start again."""
        found = self.table()
        assert found in self.tables, (found, self.tables)
        self.model.restart_sessions(self.broker.clock.elapsed_ms())
        self.model.check(self.group, self.members, self.broker.clock.elapsed_ms(), is_exact=not self.is_full)

    async def step(self) -> None:
        deeds: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (8, self.enter),
            (3, self.leave),
            (2, self.crash),
            (4, self.slow_down),
            (30, self.beat),
            (30, self.everybody_beats),
            (4, self.lose_answer),
            (3, self.say_again),
            (2, self.bring_other_topology),
            (10, self.wait),
            (6, self.move_group),
            (3, self.stop_or_start_node),
            (2, self.ask_another_node),
            (2, self.fill_disk),
            (2, self.delete_internal),
            (1, self.grow),
            (1, self.lose_power),
        ]
        weights, acts = zip(*deeds, strict=True)
        await self.settle(*self.rng.choices(acts, weights))

    async def settle(self, deed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it, and all that follows from it; then compare."""
        await deed()
        await pass_time(self.broker, 0)
        if self.cut is None:
            self.check()

    def check(self) -> None:
        self.model.check(self.group, self.members, self.broker.clock.elapsed_ms(), is_exact=not self.is_full)

    @property
    def group(self) -> StreamsGroup | None:
        coordinator = self.broker.services.coordinators.groups.coordinator
        if not coordinator.shards:
            return None
        shard = coordinator.shard_of(GROUP)
        assert shard.state is ShardState.ACTIVE
        found = shard.groups.get(GROUP)
        assert found is None or isinstance(found, StreamsGroup)
        return found

    def table(self) -> dict[str, Any] | None:
        group = self.group
        return None if group is None else table_of_group(group)

    # Members

    def new_member(self) -> StreamsMember:
        self.names += 1
        epoch = self.rng.choice((1, 1, 1, 0)) if self.group is not None else 1
        return StreamsMember(f"m{self.names}", f"p{self.rng.randrange(3)}", application(epoch))

    async def enter(self) -> None:
        if len(self.members) < MEMBERS_MAX:
            self.members.append(self.new_member())
            await self.beat_of(self.members[-1])

    async def leave(self) -> None:
        if self.members:
            member = self.members.pop(self.rng.randrange(len(self.members)))
            request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=-1)
            answer = await self.ask(request)
            assert answer.error_code in (E.NONE, *EXPELLED) or self.is_refusal(answer.error_code), answer
            if not self.is_refusal(answer.error_code):
                assert self.group is None or member.member_id not in self.group.members
                self.model.forget(member.member_id)
            self.seen.add("left")

    async def crash(self) -> None:
        """Remove a member without a word."""
        if self.members:
            self.members.pop(self.rng.randrange(len(self.members)))
            self.seen.add("crashed")

    async def slow_down(self) -> None:
        if self.members:
            self.rng.choice(self.members).slowness = self.rng.choice((0, 1, 3, 6))

    async def beat(self) -> None:
        if self.members:
            await self.beat_of(self.rng.choice(self.members))

    async def everybody_beats(self) -> None:
        for member in self.rng.sample(self.members, len(self.members)):
            await self.beat_of(member)
            self.check()
        await pass_time(self.broker, self.rng.randrange(BEAT_MS))

    async def lose_answer(self) -> None:
        """Lose an answer: the member's next heartbeat repeats what it knew before."""
        if self.members:
            self.seen.add("answer lost")
            await self.beat_of(self.rng.choice(self.members), is_lost=True)

    async def beat_of(self, member: StreamsMember, *, is_lost: bool = False) -> None:
        request = member.request(GROUP)
        self.said.append((member.member_id, request))
        before = self.model.known(self.group, member.member_id)
        was = self.table() if self.is_full else None
        answer = await self.ask(request)
        if self.is_refusal(answer.error_code):
            assert self.table() == was, "refused, and yet something has changed"
            self.seen.add("refused")
            return
        if answer.error_code in EXPELLED:
            self.seen.add(E(answer.error_code).name)
            member.abandon()
            self.model.forget(member.member_id)
            return
        assert not answer.error_code, answer
        self.see(request, answer)
        group = self.group
        assert group is not None
        self.model.answered(group, before, request, answer, self.broker.clock.elapsed_ms())
        if not is_lost:
            member.answered(answer)
        member.reconcile()

    def see(self, request: StreamsGroupHeartbeatRequest, answer: StreamsGroupHeartbeatResponse) -> None:
        self.seen.update(StatusCode(one.status_code).name for one in answer.status or ())
        if answer.active_tasks is not None and request.member_epoch:
            self.seen.add("given other tasks")
        if request.member_epoch and answer.member_epoch > request.member_epoch:
            self.seen.add("went on")

    async def say_again(self) -> None:
        """Send a member's old heartbeat, older than its last two epochs: it is refused, and nothing changes."""
        group = self.group
        members = {} if group is None else group.members
        late = [
            request
            for name, request in self.said
            if name in members and 0 < request.member_epoch < members[name].previous_epoch
        ]
        if late and not self.is_full:
            before = self.table()
            answer = await self.ask(self.rng.choice(late))
            assert answer.error_code == E.FENCED_MEMBER_EPOCH, answer
            assert self.table() == before
            self.seen.add(E(answer.error_code).name)

    async def bring_other_topology(self) -> None:
        """Send a topology that is newer than the group's: it is refused, and nothing changes."""
        group = self.group
        if group is None or group.topology is None:
            return
        before, member = self.table(), StreamsMember("newer", "p9", application(group.topology.epoch + 1))
        answer = await self.ask(member.request(GROUP))
        assert answer.error_code == E.INVALID_REQUEST, answer
        assert self.table() == before
        self.seen.add("other topology")

    # What happens

    async def ask(self, message: Any, version: int = 0, node: int | None = None) -> Any:
        asked = self.coordinator if node is None else node
        return await InProcessClient(self.broker, node=asked).ask(message, version)

    def is_refusal(self, code: int) -> bool:
        """Return whether an error means that the disk is full, so that nothing was written."""
        return self.is_full and code in (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)

    @property
    def coordinator(self) -> int:
        there = self.broker.services.topics.get(OFFSETS_TOPIC)
        return self.started()[0] if there is None else there.partitions[0].leader

    def started(self) -> list[int]:
        return [node for node in range(NODES) if node != self.stopped]

    async def create_topics(self) -> None:
        rows = tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=NODES) for name, count in SOURCES.items()
        )
        answer = await self.ask(CreateTopicsRequest(topics=rows, timeout_ms=1_000), 7)
        assert not any(one.error_code for one in answer.topics), answer
        await move_coordinator(self.broker, self.choose_node(), group=GROUP)
        await pass_time(self.broker, 0)

    async def wait(self) -> None:
        await pass_time(self.broker, self.rng.choice((1_000, BEAT_MS, REBALANCE_MS, SESSION_MS // 2, SESSION_MS)))

    async def move_group(self) -> None:
        await self.another_coordinator("moved", lambda: move_coordinator(self.broker, self.choose_node(), group=GROUP))

    def choose_node(self) -> int:
        return self.rng.choice(self.started())

    async def stop_or_start_node(self) -> None:
        if self.stopped is not None:
            await self.another_coordinator("node started", lambda: start_node(self.broker, self.stopped or 0))
            self.stopped = None
            return
        node = self.rng.randrange(NODES)
        await self.another_coordinator("node stopped", lambda: stop_node(self.broker, node))
        self.stopped = node

    async def another_coordinator(self, name: str, act: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Move the coordinator; the group is the same before and after."""
        self.tables, was = [self.table()], self.coordinator
        await act()
        await pass_time(self.broker, 0)
        if self.coordinator != was or name == "node started":
            self.seen.add(name)
        if self.coordinator != was:
            self.loaded()
        assert self.table() == self.tables[0]

    async def ask_another_node(self) -> None:
        others = [node for node in self.started() if node != self.coordinator]
        if self.members and self.group is not None and others:
            before = self.table()
            answer = await self.ask(self.rng.choice(self.members).request(GROUP), 0, self.rng.choice(others))
            assert answer.error_code == E.NOT_COORDINATOR, answer
            assert self.table() == before
            self.seen.add("another node")

    async def fill_disk(self) -> None:
        """Fill the disk for records of groups, for a while."""

        def refuse(operation: str, path: str, _: int) -> None:
            if operation == "append" and OFFSETS_TOPIC in path and path.endswith(".log"):
                raise OSError(errno.ENOSPC, f"{path}: no space left")

        self.files.refuse, self.is_full = refuse, True
        for deed in self.rng.choices([self.enter, self.beat, self.everybody_beats, self.leave, self.wait], k=4):
            await self.settle(deed)
        self.files.refuse = None
        await pass_time(self.broker, 1_000)  # Now the members that were due are removed.
        self.is_full = False

    async def delete_internal(self) -> None:
        """Delete an internal topic; the next heartbeat creates it again."""
        name = self.rng.choice(INTERNAL)
        if self.broker.services.topics.get(name) is not None:
            request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1_000)
            answer = await self.ask(request, 6, self.started()[0])
            assert not answer.responses[0].error_code, answer
            self.seen.add("internal topic deleted")

    async def grow(self) -> None:
        count = self.partition_count("more") + 1
        if count <= MORE_MAX:
            row = CreatePartitionsTopic(name="more", count=count, assignments=None)
            request = CreatePartitionsRequest(topics=(row,), timeout_ms=1_000, validate_only=False)
            answer = await self.ask(request, 3, self.started()[0])
            assert not answer.results[0].error_code, answer
            self.seen.add("topic grown")

    def partition_count(self, name: str) -> int:
        topic = self.broker.services.topics.get(name)
        assert topic is not None
        return len(topic.partitions)

    async def lose_power(self) -> None:
        """Lose power during a heartbeat, whose answer is lost: the group is as it was before it, or after."""
        if not self.members or self.group is None:
            return
        before = self.table()
        at = self.rng.randrange(1, 4)

        def cut(operation: str, path: str, _: int) -> None:
            nonlocal at
            if OFFSETS_TOPIC in path:
                at -= 1
                if not at:
                    found = list(zip(range(8), self.files.after_crash(ordered=True), strict=False))
                    self.cut = self.rng.choice(found)[1]

        self.files.refuse = cut
        member = self.rng.choice(self.members)
        if self.rng.random() < 0.5:
            self.members.append(member := self.new_member())
        await self.ask(member.request(GROUP))
        self.files.refuse = None
        if self.cut is not None:
            self.seen.add("power lost in a heartbeat")
        self.model.unheard(member.member_id)
        self.tables = [before, self.table()]

    # The end

    async def finish(self) -> None:
        """Let all members heartbeat until nothing changes: one member has each task, and as few tasks as possible move."""
        if not self.members:
            await self.enter()
        await self.until_quiet()
        self.model.check_all_assigned(self.members, self.tasks())
        if len(self.members) > 1:
            had = self.model.actives(self.members)
            await self.leave()
            await self.until_quiet()
            self.model.check_all_assigned(self.members, self.tasks())
            self.model.check_kept(had, self.model.actives(self.members))

    async def until_quiet(self) -> None:
        for member in self.members:
            member.slowness = 0
        for _ in range(2 * (SESSION_MS + REBALANCE_MS) // BEAT_MS):
            for member in self.members:
                await self.beat_of(member)
                self.check()
            await pass_time(self.broker, BEAT_MS)
            self.check()
        group, before = self.group, self.table()
        assert group is not None
        assert group.state_name == "Stable", group.state_name
        assert group.members.keys() == {member.member_id for member in self.members}
        for member in self.members:
            await self.beat_of(member)
            assert member.has == self.model.planned(group, member.member_id)
        assert self.table() == before, "it is never quiet"

    def tasks(self) -> set[tuple[str, int]]:
        counts = {"0": SOURCES["orders"], "1": SOURCES["bills"], "2": self.partition_count("more")}
        return {(key, index) for key, count in counts.items() for index in range(count)}
