"""Partitions that move between data directories at a client's request (AlterReplicaLogDirs)."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.control.explain import explain
from ottla.server.runtime.clock import Clock
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin import create, delete, delete_records, grow, growth, wanted
from support.broker.compacting import alter
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.disk.troubled_files import TroubledFiles, full, nothing, trouble

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def dirs(tmp_path: Path) -> tuple[str, str, str]:
    a, b, c = (str(tmp_path / name) for name in "abc")
    return a, b, c


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides={"log.dirs": ",".join(dirs(tmp_path))}) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as client:
        yield client


def move(client: RawClient, path: str, *partitions: int, name: str = "t") -> dict[int, int]:
    """Request a move; return the codes of the answer by partition."""
    topics = (AlterReplicaLogDirTopic(name=name, partitions=partitions or (0,)),)
    answer = client.ask(AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),)))
    return {row.partition_index: row.error_code for topic in answer.results for row in topic.partitions}


def where(client: RawClient, name: str = "t", *, future: bool = False) -> dict[int, str]:
    """Return the data directory of each partition, or the one to which it moves."""
    return {
        row.partition_index: found.log_dir
        for found in client.ask(DescribeLogDirsRequest(topics=None)).results
        for topic in found.topics
        if topic.name == name
        for row in topic.partitions
        if row.is_future_key == future
    }


def future(client: RawClient) -> list[tuple[int, int]]:
    """Return size and lag of each unfinished copy."""
    return [
        (row.partition_size, row.offset_lag)
        for found in client.ask(DescribeLogDirsRequest(topics=None)).results
        for topic in found.topics
        for row in topic.partitions
        if row.is_future_key
    ]


def limit(client: RawClient, rate: int | None, name: str = RATE) -> None:
    change = AlterableConfig(name=name, config_operation=int(rate is None), value=None if rate is None else str(rate))
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=(change,))
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def until(holds: Callable[[], bool]) -> None:
    """Ask until the condition holds."""
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come to pass"


def filled(client: RawClient, count: int = 20, **configs: Any) -> None:
    create_topic(client, "t", **configs)
    for number in range(count):
        produce(client, "t", (f"k{number % 5}", "v" * 1_000))


def values(client: RawClient) -> list[int]:
    found: list[int] = []
    offset = 0
    while records := records_of(fetch(client, "t", offset)):
        found += [offset for offset, _, _ in records]
        offset = found[-1] + 1
    return found


def other_than(tmp_path: Path, present: str) -> str:
    return next(each for each in dirs(tmp_path) if each != present)


def test_a_partition_moves_with_its_records(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    filled(client, segment_bytes=1_048_576, internal_segment_bytes=5_000)
    here = where(client)[0]
    target = other_than(tmp_path, here)
    before = values(client)
    assert move(client, target) == {0: ErrorCode.NONE}
    until(lambda: where(client) == {0: target})
    until(lambda: not future(client))
    assert (Path(target) / "t-0").is_dir() and not (Path(here) / "t-0").exists()
    assert values(client) == before
    assert produce(client, "t", ("k", "after")).error_code == ErrorCode.NONE
    broker.restart()
    with RawClient(*address(broker)) as again:
        assert where(again) == {0: target}
        assert values(again) == [*before, len(before)]


def test_a_partition_without_records_moves(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    create_topic(client, "t")
    here = where(client)[0]
    target = other_than(tmp_path, here)
    assert not (Path(here) / "t-0").exists()
    assert move(client, target) == {0: ErrorCode.NONE}
    until(lambda: where(client) == {0: target} and not future(client))
    assert (Path(target) / "t-0").is_dir() and not (Path(here) / "t-0").exists()
    assert produce(client, "t", ("k", "v")).base_offset == 0
    broker.restart()
    with RawClient(*address(broker)) as again:
        assert where(again) == {0: target}
        assert values(again) == [0]


def test_a_throttled_move_is_shown_and_takes_its_time(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    broker.clock.freeze()
    filled(client)
    here = where(client)[0]
    target = other_than(tmp_path, here)
    limit(client, 1_000)
    assert move(client, target) == {0: ErrorCode.NONE}
    assert where(client, future=True) == {0: target}
    broker.clock.advance(seconds=1)  # before the move has read anything, or after it
    until(lambda: future(client)[0][0] > 0)
    ((size, lag),) = future(client)
    assert size < 3_000 and 0 < lag < 20
    assert where(client) == {0: here}
    produce(client, "t", ("k", "meanwhile"))
    assert move(client, target) == {0: ErrorCode.NONE}  # the move has begun
    limit(client, None)
    until(lambda: where(client) == {0: target})
    assert values(client) == list(range(21))


def test_a_throttle_counts_from_the_request_of_a_move(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    broker.clock.freeze()
    filled(client)
    target = other_than(tmp_path, where(client)[0])
    limit(client, 1_000)

    async def move_and_advance() -> None:
        await broker.inner.services.moves.move(TopicPartition("t", 0), target, 0)
        broker.inner.clock.advance(1_000)  # the task of the move has not run yet

    broker.run(move_and_advance)
    until(lambda: future(client)[0][0] > 0)


def test_a_move_back_discards_the_copy(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    broker.clock.freeze()
    filled(client)
    here = where(client)[0]
    target = other_than(tmp_path, here)
    limit(client, 0)
    move(client, target)
    until(lambda: bool(list(Path(target).glob("t-0.*-future"))))
    assert move(client, here) == {0: ErrorCode.NONE}
    assert not list(Path(target).glob("t-0.*-future"))
    assert not future(client)
    assert where(client) == {0: here}


def test_a_second_move_replaces_the_first(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    filled(client)
    here = where(client)[0]
    first, second = (each for each in dirs(tmp_path) if each != here)
    limit(client, 0)
    move(client, first)
    until(lambda: where(client, future=True) == {0: first})
    move(client, second)
    limit(client, None)
    until(lambda: where(client) == {0: second})
    assert not list(Path(first).glob("t-0.*-future"))


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_an_interrupted_move_is_resumed(broker: ottla.Broker, client: RawClient, tmp_path: Path, end: str) -> None:
    filled(client)
    target = other_than(tmp_path, where(client)[0])
    limit(client, 1)
    move(client, target)
    until(lambda: bool(list(Path(target).glob("t-0.*-future"))))
    getattr(broker, end)()
    with RawClient(*address(broker)) as again:
        until(lambda: where(again, future=True) == {0: target})
        limit(again, None)
        until(lambda: where(again) == {0: target})
        assert values(again) == list(range(20))


def test_a_deleted_topic_deletes_its_copy(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    filled(client)
    target = other_than(tmp_path, where(client)[0])
    limit(client, 0)
    move(client, target)
    until(lambda: bool(list(Path(target).glob("t-0.*-future"))))
    delete(client, "t")
    assert not list(Path(target).glob("t-0.*-future"))
    assert not future(client)
    filled(client, 3)
    assert values(client) == [0, 1, 2]


def test_records_deleted_before_a_move_stay_deleted(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    filled(client)
    delete_records(client, "t", 7)
    target = other_than(tmp_path, where(client)[0])
    move(client, target)
    until(lambda: where(client) == {0: target})
    broker.crash()
    with RawClient(*address(broker)) as again:
        assert fetch(again, "t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(again, "t", 7).error_code == ErrorCode.NONE


def test_a_compacted_partition_moves_and_is_cleaned_after_it(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    filled(
        client,
        40,
        cleanup_policy="compact",
        internal_segment_bytes=5_000,
        min_cleanable_dirty_ratio="0.01",
        segment_ms=10_000_000,
    )
    target = other_than(tmp_path, where(client)[0])
    move(client, target)
    until(lambda: where(client) == {0: target})
    alter(client, "t", min_cleanable_dirty_ratio="0")
    produce(client, "t", ("k", "v" * 6_000))
    assert broker.wait_until_compacted("t")
    kept = values(client)
    assert len(kept) < 20
    broker.crash()
    with RawClient(*address(broker)) as again:
        assert values(again) == kept
    checkpoint = (Path(target) / "cleaner-offset-checkpoint").read_text()
    assert "\nt 0 " in checkpoint


def test_the_cleaner_skips_a_moving_log(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    filled(client, cleanup_policy="compact")
    limit(client, 0)
    move(client, other_than(tmp_path, where(client)[0]))
    until(lambda: bool(future(client)))
    manager = broker.inner.services.cleaning.manager
    until(lambda: any(manager.is_held(each) for each in broker.inner.services.logs.logs if each.topic == "t"))
    limit(client, None)
    until(lambda: not any(manager.is_held(each) for each in broker.inner.services.logs.logs if each.topic == "t"))


def test_a_disk_that_fails_during_the_copy_leaves_the_log_in_place(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    filled(client)
    here = where(client)[0]
    target = other_than(tmp_path, here)
    limit(client, 0)
    move(client, target)
    until(lambda: bool(list(Path(target).glob("t-0.*-future"))))
    broker.fault(disk="failed", data_dir=target)
    limit(client, None)
    until(lambda: not broker.run(_moves, broker.inner))
    assert where(client) == {0: here}
    assert move(client, target) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert produce(client, "t", ("k", "after")).error_code == ErrorCode.NONE
    assert values(client) == list(range(21))
    broker.restart()
    with RawClient(*address(broker)) as again:
        until(lambda: where(again) == {0: target})  # the interrupted move continues
        assert values(again) == list(range(21))


async def test_an_unfinished_move_is_completed_by_the_next_start_with_both_disks(tmp_path: Path) -> None:
    here, target, third = dirs(tmp_path)
    all_dirs = f"{here},{target},{third}"
    files = TroubledFiles()
    # The copy is still called t-0.<id>-future when it gets that file for the first time.
    files.trouble = full(at=f"{target}/t-0/{paths.MOVED_FILE}")
    async with serving(tmp_path, files, None, log_dirs=all_dirs) as served:
        services = served.broker.services
        await served.ask(filled)
        (log,) = services.logs.logs.values()
        assert log.data_dir == here
        assert await served.ask(move, target) == {0: 0}
        while log.data_dir == here:
            await trio.lowlevel.checkpoint()
        assert (await served.ask(produce, "t", ("k", "after"))).error_code == ErrorCode.NONE
        assert await served.ask(move, third) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
        assert log.data_dir == target
    files = TroubledFiles()
    files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "open", "list", "create", at=target)
    async with serving(tmp_path, files, None, log_dirs=all_dirs) as served:
        answer = await served.ask(produce, "t", ("k", "lost later"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    async with serving(tmp_path, OsFiles(), None, log_dirs=all_dirs) as served:
        assert await served.ask(values) == list(range(21))
        assert await served.ask(where) == {0: target}


async def test_a_refused_last_step_is_reported_once_and_retried_with_growing_delay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, target, _ = dirs(tmp_path)
    files, clock = TroubledFiles(), Clock(monotonic=lambda: 0)
    tries: list[int] = []

    def refuse(operation: str, path: str) -> None:
        if operation == "create" and f"{target}/t-0/{paths.MOVED_FILE}" in path:
            tries.append(clock.elapsed_ms())
            raise OSError(errno.ENOSPC, "No space left on device")

    files.trouble = refuse
    async with serving(tmp_path, files, clock, log_dirs=f"{here},{target}") as served:
        with trio.fail_after(60):
            await served.ask(filled)
            assert await served.ask(move, target) == {0: 0}
            (present,) = served.broker.services.moves.under_way.values()
            for count, wait_ms in enumerate((1_000, 2_000, 4_000), 1):
                while present.refusals < count:  # a counted refusal waits
                    await trio.sleep(0.001)
                clock.advance(wait_ms)
            while present.refusals < 4:
                await trio.sleep(0.001)
            assert tries == [0, 1_000, 3_000, 7_000]
            lines = [each.getMessage() for each in caplog.records if each.name == "ottla.moves"]
            assert len(lines) == 1 and lines[0].endswith("retrying until the disk works")
            (explained,) = (await explain(served.broker, "t")).partitions
            assert explained.sentence.startswith(f"the partition is moving to {target}: ")
            assert "its last step failed 4 times and is being retried: cannot move t-0" in explained.sentence
            files.trouble = nothing
            clock.advance(60_000)
            while served.broker.services.moves.under_way:
                await trio.sleep(0.001)
            assert await served.ask(where) == {0: target}


@pytest.mark.parametrize(
    "refused", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("can't start new thread")]
)
async def test_a_move_with_a_refused_last_step_excludes_moves_and_the_cleaner(
    tmp_path: Path, refused: Exception
) -> None:
    """A start uses the one of the two logs that reaches further without a gap: a pass before that would create gaps."""
    here, target, third = dirs(tmp_path)
    files, clock = TroubledFiles(), Clock(monotonic=lambda: 0)
    async with serving(tmp_path, files, clock, log_dirs=f"{here},{target},{third}") as served:
        with trio.fail_after(60):
            await served.ask(filled)
            present_dir = (await served.ask(where))[0]
            other, elsewhere = (each for each in (here, target, third) if each != present_dir)
            files.trouble = trouble(refused, "create", at=f"{other}/t-0/{paths.MOVED_FILE}")
            assert await served.ask(move, other) == {0: 0}
            (present,) = served.broker.services.moves.under_way.values()
            while not present.refusals:
                await trio.sleep(0.001)
            assert await served.ask(move, elsewhere) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
            assert await served.ask(move, present_dir) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
            assert [*served.broker.services.moves.under_way.values()] == [present]
            assert served.broker.services.cleaning.manager.is_held(TopicPartition("t", 0))
            files.trouble = nothing
            clock.advance(60_000)
            await present.ended.wait()
            assert await served.ask(where) == {0: other}
            assert await served.ask(move, elsewhere) == {0: 0}


def test_a_declared_fault_is_returned_and_nothing_moves(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    filled(client)
    here = where(client)
    with broker.fault("AlterReplicaLogDirs", error="KAFKA_STORAGE_ERROR"):
        assert move(client, other_than(tmp_path, here[0])) == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert not broker.run(_moves, broker.inner)
    assert where(client) == here


async def _moves(broker: Any) -> int:
    return len(broker.services.moves.under_way)


@pytest.mark.parametrize(
    ("path", "name", "partitions", "code"),
    [
        ("/nowhere", "t", (0,), ErrorCode.LOG_DIR_NOT_FOUND),
        ("a", "missing", (0,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", "t", (9,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", "n" * 245, (0,), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", "t", (0,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_moves_are_refused(
    client: RawClient, tmp_path: Path, path: str, name: str, partitions: tuple[int, ...], code: ErrorCode
) -> None:
    filled(client, 1)
    create_topic(client, "n" * 245)
    limit_text(client, "cordoned.log.dirs", dirs(tmp_path)[2])
    here = where(client)
    assert move(client, path if path.startswith("/") else str(tmp_path / path), *partitions, name=name) == {
        partitions[0]: code
    }
    assert where(client) == here


def limit_text(client: RawClient, name: str, value: str | None) -> None:
    change = AlterableConfig(name=name, config_operation=int(value is None), value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=(change,))
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def test_a_node_without_a_replica_has_nothing_to_move(tmp_path: Path) -> None:
    overrides = {"log.dirs": ",".join(dirs(tmp_path))}
    with ottla.Broker(nodes=2, overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create(client, wanted("t", -1, -1, assignments=[(0, (1,))]))
        assert move(client, dirs(tmp_path)[0]) == {0: ErrorCode.REPLICA_NOT_AVAILABLE}


def test_cordoned_directories_get_no_new_partitions(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    a, b, c = dirs(tmp_path)
    limit_text(client, "cordoned.log.dirs", f"{a},{c}")
    create_topic(client, "t", partitions=6)
    assert set(where(client).values()) == {b}
    cordoned = {row.log_dir: row.is_cordoned for row in client.ask(DescribeLogDirsRequest(topics=None)).results}
    assert cordoned == {a: True, b: False, c: True}
    limit_text(client, "cordoned.log.dirs", None)
    create_topic(client, "u", partitions=6)
    assert set(where(client, "u").values()) == {a, b, c} - {b}


@pytest.mark.parametrize("all_of_them", ["*", "each"])
def test_without_an_uncordoned_directory_creation_is_refused(
    broker: ottla.Broker, client: RawClient, tmp_path: Path, all_of_them: str
) -> None:
    create_topic(client, "before")
    limit_text(client, "cordoned.log.dirs", "*" if all_of_them == "*" else ",".join(dirs(tmp_path)))
    (row,) = create(client, wanted("t", 1, 1))
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "all their log directories cordoned" in row.error_message
    (row,) = grow(client, growth("before", 2))
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert produce(client, "before", ("k", "v")).error_code == ErrorCode.NONE
