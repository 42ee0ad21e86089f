"""The compiled and the interpreted kernel: one algorithm, the same bytes. The cleaner's tests check the bytes."""

from __future__ import annotations

import random
from array import array
from dataclasses import astuple
from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import Codec
from ottla.protocol.records import batches
from ottla.storage import kernel
from ottla.storage.logs.log import Log
from support.cleaner.kernels import INTERPRETED, both, cleaning_with, needs_compiled
from support.logs.make_log import all_batches, clean, data_records, log_with_holes
from support.noted import each_case
from support.sizes import size

NOW_MS = 1_000_000
TIMES = [0, 1, 5, 70, 9_000, 40_000_000, -3, -70_000, 1 << 40, -(1 << 62), (1 << 63) - 1 - NOW_MS]


def random_batch(rng: random.Random, base_offset: int) -> bytearray:
    """Return a batch such as a producer or an earlier pass may have left."""
    count = rng.choice([0, 1, 2, 3, 10, 64, 65, 200]) if rng.random() < 0.5 else rng.randrange(1, 8)
    step = rng.choice([1, 1, 1, 2, 700])
    offsets = sorted(rng.sample(range(count * step), count))
    base_timestamp = rng.choice([0, 900_000, NOW_MS])
    spread = TIMES if rng.random() < 0.3 else TIMES[: rng.randrange(1, 6)]
    value_bytes = rng.choice([0, 1, 50, 100, 300])
    keys = rng.choice([4, 30, 300])
    keyless, tombstones = rng.choice([0, 0, 0.1, 0.5]), rng.choice([0, 0, 0.1, 0.9, 1])
    has_producer = rng.random() < 0.4
    return build_batch(
        [
            (
                base_offset + offset,
                base_timestamp + rng.choice(spread),
                None if rng.random() < keyless else b"k" * rng.choice([0, 0, 5, 130]) + b"%d" % rng.randrange(keys),
                None if rng.random() < tombstones else rng.randbytes(value_bytes),
                [("name", rng.choice([None, b"", b"h"]))] * rng.choice([0, 0, 1, 3]),
            )
            for offset in offsets
        ],
        base_offset=base_offset,
        last_offset_delta=count * step + rng.choice([0, 0, 9]),
        codec=rng.choice([Codec.NONE] * 6 + list(Codec)) if count else 0,
        producer_id=rng.randrange(4) if has_producer else -1,
        producer_epoch=0 if has_producer else -1,
        base_sequence=0 if has_producer else -1,
        transactional=has_producer and rng.random() < 0.2,
        log_append_time=rng.random() < 0.15,
        delete_horizon_ms=rng.choice([None, None, 0, NOW_MS, NOW_MS + 1]) if count else None,
    )


def random_log(seed: int) -> Log:
    rng = random.Random(seed)
    segments: list[tuple[int, list[bytearray]]] = []
    offset = 0
    for _ in range(rng.randrange(1, 4)):
        found: list[bytearray] = []
        base = offset
        for _ in range(rng.randrange(12)):
            offset += rng.choice([0, 0, 0, 5])
            made = random_batch(rng, offset)
            offset += int.from_bytes(made[23:27]) + 1
            found.append(made)
        offset += not found
        segments.append((base, found))
    return log_with_holes(*segments, (offset, []), index_interval_bytes=rng.choice([0, 200, 4096]))


def cleaned(seed: int, module: ModuleType) -> tuple[dict[str, bytes], tuple[object, ...], Log]:
    """Return the files that a pass leaves, its end and statistics, and the log."""
    log = random_log(seed)
    rng = random.Random(seed)
    with cleaning_with(module):
        end, stats = clean(
            log,
            rng.choice([0, 0, rng.randrange(log.log_end_offset + 1)]),
            now_ms=NOW_MS,
            max_entries=rng.choice([None, None, 1, 3, 20]),
            io_buffer_bytes=rng.choice([0, 3_000, 1 << 20]),
        )
    log.close(NOW_MS)
    files = {
        name: log.files.open(f"{log.directory}/{name}").read_at(0, 1 << 30) for name in log.files.list(log.directory)
    }
    return files, (end, *astuple(stats)), log


@needs_compiled
@each_case("seed", range(size(15, 60)))
def test_both_kernels_leave_the_same_files_and_counts(seed: int) -> None:
    assert cleaned(seed, INTERPRETED)[:2] == cleaned(seed, kernel)[:2]


@each_case("seed", range(size(10, 40)))
def test_kept_records_are_unchanged_and_indexed_as_by_recovery(seed: int) -> None:
    before = {record.offset: record for record in data_records(all_batches(random_log(seed)))}
    log = cleaned(seed, kernel)[2]
    found = all_batches(log)
    assert [each for each in found if not each.is_crc_valid()] == []
    records = data_records(found)
    assert records == [before[record.offset] for record in records]
    for each in found:
        if each.record_count and not each.is_log_append_time:
            times = [record.timestamp for record in each.records()]
            assert each.max_timestamp == max(map(wrapped, times))
    for segment in log.segments:
        indexes = (segment.offset_index.entries(), segment.time_index.entries(), segment.max_timestamp_offset)
        assert segment.recover() == 0
        assert (segment.offset_index.entries(), segment.time_index.entries(), segment.max_timestamp_offset) == indexes


def wrapped(timestamp: int) -> int:
    """Return a timestamp, wrapped to 64 bits."""
    return ((timestamp + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


@both
@pytest.mark.parametrize("horizon_ms", [None, 7])
def test_deltas_of_all_lengths_are_rewritten_for_another_base(kernel: ModuleType, horizon_ms: int | None) -> None:
    """A batch grows when its first record, which has a timestamp near all others, is removed."""
    far = 1 << 60
    times = [far + delta for delta in (0, 1, 63, 64, 8_191, 8_192, 1 << 30, 1 << 40)]
    log = log_with_holes(
        (0, [build_batch([(at, time, b"%d" % at, b"v", ()) for at, time in enumerate([far, 0, *times])])]),
        (10, [build_batch([(10, far, b"0", b"v", ())])]),
        (11, []),
    )
    size_bytes = log.segments.first.size_bytes
    with cleaning_with(kernel):
        clean(log, now_ms=NOW_MS)
    first = all_batches(log)[0]
    assert [record.timestamp for record in first.records()] == [0, *times]
    assert (first.base_timestamp, first.max_timestamp) == (0, times[-1])
    assert first.size_bytes > size_bytes


def record_filter(
    module: ModuleType, dead: array[int], records: int, *, arrays: tuple[array[int], ...] | None = None
) -> Any:
    """Return a filter over `records` records from offset 0 on, without gaps and without a map."""
    if arrays is None:
        arrays = (array("q", bytes(64)), *(array(code, bytes(64)) for code in "iiqi"), array("q", bytes(8)))
    tombstones = array("Q", bytes(8 * len(dead)))
    table = memoryview(bytes(32)).cast("Q")
    return module.RecordFilter(dead, tombstones, records, 0, records - 1, table, 1, bytes(16), 0, 0, array("q"), arrays)


@both
def test_bitmaps_decide_without_a_map(kernel: ModuleType) -> None:
    """The bitmaps are the interface for callers that know exactly which records to keep."""

    made = b"".join(
        bytes(build_batch([(base + at, 1_000 + at, b"k", b"v", ()) for at in range(70)])) for base in (0, 70, 140)
    )
    dead = array("Q", bytes(8 * 5))
    gone = {0, 1, 64, 69, *range(70, 140)}
    for ordinal in gone:
        dead[ordinal >> 6] |= 1 << (ordinal & 63)
    records = record_filter(kernel, dead, 210)
    out = memoryview(bytearray(len(made) + 5_000))
    at, filled, stop = records.filter(made, 0, len(made), out, 0)
    assert (at, stop, records.superseded) == (len(made), kernel.Stop.DONE, len(gone))
    kept = [record.offset for each in batches(out[:filled]) for record in each.records()]
    assert kept == [offset for offset in range(210) if offset not in gone]
    assert bytes(out[filled - len(made) // 3 : filled]) == made[-(len(made) // 3) :]


@both
def test_an_index_omits_offsets_beyond_its_range(kernel: ModuleType) -> None:
    """The segment refuses such a batch when it is written; until then no number may overflow."""
    arrays = (array("q", bytes(64)), *(array(code, bytes(64)) for code in "iiqi"), array("q", bytes(8)))
    records = record_filter(kernel, array("Q", bytes(8)), 0, arrays=arrays)
    records.begin_segment(10, 0, 9, 9)
    for last_offset in (10, 10 + 2**31 - 1, 10 + 2**31, 1 << 40):
        records.note(last_offset, 100, last_offset)
    assert (records.offset_count, arrays[1][:2].tolist(), arrays[2][:2].tolist()) == (1, [2**31 - 1, 0], [100, 0])
    assert (records.last_offset, records.max_timestamp) == (1 << 40, 1 << 40)


@both
def test_an_index_omits_positions_beyond_its_range(kernel: ModuleType) -> None:
    arrays = (array("q", bytes(64)), *(array(code, bytes(64)) for code in "iiqi"), array("q", bytes(8)))
    records = record_filter(kernel, array("Q", bytes(8)), 0, arrays=arrays)
    records.begin_segment(0, 0, 9, 9)
    for offset, size_bytes in enumerate((2**31 - 1, 1, 100, 100)):
        records.note(offset, size_bytes, 0)
    assert (records.offset_count, arrays[2][:2].tolist()) == (1, [2**31 - 1, 0])


@both
@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_larger_than_every_buffer_passes(kernel: ModuleType, codec: Codec) -> None:
    count = 3_000
    made = build_batch([(at, at, b"%d" % (at % 2_000), b"v" * 10, ()) for at in range(count)], codec=codec)
    log = log_with_holes((0, [made]), (count, []))
    with cleaning_with(kernel):
        clean(log, io_buffer_bytes=1_000)
    found = data_records(all_batches(log))
    assert [record.offset for record in found] == list(range(1_000, count))


@both
def test_columns_refuse_arrays_that_do_not_fit(kernel: ModuleType) -> None:
    """The caller may be wrong: nothing outside an array is read or written."""
    block = bytes.fromhex("10000000026b0476760000")  # not a record of its length

    def words(*values: int) -> memoryview:
        return memoryview(array("q", values))

    for starts, ends, counts, deltas, out in (
        ([0], [12], [1], [0], 8),  # beyond the buffer
        ([-1], [8], [1], [0], 8),
        ([5], [4], [0], [0], 0),
        ([0], [8], [1], [0], 7),  # another output
        ([0], [8], [1], [], 8),
    ):
        with pytest.raises(IndexError):
            kernel.record_columns(
                block, words(*starts), words(*ends), words(*counts), words(*deltas), words(*[0] * out)
            )
    assert not kernel.record_columns(block, words(0), words(11), words(2), words(9), words(*[0] * 16)), "too many"
    assert not kernel.record_columns(block, words(0), words(11), words(-1), words(9), words())
    assert not kernel.record_columns(block, words(0), words(11), words(1), words(9), words(*[0] * 8))
    for places, counts, out in (([0], [1], 3), ([-1], [1], 4), ([0], [-1], 0), ([0], [], 0)):
        with pytest.raises(IndexError):
            kernel.header_columns(block, words(*places), words(*counts), words(*[0] * out))
    assert not kernel.header_columns(b"\x02a", words(0), words(1), words(*[0] * 4)), "its value is not there"
    assert not kernel.header_columns(b"\x02a", words(9), words(1), words(*[0] * 4))
    assert not kernel.header_columns(b"\x01a\x00", words(0), words(1), words(*[0] * 4)), "a name of negative length"
