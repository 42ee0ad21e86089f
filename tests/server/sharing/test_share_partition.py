"""A share partition, case by case. The random histories, which a model checks, cover the rest."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.sharing.acknowledging import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    acknowledge,
)
from ottla.server.sharing.acquiring import Acquired, AcquireRequest, OffsetRange, acquire
from ottla.server.sharing.in_flight import State
from ottla.server.sharing.share_partition import ShareLimits, SharePartition, Update
from ottla.server.sharing.state_batches import ShareStateBatch
from support.noted import each_case

ALL = 10_000
LOCK_MS = 30_000
ANY = AcquireRequest("a", max_records=500, batch_size=500)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = State.AVAILABLE, State.ACKNOWLEDGED, State.ARCHIVED


def with_records(
    *batches: tuple[int, int], limits: ShareLimits | None = None, wish: AcquireRequest = ANY
) -> SharePartition:
    """Return a partition of which these batches are acquired, one by one."""
    partition = SharePartition(batches[0][0], limits or ShareLimits())
    for batch in batches:
        assert take(partition, *batch, wish=wish)
    return partition


def take(
    partition: SharePartition, first: int, last: int, *, wish: AcquireRequest = ANY, now_ms: int = 0
) -> list[Acquired]:
    """Acquire from a log with one batch."""
    return acquire(partition, wish, partition.next_fetch_offset(), [OffsetRange(first, last)], now_ms)


def say(
    partition: SharePartition, *said: tuple[int, int, tuple[int, ...]], member: str = "a", now_ms: int = 0
) -> Update:
    """Acknowledge, and apply the update."""
    update = acknowledge(partition, member, [Acknowledgement(*one) for one in said], now_ms, ALL)[0]
    partition.apply(update)
    return update


def runs(partition: SharePartition) -> list[tuple[int, int, State, int]]:
    return [run[:4] for batch in partition.in_flight for run in batch.runs]


def test_accepting_everything_moves_the_start_after_it() -> None:
    partition = with_records((0, 9))
    update = say(partition, (0, 9, (ACCEPT,)))
    assert update.state_batches == [ShareStateBatch(0, 9, ACKNOWLEDGED, 1)]
    assert (update.start_offset, update.delivery_complete_count) == (0, 10), "where it was when it was written"
    assert (partition.start_offset, partition.end_offset, partition.in_flight_count) == (10, 10, 0)
    assert partition.next_fetch_offset() == 10


def test_records_have_individual_states() -> None:
    partition = with_records((0, 5))
    update = say(partition, (0, 5, (ACCEPT, ACCEPT, RELEASE, REJECT, GAP, RENEW)), now_ms=7)
    assert update.state_batches == [
        ShareStateBatch(0, 1, ACKNOWLEDGED, 1),
        ShareStateBatch(2, 2, AVAILABLE, 1),
        ShareStateBatch(3, 4, ARCHIVED, 1),
    ]
    assert runs(partition) == [(2, 2, AVAILABLE, 1), (3, 4, ARCHIVED, 1), (5, 5, State.ACQUIRED, 1)]
    assert partition.start_offset == 2 and partition.in_flight.ended == 2
    assert take(partition, 0, 5) == [Acquired(2, 2, 2)]


REFUSED: dict[str, tuple[list[Acknowledgement], ErrorCode]] = {
    "an unknown type": ([Acknowledgement(10, 12, (5,))], ErrorCode.INVALID_REQUEST),
    "a type below": ([Acknowledgement(10, 12, (-1,))], ErrorCode.INVALID_REQUEST),
    "no type": ([Acknowledgement(10, 12, ())], ErrorCode.INVALID_REQUEST),
    "too few types": ([Acknowledgement(10, 12, (1, 1))], ErrorCode.INVALID_REQUEST),
    "the end before the beginning": ([Acknowledgement(12, 10, (1,))], ErrorCode.INVALID_REQUEST),
    "the same twice": ([Acknowledgement(10, 12, (1,)), Acknowledgement(12, 13, (1,))], ErrorCode.INVALID_RECORD_STATE),
    "the same twice, and past the end": (
        [Acknowledgement(10, 12, (1,)), Acknowledgement(12, 40, (1,))],
        ErrorCode.INVALID_REQUEST,
    ),
    "two that share more than an offset": (
        [Acknowledgement(10, 12, (1,)), Acknowledgement(11, 13, (1,))],
        ErrorCode.INVALID_REQUEST,
    ),
    "out of order": ([Acknowledgement(12, 13, (1,)), Acknowledgement(10, 11, (1,))], ErrorCode.INVALID_REQUEST),
    "behind the end": ([Acknowledgement(10, 40, (1,))], ErrorCode.INVALID_REQUEST),
    "far behind the end": ([Acknowledgement(40, 50, (1,))], ErrorCode.INVALID_REQUEST),
    "what another has": ([Acknowledgement(20, 22, (1,))], ErrorCode.INVALID_RECORD_STATE),
    "what another has, in part": ([Acknowledgement(18, 22, (1,))], ErrorCode.INVALID_RECORD_STATE),
    "what was acknowledged": ([Acknowledgement(15, 16, (1,))], ErrorCode.INVALID_RECORD_STATE),
    "a renewal that is not allowed": ([Acknowledgement(10, 12, (4,))], ErrorCode.INVALID_RECORD_STATE),
    "the second of two": (
        [Acknowledgement(10, 12, (1,)), Acknowledgement(20, 20, (1,))],
        ErrorCode.INVALID_RECORD_STATE,
    ),
}


@each_case("said, code", REFUSED.values(), ids=REFUSED)
def test_an_invalid_acknowledgement_changes_nothing(said: list[Acknowledgement], code: ErrorCode) -> None:
    partition = with_records((10, 19), limits=ShareLimits(renews=False))
    take(partition, 20, 29, wish=AcquireRequest("b", 500, 500))
    say(partition, (15, 16, (ACCEPT,)))
    before = runs(partition)
    with pytest.raises(KafkaError) as refused:
        acknowledge(partition, "a", said, 0, ALL)
    assert refused.value.code is code
    assert runs(partition) == before and partition.start_offset == 10


def test_acknowledging_before_the_first_record_in_flight_has_no_effect() -> None:
    partition = SharePartition(10, ShareLimits())
    with pytest.raises(KafkaError) as refused:
        acknowledge(partition, "a", [Acknowledgement(12, 12, (ACCEPT,))], 0, ALL)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert acknowledge(partition, "a", [Acknowledgement(0, 9, (ACCEPT,))], 0, ALL)[0].changes == [], "they are over"


def test_renewed_records_may_be_acknowledged_in_the_next_batch() -> None:
    partition = with_records((0, 9))
    said = [Acknowledgement(0, 2, (RENEW,)), Acknowledgement(2, 3, (ACCEPT,)), Acknowledgement(5, 5, (RENEW,))]
    partition.apply(acknowledge(partition, "a", [*said, Acknowledgement(5, 5, (REJECT,))], 7, ALL)[0])
    assert [run for run in runs(partition) if run[2] is not State.ACQUIRED] == [
        (2, 3, ACKNOWLEDGED, 1),
        (5, 5, ARCHIVED, 1),
    ]


def test_offset_minus_one_is_finished_like_any_before_the_start() -> None:
    partition = with_records((0, 9))
    assert acknowledge(partition, "a", [Acknowledgement(-1, 1, (ACCEPT,))], 0, ALL)[0].state_batches == [
        ShareStateBatch(0, 1, ACKNOWLEDGED, 1)
    ]


def test_an_update_that_was_not_written_has_no_effect() -> None:
    partition = with_records((0, 9))
    acknowledge(partition, "a", [Acknowledgement(0, 9, (ACCEPT,))], 0, ALL)
    assert runs(partition) == [(0, 9, State.ACQUIRED, 1)]
    assert say(partition, (0, 9, (ACCEPT,))).state_batches


def test_an_expired_lock_releases_records_and_the_last_delivery_archives_them() -> None:
    partition = with_records((0, 9), limits=ShareLimits(deliveries=2))
    assert partition.expire(LOCK_MS - 1).changes == []
    update = partition.expire(LOCK_MS)
    assert update.state_batches == [ShareStateBatch(0, 9, AVAILABLE, 1)]
    assert partition.apply(update), "those who wait may have them"
    assert take(partition, 0, 9, now_ms=LOCK_MS) == [Acquired(0, 9, 2)]
    update = partition.expire(2 * LOCK_MS)
    assert update.state_batches == [ShareStateBatch(0, 9, ARCHIVED, 2)]
    assert partition.apply(update)
    assert partition.start_offset == 10 and partition.next_expiry_ms() is None


def in_pieces(partition: SharePartition, what: str, most: int) -> set[tuple[int, int, int]]:
    """Return offset, state and count of all that was written."""
    written: set[tuple[int, int, int]] = set()
    rest = [Acknowledgement(2, 25, (ACCEPT,)), Acknowledgement(27, 29, (ACCEPT, RELEASE, REJECT))]
    while True:
        if what == "acknowledged":
            update, rest = acknowledge(partition, "a", rest, 0, most)
        else:
            update = partition.release("a", most) if what == "released" else partition.expire(LOCK_MS, most)
            rest = [] if len(update.changes) < most else rest
        assert len(update.changes) <= most
        partition.apply(update)
        for first, last, state, count in update.state_batches:
            written |= {(offset, state, count) for offset in range(first, last + 1)}
        if not rest:
            return written


@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("what", ["acknowledged", "released", "over"])
def test_changes_of_many_runs_in_pieces_give_the_same_result(what: str, most: int) -> None:
    def found(most: int) -> object:
        partition = SharePartition(0, ShareLimits())
        for offset in range(30):
            take(partition, offset, offset)
            if offset % 2 and what != "acknowledged":
                say(partition, (offset, offset, (ACCEPT,)))
        assert len(runs(partition)) == 30
        written = in_pieces(partition, what, most)
        return runs(partition), partition.start_offset, written, partition.in_flight.ended

    assert found(most) == found(1_000)


def test_a_renewed_lock_expires_later() -> None:
    partition = with_records((0, 9))
    assert say(partition, (0, 4, (RENEW,)), now_ms=100).state_batches == [], "nothing to write"
    partition.apply(partition.expire(LOCK_MS))
    assert runs(partition) == [(0, 4, State.ACQUIRED, 1), (5, 9, AVAILABLE, 1)]
    assert partition.next_expiry_ms() == LOCK_MS + 100


def test_released_locks_are_forgotten_in_time() -> None:
    partition = SharePartition(0, ShareLimits())
    for offset in range(10_000):
        take(partition, offset, offset, now_ms=offset % 7)
        say(partition, (offset, offset, (ACCEPT,)))
    take(partition, 10_000, 10_000)
    assert len(partition._locks) < 100
    partition.apply(partition.expire(LOCK_MS))
    assert runs(partition) == [(10_000, 10_000, AVAILABLE, 1)]


def test_repeatedly_delivered_records_come_in_shrinking_numbers() -> None:
    partition = with_records((0, 15))
    given = []
    for _ in range(8):
        partition.apply(partition.release("a"))
        given.append(take(partition, 0, 15))
    assert given[:2] == [[Acquired(0, 15, 2)], [Acquired(0, 15, 3)]]
    assert given[2] == [Acquired(0, 7, 4)], "the half"
    assert given[3] == [Acquired(0, 0, 5)], "alone"
    assert given[4:6] == [[Acquired(1, 1, 5)], [Acquired(2, 2, 5)]]


def test_a_batch_is_delivered_whole_except_under_a_record_limit() -> None:
    log = [OffsetRange(0, 9), OffsetRange(10, 19)]
    whole = SharePartition(0, ShareLimits())
    assert acquire(whole, AcquireRequest("a", 3, 500), 0, log, 0) == [Acquired(0, 9, 1)]
    exact = SharePartition(0, ShareLimits())
    assert acquire(exact, AcquireRequest("a", 3, 500, is_record_limit=True), 0, log, 0) == [Acquired(0, 2, 1)]
    assert exact.next_fetch_offset() == 3
    assert acquire(exact, AcquireRequest("b", 3, 500, is_record_limit=True), 3, log, 0) == [Acquired(3, 5, 1)]


def test_large_fetches_are_counted_in_batches_of_the_log() -> None:
    log = [OffsetRange(first, first + 9) for first in range(0, 60, 10)]
    partition = SharePartition(0, ShareLimits())
    wish = AcquireRequest("a", max_records=500, batch_size=15)
    assert acquire(partition, wish, 0, log, 0) == [Acquired(0, 19, 1), Acquired(20, 39, 1), Acquired(40, 59, 1)]


def test_without_room_only_released_records_are_delivered() -> None:
    partition = with_records((0, 9), (10, 19), limits=ShareLimits(in_flight=20))
    assert not partition.has_room()
    assert take(partition, 20, 29) == []
    say(partition, (10, 14, (RELEASE,)))
    assert partition.has_room() and partition.next_fetch_offset() == 10
    assert take(partition, 10, 29) == [Acquired(10, 14, 2)]


def test_aborted_records_are_archived_and_not_delivered() -> None:
    partition = SharePartition(0, ShareLimits())
    log = [OffsetRange(0, 4), OffsetRange(5, 9), OffsetRange(10, 14)]
    assert acquire(partition, ANY, 0, log, 0, aborted=[log[1]]) == [Acquired(0, 4, 1), Acquired(10, 14, 1)]
    assert runs(partition)[1] == (5, 9, ARCHIVED, 1)
    assert say(partition, (0, 4, (ACCEPT,))).start_offset == 0
    assert partition.start_offset == 10


def test_available_records_that_were_compacted_are_finished() -> None:
    partition = with_records((0, 9), (10, 19))
    say(partition, (0, 9, (RELEASE,)))
    assert partition.next_fetch_offset() == 0
    updates: list[Update] = []

    def carry_out(update: Update) -> None:
        updates.append(update)
        partition.apply(update)

    log = [OffsetRange(10, 19), OffsetRange(20, 24)]
    assert acquire(partition, ANY, 0, log, 0, carry_out=carry_out) == [Acquired(20, 24, 1)]
    assert [update.state_batches for update in updates] == [[ShareStateBatch(0, 9, ARCHIVED, 1)]]
    assert partition.start_offset == 10


def test_a_later_log_start_finishes_earlier_records() -> None:
    partition = with_records((0, 9), (10, 19))
    say(partition, (0, 12, (ACCEPT,)), (14, 14, (ACCEPT,)))
    partition.log_starts_at(14)
    assert (partition.start_offset, partition.end_offset, partition.in_flight.ended) == (14, 19, 1)
    say(partition, (10, 13, (ACCEPT,)))  # without effect, but not an error
    partition.log_starts_at(40)
    assert (partition.start_offset, partition.end_offset, partition.in_flight_count) == (40, 40, 0)


def test_a_new_leader_offers_acquired_records_again() -> None:
    states = [ShareStateBatch(2, 3, ACKNOWLEDGED, 1), ShareStateBatch(6, 7, AVAILABLE, 2)]
    partition = SharePartition(0, ShareLimits(), state_batches=states)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (0, 7, 0)
    log = [OffsetRange(0, 9)]
    assert acquire(partition, ANY, 0, log, 0) == [
        Acquired(0, 1, 1),
        Acquired(4, 5, 1),
        Acquired(6, 7, 3),
        Acquired(8, 9, 1),
    ]
    say(partition, (0, 1, (ACCEPT,)), (4, 9, (ACCEPT,)))
    assert partition.start_offset == 10


def test_a_released_record_before_the_gap_does_not_move_it() -> None:
    states = [
        ShareStateBatch(0, 1, AVAILABLE, 1),
        ShareStateBatch(4, 5, AVAILABLE, 1),
        ShareStateBatch(9, 9, AVAILABLE, 1),
    ]
    partition = SharePartition(0, ShareLimits(), state_batches=states)
    assert partition.gap_start == 2
    assert take(partition, 0, 1) == [Acquired(0, 1, 2)]
    assert take(partition, 4, 5) == [Acquired(4, 5, 2)]
    assert partition.gap_start == 6, "the log has nothing from 2 to 3"
    say(partition, (0, 1, (RELEASE,)))
    assert take(partition, 0, 1) == [Acquired(0, 1, 3)]
    assert (partition.gap_start, partition.next_fetch_offset()) == (6, 6)
    say(partition, (0, 1, (ACCEPT,)), (4, 5, (ACCEPT,)))
    assert partition.start_offset == 6


BROKEN = {
    "before the start": [ShareStateBatch(3, 4, AVAILABLE, 1)],
    "back to front": [ShareStateBatch(9, 8, AVAILABLE, 1)],
    "one over the other": [ShareStateBatch(5, 9, AVAILABLE, 1), ShareStateBatch(9, 10, AVAILABLE, 1)],
    "acquired": [ShareStateBatch(5, 9, 1, 1)],
    "an unknown state": [ShareStateBatch(5, 9, 5, 1)],
    "delivery count or offset at its maximum": [ShareStateBatch(5, 9, AVAILABLE, 2**15 - 1)],
    "no room for another record": [ShareStateBatch(5, 2**63 - 1, AVAILABLE, 1)],
    "more that are over than can be counted": [ShareStateBatch(6, 2**31 + 6, 4, 1)],
}


@pytest.mark.parametrize("states", BROKEN.values(), ids=BROKEN)
def test_an_impossible_state_is_refused(states: list[ShareStateBatch]) -> None:
    with pytest.raises(ValueError):
        SharePartition(5, ShareLimits(), state_batches=states)


def test_ten_million_offsets_cost_as_much_as_those_in_flight() -> None:
    partition = with_records(
        (0, 9_999_999), limits=ShareLimits(in_flight=20_000_000), wish=AcquireRequest("a", 20_000_000, 20_000_000)
    )
    tracemalloc.start()
    try:
        update = say(partition, (0, 9_999_998, (ACCEPT,)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert update.state_batches == [ShareStateBatch(0, 9_999_998, ACKNOWLEDGED, 1)]
    assert partition.start_offset == 9_999_999
    assert peak < 20_000


def test_a_million_records_in_whole_batches_need_little_memory() -> None:
    tracemalloc.start()
    try:
        partitions = [SharePartition(0, ShareLimits()) for _ in range(100)]
        for partition in partitions:
            for first in range(0, 10_000, 500):
                partition.limits = ShareLimits(in_flight=10_000)
                take(partition, first, first + 499)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(partition.in_flight_count for partition in partitions) == 1_000_000
    assert kept < 2_000_000
