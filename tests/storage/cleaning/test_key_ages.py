"""Records that a pass removes for their age (`ottla.key.retention.ms`), and passes that come for it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.compression import Codec
from ottla.storage import kernel as compiled
from ottla.storage.cleaning.cleaner_manager import save_counts
from ottla.storage.cleaning.dirtiness import is_any_reached, measure
from ottla.storage.logs.log import Log
from ottla.storage.logs.retention import is_active_aged
from support.cleaner.cleaner_history import History, Step, random_ages
from support.cleaner.cleaner_pair import Pair
from support.cleaner.explained_pair import ExplainedPair
from support.cleaner.histories import run_histories
from support.cleaner.kernels import INTERPRETED, both, cleaning_with
from support.disk.crash_files import CrashFiles, disks_left
from support.logs.make_log import all_batches, append, clean, contents, data_records, latest_values, make_log, reopen
from support.noted import each_case
from support.sizes import size

HISTORIES = size(range(24), range(1000))
HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def aging_log(*ages_ms: tuple[str, int | None], **config: Any) -> Log:
    """Return a log with a batch for each (key, age at NOW_MS), None for no timestamp; its keys go after an hour."""
    log = make_log(ottla_key_retention_ms=HOUR_MS, segment_ms=2**60, **config)
    for key, age_ms in ages_ms:
        append(log, (key, "v"), timestamp=-1 if age_ms is None else NOW_MS - age_ms, now_ms=NOW_MS)
    log.roll(NOW_MS)
    return log


def kept(log: Log) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


def saved(log: Log, first_dirty: int, now_ms: int) -> int:
    """Run a pass, and save what it knows as the server does; return the next first dirty offset."""
    end_offset, stats = clean(log, first_dirty, now_ms=now_ms)
    log.counter.aged_up_to_ms = stats.aged_up_to_ms
    save_counts(log, end_offset, stats)
    return end_offset


# Histories


def test_random_histories_match_the_model() -> None:
    met = run_histories(random_ages, HISTORIES, Pair)
    events = {"removed: aged", "a pass for the age of keys alone", "a known age of the oldest key"}
    assert not {what for what in events if not met[what]}


@pytest.mark.skipif(not compiled.COMPILED, reason="the test above has interpreted it")
def test_the_interpreted_kernel_matches_the_model() -> None:
    with cleaning_with(INTERPRETED):
        run_histories(random_ages, HISTORIES[:: size(4, 1)], Pair)


def test_explanations_come_true() -> None:
    met = run_histories(random_ages, size(range(100, 108), range(100, 160)), ExplainedPair)
    assert met["a record that goes: aged"] and met["waits for all_clean"] and met["only time is missing"]


# Which records go


@both
@each_case("codec", [Codec.NONE, Codec.LZ4])
def test_each_record_goes_for_its_own_age(kernel: ModuleType, codec: Codec) -> None:
    log = make_log(ottla_key_retention_ms=HOUR_MS, segment_ms=2**60)
    ages_ms = (HOUR_MS, HOUR_MS - 1, 2 * HOUR_MS, 0, -HOUR_MS)
    times = [NOW_MS - age_ms for age_ms in ages_ms]
    append(log, *((key, "v") for key in "abcde"), timestamp=times, now_ms=NOW_MS, codec=codec)
    append(log, ("f", "v"), timestamp=-1, now_ms=NOW_MS, codec=codec)
    append(log, ("g", None), timestamp=NOW_MS - 9 * HOUR_MS, now_ms=NOW_MS, codec=codec, roll=True)
    with cleaning_with(kernel):
        _, stats = clean(log, now_ms=NOW_MS)
    assert kept(log) == [1, 3, 4, 5, 6]
    assert (stats.removed.aged, stats.oldest_kept_ms) == (2, NOW_MS - HOUR_MS + 1)


@both
def test_records_with_the_time_of_the_append_go_together(kernel: ModuleType) -> None:
    log = make_log(ottla_key_retention_ms=HOUR_MS, segment_ms=2**60, message_timestamp_type="LogAppendTime")
    append(log, ("a", "v"), ("b", "v"), timestamp=[5, NOW_MS], now_ms=1_000)
    append(log, ("c", "v"), ("d", "v"), timestamp=[5, 5], now_ms=NOW_MS, roll=True)
    with cleaning_with(kernel):
        clean(log, now_ms=NOW_MS)
    assert kept(log) == [2, 3]


@both
def test_the_delete_horizon_of_a_batch_is_not_the_age_of_its_records(kernel: ModuleType) -> None:
    log = make_log(ottla_key_retention_ms=HOUR_MS, segment_ms=2**60)
    append(log, ("a", "v"), ("b", None), timestamp=[NOW_MS, NOW_MS], now_ms=NOW_MS, roll=True)
    with cleaning_with(kernel):
        first_dirty, _ = clean(log, now_ms=NOW_MS)
        for now_ms, expected in ((NOW_MS + HOUR_MS - 1, [0, 1]), (NOW_MS + HOUR_MS, [1])):
            clean(log, first_dirty, now_ms=now_ms)
            assert kept(log) == expected


def test_an_aged_record_supersedes_older_ones_before_it_goes() -> None:
    log = aging_log(("k", 0), ("k", 2 * HOUR_MS), ("a", 0))
    _, stats = clean(log, now_ms=NOW_MS)
    assert kept(log) == [2]
    assert (stats.removed.superseded, stats.removed.aged) == (1, 1)


def test_without_the_option_no_record_goes_for_its_age() -> None:
    log = aging_log(("k", 50 * HOUR_MS))
    log.config = make_log().config
    _, stats = clean(log, now_ms=NOW_MS)
    assert kept(log) == [0]
    assert stats.oldest_kept_ms == 0, "unknown"


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_power_loss_during_a_pass_brings_no_older_value_back(ordered: bool) -> None:
    """The newest value of `k` goes for its age, and the older one, whose clock was ahead, is in another group."""
    files = CrashFiles()
    log = make_log(files, ottla_key_retention_ms=HOUR_MS)
    for key, value, age_ms in (("k", "old", 0), ("a", "1", 0), ("k", "new", 2 * HOUR_MS), ("b", "1", 2 * HOUR_MS)):
        append(log, (key, value), timestamp=NOW_MS - age_ms, now_ms=NOW_MS, roll=True)
    log.close(NOW_MS)
    files.sync_all()

    def pass_over(disk: CrashFiles) -> None:
        log = make_log(disk, clean_shutdown=True, segment_bytes=1, ottla_key_retention_ms=HOUR_MS)
        clean(log, now_ms=NOW_MS)

    states = set()
    for disk, _ in disks_left(pass_over, files, ordered=ordered, owed=lambda: None, one_in=size(3, 1)):
        values = latest_values(make_log(disk))
        assert values.pop(b"a") == b"1" and values.pop(b"b", b"1") == b"1"
        states.add(values.get(b"k"))
    assert states <= {b"new", None} and b"new" in states


# When a pass is due


def test_a_pass_is_due_when_the_oldest_record_has_exceeded_its_age_by_a_sixteenth() -> None:
    log = aging_log(("a", 0), ("b", 300_000), min_cleanable_dirty_ratio=1.0)
    first_dirty = saved(log, 0, NOW_MS)
    due_ms = NOW_MS - 300_000 + HOUR_MS + HOUR_MS // 16
    assert [measure(log, first_dirty, due_ms + more).is_due for more in (0, 1)] == [False, True]
    log = reopen(log, now_ms=NOW_MS)
    log.survey()
    assert [measure(log, first_dirty, due_ms + more).is_due for more in (0, 1)] == [False, True]
    assert saved(log, first_dirty, due_ms + 1) == first_dirty
    assert kept(log) == [0]
    assert not measure(log, first_dirty, due_ms + 1).is_due


def test_dirty_records_are_judged_by_the_first_batch_of_their_segment() -> None:
    log = aging_log(("a", 2 * HOUR_MS), ("b", 0), min_cleanable_dirty_ratio=1.0)
    assert measure(log, 0, NOW_MS).is_due
    saved(log, 0, NOW_MS)
    assert kept(log) == [1]


def test_records_that_a_pass_leaves_make_no_other_one_due() -> None:
    """The first batch of the segment is a tombstone, and no counts are known."""
    log = make_log(ottla_key_retention_ms=HOUR_MS, segment_ms=2**60, delete_retention_ms=2**60)
    append(log, ("a", None), timestamp=NOW_MS - 9 * HOUR_MS, now_ms=NOW_MS)
    append(log, ("b", "v"), timestamp=NOW_MS, now_ms=NOW_MS, roll=True)
    first_dirty = saved(log, 0, NOW_MS)
    log.counter.clean = None
    assert not measure(log, first_dirty, NOW_MS + HOUR_MS).is_due
    log.counter.aged_up_to_ms = 0  # after a restart one pass finds out
    assert measure(log, first_dirty, NOW_MS + HOUR_MS).is_due


def test_a_forced_pass_is_worth_it_only_for_an_aged_record() -> None:
    log = aging_log(("a", HOUR_MS))
    first_dirty, _ = clean(log, now_ms=NOW_MS - 1)
    found = measure(log, first_dirty, NOW_MS).segments
    for now_ms, expected in ((NOW_MS - 1, False), (NOW_MS, True)):
        assert is_any_reached(found, now_ms, aged_up_to_ms=log.config.aged_up_to_ms(now_ms)) == expected
    assert not is_any_reached(found, NOW_MS)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, True),
        ({"ottla_key_retention_ms": HOUR_MS + 1}, False),
        ({"ottla_key_retention_ms": -1}, False),
        ({"cleanup_policy": ("delete",)}, False),
    ],
)
def test_an_active_segment_whose_records_have_all_aged_is_closed(config: dict[str, Any], expected: bool) -> None:
    log = make_log(**{"ottla_key_retention_ms": HOUR_MS, **config})
    assert not is_active_aged(log, NOW_MS), "it is empty"
    append(log, ("a", "v"), timestamp=NOW_MS - 2 * HOUR_MS, now_ms=NOW_MS)
    append(log, ("b", "v"), timestamp=NOW_MS - HOUR_MS, now_ms=NOW_MS)
    assert is_active_aged(log, NOW_MS) == expected
    append(log, ("c", "v"), timestamp=NOW_MS - HOUR_MS + 1, now_ms=NOW_MS)
    assert not is_active_aged(log, NOW_MS)


def test_an_active_segment_closes_as_soon_as_its_first_record_has_aged() -> None:
    log = make_log(ottla_key_retention_ms=HOUR_MS)
    append(log, ("a", "v"), timestamp=NOW_MS)
    append(log, ("b", "v"), timestamp=NOW_MS + HOUR_MS)
    assert len(log.segments) == 1
    append(log, ("c", "v"), timestamp=NOW_MS + HOUR_MS + 1)
    assert len(log.segments) == 2
    assert [record.key for record in data_records(all_batches(log))] == [b"a", b"b", b"c"]


def test_the_age_of_a_segment_that_retention_has_deleted_causes_no_pass() -> None:
    steps = [
        Step("write", [(b"a", b"1")]),
        Step("clean", seal=True),
        Step("write", [(b"b", b"1")]),
        Step("delete_records", 0.9),
        Step("retain"),
    ]
    History(steps, ottla_key_retention_ms=300).run()
