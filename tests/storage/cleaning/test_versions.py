"""Passes over topics whose records have versions (KIP-280): the highest version of a key stays, not the highest offset."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ottla.storage import kernel as compiled
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.filter.offset_map import BYTES_PER_SLOT
from ottla.storage.logs.log import Log
from ottla.storage.topics.versions import NO_VERSION, VersionSource
from support.cleaner.cleaner_history import random_versions
from support.cleaner.cleaner_pair import Pair
from support.cleaner.explained_pair import ExplainedPair
from support.cleaner.histories import run_histories
from support.cleaner.kernels import INTERPRETED, both, cleaning_with
from support.disk.crash_files import CrashFiles, disks_left
from support.logs.make_log import SECRET, Producer, all_batches, append, clean, contents, data_records, make_log, reopen
from support.noted import each_case
from support.sizes import size

HISTORIES = size(range(24), range(1000))
TIMESTAMP: dict[str, Any] = {"ottla_compaction_strategy": "timestamp"}
HEADER: dict[str, Any] = {"ottla_compaction_strategy": "header", "ottla_compaction_strategy_header": "v"}


def version(number: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers with this version."""
    return (("v", number.to_bytes(8, "big", signed=True)),)


def versioned_log(*versions: tuple[str, int], roll_after: int = -1, **config: Any) -> Log:
    """Return a log with a batch for each (key, version), whose value is the version; a 0 is a tombstone."""
    log = make_log(**HEADER | config)
    for at, (key, number) in enumerate(versions):
        append(log, (key, str(number) if number else None), headers=version(number or 5), roll=at == roll_after)
    log.roll(1_000)
    return log


def kept(log: Log) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


# Histories


def test_random_histories_match_the_model() -> None:
    met = run_histories(random_versions, HISTORIES, Pair)
    events = {f"removed: {reason}" for reason in ("superseded", "tombstones", "aborted", "markers")}
    events |= {
        "a full map",
        "a record with a low version comes back",
        "a pass given up",
        "a compressed batch rewritten",
    }
    assert not {what for what in events if not met[what]}


@pytest.mark.skipif(not compiled.COMPILED, reason="the test above has interpreted it")
def test_the_interpreted_kernel_matches_the_model() -> None:
    with cleaning_with(INTERPRETED):
        run_histories(random_versions, HISTORIES[:: size(4, 1)], Pair)


def test_explanations_come_true() -> None:
    met = run_histories(random_versions, size(range(100, 106), range(100, 160)), ExplainedPair)
    assert met["a record that stays: supersedes_now"] and met["a record that goes: superseded"]


# Which record wins


@both
@each_case(
    "records, expected",
    [
        ([("k", 2), ("k", 1)], [0]),
        ([("k", 1), ("k", 2)], [1]),
        ([("k", 2), ("k", 2)], [1]),
        ([("k", -3), ("k", -4), ("k", NO_VERSION)], [0]),
        ([("k", 3), ("a", 9), ("k", 1), ("a", 8), ("k", 2)], [0, 1]),
        ([("k", 1), ("k", 3), ("k", 2)], [1]),
    ],
)
def test_the_highest_version_of_a_key_stays(
    kernel: ModuleType, records: list[tuple[str, int]], expected: list[int]
) -> None:
    with cleaning_with(kernel):
        log = versioned_log(*records)
        assert clean(log)[0] == len(records)
        assert kept(log) == expected
        for border in range(len(records) - 1):
            log = versioned_log(*records, roll_after=border)
            first_dirty, _ = clean(log, upper_offset=border + 1)
            clean(log, first_dirty)
            assert kept(log) == expected, f"in two passes, with the border after offset {border}"


@each_case(
    "headers, expected",
    [
        ((), [1]),
        ((("v", None),), [1]),
        ((("v", b"7"),), [1]),
        ((("v", bytes(9)),), [1]),
        ((("w", b"\x7f" + bytes(7)),), [1]),
        ((*version(9), ("v", b"")), [1]),
        ((*version(1), *version(9)), [0]),
        ((*version(9), *version(1)), [1]),
        ((("w", b""), *version(9), ("x", None)), [0]),
    ],
)
def test_the_last_header_of_the_name_has_the_version_if_it_has_eight_bytes(
    headers: tuple[tuple[str, bytes | None], ...], expected: list[int]
) -> None:
    """A record without a valid one is "anomalous" to the KIP, and loses even against a lower offset."""
    for module in (compiled, INTERPRETED):
        log = make_log(**HEADER)
        append(log, ("k", "1"), headers=headers)
        append(log, ("k", "2"), headers=version(5))
        append(log, ("k", "3"))
        log.roll(1_000)
        with cleaning_with(module):
            clean(log)
        assert kept(log) == expected
    source = VersionSource(b"v")
    assert (source.version(0, headers) > 5) == (expected == [0])


@both
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_timestamp_may_be_the_version(kernel: ModuleType, timestamp_type: str) -> None:
    log = make_log(**TIMESTAMP, message_timestamp_type=timestamp_type)
    append(log, ("a", "1"), ("b", "1"), ("b", "2"), timestamp=[3_000, 1_000, 1_000], now_ms=1_000)
    append(log, ("a", "2"), ("b", "3"), timestamp=[2_000, -1], now_ms=2_000, roll=True)
    with cleaning_with(kernel):
        clean(log, now_ms=9_000)
    assert kept(log) == ([0, 2] if timestamp_type == "CreateTime" else [3, 4])


def test_data_of_an_aborted_transaction_wins_against_nothing() -> None:
    log = make_log(**TIMESTAMP)
    append(log, ("k", "1"), timestamp=1_000)
    producer = Producer(log, 7, transactional=True, now_ms=9_000)
    producer.write(("k", "2"))
    producer.abort()
    append(log, ("k", "3"), timestamp=500, roll=True)
    clean(log, now_ms=9_000)
    assert kept(log) == [0]


def test_a_record_hidden_by_delete_records_wins_against_nothing() -> None:
    log = versioned_log(("k", 9), ("a", 1), ("k", 1), roll_after=1)
    first_dirty, _ = clean(log, upper_offset=2)
    log.advance_log_start(1)
    clean(log, first_dirty)
    assert kept(log) == [1, 2]


def test_a_strategy_that_changes_decides_only_between_what_is_left() -> None:
    log = versioned_log(("k", 9), ("k", 1), ("a", 1))
    log.config = make_log().config
    first_dirty, _ = clean(log)
    assert kept(log) == [1, 2]
    log.config = versioned_log().config
    append(log, ("k", "0"), headers=version(0), roll=True)
    clean(log, first_dirty)
    assert kept(log) == [1, 2]


# What must not get lost with the last record


@pytest.mark.parametrize("roll_after", [-1, 1])
def test_the_log_ends_where_it_ended_if_its_last_record_loses(roll_after: int) -> None:
    """The KIP's case of a record with the highest offset and a low version: an empty batch stays in its place."""
    log = versioned_log(("k", 9), ("a", 1), ("k", 1), roll_after=roll_after)
    clean(log)
    assert kept(log) == [0, 1]
    assert [(each.last_offset, each.record_count) for each in all_batches(log)][-1] == (2, 0)
    log.files.remove(log.segments.active.file_paths()[0])  # as if the roll had not reached the disk
    log = reopen(log, clean=False)
    assert log.log_end_offset == 3
    assert append(log, ("z", "1")) == 3


# Tombstones


def test_a_tombstone_wins_and_loses_like_any_record() -> None:
    log = versioned_log(("k", 9), ("k", 0), ("a", 0), ("a", 1))
    clean(log)
    assert contents(log) == [(0, b"k", b"9"), (2, b"a", None)]


def test_a_tombstone_past_its_horizon_stays_for_the_pass_in_which_it_supersedes_a_later_record() -> None:
    log = versioned_log(("k", 0), ("b", 1), delete_retention_ms=10)
    first_dirty, _ = clean(log, now_ms=2_000)
    append(log, ("k", "late"), headers=version(1), roll=True)
    first_dirty, stats = clean(log, first_dirty, now_ms=5_000)
    assert contents(log) == [(0, b"k", None), (1, b"b", b"1")]
    assert (stats.removed.superseded, stats.removed.tombstones, stats.tombstones_written) == (1, 0, 1)
    append(log, ("c", "1"), headers=version(1), roll=True)
    clean(log, first_dirty, now_ms=6_000)
    assert contents(log) == [(1, b"b", b"1"), (3, b"c", b"1")]


def test_a_record_written_after_the_tombstone_has_gone_is_new() -> None:
    """Nothing is left that knows the version of the tombstone, as in the KIP."""
    log = versioned_log(("k", 0), ("b", 1), delete_retention_ms=10)
    first_dirty, _ = clean(log, now_ms=2_000)
    append(log, ("c", "1"), headers=version(1), roll=True)
    first_dirty, _ = clean(log, first_dirty, now_ms=5_000)
    append(log, ("k", "late"), headers=version(1), roll=True)
    clean(log, first_dirty, now_ms=6_000)
    assert contents(log) == [(1, b"b", b"1"), (2, b"c", b"1"), (3, b"k", b"late")]


# Power losses


def live(log: Log) -> dict[bytes | None, bytes | None]:
    """Return the values of a reader that goes by the versions."""
    source = log.config.version_source
    assert source is not None
    records = sorted(data_records(all_batches(log)), key=lambda each: source.version(each.timestamp, each.headers))
    values = {each.key: each.value for each in records}
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_power_loss_during_a_pass_leaves_the_values_of_each_key(ordered: bool) -> None:
    """The winners are in three groups, before and after the records that they supersede; one is an expired tombstone."""
    files = CrashFiles()
    log = make_log(files, delete_retention_ms=10, **HEADER)
    for key, number in (("k", 0), ("a", 9), ("b", 1)):
        append(log, (key, str(number) if number else None), headers=version(number or 5), roll=True)
    log.config = replace(log.config, segment_bytes=1)  # each segment is a group by itself
    first_dirty, _ = clean(log, now_ms=2_000)
    log.config = replace(log.config, segment_bytes=1 << 20)
    for key, number in (("k", 2), ("b", 9), ("a", 1), ("b", 2), ("c", 1)):
        append(log, (key, str(number)), headers=version(number), roll=True)
    log.close(5_000)
    files.sync_all()
    expected = {b"a": b"9", b"b": b"9", b"c": b"1"}
    assert live(make_log(files.copy(), clean_shutdown=True, **HEADER)) == expected

    def pass_over(disk: CrashFiles) -> None:
        log = make_log(disk, clean_shutdown=True, segment_bytes=1, delete_retention_ms=10, **HEADER)
        clean(log, first_dirty, now_ms=5_000)

    states = 0
    for disk, _ in disks_left(pass_over, files, ordered=ordered, owed=lambda: None, one_in=size(3, 1)):
        states += 1
        assert live(make_log(disk, **HEADER)) == expected
    assert states > size(20, 50)


# Memory


def test_a_map_with_versions_has_half_as_many_keys_in_the_same_memory() -> None:
    counts = []
    for config in ({}, HEADER):
        log = make_log(**config)
        for number in range(40):
            append(log, (f"k{number}", "1"), headers=version(number))
        log.roll(1_000)
        cleaner = Cleaner(dedupe_buffer_bytes=20 * BYTES_PER_SLOT, load_factor=1.0, io_buffer_bytes=1 << 16)
        found = measure(log, 0, 2_000).for_worker()
        _, stats = cleaner.clean(found, 2_000, secret=SECRET, swap=lambda *_: None, checkpoint=lambda _: None)
        counts.append(stats.map_entry_count)
    assert counts == [20, 10]
