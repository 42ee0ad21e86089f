"""Old records, deleted topics and deleted records are removed from the disk, on a clock that the tests move."""

from __future__ import annotations

import shutil
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.broker.background_jobs import MADE_AT_ONCE
from ottla.server.config.resources import ConfigResourceType
from ottla.server.runtime.clock import wall_time_ms
from ottla.server.runtime.time_slices import passes
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs import log as log_module
from support.broker.admin import delete, delete_records, topic_names
from support.broker.background_jobs import eventually, files, have_on_disk, retain, segment_names
from support.broker.conversation import address, create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.disk.gated_files import GatedFiles

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
EARLIEST = -2

# Room for one batch of `fill`, so that every batch gets a segment of its own.
SEGMENT = {"internal_segment_bytes": 1000}
VALUE = "v" * 600


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker whose retention and cleaner run only when a test starts them."""
    overrides = {"log.retention.check.interval.ms": str(10**12), "log.cleaner.backoff.ms": str(10**12)}
    with ottla.Broker(str(tmp_path), overrides=overrides) as running:
        yield running


def fill(client: RawClient, topic: str, batches: int, *, age_ms: int = 0, first: int = 0) -> None:
    """Produce batches of one record each, with keys counted from `first`."""
    for number in range(first, first + batches):
        produce(client, topic, (f"k{number}", VALUE), timestamp=wall_time_ms() - age_ms)


def offsets(client: RawClient, topic: str) -> list[int]:
    """Return the offsets that a consumer reads from the earliest on."""
    _, position = list_offset(client, topic, EARLIEST)
    found: list[int] = []
    while records := records_of(fetch(client, topic, position)):
        found += [offset for offset, _, _ in records]
        position = found[-1] + 1
    return found


def alter(client: RawClient, topic: str, **configs: Any) -> None:
    changes = tuple(AlterableConfig(name=name.replace("_", "."), value=str(value)) for name, value in configs.items())
    resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=changes)
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


# By time


@pytest.mark.scenario(172)
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_segments_with_expired_records_are_deleted(
    broker: ottla.Broker, client: RawClient, tmp_path: Path, policy: str
) -> None:
    create_topic(client, "t", cleanup_policy=policy, retention_ms=HOUR_MS, **SEGMENT)
    fill(client, "t", 3, age_ms=HOUR_MS + MINUTE_MS)
    fill(client, "t", 3, first=3)
    retain(broker)
    assert offsets(client, "t") == [3, 4, 5]
    assert fetch(client, "t", 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    broker.advance_clock(HOUR_MS - MINUTE_MS)
    retain(broker)
    assert offsets(client, "t") == [3, 4, 5]
    broker.advance_clock(2 * MINUTE_MS)
    retain(broker)
    assert (offsets(client, "t"), list_offset(client, "t", EARLIEST)) == ([], (ErrorCode.NONE, 6))
    assert produce(client, "t", ("k", "v")).base_offset == 6
    broker.advance_clock(MINUTE_MS)
    assert eventually(broker, lambda: files(tmp_path / "t-0") == segment_names([6]))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_many_segments_are_deleted_in_several_steps_of_one_round(
    broker: ottla.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_AT_ONCE", 2)
    create_topic(client, "t", cleanup_policy=policy, retention_ms=HOUR_MS, **SEGMENT)
    fill(client, "t", 5, age_ms=2 * HOUR_MS)
    fill(client, "t", 1, first=5)
    retain(broker)
    assert (offsets(client, "t"), list_offset(client, "t", EARLIEST)) == ([5], (ErrorCode.NONE, 5))


def test_a_young_record_keeps_its_segment_and_all_after_it(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", retention_ms=HOUR_MS, **SEGMENT)
    now_ms = wall_time_ms()
    for age_ms in (5 * HOUR_MS, 0, 5 * HOUR_MS):
        produce(client, "t", ("k", VALUE), timestamp=now_ms - age_ms)
    retain(broker)
    assert offsets(client, "t") == [1, 2]


def test_deleted_files_exist_until_file_delete_delay_ms_has_passed(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    create_topic(client, "t", retention_ms=HOUR_MS, file_delete_delay_ms=10 * MINUTE_MS, **SEGMENT)
    fill(client, "t", 2, age_ms=2 * HOUR_MS)
    fill(client, "t", 1)
    retain(broker)
    old, kept = segment_names([0, 1]), segment_names([2])
    assert files(tmp_path / "t-0") == [f"{name}.deleted" for name in old] + kept
    broker.advance_clock(9 * MINUTE_MS)
    broker.run(broker.inner.background_jobs.tick)
    assert files(tmp_path / "t-0") == [f"{name}.deleted" for name in old] + kept
    broker.advance_clock(2 * MINUTE_MS)
    assert eventually(broker, lambda: files(tmp_path / "t-0", "*.deleted") == [])
    assert files(tmp_path / "t-0") == kept


def test_without_a_limit_nothing_is_deleted(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", retention_ms=-1, **SEGMENT)
    create_topic(client, "neither", retention_ms=1, cleanup_policy="", **SEGMENT)
    create_topic(client, "compacted", retention_ms=1, cleanup_policy="compact", **SEGMENT)
    for topic in ("t", "neither", "compacted"):
        fill(client, topic, 3, age_ms=HOUR_MS)
    broker.advance_clock(1000 * HOUR_MS)
    retain(broker)
    for topic in ("t", "neither", "compacted"):
        assert offsets(client, topic) == [0, 1, 2], topic


def test_a_new_limit_applies_from_the_next_run(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", **SEGMENT)
    fill(client, "t", 3, age_ms=HOUR_MS)
    retain(broker)
    assert offsets(client, "t") == [0, 1, 2]
    alter(client, "t", retention_ms=MINUTE_MS)
    fill(client, "t", 1)
    retain(broker)
    assert offsets(client, "t") == [3]
    alter(client, "t", cleanup_policy="compact")
    broker.advance_clock(HOUR_MS)
    retain(broker)
    assert offsets(client, "t") == [3]


def test_retention_runs_when_it_is_due(tmp_path: Path) -> None:
    overrides = {"log.retention.check.interval.ms": str(HOUR_MS), "log.initial.task.delay.ms": str(HOUR_MS)}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", retention_ms=MINUTE_MS)
        produce(client, "t", ("k", "v"))
        broker.advance_clock(2 * MINUTE_MS)
        assert offsets(client, "t") == [0]
        broker.advance_clock(HOUR_MS)
        assert eventually(broker, lambda: list_offset(client, "t", EARLIEST)[1] == 1)


def test_a_segment_is_closed_when_its_time_has_passed(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    create_topic(client, "t", segment_ms=HOUR_MS, message_timestamp_type="LogAppendTime")
    produce(client, "t", ("k", "v"))
    broker.advance_clock(HOUR_MS - MINUTE_MS)
    produce(client, "t", ("k", "v"))
    broker.advance_clock(2 * MINUTE_MS)
    produce(client, "t", ("k", "v"))
    assert files(tmp_path / "t-0") == segment_names([0, 2])


# By size


@pytest.mark.scenario(173)
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_the_oldest_segments_are_deleted_until_the_rest_fits(
    broker: ottla.Broker, client: RawClient, policy: str
) -> None:
    create_topic(client, "t", **SEGMENT)
    fill(client, "t", 1)
    batch_bytes = len(fetch(client, "t", 0).records or b"")
    fill(client, "t", 9, first=1)
    alter(client, "t", cleanup_policy=policy, retention_bytes=4 * batch_bytes)
    retain(broker)
    assert offsets(client, "t") == [6, 7, 8, 9]
    alter(client, "t", retention_bytes=4 * batch_bytes - 1)
    retain(broker)
    assert offsets(client, "t") == [6, 7, 8, 9], "without the oldest segment there would be too little"
    alter(client, "t", retention_bytes=0)
    retain(broker)
    assert (offsets(client, "t"), list_offset(client, "t", EARLIEST)[1]) == ([], 10)


# Deleted topics


def test_the_files_of_a_deleted_topic_are_removed_after_the_delay(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    create_topic(client, "t", partitions=2, file_delete_delay_ms=10 * MINUTE_MS)
    produce(client, "t", ("k", "v"))
    have_on_disk(broker.inner)
    assert delete(client, "t")[0].error_code == ErrorCode.NONE
    aside = sorted(path.name.partition(".")[0] for path in tmp_path.glob("t-*-delete"))
    assert (aside, len(list(tmp_path.glob("t-*")))) == (["t-0", "t-1"], 2)
    broker.advance_clock(9 * MINUTE_MS)
    broker.run(broker.inner.background_jobs.tick)
    assert len(list(tmp_path.glob("t-*"))) == 2
    broker.advance_clock(2 * MINUTE_MS)
    assert eventually(broker, lambda: not list(tmp_path.glob("t-*")))


async def test_new_logs_are_on_disk_after_one_round_despite_concurrent_creations(tmp_path: Path) -> None:
    def made() -> list[str]:
        return sorted(path.name for path in tmp_path.glob("[tu]-*"))

    async with serving(tmp_path, OsFiles(), log_initial_task_delay_ms=str(10**9)) as served:
        make_logs = served.broker.background_jobs.make_logs
        await served.ask(create_topic, "t", partitions=2)
        await make_logs()
        await served.ask(create_topic, "u", partitions=2)
        await make_logs()
        assert made() == ["t-0", "t-1"], "the others have come since the last look"
        await make_logs()
        assert made() == ["t-0", "t-1", "u-0", "u-1"]
    async with serving(tmp_path, OsFiles()) as served:  # with running jobs
        await served.ask(create_topic, "t2")
        with trio.fail_after(20):
            while not (tmp_path / "t2-0").exists():
                served.broker.clock.advance(1_000)
                await trio.lowlevel.checkpoint()


async def test_a_deletion_during_the_creation_of_logs_frees_a_few_of_them_at_a_time(tmp_path: Path) -> None:
    """Thousands of logs in one step of Trio's thread would make all clients wait for a tenth of a second."""
    disk = GatedFiles("/t-0/")
    async with serving(tmp_path, disk, log_initial_task_delay_ms=str(10**9)) as served:
        background_jobs = served.broker.background_jobs
        await served.ask(create_topic, "t", partitions=5 * MADE_AT_ONCE)
        await background_jobs.make_logs()  # only counts them
        freed_here: list[int] = []

        def note(_: object) -> None:
            if trio.lowlevel.in_trio_run():  # else in a worker thread, where it does no harm
                freed_here.append(passes())

        refs = [weakref.ref(log, note) for log in served.broker.services.logs.unmade(str(tmp_path))]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(background_jobs.make_logs)
            await disk.reached()
            nursery.start_soon(served.ask, delete, "t")
            with trio.fail_after(20):
                while served.broker.services.logs.logs:
                    await trio.lowlevel.checkpoint()
            disk.let_on()
        assert len(refs) == 5 * MADE_AT_ONCE and not any(each() for each in refs)
        assert max(Counter(freed_here).values(), default=0) <= MADE_AT_ONCE


def test_a_topic_deleted_before_a_stop_stays_deleted(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", file_delete_delay_ms=HOUR_MS)
        produce(client, "t", ("k", "v"))
        delete(client, "t")
    assert len(list(tmp_path.glob("t-*-delete"))) == 1
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert topic_names(client) == set()
        assert eventually(broker, lambda: not list(tmp_path.glob("t-*")))


def test_a_recreated_topic_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", cleanup_policy="compact", **SEGMENT)
        fill(client, "t", 5)
        delete_records(client, "t", 3)
        delete(client, "t")
        create_topic(client, "t")
        assert (offsets(client, "t"), list_offset(client, "t", EARLIEST)[1]) == ([], 0)
        produce(client, "t", ("new", "v"))
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert records_of(fetch(client, "t", 0)) == [(0, b"new", b"v")]
        assert broker.inner.services.logs.logs[("t", 0)].config.is_delete  # type: ignore[index]


# Deleted records


def test_deleted_records_do_not_return_after_a_kill(tmp_path: Path) -> None:
    running, killed = tmp_path / "running", tmp_path / "killed"
    with ottla.Broker(str(running)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", cleanup_policy="compact,delete", retention_ms=-1)
        produce(client, "t", ("k", "v"))
        produce(client, "t", ("m", "v"))
        assert delete_records(client, "t", 1) == (ErrorCode.NONE, 1)
        shutil.copytree(running, killed, ignore=shutil.ignore_patterns("*.tmp"))  # the files that a kill would leave
    with ottla.Broker(str(killed)) as broker, RawClient(*address(broker)) as client:
        assert list_offset(client, "t", EARLIEST) == (ErrorCode.NONE, 1)


@pytest.mark.scenario(159)
@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_segments_below_the_log_start_are_deleted_by_the_next_run(
    broker: ottla.Broker, client: RawClient, tmp_path: Path, policy: str
) -> None:
    create_topic(client, "t", cleanup_policy=policy, retention_ms=-1, **SEGMENT)
    fill(client, "t", 6)
    assert delete_records(client, "t", 4) == (ErrorCode.NONE, 4)
    assert files(tmp_path / "t-0") == segment_names(range(6))
    retain(broker)
    broker.advance_clock(HOUR_MS)
    assert eventually(broker, lambda: files(tmp_path / "t-0") == segment_names([4, 5]))
    assert offsets(client, "t") == [4, 5]


def test_a_fully_deleted_log_continues_at_its_end(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    create_topic(client, "t", **SEGMENT)
    fill(client, "t", 6)
    assert delete_records(client, "t", -1) == (ErrorCode.NONE, 6)
    retain(broker)
    assert (offsets(client, "t"), list_offset(client, "t", EARLIEST)) == ([], (ErrorCode.NONE, 6))
    assert produce(client, "t", ("k", "v")).base_offset == 6
    assert offsets(client, "t") == [6]
