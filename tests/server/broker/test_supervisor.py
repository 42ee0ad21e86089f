"""Runs of a broker: the state after each way of ending one, and waiting requests, errors and ports between two runs."""

from __future__ import annotations

import errno
import gc
import socket
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import trio.lowlevel
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import RunEndedError, Supervisor
from ottla.server.runtime.gc_policy import PARTITIONS_KEPT_AT_ONCE, GcPolicy
from ottla.storage.data_dirs.snapshots import SnapshotError
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import CLEAN_SHUTDOWN_FILE, NEXT_CONTENT, TopicPartition
from support.broker.admin import creations_ended, delete, metadata, topic_names
from support.broker.conversation import create_topic, fetch, fetch_request, produce, records_of
from support.broker.raw_client import RawClient
from support.disk.gated_files import GatedFiles
from support.disk.troubled_files import TroubledFiles, nothing, trouble
from support.left_behind import leave_alone
from support.lives.in_lives import ask, lives_in
from support.old_garbage import OldGarbage
from support.sizes import size

HOUR_MS = 3_600_000


def commit(client: RawClient, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    row = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1, topics=(row,)
    )
    assert client.ask(request, version=8).topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(client: RawClient) -> list[int]:
    (found,) = client.ask(
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), version=8
    ).groups
    return [partition.committed_offset for topic in found.topics for partition in topic.partitions]


def producer_id(client: RawClient) -> int:
    found: int = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4).producer_id
    return found


class There(NamedTuple):
    """The data of a broker."""

    topics: set[str]
    records: list[Any]
    committed: list[int]


async def there(supervisor: Supervisor) -> There:
    topics, records, offsets = await ask(
        supervisor, topic_names, lambda client: records_of(fetch(client, "t", 0)), committed
    )
    return There(topics - {"__consumer_offsets"}, records, offsets)


async def fill(supervisor: Supervisor) -> None:
    await ask(
        supervisor,
        lambda client: create_topic(client, "t", 2),
        lambda client: produce(client, "t", ("k", "v0")),
        lambda client: commit(client, 1),
    )


async def add(supervisor: Supervisor) -> None:
    """Add data after `fill`."""
    await ask(
        supervisor,
        lambda client: create_topic(client, "later"),
        lambda client: produce(client, "t", ("k", "v1")),
        lambda client: commit(client, 2),
    )


FILLED = There({"t"}, [(0, b"k", b"v0")], [1])
ADDED = There({"t", "later"}, [(0, b"k", b"v0"), (1, b"k", b"v1")], [2])
EMPTY = There(set(), [], [])


class Way(NamedTuple):
    """A way of ending a run."""

    end: Callable[[Supervisor, str], Awaitable[object]]
    """The function that ends it; its argument is the path of a snapshot that was made after `fill` and one hour."""
    leaves: There
    ahead_ms: int
    """Expected difference of the clock afterwards, in ms; it was moved by three hours."""


WAYS = {
    "restart": Way(lambda supervisor, _: supervisor.restart(), ADDED, 3 * HOUR_MS),
    "crash": Way(lambda supervisor, _: supervisor.crash(), ADDED, 3 * HOUR_MS),
    "reset": Way(lambda supervisor, _: supervisor.reset(), EMPTY, 0),
    "snapshot": Way(lambda supervisor, path: supervisor.snapshot(path + "2"), ADDED, 3 * HOUR_MS),
    "restore": Way(lambda supervisor, path: supervisor.restore(path), FILLED, HOUR_MS),
}


@pytest.mark.parametrize("dirs", size((2,), (1, 2)), ids="directories={}".format)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_each_way_of_ending_a_run_leaves_its_state(way: Way, dirs: int, tmp_path: Path) -> None:
    data = ",".join(str(tmp_path / f"data{number}") for number in range(dirs))
    async with lives_in(data) as supervisor:
        await fill(supervisor)
        supervisor.clock.advance(HOUR_MS)
        await supervisor.snapshot(str(tmp_path / "snapshot"))
        await add(supervisor)
        supervisor.clock.advance(2 * HOUR_MS)
        before, old = supervisor.bootstrap, supervisor.broker
        await way.end(supervisor, str(tmp_path / "snapshot"))
        assert supervisor.broker is not old
        assert (supervisor.state, supervisor.bootstrap) == ("serving", before)
        assert supervisor.clock.ahead_ms == way.ahead_ms
        if way.leaves is EMPTY:
            (names,) = await ask(supervisor, topic_names)
            assert names == set()
            await fill(supervisor)
            assert await there(supervisor) == FILLED
        else:
            assert await there(supervisor) == way.leaves
    async with lives_in(data) as supervisor:
        assert await there(supervisor) == (FILLED if way.leaves is EMPTY else way.leaves)


@pytest.mark.parametrize("end", [Supervisor.restart, Supervisor.crash, Supervisor.reset])
async def test_all_nodes_serve_again_on_their_ports(
    end: Callable[[Supervisor], Awaitable[None]], tmp_path: Path
) -> None:
    async with lives_in(tmp_path, nodes=3) as supervisor:
        before = supervisor.bootstrap
        await supervisor.broker.stop_node(1)
        await end(supervisor)
        assert supervisor.bootstrap == before
        for node in supervisor.nodes:
            assert node.is_alive
            listener = node.listeners[0]
            with await trio.to_thread.run_sync(RawClient, listener.host, listener.port) as client:
                assert (await trio.to_thread.run_sync(metadata, client)).controller_id == 0


async def reset(supervisor: Supervisor) -> None:
    await supervisor.reset()


async def delete_and_restart(supervisor: Supervisor) -> None:
    await ask(supervisor, lambda client: delete(client, "t"))
    await supervisor.restart()


@pytest.mark.parametrize("end", [reset, delete_and_restart])
async def test_a_client_of_the_former_run_does_not_create_its_old_topics_again(
    end: Callable[[Supervisor], Awaitable[None]], tmp_path: Path
) -> None:
    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        listener = supervisor.nodes[0].listeners[0]
        with await trio.to_thread.run_sync(RawClient, listener.host, listener.port) as old:
            await trio.to_thread.run_sync(metadata, old)
            await end(supervisor)
        await ask(supervisor, lambda client: metadata(client, "t", "other", create=True))
        await creations_ended(supervisor.broker)
        assert [topic.name for topic in supervisor.broker.services.topics if not topic.is_internal] == ["other"]
        await ask(supervisor, lambda client: create_topic(client, "t", 3))


async def test_a_client_that_connects_after_a_reset_creates_a_topic_of_the_former_run(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        await supervisor.reset()
        await ask(supervisor, lambda client: metadata(client, "t", create=True))
        await creations_ended(supervisor.broker)
        assert supervisor.broker.services.topics.get("t") is not None


async def test_a_client_that_has_left_before_a_reset_has_no_effect_after_it(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        listener = supervisor.nodes[0].listeners[0]
        with await trio.to_thread.run_sync(RawClient, listener.host, listener.port) as old:
            end = supervisor.broker.services.topics.partition("t", 0).log.log_end_offset
            old.send(fetch_request("t", end, max_wait_ms=60_000), 12)
            while not supervisor.broker.services.waits.readers(TopicPartition("t", 0)):
                await trio.lowlevel.checkpoint()
        await supervisor.reset()
        await ask(supervisor, lambda client: metadata(client, "t", create=True))
        await creations_ended(supervisor.broker)
        assert supervisor.broker.services.topics.get("t") is not None


async def test_a_directory_named_twice_counts_once(tmp_path: Path) -> None:
    async with lives_in(f"{tmp_path},{tmp_path}/") as supervisor:
        await fill(supervisor)
        await supervisor.snapshot(f"{tmp_path}.snapshot")
        await supervisor.reset()
        await supervisor.restore(f"{tmp_path}.snapshot")
        assert await there(supervisor) == FILLED


async def test_a_reset_starts_another_cluster_and_continues_producer_ids(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        first, given = await ask(supervisor, metadata, producer_id)
        await supervisor.reset()
        second, later = await ask(supervisor, metadata, producer_id)
    assert first.cluster_id != second.cluster_id
    assert later > given


async def test_after_a_reset_only_foreign_files_stay(tmp_path: Path) -> None:
    (tmp_path / "photos-2023").mkdir()
    (tmp_path / "photos-2023" / "1.jpg").write_bytes(b"mine")
    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        await supervisor.reset()
        while [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]:
            await trio.sleep(0.001)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"photos-2023"}
        assert (tmp_path / "photos-2023" / "1.jpg").read_bytes() == b"mine"


async def test_a_crash_flushes_nothing_and_marks_no_clean_stop(tmp_path: Path) -> None:
    seen: list[bool] = []

    class Looks(TroubledFiles):
        def lock(self, path: str) -> Any:
            seen.append((tmp_path / CLEAN_SHUTDOWN_FILE).exists())
            return super().lock(path)

    files = Looks()
    async with lives_in(tmp_path, files) as supervisor:
        await fill(supervisor)
        logs = supervisor.broker.services.logs.logs
        assert any(each.log_end_offset > each.recovery_point for each in logs.values())
        await supervisor.crash()
        assert not supervisor.broker.services.logs.was_clean
        await supervisor.restart()
        assert supervisor.broker.services.logs.was_clean
    assert seen == [False, False, True]


async def test_connected_clients_are_disconnected_and_new_ones_served_after_the_start(tmp_path: Path) -> None:
    files, held = TroubledFiles(), trio.Event()
    async with lives_in(tmp_path, files) as supervisor, trio.open_nursery() as nursery:
        await fill(supervisor)
        listener = supervisor.nodes[0].listeners[0]
        old = await trio.open_tcp_stream(listener.host, listener.port)
        release = hold_the_next_start(files)
        nursery.start_soon(supervisor.crash)
        while supervisor.is_serving or not release.reached:
            await trio.sleep(0.001)
        assert await old.receive_some(1) == b"", "as when a process dies"
        nursery.start_soon(ask_then_signal, supervisor, held)
        await trio.sleep(0.01)
        assert not held.is_set()
        release.let_on()
        await held.wait()
        await old.aclose()


class Held:
    """A start that waits for the lock of its directory."""

    def __init__(self) -> None:
        self.reached = False
        self._gate = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def let_on(self) -> None:
        self._gate.set()

    def wait(self) -> None:
        self.reached = True
        trio.from_thread.run(self._gate.wait, trio_token=self._token)


def hold_the_next_start(files: TroubledFiles) -> Held:
    held = Held()

    def wait(operation: str, path: str) -> None:
        if operation == "create" and "checkpoint" in path:
            files.trouble = nothing
            held.wait()

    files.trouble = wait
    return held


async def ask_then_signal(supervisor: Supervisor, done: trio.Event) -> None:
    await ask(supervisor, topic_names)
    done.set()


# Waiting callers


async def test_requests_for_runs_are_carried_out_in_order(tmp_path: Path) -> None:
    lives_seen: list[Broker] = []
    async with lives_in(tmp_path / "data") as supervisor:
        await fill(supervisor)

        async def companion(broker: Broker) -> None:
            lives_seen.append(broker)
            await trio.sleep_forever()

        supervisor.in_each_run(companion)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.restart)
            nursery.start_soon(supervisor.crash)
            nursery.start_soon(supervisor.snapshot, str(tmp_path / "snapshot"))
            nursery.start_soon(supervisor.restart)
        await trio.testing.wait_all_tasks_blocked()
        assert len(set(lives_seen)) == len(lives_seen) == 5
        assert await there(supervisor) == FILLED


async def test_a_call_ends_with_its_run_and_the_next_reaches_the_next(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        begun: list[Broker] = []

        async def call(broker: Broker) -> Broker:
            begun.append(broker)
            await trio.sleep_forever()
            return broker

        async def given_up() -> None:
            with pytest.raises(RunEndedError, match="stopped or restarted before the call completed"):
                await supervisor.call(call)

        async def present(broker: Broker) -> Broker:
            return broker

        async with trio.open_nursery() as nursery:
            nursery.start_soon(given_up)
            await trio.testing.wait_all_tasks_blocked()
            await supervisor.restart()
        assert begun[0] is not supervisor.broker
        assert await supervisor.call(present) is supervisor.broker


async def test_no_log_is_closed_before_a_call_has_released_it(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        ends: list[int] = []

        async def slow(broker: Broker) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.02)
                log = next(iter(broker.services.logs.logs.values()))
                ends.append(len(log.segments.active.log_file.read_at(0, 1)))

        async def ask_it() -> None:
            with pytest.raises(RunEndedError):
                await supervisor.call(slow)

        for end in (supervisor.restart, supervisor.crash):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_it)
                await trio.testing.wait_all_tasks_blocked()
                await end()
        assert len(ends) == 2


async def test_a_cancelled_request_does_not_block_the_next(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        first = supervisor.broker
        with trio.move_on_after(0):
            await supervisor.restart()
        await supervisor.restart()
        assert supervisor.broker is not first


async def test_a_stop_precedes_all_requests(tmp_path: Path) -> None:
    async with lives_in(tmp_path) as supervisor:
        told: list[str] = []

        async def wish() -> None:
            try:
                await supervisor.restart()
            except RunEndedError as error:
                told.append(str(error))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wish)
            await trio.lowlevel.checkpoint()
            await supervisor.stop()
        assert len(told) >= 2 and set(told) <= {"the broker was stopped", "the broker is stopping"}
        assert supervisor.state == "stopped"
        for refused in (supervisor.restart, supervisor.reset):
            with pytest.raises(RunEndedError):
                await refused()
        await supervisor.stop()


# Errors


async def test_a_run_that_cannot_start_is_reported_and_another_may_follow(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        await fill(supervisor)
        listener = supervisor.nodes[0].listeners[0]
        files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "create", at="checkpoint")
        with pytest.raises((DataDirectoryError, OSError), match="Input/output error"):
            await supervisor.crash()
        assert supervisor.state == "down" and not supervisor.is_serving
        with pytest.raises(OSError, match="refused"):
            await trio.to_thread.run_sync(socket.create_connection, (listener.host, listener.port))
        with pytest.raises(RunEndedError, match=r"the broker is down: .*Input/output error"):
            await supervisor.call(Broker.stop_node, 0)
        with pytest.raises((DataDirectoryError, OSError)):
            await supervisor.restart()
        files.trouble = nothing
        await supervisor.restart()
        assert supervisor.state == "serving"
        assert await there(supervisor) == FILLED


async def test_a_broker_that_is_down_can_be_stopped(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "create", at="checkpoint")
        with pytest.raises((DataDirectoryError, OSError)):
            await supervisor.crash()
        files.trouble = nothing
    assert supervisor.state == "stopped"


async def test_another_broker_may_use_the_directory_between_two_runs(tmp_path: Path) -> None:
    class Taken(OsFiles):
        taken = False

        def lock(self, path: str) -> Any:
            if self.taken:
                raise OSError(errno.EAGAIN, "taken", path)
            return super().lock(path)

    files = Taken()
    async with lives_in(tmp_path, files) as supervisor:
        await fill(supervisor)
        files.taken = True
        with pytest.raises(DataDirectoryError, match="taken"):
            await supervisor.reset()
        assert supervisor.state == "down"
        files.taken = False
        await supervisor.restart()
        assert await there(supervisor) == FILLED


async def test_a_reset_that_the_disk_refuses_changes_nothing(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        await fill(supervisor)
        supervisor.clock.advance(HOUR_MS)
        files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "rename", at="-delete")
        with pytest.raises(OSError, match="Input/output error"):
            await supervisor.reset()
        files.trouble = nothing
        assert (supervisor.state, supervisor.clock.ahead_ms) == ("serving", HOUR_MS)
        assert await there(supervisor) == FILLED


async def test_a_decided_exchange_is_completed_by_the_next_start(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        await fill(supervisor)
        files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "rename", at="/t-0")
        with pytest.raises((OSError, DataDirectoryError), match="Input/output error"):
            await supervisor.reset()
        assert (supervisor.state, (tmp_path / NEXT_CONTENT).exists()) == ("down", True)
        files.trouble = nothing
        await supervisor.restart()
        (names,) = await ask(supervisor, topic_names)
        assert names == set()


async def test_refused_snapshots_leave_the_broker_serving_unchanged(tmp_path: Path) -> None:
    async with lives_in(tmp_path / "data") as supervisor:
        await fill(supervisor)
        good = str(tmp_path / "good")
        await supervisor.snapshot(good)
        await add(supervisor)
        broker = supervisor.broker
        for path in (good, str(tmp_path / "data" / "inside")):
            with pytest.raises(SnapshotError):
                await supervisor.snapshot(path)
        with pytest.raises(SnapshotError, match="directory not found"):
            await supervisor.restore(str(tmp_path / "none"))
        log = tmp_path / "good" / "0" / "t-0" / ("0" * 20 + ".log")
        data = log.read_bytes()
        log.write_bytes(data[:-1] + b"!")
        with pytest.raises(SnapshotError, match="was changed"):
            await supervisor.restore(good)
        assert supervisor.broker is broker, "it was not even restarted"
        assert not [path for path in (tmp_path / "data").iterdir() if path.name.endswith("-delete")]
        assert await there(supervisor) == ADDED
        log.write_bytes(data)
        await supervisor.restore(good)
        assert await there(supervisor) == FILLED


async def test_a_snapshot_of_another_node_or_of_more_directories_is_refused(tmp_path: Path) -> None:
    async with lives_in(tmp_path / "one") as supervisor:
        await supervisor.snapshot(str(tmp_path / "snapshot"))
    async with lives_in(tmp_path / "seven", node_id="7") as supervisor:
        with pytest.raises(SnapshotError, match=r"is a snapshot of node 0, but node\.id is 7"):
            await supervisor.restore(str(tmp_path / "snapshot"))
    async with lives_in(f"{tmp_path / 'a'},{tmp_path / 'b'}") as supervisor:
        with pytest.raises(SnapshotError, match=r"is a snapshot of 1 data directories, but log\.dirs has 2"):
            await supervisor.restore(str(tmp_path / "snapshot"))


async def test_a_snapshot_may_be_restored_by_another_broker(tmp_path: Path) -> None:
    async with lives_in(tmp_path / "one") as supervisor:
        await fill(supervisor)
        await supervisor.snapshot(str(tmp_path / "snapshot"))
    async with lives_in(tmp_path / "other") as supervisor:
        await supervisor.restore(str(tmp_path / "snapshot"))
        assert await there(supervisor) == FILLED


async def test_a_restore_continues_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    async with lives_in(tmp_path / "data") as supervisor:
        await fill(supervisor)
        await supervisor.snapshot(str(tmp_path / "snapshot"))
        await add(supervisor)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.restore, str(tmp_path / "snapshot"))
            await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        assert await there(supervisor) in (FILLED, ADDED)
        await supervisor.restart()
        assert supervisor.state == "serving"


@pytest.mark.parametrize("end", [Supervisor.restart, Supervisor.crash])
async def test_no_run_starts_while_a_snapshot_is_staged(
    end: Callable[[Supervisor], Awaitable[None]], tmp_path: Path
) -> None:
    files = GatedFiles("-delete/t-0/")
    async with lives_in(tmp_path / "data", files) as supervisor:
        await fill(supervisor)
        await supervisor.snapshot(str(tmp_path / "snapshot"))
        await add(supervisor)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.restore, str(tmp_path / "snapshot"))
            await files.reached()
            with trio.move_on_after(0.3):  # a run takes some hundredths of that
                await end(supervisor)
            await supervisor.broker.background_jobs.tick()
            files.let_on()
        assert await there(supervisor) == FILLED


async def test_waiting_restores_end_with_the_broker(tmp_path: Path) -> None:
    async with lives_in(tmp_path / "data") as supervisor:
        await fill(supervisor)
        await supervisor.snapshot(str(tmp_path / "snapshot"))
        over: list[RunEndedError] = []

        async def restore() -> None:
            try:
                await supervisor.restore(str(tmp_path / "snapshot"))
            except RunEndedError as error:
                over.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(restore)
            await trio.lowlevel.checkpoint()
            await supervisor.stop()
        assert over


async def test_an_error_of_a_later_run_is_raised_from_the_body(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with lives_in(tmp_path) as supervisor:
            await supervisor.restart()
            supervisor.broker.tasks.start_soon(fail)
            await trio.sleep_forever()
    assert supervisor.state == "stopped"


@pytest.mark.parametrize("end", [Supervisor.restart, Supervisor.crash, Supervisor.stop])
async def test_a_run_that_ends_with_an_error_leaves_no_caller_waiting(
    end: Callable[[Supervisor], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Broker) -> None:
        raise ZeroDivisionError("a bug")

    told: list[RunEndedError] = []

    async def ask(supervisor: Supervisor) -> None:
        with trio.CancelScope(shield=True):
            try:
                await end(supervisor)
            except RunEndedError as error:
                told.append(error)

    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with lives_in(tmp_path) as supervisor, trio.open_nursery() as nursery:
            for name in ("close", "abandon"):
                monkeypatch.setattr(Broker, name, fail)
            nursery.start_soon(ask, supervisor)
    assert supervisor.state == "stopped"
    assert [str(error) for error in told] == ([] if end is Supervisor.stop else ["the broker was stopped"])
    supervisor.broker.services.logs.release()


async def test_an_ended_run_is_freed_before_the_next_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GcPolicy, "a_run_has_ended", False)
    async with lives_in(tmp_path) as supervisor:
        supervisor.in_each_run(lambda broker: broker.collector.run())
        for end in (Supervisor.restart, Supervisor.crash, Supervisor.reset):
            await fill(supervisor)
            before = weakref.ref(supervisor.broker)
            supervisor.broker.collector.keep()
            await end(supervisor)
            assert before() is None
    leave_alone()


async def test_created_and_deleted_topics_are_not_excluded_from_collections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GcPolicy, "a_run_has_ended", False)
    kept_at_once = size(30, PARTITIONS_KEPT_AT_ONCE)
    monkeypatch.setattr("ottla.server.runtime.gc_policy.PARTITIONS_KEPT_AT_ONCE", kept_at_once)
    many = kept_at_once * 2 // 3
    async with lives_in(tmp_path) as supervisor:
        supervisor.in_each_run(lambda broker: broker.collector.run())
        garbage = OldGarbage()
        for _ in range(3):
            await ask(supervisor, lambda client: create_topic(client, "t", many), lambda client: delete(client, "t"))
        gc.collect()
        assert not garbage.is_there()
        garbage = OldGarbage()
        await ask(
            supervisor, lambda client: create_topic(client, "a", many), lambda client: create_topic(client, "b", many)
        )
        gc.collect()
        assert garbage.is_there()
    leave_alone()


async def test_many_runs_leave_no_descriptors_and_files(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with lives_in(tmp_path) as supervisor:
        await fill(supervisor)
        await supervisor.reset()
        before = descriptors()
        for _ in range(5):
            await fill(supervisor)
            await supervisor.reset()
        assert descriptors() <= before + 1
