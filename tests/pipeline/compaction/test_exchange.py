"""Superseded entries of a bucket, and merged bitmaps."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

from ottla.pipeline.compaction import exchange
from ottla.pipeline.compaction.exchange import (
    BITS,
    BUCKET_BYTES,
    CLEAN_KEYS,
    DIRTY_KEYS,
    SUPERSEDED,
    SUPERSEDED_BITS,
    Blob,
    buckets_of,
    merge_buckets,
    scan_source,
    set_superseded,
    superseded,
)
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.segment_bits import BitTable, SegmentBits, pack, unpack
from ottla.pipeline.errors import CorruptSourceError, SourceChangedError, UsageError
from ottla.pipeline.records.fine_buckets import Buckets
from ottla.storage.disk import paths
from support.disk.crash_files import CrashFiles
from support.logs.make_log import SECRET, append, make_log
from support.pipeline.stored_log import stored

HIGH = 2**63 + 5
"""Half of a hash: a number that would be negative with a sign."""


LOWEST = -(2**63)


def blob(source: int, kind: int, *entries: tuple[int, ...]) -> Blob:
    """Return a blob; entries are (64 bits of the hash, 32 bits more, number), and the version if they have any."""
    slots = [
        (high, low << 32 | number + 1, *(each & (1 << 64) - 1 for each in version))
        for high, low, number, *version in sorted(entries)
    ]
    return Blob(0, source, kind, np.array(slots, np.uint64).tobytes())


CASES = {
    "the newest of dirty ones stays": (
        [blob(0, DIRTY_KEYS, (HIGH, 1, 7)), blob(1, DIRTY_KEYS, (HIGH, 1, 3)), blob(2, DIRTY_KEYS, (HIGH, 1, 0))],
        {0: [7], 1: [3]},
    ),
    "clean ones do not supersede one another": (
        [blob(0, CLEAN_KEYS, (HIGH, 1, 7)), blob(1, CLEAN_KEYS, (HIGH, 1, 3))],
        {},
    ),
    "a dirty one supersedes all clean ones, also of its own segment": (
        [blob(0, CLEAN_KEYS, (HIGH, 1, 7)), blob(1, CLEAN_KEYS, (HIGH, 1, 3)), blob(1, DIRTY_KEYS, (HIGH, 1, 4))],
        {0: [7], 1: [3]},
    ),
    "keys that share 64 bits of the hash are told apart by 32 more": (
        [blob(0, DIRTY_KEYS, (HIGH, 1, 0), (HIGH, 2, 1)), blob(1, DIRTY_KEYS, (HIGH, 2, 0), (HIGH, 3, 1))],
        {0: [1]},
    ),
    "many are, of keys all over the hashes": (
        [
            blob(0, DIRTY_KEYS, (0, 1, 9), (5, 1, 4), (2**64 - 1, 1, 6)),
            blob(1, DIRTY_KEYS, (0, 1, 0), (5, 1, 1), (5, 2, 3), (2**64 - 1, 1, 2)),
        ],
        {0: [4, 6, 9]},
    ),
    "keys whose hashes differ in their last bits": (
        [blob(0, DIRTY_KEYS, (0, 1, 0), (HIGH, 1, 1), (2**64 - 1, 1, 2)), blob(1, DIRTY_KEYS, (HIGH + 1, 1, 0))],
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_all_entries_of_a_key_except_the_last_are_superseded(case: str) -> None:
    blobs, expected = CASES[case]
    for seed in range(3):
        random.Random(seed).shuffle(blobs)
        assert {tag >> 1: sorted(numbers) for tag, numbers in superseded(blobs)} == expected


VERSIONED: dict[str, tuple[list[Blob], dict[int, list[int]]]] = {
    "the highest version is the newest of several segments": (
        [blob(0, DIRTY_KEYS, (7, 1, 4, 9)), blob(1, DIRTY_KEYS, (7, 1, 5, 2)), blob(2, DIRTY_KEYS, (7, 1, 6, LOWEST))],
        {2: [5], 4: [6]},
    ),
    "the later of equal versions is the newest": (
        [blob(0, DIRTY_KEYS, (7, 1, 4, 2)), blob(1, DIRTY_KEYS, (7, 1, 5, 2))],
        {0: [4]},
    ),
    "a clean record that wins against a dirty one is a winner": (
        [blob(0, CLEAN_KEYS, (7, 1, 4, 9)), blob(1, CLEAN_KEYS, (7, 1, 0, 1)), blob(1, DIRTY_KEYS, (7, 1, 5, 2))],
        {1: [4], 2: [0, 5]},
    ),
    "clean records alone supersede nothing": (
        [blob(0, CLEAN_KEYS, (7, 1, 4, 9)), blob(1, CLEAN_KEYS, (7, 1, 0, 1))],
        {},
    ),
    "of each of several keys": (
        [
            blob(0, CLEAN_KEYS, (0, 1, 9, 5), (5, 1, 4, 1), (HIGH, 1, 6, 3)),
            blob(1, DIRTY_KEYS, (0, 1, 0, 4), (5, 1, 1, 1), (5, 2, 3, 0), (HIGH, 1, 2, 3)),
        ],
        {0: [4, 6], 1: [9], 2: [0]},
    ),
}


@pytest.mark.parametrize("case", VERSIONED)
def test_all_entries_of_a_key_except_the_one_with_the_highest_version_are_superseded(case: str) -> None:
    blobs, expected = VERSIONED[case]
    for seed in range(3):
        random.Random(seed).shuffle(blobs)
        assert {tag: sorted(numbers) for tag, numbers in superseded(blobs, 3)} == expected


def test_bitmaps_are_joined_at_any_bit() -> None:
    rng = random.Random(1)
    for _ in range(200):
        parts = [[rng.randrange(2) for _ in range(rng.choice((0, 1, 63, 64, 65, 130)))] for _ in range(4)]
        expected = [bit for part in parts for bit in part]
        table = BitTable(len(expected))
        at = 0
        for part in parts:
            table.put(at, pack(np.array(part, np.uint8)))
            at += len(part)
        set_too = np.array(sorted(rng.sample(range(len(expected)), min(3, len(expected)))), np.uint64)
        table.set(set_too)
        for number in set_too:
            expected[int(number)] = 1
        words = np.array(table.to_array(), np.uint64)
        assert len(words) * 64 >= len(expected) + 64
        assert list(unpack(words, len(expected))) == expected
        assert int(np.bitwise_count(words).sum()) == sum(expected)
        everyone = np.arange(len(expected), dtype=np.uint64)
        assert list(table.are_set(everyone)) == [bool(bit) for bit in expected]


def test_a_segments_bitmaps_read_back_as_written() -> None:
    bits = SegmentBits(70, 40, 3, np.array([5, 1], np.uint64), np.array([2, 0], np.uint64), np.array([1, 9], np.uint32))
    again = SegmentBits.from_bytes(bits.to_bytes())
    assert (again.numbered, again.clean, again.keyless) == (70, 40, 3)
    assert [list(found) for found in again[3:]] == [[5, 1], [2, 0], [1, 9]]


def planned() -> tuple[CrashFiles, CompactionPlan]:
    """Plan segments with keys k0 to k9 in one batch, with k5 to k14 in two, and an empty active one."""
    log = make_log()
    append(log, *((f"k{number}", "1") for number in range(10)), roll=True)
    append(log, *((f"k{number}", "2") for number in range(5, 10)))
    append(log, *((f"k{number}", "2") for number in range(10, 15)), roll=True)
    assert isinstance(log.files, CrashFiles)
    return log.files, make_plan(stored(log), data_dir="/data", checkpoint=0, now_ms=2_000, secret=SECRET)


@pytest.mark.parametrize("held_bytes", [BUCKET_BYTES, 32])
def test_superseded_entries_do_not_depend_on_the_buckets(held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superseded entries also do not depend on which of the finer buckets go to disk."""
    monkeypatch.setattr(exchange, "BUCKET_BYTES", held_bytes)
    files, plan = planned()
    kinds: set[int] = set()
    for buckets in (Buckets(1, 1), Buckets(2, 1), Buckets(7, 1), Buckets(1, 4), Buckets(3, 2)):
        blobs = [each for number in range(2) for each in scan_source(plan, number, files, buckets=buckets.coarse)]
        assert all(0 <= each.task < buckets.coarse for each in blobs)
        assert (len({each.task for each in blobs if each.kind == DIRTY_KEYS}) > 1) == (buckets.coarse > 1)
        merged = [each for each in merge_buckets(plan, blobs, buckets) if each.kind != BITS]
        assert {each.source for each in merged} == {0}
        dead = BitTable(13)
        for each in merged:
            set_superseded(each, dead, 3)
        bits = unpack(np.array(dead.to_array(), np.uint64), 13)
        assert [number for number in range(10) if bits[3 + number]] == [5, 6, 7, 8, 9]
        kinds |= {each.kind for each in merged}
    assert kinds == {SUPERSEDED, SUPERSEDED_BITS}


def test_there_are_more_buckets_for_more_records() -> None:
    _, plan = planned()
    assert buckets_of(plan, at_once=4) == (1, 1), "little is not worth four tasks"
    source = replace(plan.sources[0], record_count=10**9)
    assert buckets_of(replace(plan, sources=(source,))) == (477, 1)


def test_damage_is_refused_with_its_position() -> None:
    files, plan = planned()
    path = paths.log_path(plan.directory, 10)
    data = bytearray(files.snapshot()[path])
    second = 12 + int.from_bytes(data[8:12])
    expected = {
        second + 61: f"{path}, byte {second}, offset 15: expected a batch with the CRC 0x",
        30: f"{path}, byte 0, offset 10: expected a batch with the CRC 0x",
        second + 16: f"{path}, byte {second}, offset 15: expected a batch with the number of records in its header",
    }
    for at, text in expected.items():
        damaged = files.copy()
        data[at] ^= 1
        damaged.open(path, truncate=True).append(data)
        data[at] ^= 1
        with pytest.raises(CorruptSourceError) as raised:
            list(scan_source(plan, 1, damaged, buckets=1))
        assert str(raised.value).startswith(text), str(raised.value)


def test_a_segment_that_differs_from_the_plan_is_refused() -> None:
    files, plan = planned()
    path = paths.log_path(plan.directory, 10)
    other = replace(plan, sources=(plan.sources[0], replace(plan.sources[1], headers_crc=1)))
    with pytest.raises(SourceChangedError, match=f"^{path}: expected batch headers of CRC 0x1, found 0x"):
        list(scan_source(other, 1, files, buckets=1))
    files.open(path).append(b"\0")
    with pytest.raises(SourceChangedError, match=f"^{path}: expected {plan.sources[1].size_bytes} bytes, found "):
        list(scan_source(plan, 1, files, buckets=1))
    files.remove(path)
    with pytest.raises(SourceChangedError, match=r"found no file$"):
        list(scan_source(plan, 1, files, buckets=1))


def test_workers_with_different_key_hashes_are_refused() -> None:
    files, plan = planned()
    with pytest.raises(UsageError, match="the plan needs keys hashed with another"):
        list(scan_source(replace(plan, key_hash="another"), 0, files, buckets=1))
