import random
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.disk.files import DamagedFileError
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.segment import index_file
from ottla.storage.segment.index import (
    ENTRIES_PER_BLOCK,
    WRITTEN_AT_ONCE,
    AbortedTxn,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
)
from ottla.storage.segment.index_file import RELATIVE_OFFSET_MAX
from support.between_lines import between_lines
from support.calls import calls_of
from support.disk.crash_files import CrashFiles
from support.disk.gated_files import GatedFiles
from support.sizes import size

BASE = 1000
MAKERS: list[Callable[[CrashFiles], OffsetIndex | TimeIndex | TransactionIndex]] = [
    lambda files: offset_index(files),
    lambda files: time_index(files),
    lambda files: TransactionIndex(files, "x", BASE),
]
EACH = pytest.mark.parametrize("make", MAKERS, ids=["offset", "time", "txn"])
SPARSE = pytest.mark.parametrize("make", MAKERS[:2], ids=["offset", "time"])


def offset_index(files: CrashFiles | None = None, *, max_bytes: int = 80) -> OffsetIndex:
    return OffsetIndex(files or CrashFiles(), "x", BASE, max_bytes)


def time_index(files: CrashFiles | None = None, *, max_bytes: int = 120) -> TimeIndex:
    return TimeIndex(files or CrashFiles(), "x", BASE, max_bytes)


def add(index: OffsetIndex | TimeIndex | TransactionIndex, number: int) -> None:
    """Append an entry for offset `BASE + number`."""
    if isinstance(index, OffsetIndex):
        index.append(BASE + number, number * 10)
    elif isinstance(index, TimeIndex):
        index.append(5000 + number, BASE + number)
    else:
        index.append(AbortedTxn(7, BASE + number - 1, BASE + number, BASE + number + 1))


def disk_with(content: bytes) -> CrashFiles:
    files = CrashFiles()
    files.open("x", create=True).append(content)
    files.sync_all()
    return files


def content(files: CrashFiles) -> bytes:
    return files.snapshot()["/x"]


# Common to all three


@pytest.mark.scenario(192, 193, 194)
@EACH
@given(numbers=st.lists(st.integers(1, 9), unique=True).map(sorted), flushed=st.integers(0, 9))
def test_entries_read_back_for_any_size_of_write(
    make: Callable[[CrashFiles], OffsetIndex], numbers: list[int], flushed: int
) -> None:
    files = CrashFiles()
    index = make(files)
    for number in numbers:
        add(index, number)
        if number <= flushed:
            index.flush(sync=False)
    index.flush(sync=True)
    again = make(files)
    assert again.entry_count == len(numbers)
    assert again.size_bytes == len(numbers) * again.ENTRY_BYTES
    assert again.entries() == index.entries()
    assert len(again.entries()) == len(numbers)


@EACH
def test_appending_accesses_no_file(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = disk_with(b"")
    index = make(files)
    for number in range(1, 9):
        add(index, number)
    assert files.operations == []


@EACH
def test_a_flush_appends_new_entries_and_a_second_one_does_nothing(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = CrashFiles()
    index = make(files)
    add(index, 1)
    index.flush(sync=True)
    add(index, 2)
    files.operations.clear()
    index.flush(sync=True)
    index.flush(sync=True)
    assert [operation for operation, _ in files.operations] == ["append", "sync"]


@EACH
def test_an_unused_index_is_not_read_or_written(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = disk_with(b"broken")
    make(files).flush(sync=True)
    assert files.operations == []


@EACH
def test_an_index_that_was_only_read_needs_no_sync(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = CrashFiles()
    index = make(files)
    add(index, 1)
    index.flush(sync=True)
    again = make(files)
    assert again.entries() == index.entries()
    files.operations.clear()
    again.flush(sync=True)
    assert files.operations == []


@EACH
def test_a_file_that_lost_entries_unnoticed_is_rewritten_completely(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = CrashFiles()
    index = make(files)
    add(index, 1)
    add(index, 2)
    index.flush(sync=True)
    files.open("x").truncate(3)
    add(index, 3)
    index.flush(sync=True)
    assert make(files).entries() == index.entries()


@EACH
def test_synced_entries_survive_a_power_loss(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = disk_with(b"")
    index = make(files)
    add(index, 1)
    index.flush(sync=False)
    index.flush(sync=True)
    assert [after.snapshot() for after in files.after_crash(ordered=False)] == [files.snapshot()]


@pytest.mark.scenario(192, 193)
@SPARSE
@pytest.mark.parametrize("kept", [0, 1, 2, 5])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_truncation_drops_entries_at_or_above_the_offset(
    make: Callable[[CrashFiles], OffsetIndex], kept: int, is_flushed: bool
) -> None:
    files = CrashFiles()
    index = make(files)
    for number in range(1, 6):
        add(index, number)
    entries = index.entries()
    if is_flushed:
        index.flush(sync=False)
        index = make(files)
    index.truncate_to(BASE + kept + 1)
    assert index.entries() == entries[:kept]
    index.flush(sync=False)
    assert make(files).entries() == entries[:kept]
    add(index, 7)
    index.flush(sync=False)
    assert make(files).entries() == index.entries()
    assert len(index.entries()) == kept + 1


@EACH
def test_a_reset_index_is_empty_for_any_file_content(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = disk_with(b"broken")
    index = make(files)
    index.reset()
    assert index.entries() == []
    add(index, 3)
    index.flush(sync=False)
    assert make(files).entries() == index.entries()


@pytest.mark.scenario(194)
@EACH
def test_renaming_moves_an_existing_file(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = CrashFiles()
    index = make(files)
    index.rename("y")
    add(index, 1)
    index.flush(sync=False)
    assert list(files.snapshot()) == ["/y"]
    index.rename("z")
    assert list(files.snapshot()) == ["/z"]
    assert index.path == "z"
    assert len(index.entries()) == 1


@pytest.mark.scenario(192)
@EACH
def test_a_missing_file_is_an_empty_index(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    index = make(CrashFiles())
    index.sanity_check()
    assert (index.entry_count, index.entries()) == (0, [])


@EACH
def test_a_file_with_a_partial_entry_is_corrupt(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    with pytest.raises(DamagedFileError, match=r"^x: size of 7 bytes"):
        make(disk_with(b"1234567")).sanity_check()


@EACH
@given(data=st.binary(max_size=150))
def test_any_bytes_are_an_index_or_corrupt(make: Callable[[CrashFiles], OffsetIndex], data: bytes) -> None:
    index = make(disk_with(data))
    try:
        index.sanity_check()
    except DamagedFileError:
        with pytest.raises(DamagedFileError):
            index.entries()
    else:
        assert len(index.entries()) * index.ENTRY_BYTES == len(data)


@EACH
def test_a_flush_that_the_disk_refuses_is_repeated_by_the_next(make: Callable[[CrashFiles], OffsetIndex]) -> None:
    files = disk_with(b"")
    index = make(files)
    add(index, 1)
    files.free_bytes = 5
    with pytest.raises(OSError, match="no space"):
        index.flush(sync=True)
    files.free_bytes = 500
    index.flush(sync=True)
    assert make(files).entries() == index.entries()


# By offset


@pytest.mark.scenario(192)
@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (BASE, 0)),
        (BASE, (BASE, 0)),
        (BASE + 1, (BASE, 0)),
        (BASE + 2, (BASE + 2, 20)),
        (BASE + 3, (BASE + 2, 20)),
        (BASE + 4, (BASE + 4, 40)),
        (BASE + 99, (BASE + 8, 80)),
        (2**63 - 1, (BASE + 8, 80)),
    ],
)
def test_an_offset_lookup_finds_the_last_entry_at_or_below(offset: int, expected: tuple[int, int]) -> None:
    index = offset_index()
    for number in (2, 4, 8):
        add(index, number)
    assert index.lookup(offset) == expected


@pytest.mark.parametrize(
    ("position", "expected"),
    [(0, (BASE, 0)), (19, (BASE, 0)), (20, (BASE + 2, 20)), (39, (BASE + 2, 20)), (2**31, (BASE + 8, 80))],
)
def test_a_position_lookup_finds_the_last_entry_at_or_below(position: int, expected: tuple[int, int]) -> None:
    index = offset_index()
    for number in (2, 4, 8):
        add(index, number)
    assert index.floor_of_position(position) == expected


BESIDE: dict[str, tuple[OffsetIndex | TimeIndex, Callable[[Any], object], list[object]]] = {
    "by offset": (offset_index(), lambda index: index.lookup(BASE + 9), [(BASE + 1, 10), (BASE + 2, 20)]),
    "by position": (offset_index(), lambda index: index.floor_of_position(99), [(BASE + 1, 10), (BASE + 2, 20)]),
    "by timestamp": (time_index(), lambda index: index.lookup(9_999), [(5001, BASE + 1), (5002, BASE + 2)]),
}


@pytest.mark.parametrize("look", BESIDE)
def test_a_lookup_during_an_append_finds_complete_entries(look: str) -> None:
    index, lookup, expected = BESIDE[look]
    add(index, 1)
    found = []
    between_lines(lambda: add(index, 2), lambda: found.append(lookup(index)))
    assert list(dict.fromkeys(found)) == expected


def test_the_offset_index_file_has_kafkas_bytes() -> None:
    files = CrashFiles()
    index = offset_index(files)
    index.append(BASE + 1, 300)
    index.append(BASE + RELATIVE_OFFSET_MAX, 2**31 - 1)
    index.flush(sync=False)
    assert content(files).hex() == "000000010000012c" + "7fffffff7fffffff"


@pytest.mark.scenario(192)
@pytest.mark.parametrize("offset", [BASE + 4, BASE + 3, BASE - 1, BASE + RELATIVE_OFFSET_MAX + 1])
def test_an_offset_entry_must_be_above_the_last_and_within_31_bits(offset: int) -> None:
    index = offset_index()
    add(index, 4)
    with pytest.raises(ValueError, match=r"does not come after|is out of range for an index"):
        index.append(offset, 100)
    assert index.last_entry == (BASE + 4, 40)


@pytest.mark.scenario(192)
def test_an_offset_index_is_full_without_room_for_one_more() -> None:
    index = offset_index(max_bytes=23)  # two entries and seven bytes
    assert not index.is_full
    add(index, 1)
    assert not index.is_full
    add(index, 2)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        add(index, 3)


@pytest.mark.parametrize(
    "entries",
    [
        [(5, 10), (5, 20)],
        [(5, 10), (4, 20)],
        [(5, 10), (6, 10)],
        [(5, 10), (6, 9)],
        [(-1, 10)],
        [(5, 10), (0, 0), (0, 0)],  # the zeros that Kafka's preallocation leaves after kill -9
    ],
)
def test_an_offset_index_that_does_not_increase_is_corrupt(entries: list[tuple[int, int]]) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    with pytest.raises(DamagedFileError):
        offset_index(disk_with(data)).sanity_check()


def test_the_last_entry_is_available_without_loading_the_file() -> None:
    assert offset_index().last_entry_in_file() is None
    assert offset_index(disk_with(b"")).last_entry_in_file() is None
    assert offset_index(disk_with(b"1234567")).last_entry_in_file() is None
    files = disk_with(struct.pack(">iiii", 1, 10, 2, 20))
    index = offset_index(files)
    assert index.last_entry_in_file() == (BASE + 2, 20) == index.last_entry


@pytest.mark.parametrize("damage", [0, 2000, 4095, 4096, 5000, 9999])
def test_a_lost_disk_sector_is_noticed_in_a_long_index(damage: int) -> None:
    count = 2 * index_file.CHECKED_WHOLE_MAX + 100
    data = bytearray(b"".join(struct.pack(">ii", 2 * n + 1, 5 * n + 1) for n in range(count)))
    offset_index(disk_with(bytes(data))).sanity_check()
    at = min(damage * 8 // 512 * 512, len(data) - 512) or 512
    data[at : at + 512] = bytes(512)
    with pytest.raises(DamagedFileError):
        offset_index(disk_with(bytes(data))).sanity_check()


# By time


@pytest.mark.scenario(193)
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (-1, BASE)),
        (5001, (-1, BASE)),
        (5002, (5002, BASE + 2)),
        (5003, (5002, BASE + 2)),
        (2**62, (5008, BASE + 8)),
    ],
)
def test_a_time_lookup_finds_the_last_entry_at_or_before(timestamp: int, expected: tuple[int, int]) -> None:
    index = time_index()
    for number in (2, 4, 8):
        add(index, number)
    assert index.lookup(timestamp) == expected


def test_the_time_index_file_has_kafkas_bytes() -> None:
    files = CrashFiles()
    index = time_index(files)
    index.append(0x0102030405060708, BASE + 0x01020304)
    index.append(2**63 - 1, BASE + RELATIVE_OFFSET_MAX)
    index.flush(sync=False)
    assert content(files).hex() == "010203040506070801020304" + "7fffffffffffffff7fffffff"


@pytest.mark.scenario(193)
@pytest.mark.parametrize(
    ("timestamp", "offset"), [(5003, BASE + 9), (5009, BASE + 3), (5009, BASE + RELATIVE_OFFSET_MAX + 1)]
)
def test_a_time_entry_below_the_last_or_beyond_31_bits_is_refused(timestamp: int, offset: int) -> None:
    index = time_index()
    add(index, 4)
    with pytest.raises(ValueError, match=r"does not come after|is out of range for an index"):
        index.append(timestamp, offset)
    assert index.entries() == [(5004, BASE + 4)]


def test_a_repeated_or_missing_timestamp_adds_no_entry() -> None:
    index = time_index()
    index.append(-1, BASE + 1)
    assert index.entries() == []
    index.append(5004, BASE + 4)
    index.append(5004, BASE + 9)
    assert index.entries() == [(5004, BASE + 4)]
    index.append(5005, BASE + 9)
    assert index.last_entry == (5005, BASE + 9)


def test_later_timestamps_may_share_an_offset() -> None:
    files = CrashFiles()
    index = time_index(files)
    index.append(1, BASE + 4)
    index.append(2, BASE + 4)
    index.flush(sync=False)
    assert time_index(files).entries() == [(1, BASE + 4), (2, BASE + 4)]


@pytest.mark.scenario(193)
def test_a_time_index_reserves_space_for_its_closing_entry() -> None:
    index = time_index(max_bytes=3 * 12)
    add(index, 1)
    assert not index.is_full
    add(index, 2)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        add(index, 3)
    index.append(5003, BASE + 3, force=True)
    assert index.entry_count == 3


def test_a_time_index_that_was_larger_before_gets_its_closing_entry() -> None:
    files = CrashFiles()
    index = time_index(files, max_bytes=9 * 12)
    for number in range(1, 9):
        add(index, number)
    index.flush(sync=False)
    index = time_index(files, max_bytes=3 * 12)
    with pytest.raises(ValueError, match="full"):
        add(index, 9)
    index.append(5009, BASE + 9, force=True)
    index.flush(sync=False)
    assert time_index(files).entry_count == 9


@pytest.mark.parametrize("entries", [[(5, 1), (5, 2)], [(5, 1), (4, 2)], [(5, 3), (6, 2)], [(5, -1)], [(5, 1), (0, 0)]])
def test_a_time_index_that_decreases_is_corrupt(entries: list[tuple[int, int]]) -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in entries)
    with pytest.raises(DamagedFileError):
        time_index(disk_with(data)).sanity_check()


# Of aborted transactions

TXNS = [AbortedTxn(0, 0, 10, 11), AbortedTxn(1, 5, 15, 13), AbortedTxn(2, 18, 35, 25), AbortedTxn(3, 32, 50, 40)]


def txn_index(*txns: AbortedTxn, files: CrashFiles | None = None) -> TransactionIndex:
    index = TransactionIndex(files or CrashFiles(), "x", 0)
    for txn in txns:
        index.append(txn)
    return index


@pytest.mark.scenario(194)
@pytest.mark.parametrize(
    ("from_offset", "upper_offset", "expected", "is_complete"),
    [
        (0, 100, TXNS, False),
        (0, 32, TXNS[:3], True),
        (0, 35, TXNS, True),
        (10, 35, TXNS, True),
        (11, 35, TXNS[1:], True),
        (20, 41, TXNS[2:], False),
        (0, 5, TXNS[:1], True),
        (51, 100, [], False),
        (0, 0, [], True),
    ],
)
def test_aborted_transactions_overlap_the_range(
    from_offset: int, upper_offset: int, expected: list[AbortedTxn], is_complete: bool
) -> None:
    found, is_over = txn_index(*TXNS).collect_aborted(from_offset, upper_offset)
    assert (list(found), is_over) == (expected, is_complete)


def overlapping(txns: list[AbortedTxn], from_offset: int, upper_offset: int) -> list[AbortedTxn]:
    """Return the overlapping transactions by Apache Kafka's rule, entry by entry."""
    found = []
    for txn in txns:
        if txn.last_offset >= from_offset and txn.first_offset < upper_offset:
            found.append(txn)
        if txn.last_offset >= from_offset and txn.last_stable_offset >= upper_offset:
            break
    return found


def many(count: int, rng: random.Random, open_at_once: int) -> list[AbortedTxn]:
    """Return transactions of two records and a marker, some of which stay open for long, in the order of their markers."""
    open_since: dict[int, int] = {}
    txns: list[AbortedTxn] = []
    offset = 0
    while len(txns) < count:
        producer = rng.randrange(open_at_once)
        if producer not in open_since:
            open_since[producer] = offset
            offset += 2
        elif rng.random() < (0.001 if producer == 0 else 0.5):
            first = open_since.pop(producer)
            offset += 1
            txns.append(AbortedTxn(producer, first, offset - 1, min(open_since.values(), default=offset)))
    return txns


@pytest.mark.parametrize("open_at_once", [1, 2, 30])
def test_a_search_in_many_aborted_transactions_finds_those_of_a_full_scan(open_at_once: int) -> None:
    rng = random.Random(open_at_once)
    txns = many(3 * ENTRIES_PER_BLOCK + 7, rng, open_at_once)
    index = txn_index(*txns)
    end = txns[-1].last_offset + 2
    files = CrashFiles()
    written = txn_index(*txns, files=files)
    written.flush(sync=False)
    for each in (index, written, TransactionIndex(files, "x", 0)):
        assert each.entries() == txns
        for _ in range(size(5, 100)):
            from_offset = rng.randrange(end)
            upper = from_offset + rng.choice([0, 1, 5, 100, end])
            found, is_over = each.collect_aborted(from_offset, upper)
            assert list(found) == overlapping(txns, from_offset, upper)
            following = [txn for txn in txns if txn.last_offset >= from_offset]
            assert is_over == any(txn.last_stable_offset >= upper for txn in following)


def test_transactions_after_a_range_cost_nothing_even_under_one_long_transaction() -> None:
    def index(count: int) -> TransactionIndex:
        first = count * 3
        short = [AbortedTxn(2, 5 + at * 2, 6 + at * 2, 0) for at in range(count)]
        return txn_index(*short, AbortedTxn(1, 0, first, first + 1))

    few, many = index(2_000), index(20_000)
    calls = [calls_of(lambda index=index: list(index.collect_aborted(0, 9)[0])) for index in (few, many)]  # type: ignore[misc]
    assert calls[1] < 2 * calls[0]
    assert [txn.first_offset for txn in many.collect_aborted(0, 9)[0]] == [5, 7, 0]


def test_many_new_entries_are_written_before_the_roll() -> None:
    files = CrashFiles()
    txns = [AbortedTxn(1, at * 2, at * 2 + 1, at * 2 + 2) for at in range(WRITTEN_AT_ONCE)]
    index = txn_index(*txns[:-1], files=files)
    assert "/x" not in files.snapshot()
    index.append(txns[-1])
    assert len(content(files)) == WRITTEN_AT_ONCE * TransactionIndex.ENTRY_BYTES
    assert TransactionIndex(files, "x", 0).entries() == txns


@pytest.mark.scenario(194)
@pytest.mark.parametrize("last_offset", [10, 9])
def test_markers_are_in_the_order_of_their_offsets(last_offset: int) -> None:
    index = txn_index(TXNS[0])
    with pytest.raises(ValueError, match="does not come after"):
        index.append(AbortedTxn(9, 0, last_offset, 60))
    assert index.entries() == TXNS[:1]


def test_the_transaction_index_file_has_kafkas_bytes() -> None:
    files = CrashFiles()
    txn_index(AbortedTxn(1, 2, 3, 4), files=files).flush(sync=False)
    assert content(files).hex() == "0000" + "".join(f"{number:016x}" for number in (1, 2, 3, 4))


def test_without_aborted_transactions_a_new_file_is_omitted_and_an_old_emptied() -> None:
    files = CrashFiles()
    index = txn_index(files=files)
    index.reset()
    index.flush(sync=True)
    assert files.snapshot() == {}
    index.append(TXNS[0])
    index.flush(sync=True)
    index.reset()
    index.flush(sync=True)
    assert files.snapshot() == {"/x": b""}


@pytest.mark.scenario(194)
@pytest.mark.parametrize(
    ("base_offset", "entries"),
    [
        (0, [(1, 0, 0, 10, 11)]),
        (0, [(0, 0, 0, 10, 11), (0, 1, 0, 10, 11)]),
        (0, [(0, 0, 0, 10, 11), (0, 1, 0, 9, 11)]),
        (11, [(0, 0, 0, 10, 11)]),
    ],
    ids=["unknown version", "same marker", "earlier marker", "marker below the base offset"],
)
def test_a_self_contradicting_transaction_index_is_corrupt(
    base_offset: int, entries: list[tuple[int, int, int, int, int]]
) -> None:
    files = disk_with(b"".join(struct.pack(">hqqqq", *entry) for entry in entries))
    with pytest.raises(DamagedFileError):
        TransactionIndex(files, "x", base_offset).sanity_check()


@pytest.mark.parametrize("use", ["load", "flush"])
def test_an_index_on_a_stalled_disk_delays_no_other_index(tmp_path: Path, use: str) -> None:
    files = GatedFiles("/stuck")
    done: list[str] = []

    def index(name: str) -> OffsetIndex:
        return OffsetIndex(files, str(tmp_path / name), 0, 80)

    def work(name: str) -> None:
        mine = index(name)
        if use == "flush":
            mine.reset()
            mine.append(1, 100)
            mine.flush(sync=False)
        else:
            assert mine.lookup(5) == (1, 100)
        done.append(name)

    if use == "load":
        for name in ("stuck", "works"):
            whole = OffsetIndex(OsFiles(), str(tmp_path / name), 0, 80)
            whole.append(1, 100)
            whole.flush(sync=False)
    hanging = threading.Thread(target=work, args=("stuck",))
    hanging.start()
    files.wait_until_reached()
    working = threading.Thread(target=work, args=("works",))
    working.start()
    working.join(30)
    done_meanwhile = list(done)
    files.let_on()
    hanging.join()
    working.join()
    assert done_meanwhile == ["works"] and done == ["works", "stuck"]
