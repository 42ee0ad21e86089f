"""Group coordination inside Trio: its timer, its loading, and waiting for its answers; in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ottla.server.coordination.jobs import to_the_end
from ottla.server.coordination.log_store import APPEND_ERRORS
from ottla.server.coordination.service import INLINE_LOAD_BYTES, LEAST_CHUNK_BYTES, RELOAD_MS, ParkedAnswer
from ottla.server.coordination.shard import ShardState
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.offset_commits import TopicCommit
from ottla.server.groups.service import GroupService
from ottla.server.groups.shard import GroupShard
from support.broker.steppable_wall import WALL_STEPS_MS
from support.disk.crash_files import CrashFiles
from support.groups.group_broker import CONSUMED_TOPIC_ID, OFFSETS_TOPIC, GroupBroker
from support.groups.share_groups import FakePersister

AutojumpClock = trio.testing.MockClock


@asynccontextmanager
async def serving(broker: GroupBroker) -> AsyncIterator[GroupService]:
    service = GroupService(cast(Any, broker), FakePersister)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        yield service
        nursery.cancel_scope.cancel()


def join_request(group: str = "g", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 20_000,
            "protocol_type": "consumer",
            "protocols": (JoinGroupRequestProtocol(name="range"),),
            **fields,
        }
    )


class StayingClient:
    """A client that waits for as long as necessary."""

    def check_peer(self) -> None:
        pass


async def join(service: GroupService, broker: GroupBroker, **fields: Any) -> JoinGroupResponse:
    shard = await service.route(cast(Any, broker.node), fields.get("group", "g"))
    answer: ParkedAnswer[JoinGroupResponse] = ParkedAnswer(service.wakeup_throttle)
    service.coordinator.join(shard, join_request(**fields), Caller("c", "/host", 3), broker.clock.now_ms(), answer)
    return await answer.wait(StayingClient())


async def commit(
    service: GroupService, broker: GroupBroker, offset: int = 1, group: str = "g", indexes: range = range(50)
) -> None:
    shard = await service.route(cast(Any, broker.node), group)
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in indexes]
    request = OffsetCommitRequest(group_id=group)
    now_ms = broker.clock.now_ms()
    topics = [TopicCommit("t", CONSUMED_TOPIC_ID, partitions)]
    prepared = to_the_end(service.coordinator.prepare(shard, request, topics, now_ms))
    service.coordinator.commit(shard, request, 8, prepared, now_ms)


async def fill(service: GroupService, broker: GroupBroker, size: str) -> int:
    """Commit offset 7 for the groups `g` and `h`; return the partition of `g`.

    With `large` it is too large to be loaded at once.
    """
    await commit(service, broker, 7, "h")
    await commit(service, broker, 7, "g")
    partition = service.coordinator.partition_for("g")
    while size == "large" and broker.log(partition).size_bytes < 2 * INLINE_LOAD_BYTES:
        await commit(service, broker, 7, "g")
    return partition


def offsets(service: GroupService, group: str = "g") -> set[int]:
    coordinator = service.coordinator
    found = to_the_end(
        coordinator.fetch_all(coordinator.positions(coordinator.shard_of(group), group, stable=False))
    ).get("t", [])
    return {one.committed.offset for one in found if one.committed is not None}


async def test_a_parked_join_is_answered_when_its_time_has_come(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        start = trio.current_time()
        assert (await join(service, broker)).generation_id == 1
        assert trio.current_time() == pytest.approx(start + 3)


@pytest.mark.parametrize("step_ms", WALL_STEPS_MS.values(), ids=WALL_STEPS_MS.keys())
async def test_a_wall_clock_that_is_set_moves_neither_joins_nor_sessions(
    step_ms: int, autojump_clock: AutojumpClock
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, service, broker)
            await trio.sleep(1)
            broker.wall.step(step_ms)
        assert trio.current_time() == pytest.approx(start + 3)
        await trio.sleep(5)
        broker.wall.step(2 * step_ms)
        await trio.sleep(4.9)
        assert to_the_end(service.coordinator.describe_group("g", 6)).members
        await trio.sleep(0.2)
        assert not to_the_end(service.coordinator.describe_group("g", 6)).members


async def test_an_earlier_deadline_wakes_the_sleeper(autojump_clock: AutojumpClock) -> None:
    """The coordinator sleeps until the session's end when a member with a shorter session joins."""
    broker = GroupBroker()
    async with serving(broker) as service:
        await join(service, broker)
        await trio.sleep(1)
        coordinator = service.coordinator
        before = coordinator.next_deadline_ms()
        answer: ParkedAnswer[JoinGroupResponse] = ParkedAnswer(service.wakeup_throttle)
        coordinator.join(
            coordinator.shard_for("h"), join_request("h"), Caller("c", "/host", 3), broker.clock.now_ms(), answer
        )
        after = coordinator.next_deadline_ms()
        assert before is not None and after is not None
        assert after < before
        start = trio.current_time()
        await answer.wait(StayingClient())
        assert trio.current_time() == pytest.approx(start + 3)


async def test_a_moved_clock_ends_sessions_at_once(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await join(service, broker)
        start = trio.current_time()
        broker.clock.advance(10_000)
        await trio.testing.wait_all_tasks_blocked()
        assert to_the_end(service.coordinator.describe_group("g", 6)).group_state == "Empty"
        assert trio.current_time() == start


async def test_a_deadline_that_fails_is_logged_and_the_others_go_on(
    autojump_clock: AutojumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await join(service, broker, group_id="bad")
        await join(service, broker)
        # A simulated bug of Ottla.
        group = service.coordinator.shard_of("bad").groups["bad"]
        assert isinstance(group, ClassicGroup)
        group.pending_sync = cast(Any, None)
        await trio.sleep(30)
        assert "a timer of the coordinator of __consumer_offsets failed" in caplog.text
        assert to_the_end(service.coordinator.describe_group("g", 6)).group_state == "Empty"


async def test_closing_answers_who_waits_and_takes_no_more(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        answers: list[JoinGroupResponse] = []

        async def wait() -> None:
            answers.append(await join(service, broker))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            service.close()
        assert [one.error_code for one in answers] == [ErrorCode.NOT_COORDINATOR]
        with pytest.raises(KafkaError) as refused:
            await join(service, broker)
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# The topic


async def test_the_topic_is_created_on_first_need_and_once(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        assert service.partitions_led_by(cast(Any, broker.node)) == []
        async with trio.open_nursery() as nursery:
            for name in "abcdef":
                nursery.start_soon(commit, service, broker, 1, name)
        assert service.partitions_led_by(cast(Any, broker.node)) == [0, 1]
        assert all(offsets(service, name) == {1} for name in "abcdef")


async def test_a_topic_that_cannot_be_created_is_tried_again(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    broker.creation_failure = ErrorCode.INVALID_REPLICATION_FACTOR
    async with serving(broker) as service:
        with pytest.raises(KafkaError) as refused:
            await commit(service, broker)
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.creation_failure = None
        await commit(service, broker)
        assert offsets(service) == {1}


async def test_a_disk_that_refused_the_topic_is_asked_again_after_a_while(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        broker.creation_failure = ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError):
            await service.ensure_topic()
        broker.creation_failure = None
        with pytest.raises(KafkaError) as refused:
            await service.ensure_topic()
        assert (refused.value.code, refused.value.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "told to fail")
        assert not service.coordinator.shards
        await broker.clock.sleep(RELOAD_MS)
        await service.ensure_topic()
        assert service.coordinator.shards


@pytest.mark.parametrize(("failure", "told"), [*APPEND_ERRORS.items(), (ErrorCode.POLICY_VIOLATION,) * 2])
async def test_what_the_log_refuses_is_told_in_words_for_clients_of_groups(
    failure: ErrorCode, told: ErrorCode, autojump_clock: AutojumpClock
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        broker.append_failure = failure
        with pytest.raises(KafkaError) as refused:
            await commit(service, broker)
        assert refused.value.code == told


async def test_an_append_that_fails_as_nobody_expected_is_told_and_what_built_on_it_is_tried_again(
    autojump_clock: AutojumpClock,
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await commit(service, broker)
        joins = ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="a",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=("none",),
            topic_partitions=(),
        )
        shard = service.coordinator.shard_for("c")
        to_the_end(service.coordinator.consumer_heartbeat(shard, joins, Caller("c", "/host", 1), broker.clock.now_ms))
        broker.append_failure = MemoryError()
        with pytest.raises(KafkaError) as refused:
            await commit(service, broker, 2)
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await trio.sleep(60)
        assert to_the_end(service.coordinator.describe_consumer_group("c")).members
        broker.append_failure = None
        await trio.sleep(1)
        assert not to_the_end(service.coordinator.describe_consumer_group("c")).members
        assert offsets(service) == {1}


# Loading


@pytest.mark.parametrize("error", [MemoryError(), OSError(), RuntimeError("can't start new thread")], ids=repr)
@pytest.mark.parametrize("size", ["small", "large"])
async def test_a_partition_that_cannot_be_taken_up_once_loaded_is_that_partition_s_alone_and_tried_again(
    size: str, error: Exception, autojump_clock: AutojumpClock
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        bad = await fill(service, broker, size)
    again = GroupBroker(broker.files)
    again.create_topic()
    service = GroupService(cast(Any, again), FakePersister)
    take_up = service.coordinator._activated

    def refuse_one(shard: GroupShard, now_ms: int) -> None:
        take_up(shard, now_ms)
        if shard.partition == bad and again.append_failure is not None:
            raise error

    service.coordinator._activated = refuse_one  # type: ignore[method-assign]
    again.append_failure = ErrorCode.NOT_COORDINATOR
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        while service.coordinator.shards[bad].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert service.coordinator.shards[bad].state is ShardState.FAILED
        assert offsets(service, "h") == {7}
        await trio.sleep(0.01)  # What was taken up is closed by a job.
        assert service.coordinator._deadlines._set_count == 1, "the other partition's expiry"
        again.append_failure = None
        await trio.sleep(11)
        while service.coordinator.shards[bad].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert offsets(service) == {7}
        nursery.cancel_scope.cancel()


async def test_a_small_partition_is_loaded_before_the_service_has_started(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await commit(service, broker, 7)
    again = GroupBroker(broker.files)
    again.create_topic()
    async with serving(again) as service:
        assert offsets(service) == {7}


async def test_a_large_partition_is_loaded_behind_the_others(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await commit(service, broker, 7, "h")
        large = service.coordinator.partition_for("g")
        assert large != service.coordinator.partition_for("h")
        while broker.log(large).size_bytes < 3 * INLINE_LOAD_BYTES:
            await commit(service, broker, broker.log(large).log_end_offset)
        last = offsets(service)
    again = GroupBroker(broker.files)
    again.create_topic()
    async with serving(again) as service:
        assert offsets(service, "h") == {7}
        with pytest.raises(KafkaError) as refused:
            await commit(service, again)
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while service.coordinator.shards[large].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert offsets(service) == last


async def test_a_large_partition_whose_leader_moves_while_it_loads_is_loaded_once(
    autojump_clock: AutojumpClock,
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        await commit(service, broker, 0)
        large = service.coordinator.partition_for("g")
        while broker.log(large).size_bytes < 3 * INLINE_LOAD_BYTES:
            await commit(service, broker, broker.log(large).log_end_offset)
        last = offsets(service)
        replaced = []
        for _ in range(3):
            service.leadership_changed(large)
            replaced.append(service.coordinator.shards[large])
        service.leadership_changed(large)
        while service.coordinator.shards[large].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert offsets(service) == last
        assert max(shard.next_offset for shard in replaced) < broker.log(large).log_end_offset


async def test_a_partition_of_many_segments_is_not_loaded_in_one_turn_however_small_they_are(
    autojump_clock: AutojumpClock,
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        segments = INLINE_LOAD_BYTES // LEAST_CHUNK_BYTES + 1
        for number in range(segments):
            await commit(service, broker, number, indexes=range(1))
            broker.log(service.coordinator.partition_for("g")).roll(broker.clock.now_ms())
        partition = service.coordinator.partition_for("g")
        assert broker.log(partition).size_bytes < INLINE_LOAD_BYTES

        service.leadership_changed(partition)

        assert service.coordinator.shards[partition].state is ShardState.LOADING
        while service.coordinator.shards[partition].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert offsets(service) == {segments - 1}


MANY = 12


@pytest.mark.parametrize("how", ["start", "node stops"])
async def test_what_is_loaded_at_once_of_all_partitions_is_small_however_many_there_are(
    how: str, autojump_clock: AutojumpClock
) -> None:
    """When a node stops, another one takes all its partitions at once: each was small, and all together took half a second."""
    broker = GroupBroker(partition_count=MANY)
    async with serving(broker) as service:
        await commit(service, broker)
        names = {service.coordinator.partition_for(f"g{number}"): f"g{number}" for number in range(20 * MANY)}
        assert len(names) == MANY
        for partition, name in names.items():
            while broker.log(partition).size_bytes < INLINE_LOAD_BYTES // 4:
                await commit(service, broker, group=name)

        def loaded_bytes() -> int:
            shards = service.coordinator.shards
            return sum(broker.log(one.partition).size_bytes for one in shards if one.state is ShardState.ACTIVE)

        if how == "start":
            service._open_existing()
        else:
            for partition in range(MANY):
                service.leadership_changed(partition)
        assert 0 < loaded_bytes() <= INLINE_LOAD_BYTES
        while any(shard.state is ShardState.LOADING for shard in service.coordinator.shards):
            await trio.sleep(0.01)
        assert all(offsets(service, name) == {1} for name in names.values())

        service.leadership_changed(0)
        assert service.coordinator.shards[0].state is ShardState.ACTIVE, "in a later turn there is room again"


async def test_a_large_partition_keeps_no_small_one_waiting(autojump_clock: AutojumpClock) -> None:
    """The small partitions after a large one are more than are loaded at once: they need not wait for it."""
    broker = GroupBroker(partition_count=MANY)
    async with serving(broker) as service:
        await commit(service, broker)
        names = {service.coordinator.partition_for(f"g{number}"): f"g{number}" for number in range(20 * MANY)}
        large_bytes = 2 * INLINE_LOAD_BYTES
        for partition, name in names.items():
            while broker.log(partition).size_bytes < (INLINE_LOAD_BYTES // 4 if partition else large_bytes):
                await commit(service, broker, group=name)
        order: list[int] = []
        take_up = service.coordinator._activated

        def noted(shard: GroupShard, now_ms: int) -> None:
            order.append(shard.partition)
            take_up(shard, now_ms)

        service.coordinator._activated = noted  # type: ignore[method-assign]
        for partition in range(MANY):
            service.leadership_changed(partition)
        while any(shard.state is ShardState.LOADING for shard in service.coordinator.shards):
            await trio.sleep(0.01)
        assert sorted(order) == list(range(MANY))
        assert order[-1] == 0, "the large one is the first that was to be loaded"


async def test_a_load_ends_when_another_one_has_taken_its_place(autojump_clock: AutojumpClock) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        partition = await fill(service, broker, "large")
        service.leadership_changed(partition)
        first = service.coordinator.shards[partition]
        service.leadership_changed(partition)
        while service.coordinator.shards[partition].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert first.next_offset == 0, "nothing is read of it any more"
        assert offsets(service) == {7}


def spoil_last_byte(files: CrashFiles, path: str) -> None:
    content = bytearray(files.snapshot()[path])
    content[-1] ^= 1
    files.open(path, truncate=True).append(content)


@pytest.mark.parametrize("size", ["small", "large"])
async def test_a_damaged_partition_is_named_and_the_others_are_loaded(
    size: str, autojump_clock: AutojumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = GroupBroker()
    async with serving(broker) as service:
        damaged = await fill(service, broker, size)
    again = GroupBroker(broker.files)
    again.create_topic()
    spoil_last_byte(again.files, f"{again.log(damaged).directory}/{0:020}.log")
    async with serving(again) as service:
        while service.coordinator.shards[damaged].state is ShardState.LOADING:
            await trio.sleep(0.01)
        assert offsets(service, "h") == {7}
        with pytest.raises(KafkaError) as refused:
            await commit(service, again)
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
    assert f"{OFFSETS_TOPIC}-{damaged}" in caplog.text
    assert "invalid checksum" in caplog.text
