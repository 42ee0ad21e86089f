"""Passes over logs with transactions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import CorruptRecordError
from ottla.storage.disk import paths
from ottla.storage.filter.transaction_state import PassTransactions
from ottla.storage.logs.log import Log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.segment.index import AbortedTxn
from support.logs.batches import ABORT, COMMIT, batch, marker, read_batches
from support.logs.make_log import (
    DAY_MS,
    Producer,
    all_batches,
    append,
    append_marker,
    clean,
    data_records,
    make_log,
    reopen,
)

NOW_MS = 10 * DAY_MS
LATER_MS = NOW_MS + DAY_MS + 1
"""A time past every delete horizon that a pass at NOW_MS sets."""


def keys(log: Log) -> list[str]:
    return [record.key.decode() for record in data_records(all_batches(log)) if record.key is not None]


def offsets(log: Log) -> list[int]:
    """Return the offsets of all records, including markers."""
    return [record.offset for each in all_batches(log) for record in each.records()]


def batch_ends(log: Log) -> list[int]:
    return [each.last_offset for each in all_batches(log)]


def aborted(log: Log) -> list[tuple[int, int, int]]:
    """Return the entries of the transaction indexes: (producer id, first offset, marker's offset)."""
    return [
        (txn.producer_id, txn.first_offset, txn.last_offset)
        for segment in log.segments
        for txn in segment.txn_index.entries()
    ]


def transactional(log: Log, *producer_ids: int) -> list[Producer]:
    return [Producer(log, producer_id, transactional=True) for producer_id in producer_ids]


def clean_at(log: Log, first_dirty: int, now_ms: int) -> int:
    return clean(log, first_dirty, now_ms=now_ms)[0]


def clean_twice(log: Log, first_dirty: int) -> int:
    """Run two passes with a delete horizon between them."""
    clean_at(log, first_dirty, NOW_MS)
    return clean_at(log, first_dirty, LATER_MS)


@pytest.mark.parametrize("keeps_range_end", [False, True], ids=["4.4.0", "up to 4.3"])
def test_kafka_20452_a_marker_gets_its_horizon_a_pass_earlier_if_no_bare_header_of_its_data_stays(
    keeps_range_end: bool,
) -> None:
    log = make_log()
    one, two = transactional(log, 1, 2)
    one.write("a")
    log.roll(NOW_MS)
    two.write("b")  # open: the first pass ends before it
    one.abort()
    one.write("c")
    end, _ = clean(log, now_ms=NOW_MS, keeps_range_end=keeps_range_end)
    assert (end, offsets(log)) == (1, [1, 2, 3])
    assert batch_ends(log) == ([0, 1, 2, 3] if keeps_range_end else [1, 2, 3])
    two.commit()
    one.commit()
    log.roll(NOW_MS)
    end, _ = clean(log, end, now_ms=NOW_MS, keeps_range_end=keeps_range_end)
    horizons = {each.base_offset: each.delete_horizon_ms for each in all_batches(log) if each.is_control}
    assert horizons[2] == (None if keeps_range_end else NOW_MS + DAY_MS)
    assert aborted(log) == ([(1, 0, 2)] if keeps_range_end else [])


@pytest.mark.scenario(8)
def test_kafka_5196_aborted_data_is_removed_at_once_and_supersedes_nothing() -> None:
    log = make_log()
    one, two = transactional(log, 1, 2)
    one.write("1", "2")
    two.write("2", "3")
    one.write("3", "4")
    one.abort()
    two.commit()
    one.write("2")
    one.commit()
    log.roll(NOW_MS)
    before = aborted(log)
    _, stats = clean(log, now_ms=NOW_MS)
    assert (keys(log), offsets(log)) == (["3", "2"], [3, 6, 7, 8, 9])
    assert aborted(log) == before == [(1, 0, 6)]
    assert (stats.removed.aborted, stats.removed.superseded) == (4, 1)


@pytest.mark.scenario(7)
def test_several_passes_with_a_small_map() -> None:
    log = make_log(delete_retention_ms=50_000)
    one, two = transactional(log, 1, 2)
    one.write("1", "2")
    two.write("2", "3")
    one.write("3", "4")
    one.commit()
    two.commit()
    one.write("2", "3")
    one.abort()
    two.write("4", "5")
    one.write("5", "6")
    one.commit()
    two.abort()
    two.write("6", "7")
    two.commit()
    log.roll(1_000)

    end, _ = clean(log, 0, now_ms=1_000, max_entries=3)
    assert end == 4
    assert [each.base_offset for each in all_batches(log)] == [0, 2, 4, 6, 7, 10, 13, 15, 16, 17, 19]
    assert offsets(log) == [0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
    assert aborted(log) == [(1, 8, 10), (2, 11, 16)]

    end, _ = clean(log, end, now_ms=1_000, max_entries=3)
    assert end == 14
    assert offsets(log) == [0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
    assert aborted(log) == []

    end, stats = clean(log, end, now_ms=51_000, max_entries=3)
    assert end == 20
    assert [each.base_offset for each in all_batches(log)] == [0, 2, 4, 6, 7, 13, 15, 17, 19]
    assert offsets(log) == [0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19]
    assert stats.removed.markers == 2


@pytest.mark.scenario(9)
def test_nothing_undecided_is_cleaned_and_transactions_may_span_segments() -> None:
    log = make_log()
    one, two, three = transactional(log, 1, 2, 3)
    one.write("1", "2")
    three.write("2", "3")
    two.write("3", "4")
    log.roll(NOW_MS)
    assert clean_at(log, 0, NOW_MS) == 0, "all three are undecided"
    two.write("5", "6")
    three.write("6", "7")
    one.write("7", "8")
    two.abort()
    three.write("8", "9")
    three.commit()
    one.write("9", "10")
    one.abort()
    end = clean_at(log, 0, NOW_MS)
    assert (end, keys(log)) == (6, ["2", "3", "5", "6", "6", "7", "7", "8", "8", "9", "9", "10"])

    log.roll(NOW_MS)
    two.write("11")
    one.write("12")
    clean_at(log, end, NOW_MS)
    assert keys(log) == ["2", "3", "6", "7", "8", "9", "11", "12"]


@pytest.mark.scenario(10)
def test_a_commit_marker_is_removed_after_its_data_and_its_horizon() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    one.write("2", "3")
    one.commit()
    one.write("2")
    one.commit()
    log.roll(NOW_MS)
    end = clean_at(log, 0, NOW_MS)
    assert (keys(log), offsets(log)) == (["1", "3", "2"], [0, 2, 3, 4, 5])

    one.write("1", "3")
    one.commit()
    log.roll(NOW_MS)
    end = clean_at(log, end, NOW_MS)
    assert (keys(log), offsets(log)) == (["2", "1", "3"], [3, 4, 5, 6, 7, 8])
    assert all_batches(log)[0].delete_horizon_ms is None, "the pass still met its data"
    end = clean_at(log, end, NOW_MS)
    assert offsets(log) == [3, 4, 5, 6, 7, 8]
    stamped = all_batches(log)[0]
    assert stamped.is_control and stamped.delete_horizon_ms == NOW_MS + DAY_MS
    assert [record.timestamp for record in stamped.records()] == [1_000]
    clean_at(log, end, LATER_MS)
    assert offsets(log) == [4, 5, 6, 7, 8]


def test_markers_without_data_are_removed() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    one.abort()
    one.write("2")
    one.write("2")
    one.commit()
    log.roll(NOW_MS)
    clean_at(log, 0, NOW_MS)
    assert offsets(log) == [1, 3, 4]
    clean_twice(log, 0)
    assert offsets(log) == [3, 4]


@pytest.mark.scenario(12)
def test_an_emptied_batch_pins_its_commit_marker() -> None:
    log = make_log()
    one, two = transactional(log, 1, 2)
    one.write("2", "3")
    log.roll(NOW_MS)
    two.write("2", "3")
    two.commit()
    log.roll(NOW_MS)
    append(log, ("2", "2"))
    append(log, ("3", "3"))
    one.commit()
    log.roll(NOW_MS)
    end = clean_at(log, 0, NOW_MS)
    assert (keys(log), offsets(log), batch_ends(log)) == (["2", "3"], [4, 5, 6, 7], [1, 3, 4, 5, 6, 7])
    end = clean_at(log, end, NOW_MS)
    assert batch_ends(log) == [1, 3, 4, 5, 6, 7]
    two.write("1")
    two.commit()
    log.roll(NOW_MS)
    end = clean_at(log, end, NOW_MS)
    assert batch_ends(log) == [1, 4, 5, 6, 7, 8, 9]
    clean_twice(log, end)
    assert (keys(log), offsets(log)) == (["2", "3", "1"], [5, 6, 7, 8, 9])
    assert batch_ends(log) == [1, 5, 6, 7, 8, 9]


@pytest.mark.scenario(13)
def test_a_marker_without_data_is_kept_as_a_header_for_its_epoch() -> None:
    log = make_log()
    append_marker(log, COMMIT, 1)
    append(log, ("2", "2"))
    append(log, ("3", "3"))
    log.roll(NOW_MS)
    end = clean_twice(log, 0)
    assert (offsets(log), batch_ends(log)) == ([1, 2], [0, 1, 2])
    bare = all_batches(log)[0]
    assert (bare.is_control, bare.record_count, bare.delete_horizon_ms, bare.base_timestamp) == (True, 0, None, -1)
    clean_at(log, end, 100 * DAY_MS)
    assert (offsets(log), batch_ends(log)) == ([1, 2], [0, 1, 2])
    log = reopen(log)
    assert log.last_stable_offset == log.log_end_offset


@pytest.mark.scenario(14, 15)
@pytest.mark.parametrize(("kind", "left"), [(COMMIT, [0, 1]), (ABORT, [1])])
def test_a_transaction_may_have_its_marker_in_a_later_segment(kind: int, left: list[int]) -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    log.roll(NOW_MS)
    append_marker(log, kind, 1)
    log.roll(NOW_MS)
    clean_twice(log, 0)
    assert (offsets(log), batch_ends(log)) == (left, [0, 1])
    clean_at(log, 0, 100 * DAY_MS)
    assert (offsets(log), batch_ends(log)) == (left, [0, 1])


@pytest.mark.scenario(16)
def test_an_abort_marker_is_kept_while_a_pass_still_found_its_data() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    one.write("2", "3")
    one.abort()
    one.write("3")
    one.commit()
    log.roll(NOW_MS)
    end = clean_at(log, 0, NOW_MS)
    assert offsets(log) == [3, 4, 5]
    clean_twice(log, end)
    assert offsets(log) == [4, 5]


@pytest.mark.scenario(18)
def test_an_emptied_batch_pins_its_abort_marker_and_index_entry() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("2", "3")
    one.abort()
    log.roll(NOW_MS)
    end = clean_at(log, 0, NOW_MS)
    for _ in range(2):
        assert (aborted(log), offsets(log), batch_ends(log)) == ([(1, 0, 2)], [2], [1, 2])
        clean_twice(log, end)
    one.write("1")
    one.commit()
    log.roll(NOW_MS)
    end = clean_at(log, end, NOW_MS)
    assert (aborted(log), offsets(log), batch_ends(log)) == ([(1, 0, 2)], [2, 3, 4], [2, 3, 4])
    clean_twice(log, end)
    assert (aborted(log), offsets(log), batch_ends(log)) == ([], [3, 4], [3, 4])


@pytest.mark.scenario(26)
def test_the_last_batch_of_an_aborted_transaction_keeps_its_sequence() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    one.write("2", "3")
    one.abort()
    log.roll(NOW_MS)
    clean_at(log, 0, NOW_MS)
    assert (batch_ends(log), offsets(log)) == ([2, 3], [3])
    state = reopen(log, clean=False).producers.get(1)
    assert state is not None and state.last_sequence == 2
    append(log, ("1", "v"), ("5", "v"), producer_id=1, base_sequence=3, roll=True)
    clean_at(log, 0, NOW_MS)
    assert (batch_ends(log), keys(log), offsets(log)) == ([3, 5], ["1", "5"], [3, 4, 5])


@pytest.mark.scenario(17)
def test_kafka_8335_a_producer_that_restarts_its_sequence_keeps_only_its_last_batch() -> None:
    """A group coordinator did so; sequence numbers cannot distinguish its batches."""
    log = make_log()
    for _ in range(2):
        made = batch(("1", "x"), producer_id=1, base_sequence=0, transactional=True)
        log.append(memoryview(made), now_ms=1_000, origin=AppendOrigin.COORDINATOR)
        append_marker(log, COMMIT, 1)
    append(log, ("1", "1"))
    append(log, ("2", "1"))
    log.roll(NOW_MS)
    clean_at(log, 0, NOW_MS)
    assert (offsets(log), batch_ends(log)) == ([1, 3, 4, 5], [1, 2, 3, 4, 5])
    clean_twice(log, 0)
    assert (offsets(log), batch_ends(log)) == ([3, 4, 5], [2, 3, 4, 5])


@pytest.mark.scenario(27)
def test_kafka_14055_a_users_key_that_looks_like_a_markers_removes_no_marker() -> None:
    log = make_log()
    one, two = transactional(log, 1, 2)
    one.write("1")
    one.commit()
    two.write(("\0\0\0\1", "foo"))
    two.commit()
    log.roll(NOW_MS)
    clean_at(log, 0, NOW_MS)
    assert (batch_ends(log), offsets(log)) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_a_marker_of_a_new_epoch_allows_removal_of_earlier_data() -> None:
    """Since EndTxn 5 every marker carries the data's epoch + 1, so the producer has no last data batch."""
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("1")
    append_marker(log, ABORT, 1, producer_epoch=1)
    log.roll(NOW_MS)
    end = clean_at(log, 0, NOW_MS)
    assert (batch_ends(log), offsets(log)) == ([1], [1])
    clean_twice(log, end)
    assert [(each.last_offset, each.record_count) for each in all_batches(log)] == [(1, 0)]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_no_pass_and_no_restart_reopens_a_transaction(clean_stop: bool) -> None:
    log = make_log()
    one, two = transactional(log, 1, 2)
    one.write("a", "b")
    two.write("a")
    one.abort()
    two.commit()
    log.roll(NOW_MS)
    end = 0
    for day in range(5):
        end = clean_at(log, end, NOW_MS + day * DAY_MS)
        log = reopen(log, clean=clean_stop, now_ms=1_000)
        assert log.last_stable_offset == log.log_end_offset == 5
        assert keys(log) == ["a"]


# The effects of a damaged transaction index


def test_without_the_index_entry_committed_data_and_the_marker_are_kept() -> None:
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("a")
    one.abort()
    one.write("b")
    one.commit()
    log.roll(NOW_MS)
    log.segments.first.txn_index.reset()
    clean_twice(log, 0)
    assert keys(log) == ["a", "b"]
    assert offsets(log) == [0, 1, 2, 3]


def test_an_index_entry_without_a_marker_does_not_abort_later_data() -> None:
    state = PassTransactions()
    state.add_aborted([AbortedTxn(7, 0, 2, 3), AbortedTxn(7, 10, 13, 14)])
    found = [
        state.on_data(read_batches(batch(("k", "v"), base_offset=at, producer_id=7, transactional=True))[0])
        for at in (1, 5, 10, 12)
    ]
    assert found == [True, False, True, True]
    marker_of_the_second = read_batches(marker(ABORT, producer_id=7, base_offset=13))[0]
    assert state.on_control(marker_of_the_second) == (False, AbortedTxn(7, 10, 13, 14))


def test_a_pass_whose_two_phases_disagree_changes_nothing() -> None:
    """An entry with a last stable offset out of order hides the next entry from one half of the pass only."""
    log = make_log()
    (one,) = transactional(log, 1)
    one.write("a")
    append(log, ("b", "1"), roll=True)
    append(log, ("c", "1"))
    one.abort()
    log.roll(NOW_MS)
    index = tuple(log.segments)[1].txn_index
    index.reset()
    index.append(AbortedTxn(9, 1, 2, 2))
    index.append(AbortedTxn(1, 0, 3, 4))
    before = [bytes(each.view) for each in all_batches(log)]
    with pytest.raises(CorruptRecordError, match="number"):
        clean(log, now_ms=NOW_MS)
    assert [bytes(each.view) for each in all_batches(log)] == before


def test_a_control_record_of_another_type_is_kept() -> None:
    state = PassTransactions()
    assert state.on_control(read_batches(marker(2, producer_id=7))[0]) == (False, None)


def test_replay_from_an_older_snapshot_does_not_reopen_a_removed_transaction() -> None:
    """The newest snapshot is not synced when it is written: a power loss may remove it."""
    log = make_log()
    append(log, ("x", "1"), roll=True)
    (one,) = transactional(log, 1)
    one.write("a")
    log.roll(NOW_MS)
    one.commit()
    append(log, ("a", "newer"), roll=True)
    assert log.producers.expire(NOW_MS) == 1
    log.config = replace(log.config, segment_bytes=1)  # each segment is a group by itself, so its snapshot stays
    clean_at(log, clean_twice(log, 0), 2 * LATER_MS)
    assert offsets(log) == [0, 3]
    log.files.remove(paths.snapshot_path(log.directory, 4))
    again = reopen(log, clean=False, recovery_point=4)
    assert (again.last_stable_offset, again.log_end_offset) == (4, 4)
