"""Parked fetches: events that complete them, events that only make them check again, and that they always leave the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import trio
import trio.testing

from ottla.server.partitions.waits import FetchWaits, Waiter, WantedPartition
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.logs.batches import COMMIT, batch
from support.logs.make_log import TP, append, append_marker, make_log
from support.noted import each_case

SIZE = len(batch(("k", "v")))
OTHER = TopicPartition("other", 0)
MANY_BYTES = 1 << 20


def log_of(count: int, partition: TopicPartition = TP, segment_bytes: int = MANY_BYTES) -> Log:
    """Return a log of `count` batches of SIZE."""
    log = make_log(tp=partition, segment_bytes=segment_bytes)
    for _ in range(count):
        append(log, ("k", "v"))
    return log


def wanted(log: Log, offset: int, max_bytes: int = MANY_BYTES, *, committed: bool = False) -> WantedPartition:
    """Return the part of `log` that a fetch from `offset` on finds."""
    end = log.locate(log.last_stable_offset if committed else log.high_watermark)
    return WantedPartition(log, log.fetch(offset, max_bytes=max_bytes, end=end).start, end, max_bytes)


def waiter(waits: FetchWaits, *partitions: WantedPartition, min_bytes: int = 1, committed: bool = False) -> Waiter:
    parked = waits.waiter(min_bytes, committed=committed, is_alone=len(partitions) == 1)
    for partition in partitions:
        parked.watch(partition)
    return parked


@dataclass(frozen=True)
class Case:
    """A fetch of a log of ten batches in segments of four."""

    offset: int
    min_bytes: int
    max_bytes: int
    complete: bool

    def __str__(self) -> str:
        return f"from {self.offset}, min {self.min_bytes}, max {self.max_bytes}"


@each_case(
    "case",
    [
        Case(0, MANY_BYTES, MANY_BYTES, complete=True),  # an older segment
        Case(7, MANY_BYTES, 1, complete=True),
        Case(8, 2 * SIZE, MANY_BYTES, complete=True),  # the segment in which the log ends
        Case(8, 2 * SIZE + 1, MANY_BYTES, complete=False),
        Case(8, SIZE, SIZE, complete=True),
        Case(8, SIZE + 1, SIZE, complete=False),  # data that a fetch may not take does not count
        Case(8, SIZE + 1, SIZE + 1, complete=True),  # a part of a batch does
        Case(9, SIZE, MANY_BYTES, complete=True),
        Case(9, SIZE + 1, MANY_BYTES, complete=False),
        Case(10, 1, MANY_BYTES, complete=False),  # the end
        Case(10, 0, MANY_BYTES, complete=True),
    ],
)
def test_available_bytes_complete_a_fetch_by_apache_kafkas_rule(case: Case) -> None:
    log = log_of(10, segment_bytes=4 * SIZE)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]
    found = waiter(FetchWaits(), wanted(log, case.offset, case.max_bytes), min_bytes=case.min_bytes)
    assert found.is_complete == case.complete


def test_bytes_of_several_partitions_are_added() -> None:
    one, two = wanted(log_of(2), 0, SIZE), wanted(log_of(5, OTHER), 2)
    assert waiter(FetchWaits(), one, two, min_bytes=4 * SIZE).is_complete
    assert not waiter(FetchWaits(), one, two, min_bytes=4 * SIZE + 1).is_complete


def test_a_fetch_is_complete_when_all_missing_bytes_have_arrived() -> None:
    waits, one, two = FetchWaits(), log_of(1), log_of(1, OTHER)
    with waiter(waits, wanted(one, 1), wanted(two, 0), min_bytes=3 * SIZE) as parked:
        for log, complete in [(one, False), (two, True)]:
            append(log, ("k", "v"))
            waits.notify_moved(log)
            assert parked.is_complete == complete


def test_bytes_beyond_a_partitions_limit_must_come_from_another() -> None:
    waits, small, large = FetchWaits(), log_of(0), log_of(0, OTHER)
    with waiter(waits, wanted(small, 0, max_bytes=SIZE), wanted(large, 0), min_bytes=2 * SIZE) as parked:
        for log, complete in [(small, False), (small, False), (small, False), (large, True)]:
            append(log, ("k", "v"))
            waits.notify_moved(log)
            assert parked.is_complete == complete


def test_a_roll_completes_a_fetch_with_the_next_record() -> None:
    """The segment where the fetch waits can receive nothing more."""
    waits, log = FetchWaits(), log_of(1)
    with waiter(waits, wanted(log, 1), min_bytes=MANY_BYTES) as parked:
        log.roll(now_ms=1_000)
        waits.notify_moved(log)
        assert not parked.is_complete
        append(log, ("k", "v"))
        waits.notify_moved(log)
        assert parked.is_complete


def test_an_earlier_waiter_hears_of_an_append_that_a_later_saw() -> None:
    """With `flush.messages` the notification comes once the append is on disk."""
    waits, log = FetchWaits(), log_of(1)
    with waiter(waits, wanted(log, 1)) as early:
        append(log, ("k", "v"))
        with waiter(waits, wanted(log, 2)) as late:
            waits.notify_moved(log)
            assert (early.is_complete, late.is_complete) == (True, False)


def in_transaction(log: Log, sequence: int) -> None:
    append(log, ("k", "v"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


def test_an_open_transaction_hides_all_growth_from_readers_of_committed_records() -> None:
    waits, log = FetchWaits(), log_of(1)
    with (
        waiter(waits, wanted(log, 1), min_bytes=3 * SIZE) as everything,
        waiter(waits, wanted(log, 1, committed=True), min_bytes=3 * SIZE, committed=True) as decided,
    ):
        for sequence in range(3):
            in_transaction(log, sequence)
            waits.notify_moved(log)
        assert (everything.is_complete, decided.is_complete) == (True, False)
        append_marker(log, COMMIT, producer_id=7, producer_epoch=0)
        waits.notify_moved(log)
        assert decided.is_complete


def test_a_committed_reader_waits_for_the_last_stable_offset() -> None:
    waits, log = FetchWaits(), log_of(1)
    in_transaction(log, 0)
    append(log, ("k", "v"))
    with waiter(waits, wanted(log, 2, committed=True), committed=True) as parked:
        assert not parked.is_complete
        append_marker(log, COMMIT, producer_id=7, producer_epoch=0)
        waits.notify_moved(log)
        assert parked.is_complete


def changed(waits: FetchWaits, log: Log) -> None:
    waits.changed(log.topic_partition)


def stopped(waits: FetchWaits, _: Log) -> None:
    waits.wake_all()


@pytest.mark.parametrize("event", [changed, stopped])
@pytest.mark.parametrize("committed", [False, True])
async def test_other_events_make_a_fetch_check_again_without_completing_it(
    event: Callable[[FetchWaits, Log], None], committed: bool
) -> None:
    waits, log = FetchWaits(), log_of(1)
    with waiter(waits, wanted(log, 1), committed=committed) as parked:
        waits.changed(OTHER)
        event(waits, log)
        assert await parked.wait(trio.current_time() + 60)
        assert not parked.is_complete


async def test_an_unreadable_end_makes_its_waiters_check_again() -> None:
    """The append has succeeded, and its caller does not learn of the error."""
    waits, log = FetchWaits(), log_of(1)
    for producer_id in (7, 8):
        append(log, ("k", "v"), producer_id=producer_id, transactional=True)
    with waiter(waits, wanted(log, 1, committed=True), committed=True) as parked:
        append_marker(log, COMMIT, producer_id=7, producer_epoch=0)
        log.give_up("the disk is gone")
        waits.notify_moved(log)
        assert await parked.wait(trio.current_time() + 60)
        assert not parked.is_complete


@pytest.mark.parametrize(("in_active", "looks_again"), [(False, True), (True, False)])
async def test_a_waiter_in_a_replaced_segment_checks_again(
    autojump_clock: trio.testing.MockClock, in_active: bool, looks_again: bool
) -> None:
    waits, log = FetchWaits(), log_of(1)
    if in_active:
        log.roll(now_ms=1_000)
    append(log, ("k", "v"), producer_id=7, transactional=True)
    if not in_active:
        log.roll(now_ms=1_000)
    with waiter(waits, wanted(log, 1, committed=True), committed=True) as parked:
        waits.replaced(log)
        assert await parked.wait(trio.current_time() + 0.001) == looks_again


async def test_a_fetch_without_events_ends_after_its_maximum_wait(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    with waiter(FetchWaits(), wanted(log_of(0), 0)) as parked:
        assert not await parked.wait(trio.current_time() + 0.5)
    assert trio.current_time() == start + 0.5


def test_a_departing_waiter_leaves_no_entries() -> None:
    waits, one, two = FetchWaits(), log_of(0), log_of(0, OTHER)
    with waiter(waits, wanted(one, 0), wanted(two, 0)), waiter(waits, wanted(one, 0), committed=True):
        assert len(waits) == 3
    assert len(waits) == 0
    waits.notify_moved(one)
    assert len(waits) == 0
