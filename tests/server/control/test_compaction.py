"""Compaction on demand: the effect of each call on a log in each state, its message, and operations that interrupt it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import trio
import trio.lowlevel

from ottla.server.broker.broker import Broker
from ottla.server.control.clock import advance, idle
from ottla.server.control.compaction import Compaction, PartitionCompaction, compact
from ottla.server.control.dry_run import dry_run
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.logs.log import Log
from ottla.storage.topics.catalog_file import CLUSTER_DEFAULT
from support.broker.admin import set_topic_configs
from support.broker.conversation import create_topic
from support.broker.served import Served
from support.broker.steppable_wall import START_MS
from support.control.on_demand import T_0, a_round, first_round, log_of, resting, write
from support.disk.gated_files import GatedFiles
from support.disk.troubled_files import TroubledFiles, full
from support.logs.make_log import Producer, all_batches, append, contents
from support.sizes import size

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def one(done: Compaction) -> PartitionCompaction:
    (row,) = done.partitions
    return row


def offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


# Log state × call


def closed(log: Log) -> None:
    """Write 0 to 3 in closed segments, 4 in the active one."""
    write(log, "abab", roll=True)
    write(log, "a")


def active(log: Log) -> None:
    write(log, "abab")


def hardly_dirty(log: Log) -> None:
    """Write a log that is seven tenths clean after a pass, which the test runs."""
    write(log, "abcdefg", roll=True)


def undecided(log: Log) -> None:
    """Write a log whose record 2 belongs to an open transaction, in a segment of its own."""
    write(log, "aa", roll=True)
    Producer(log, 7, transactional=True, now_ms=START_MS).write("a")
    log.roll(START_MS)
    write(log, "a", roll=True)


def nothing(log: Log) -> None:
    """Leave the log empty."""


class Case(NamedTuple):
    state: Callable[[Log], None]
    call: Mapping[str, bool]
    passes: int
    left: list[int]
    """Offsets of the records that are left."""
    waits_for: str | None
    has_rolled: bool = False
    configs: Mapping[str, Any] = MappingProxyType({})


AS_KAFKA: Mapping[str, bool] = {}
ROLL, FORCE = {"roll": True}, {"force": True}
YOUNG = {"min_compaction_lag_ms": HOUR_MS}
NEVER = {"min_cleanable_dirty_ratio": 1.0}
OVERDUE = {**NEVER, "max_compaction_lag_ms": 1}

CASES = {
    "closed segments": Case(closed, AS_KAFKA, 1, [2, 3, 4], "active_segment"),
    "closed segments, rolled": Case(closed, ROLL, 1, [3, 4], "all_clean", True),
    "closed segments, forced": Case(closed, FORCE, 1, [3, 4], "all_clean", True),
    "all in the active segment": Case(active, AS_KAFKA, 0, [0, 1, 2, 3], "active_segment"),
    "all in the active segment, rolled": Case(active, ROLL, 1, [2, 3], "all_clean", True),
    "all in the active segment, forced": Case(active, FORCE, 1, [2, 3], "all_clean", True),
    "young": Case(closed, AS_KAFKA, 0, [0, 1, 2, 3, 4], "min_compaction_lag", configs=YOUNG),
    "young, rolled": Case(closed, ROLL, 0, [0, 1, 2, 3, 4], "min_compaction_lag", True, YOUNG),
    "young, forced": Case(closed, FORCE, 1, [3, 4], "all_clean", True, YOUNG),
    "never dirty enough": Case(closed, AS_KAFKA, 0, [0, 1, 2, 3, 4], "below_min_ratio", configs=NEVER),
    "never dirty enough, forced": Case(closed, FORCE, 1, [3, 4], "all_clean", True, NEVER),
    "undecided": Case(undecided, AS_KAFKA, 1, [1, 2, 3], "open_transaction"),
    "undecided, forced": Case(undecided, FORCE, 1, [1, 2, 3], "open_transaction"),
    "undecided and young, forced": Case(undecided, FORCE, 1, [1, 2, 3], "open_transaction", configs=YOUNG),
    "empty": Case(nothing, AS_KAFKA, 0, [], "all_clean"),
    "empty, forced": Case(nothing, FORCE, 0, [], "all_clean"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_call_has_the_specified_effect_on_each_log(case: Case, tmp_path: Path) -> None:
    async with resting(tmp_path, topic=case.configs) as (served, log):
        case.state(log)
        before = log.log_end_offset
        done = one(await compact(served.broker, "t", None, **case.call))
        assert offsets(log) == case.left
        assert (done.passes, done.waits_for, done.has_rolled) == (case.passes, case.waits_for, case.has_rolled)
        assert done.explanation
        assert done.records_read - done.records_written == done.records_removed.total == before - len(case.left)
        assert (done.log_start_offset, done.log_end_offset) == (0, before)
        assert done.first_dirty_offset_before == 0 <= done.first_dirty_offset <= before

        again = one(await compact(served.broker, "t", None, **case.call))
        assert (again.passes, again.has_rolled) == (0, False)
        assert offsets(log) == case.left
        assert again.waits_for == case.waits_for


async def test_a_log_beyond_the_maximum_lag_is_due_at_any_ratio(tmp_path: Path) -> None:
    async with resting(tmp_path, topic=OVERDUE) as (served, log):
        closed(log)
        assert one(await compact(served.broker, "t")).passes == 0
        served.broker.clock.advance(2)
        assert one(await compact(served.broker, "t")).passes == 1


async def test_the_ratio_includes_recently_cleaned_bytes(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        hardly_dirty(log)
        assert one(await compact(served.broker, "t")).passes == 1
        write(log, "abc", roll=True)
        below = one(await compact(served.broker, "t"))
        assert (below.passes, below.waits_for) == (0, "below_min_ratio")
        forced = one(await compact(served.broker, "t", force=True))
        assert forced.records_removed.superseded == 3
        assert (forced.first_dirty_offset_before, forced.first_dirty_offset) == (7, 10)


async def test_all_partitions_are_compacted_unless_some_are_named(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        await served.ask(create_topic, "many", 3, cleanup_policy="compact")
        for number in range(3):
            write(log_of(served.broker, "many", number), "aa")
        some = await compact(served.broker, "many", [2, 0, 2], force=True)
        assert [(row.partition, row.passes) for row in some.partitions] == [(0, 1), (2, 1)]
        all_of_them = await compact(served.broker, "many", force=True)
        assert [(row.partition, row.passes) for row in all_of_them.partitions] == [(0, 0), (1, 1), (2, 0)]


# Tombstones


async def test_a_forced_pass_removes_tombstones_at_their_horizon_without_earlier_copies(tmp_path: Path) -> None:
    async with resting(tmp_path, topic={"delete_retention_ms": DAY_MS}) as (served, log):
        write(log, "a")
        append(log, ("a", None), ("b", "1"), timestamp=START_MS)
        assert one(await compact(served.broker, "t", force=True)).records_removed.superseded == 1
        assert offsets(log) == [1, 2]
        await advance(served.broker, DAY_MS - 1)
        early = one(await compact(served.broker, "t", force=True))
        assert (early.passes, early.bytes_read, early.waits_for) == (0, 0, "all_clean")
        await advance(served.broker, 1)
        assert one(await compact(served.broker, "t")).passes == 0, "no round of Kafka's would clean a clean log"
        at_last = one(await compact(served.broker, "t", force=True))
        assert (at_last.passes, at_last.records_removed.tombstones) == (1, 1)
        assert offsets(log) == [2]
        assert one(await compact(served.broker, "t", force=True)).passes == 0


# As in Kafka


async def test_a_pass_on_demand_leaves_the_same_bytes_as_a_round(tmp_path: Path) -> None:
    left = {}
    for asked in (True, False):
        async with resting(tmp_path / str(asked)) as (served, log):
            write(log, "abcabcaabb", roll=True)
            write(log, "cc")
            if asked:
                await compact(served.broker, "t")
            else:
                await a_round(served.broker)
            left[asked] = (
                [(segment.base_offset, segment.size_bytes) for segment in log.segments],
                [bytes(each.view) for each in all_batches(log)],
            )
    assert left[True] == left[False]
    assert len(left[True][1]) == 5


@pytest.mark.parametrize("seed", range(size(3, 15)))
async def test_force_never_cleans_beyond_the_last_stable_offset(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    async with resting(tmp_path, topic=YOUNG) as (served, log):
        producers = [Producer(log, number, transactional=True, now_ms=START_MS) for number in (7, 8, 9)]
        opened: set[int] = set()
        for _ in range(25):
            producer = rng.choice(producers)
            if producer.producer_id in opened and rng.random() < 0.5:
                rng.choice((producer.commit, producer.abort))()
                opened.remove(producer.producer_id)
            else:
                producer.write(rng.choice("abc"))
                opened.add(producer.producer_id)
            if rng.random() < 0.3:
                log.roll(START_MS)
            if rng.random() < 0.2:
                stable, before = log.last_stable_offset, contents(log)
                done = one(await compact(served.broker, "t", force=True))
                assert done.first_dirty_offset <= stable, seed
                assert [row for row in contents(log) if row[0] >= stable] == [row for row in before if row[0] >= stable]


# Refusals


async def not_compacted(served: Served, log: Log) -> None:
    await set_topic_configs(served.broker, "t", {"cleanup.policy": "delete"})


async def offline(served: Served, log: Log) -> None:
    log.give_up("the disk is gone")


async def leased(served: Served, log: Log) -> None:
    await served.broker.leases.pause(T_0, HOUR_MS)


async def marked(served: Served, log: Log) -> None:
    served.broker.services.cleaning.manager.mark_uncleanable(T_0, "bad varint")


async def without_memory(served: Served, log: Log) -> None:
    for thread in served.broker.services.cleaning.threads:
        thread.is_dead = True


async def stopping(served: Served, log: Log) -> None:
    served.broker.services.cleaning.stop()


async def set_broker_option(broker: Broker, name: str, value: str) -> None:
    async with broker.services.cluster.change_lock:
        await broker.services.config_changes.alter_broker(CLUSTER_DEFAULT, {name: value})


REFUSALS: dict[str, tuple[Callable[[Served, Log], Any], Kind, str]] = {
    "another policy": (not_compacted, Kind.CONFLICT, "cleanup.policy is delete; set cleanup.policy=compact on topic t"),
    "offline": (offline, Kind.UNAVAILABLE, "t-0 is offline: the disk is gone"),
    "leased": (leased, Kind.CONFLICT, "t-0 is leased to an external compaction until"),
    "marked": (marked, Kind.CONFLICT, "a pass failed (bad varint)"),
    "stopping": (stopping, Kind.UNAVAILABLE, "the broker is stopping"),
    "no cleaner": (without_memory, Kind.UNAVAILABLE, "all cleaner threads have ended"),
}


@pytest.mark.parametrize(("spoil", "kind", "says"), REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize("call", [AS_KAFKA, ROLL, FORCE], ids=["as Kafka", "roll", "force"])
async def test_an_uncleanable_log_is_reported_in_one_line_and_unchanged(
    spoil: Callable[[Served, Log], Any], kind: Kind, says: str, call: Mapping[str, bool], tmp_path: Path
) -> None:
    async with resting(tmp_path) as (served, log):
        active(log)
        await spoil(served, log)
        with pytest.raises(ControlError) as refused:
            await compact(served.broker, "t", None, **call)
        assert refused.value.kind is kind
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
        if says != "t-0 is leased to an external compaction until":  # a lease does not keep a log from rolling
            assert len(log.segments) == 1


WRONG: dict[str, tuple[dict[str, Any], Kind, str]] = {
    "no such topic": ({"topic": "tt"}, Kind.NOT_FOUND, "topic 'tt' not found; did you mean 't'?"),
    "nothing like it": ({"topic": "orders"}, Kind.NOT_FOUND, "topic 'orders' not found"),
    "no name": ({"topic": 5}, Kind.INVALID, "topic: expected a name, found 5"),
    "no such partition": (
        {"partitions": [0, 1]},
        Kind.NOT_FOUND,
        "partition 1 of topic t not found; it has only partition 0",
    ),
    "below all": ({"partitions": [-1]}, Kind.NOT_FOUND, "partition -1 of topic t not found"),
    "no numbers": ({"partitions": "0"}, Kind.INVALID, "partitions: expected numbers, found '0'"),
    "one number": ({"partitions": 0}, Kind.INVALID, "partitions: expected numbers, found 0"),
    "none": ({"partitions": []}, Kind.INVALID, "partitions: expected numbers, found []"),
}


@pytest.mark.parametrize(("arguments", "kind", "says"), WRONG.values(), ids=WRONG.keys())
async def test_wrong_arguments_are_refused(arguments: dict[str, Any], kind: Kind, says: str, tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        with pytest.raises(ControlError) as refused:
            await compact(served.broker, **{"topic": "t", **arguments})
        assert (refused.value.kind, says in str(refused.value)) == (kind, True), str(refused.value)


async def test_a_disabled_cleaner_is_reported(tmp_path: Path) -> None:
    async with resting(tmp_path, options={"log_cleaner_enable": "false"}) as (served, log):
        active(log)
        with pytest.raises(ControlError, match=r"log\.cleaner\.enable is false"):
            await compact(served.broker, "t", force=True)


async def test_a_pass_refused_by_the_disk_is_reported_and_retried_later(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with resting(tmp_path, files) as (served, log):
        closed(log)
        files.trouble = full(".cleaned")
        with pytest.raises(ControlError, match="No space left") as refused:
            await compact(served.broker, "t")
        assert refused.value.kind is Kind.UNAVAILABLE
        files.trouble = lambda operation, path: None
        assert one(await compact(served.broker, "t")).passes == 1


async def test_an_unexpected_error_ends_the_call_and_not_the_cleaner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resting(tmp_path) as (served, log):
        closed(log)
        manager = served.broker.services.cleaning.manager
        with monkeypatch.context() as patch:
            patch.setattr(log.producers, "last_records_in_pieces", lambda: 1 // 0, raising=False)
            with pytest.raises(ControlError, match=r"t-0 cannot be cleaned: .*zero") as refused:
                await compact(served.broker, "t")
            assert refused.value.kind is Kind.UNAVAILABLE
        assert not manager.is_held(T_0)
        assert one(await compact(served.broker, "t")).passes == 1


async def test_a_damaged_log_is_reported_and_later_skipped(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        closed(log)
        path = tmp_path / "t-0" / f"{0:020}.log"
        damaged = bytearray(path.read_bytes())
        damaged[16] = 1  # magic
        path.write_bytes(damaged)
        for _ in range(2):
            with pytest.raises(ControlError, match="t-0 is marked uncleanable because a pass failed") as refused:
                await compact(served.broker, "t", force=True)
            assert refused.value.kind is Kind.CONFLICT


# With other operations


async def in_a_pass(served: Served, files: GatedFiles, log: Log) -> None:
    """Start a pass of the cleaner's own, which waits until the test lets it continue."""
    closed(log)
    served.broker.services.cleaning.look_again()
    await files.reached()


async def test_a_running_pass_is_waited_for_and_counts(tmp_path: Path) -> None:
    files, done = GatedFiles(), []
    async with resting(tmp_path, files) as (served, log):
        await in_a_pass(served, files, log)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                done.append(one(await compact(served.broker, "t")))

            for _ in range(2):
                nursery.start_soon(call)
            await trio.sleep(0.01)
            assert not done
            files.let_on()
        assert [(each.passes, each.first_dirty_offset) for each in done] == [(1, 4), (1, 4)]


async def test_two_callers_share_a_pass(tmp_path: Path) -> None:
    done = []
    async with resting(tmp_path) as (served, log):
        active(log)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                done.append(one(await compact(served.broker, "t", force=True)))

            for _ in range(5):
                nursery.start_soon(call)
        assert offsets(log) == [2, 3]
        assert sum(each.stats.records_read for each in [last_pass(served)]) == 4
        assert all(each.first_dirty_offset == 4 for each in done)


def last_pass(served: Served) -> Any:
    status = served.broker.cleaner_status([T_0])[T_0]
    assert status.passes == 1
    return status.last_pass


async def delete_topic(served: Served) -> None:
    topic = served.broker.services.topics.get("t")
    assert topic is not None
    await served.broker.services.topic_admin.delete(topic)


async def change_policy(served: Served) -> None:
    await set_topic_configs(served.broker, "t", {"cleanup.policy": "delete"})


async def stop(served: Served) -> None:
    served.broker.services.cleaning.stop()


INTERRUPTIONS: dict[str, tuple[Callable[[Served], Any], Kind, str]] = {
    "deleted": (delete_topic, Kind.CONFLICT, "t-0 was deleted"),
    "another policy": (change_policy, Kind.CONFLICT, "cleanup.policy is delete"),
    "stopped": (stop, Kind.UNAVAILABLE, "the broker is stopping"),
}


@pytest.mark.parametrize(("interrupt", "kind", "says"), INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
@pytest.mark.parametrize("own", [True, False], ids=["in the cleaner's own pass", "in the pass asked for"])
async def test_a_call_ends_when_its_log_is_deleted_or_the_cleaner_stops(
    interrupt: Callable[[Served], Any], kind: Kind, says: str, own: bool, tmp_path: Path
) -> None:
    files, refused = GatedFiles(), []

    async def call(served: Served) -> None:
        with pytest.raises(ControlError) as caught:
            await compact(served.broker, "t", force=True)
        refused.append(caught.value)

    async with resting(tmp_path, files) as (served, log), trio.open_nursery() as nursery:
        if own:
            await in_a_pass(served, files, log)
        else:
            closed(log)
        nursery.start_soon(call, served)
        await files.reached()
        nursery.start_soon(interrupt, served)
        await trio.sleep(0.01)
        files.let_on()
    (error,) = refused
    assert (error.kind, says in str(error)) == (kind, True), str(error)


async def test_changed_cleaner_options_restart_the_pass(tmp_path: Path) -> None:
    files, done = GatedFiles(), []
    async with resting(tmp_path, files) as (served, log), trio.open_nursery() as nursery:
        closed(log)

        async def call() -> None:
            done.append(one(await compact(served.broker, "t")))

        nursery.start_soon(call)
        await files.reached()
        await set_broker_option(served.broker, "log.cleaner.threads", "2")
        files.let_on()
    assert [(each.passes, each.first_dirty_offset) for each in done] == [(1, 4)]


async def test_a_cancelled_call_continues_a_started_pass_and_drops_a_queued_one(tmp_path: Path) -> None:
    files = GatedFiles()
    async with resting(tmp_path, files) as (served, log):
        await served.ask(create_topic, "other", cleanup_policy="compact")
        other = log_of(served.broker, "other")
        write(other, "aa", roll=True)
        closed(log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact, served.broker, "t")
            await files.reached()
            nursery.start_soon(compact, served.broker, "other")
            await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        files.let_on()
        await served.broker.clock.at_rest()
        assert offsets(log) == [2, 3, 4]
        assert offsets(other) == [0, 1] or served.broker.cleaner_status()[other.topic_partition].passes == 1


async def test_a_call_wakes_a_cleaner_waiting_on_a_frozen_clock(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        served.broker.clock.freeze()
        active(log)
        await first_round(served.broker)
        assert one(await compact(served.broker, "t", force=True)).passes == 1


async def test_a_queued_request_is_returned_when_the_last_thread_dies(tmp_path: Path) -> None:
    dying = {"log_cleaner_io_buffer_load_factor": "0.0"}
    async with resting(tmp_path, topic={"partitions": 2}, options=dying) as (served, log):
        broker = served.broker
        closed(log)
        broker.services.cleaning.look_again()
        while not broker.services.cleaning.manager.is_held(T_0):
            await trio.lowlevel.checkpoint()
        with pytest.raises(ControlError, match="all cleaner threads have ended"):
            await compact(broker, "t", [1])


async def test_a_queued_dry_run_holds_no_partition(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        closed(log)
        cleaning = served.broker.services.cleaning
        async with trio.open_nursery() as nursery, cleaning.dry_running:
            nursery.start_soon(dry_run, served.broker, "t")
            await idle()
            assert not cleaning.manager.is_held(T_0)
        assert not cleaning.manager.is_held(T_0)
