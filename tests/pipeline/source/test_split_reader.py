"""Splits together contain the log's records, however the log was made and wherever it is split."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pa = pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import CorruptSourceError, SourceChangedError
from ottla.pipeline.records.batch_window import Damage
from ottla.pipeline.source import split_reader
from ottla.pipeline.source.reading import OpenLog
from ottla.pipeline.source.split_reader import Wanted, damage_in, read_split
from ottla.pipeline.stores.log_files import PartitionLog, Split
from ottla.pipeline.stores.reading_files import FileStatus, ReadingFiles
from ottla.protocol.records import HEADER_BYTES, Record, RecordBatch
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import write_partition_metadata
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs.log import Log
from ottla.storage.segment.index import AbortedTxn
from ottla.storage.steps import to_the_end
from support.cleaner.cleaner_history import random_history
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.logs.make_log import (
    TP,
    Producer,
    all_batches,
    append,
    clean,
    cut_off,
    log_with_holes,
    make_log,
    remove_deleted,
)
from support.sizes import size

HISTORIES = size(12, 150)

SCHEMA = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("timestampMs", pa.int64())])
Row = tuple[int, bytes | None, bytes | None, int]


def on_disk(log: Log, directory: Path) -> Path:
    """Write the disk of a log in memory to files, without closing the log, as another process finds it."""
    assert isinstance(log.files, CrashFiles)
    found = directory / str(TP)
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(parents=True)
    for path, content in log.files.snapshot().items():
        if path.startswith(log.directory + "/"):
            (found / Path(path).name).write_bytes(content)
    return found


def opened(directory: Path, **bounds: Any) -> PartitionLog:
    return PartitionLog(str(directory), TP, pause=lambda: None, **bounds)


def rows(
    log: PartitionLog, from_offset: int, up_to: int, max_bytes: int, *, wanted: Wanted | None = None, **options: Any
) -> list[Row]:
    return [
        tuple(row.values())
        for split in log.splits(from_offset, up_to, max_bytes=max_bytes)
        for found in read_split(split, wanted or Wanted(SCHEMA), **options)
        for row in found.to_pylist()
    ]


def as_row(record: Record) -> Row:
    return record.offset, record.key, record.value, record.timestamp


def readable(log: Log, from_offset: int, up_to: int) -> Iterator[tuple[RecordBatch, Record]]:
    for found in all_batches(log):
        if not found.is_control:
            for record in found.records():
                if from_offset <= record.offset < up_to:
                    yield found, record


def committed(log: Log, from_offset: int) -> list[Row]:
    """Return the records that a read_committed consumer keeps, by the rule of KIP-98 and the server's own answers."""
    end = log.last_stable_offset
    aborted = log.aborted_transactions(from_offset, end)
    return [
        as_row(record)
        for found, record in readable(log, from_offset, end)
        if not (
            found.is_transactional
            and any(
                txn.producer_id == found.producer_id and txn.first_offset <= record.offset <= txn.last_offset
                for txn in aborted
            )
        )
    ]


def test_random_histories_read_as_their_logs(tmp_path: Path) -> None:
    """The logs are written, cleaned, truncated and restarted; their indexes are as a running broker leaves them."""
    met = set()
    for number in range(HISTORIES):
        rng = random.Random(number)
        log = random_history(f"source {number}").run().log
        found = opened(on_disk(log, tmp_path), log_start_offset=log.log_start_offset)
        start, end = log.log_start_offset, log.log_end_offset
        assert (found.log_start_offset, found.readable_end_offset, found.torn_bytes) == (start, end, 0), number
        for max_bytes in (1, 300, 1 << 30):
            low, high = sorted(rng.choice((start, end, rng.randint(start, end))) for _ in range(2))
            expected = [as_row(record) for _, record in readable(log, low, high)]
            assert rows(found, low, high, max_bytes) == expected, (number, low, high, max_bytes)
        stable_end, aborted = found.transactions()
        assert stable_end == log.last_stable_offset, number
        assert rows(found, start, stable_end, 300, wanted=Wanted(SCHEMA, aborted)) == committed(log, start), number
        for timestamp_ms in (0, log.segments.first.max_timestamp_ms, rng.randrange(1 << 41)):
            found_offset = to_the_end(log.search_timestamp(timestamp_ms))
            assert found.offset_for_timestamp(timestamp_ms) == (found_offset and found_offset.offset), number
        met |= {"aborted"} if aborted else set()
        met |= {"open"} if stable_end < end else set()
        met |= {"gap"} if end - start > sum(each.record_count for each in all_batches(log)) else set()
        met |= {"start"} if log.segments.first.base_offset < start else set()
        met |= {"segments"} if len(log.segments) > 2 else set()
        found.close()
    assert met == {"aborted", "open", "gap", "start", "segments"}


def test_every_window_size_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Window sizes smaller than a batch are included."""
    log = make_log(index_interval_bytes=500)
    for number in range(40):
        append(log, *[(f"k{n}", "v" * number * 3) for n in range(5)], codec=number % 5)
    found = opened(on_disk(log, tmp_path))
    expected = [as_row(record) for _, record in readable(log, 0, 200)]
    for window_bytes in (61, 62, 100, 1_000, 5_000):
        monkeypatch.setattr(split_reader, "WINDOW_BYTES", window_bytes)
        assert rows(found, 0, 200, 2_000) == expected


def test_splits_are_about_as_large_as_asked_for(tmp_path: Path) -> None:
    log = make_log(index_interval_bytes=200)
    for _ in range(200):
        append(log, ("k", "v" * 100))
    coarse = list(opened(on_disk(log, tmp_path)).splits(0, 200, max_bytes=10_000))
    assert [split.start for split in coarse[1:]] == [split.end for split in coarse[:-1]]
    assert len(coarse) > 3, "an index that a broker has in memory is made anew"
    log.roll(0)  # writes the index
    found = opened(on_disk(log, tmp_path))
    splits = list(found.splits(0, 200, max_bytes=3_000))
    size_bytes = log.segments.first.size_bytes
    assert [split.start for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert (splits[0].start, splits[-1].end) == (0, size_bytes)
    assert len(splits) == pytest.approx(size_bytes / 3_000, abs=3)
    assert all(split.end - split.start <= 3_000 for split in splits)
    some = list(found.splits(100, 110, max_bytes=1 << 20))
    assert [(split.from_offset, split.up_to_offset) for split in some] == [(100, 110)]
    assert some[0].end - some[0].start < size_bytes / 5, "only what holds the offsets is read"


@pytest.fixture
def log() -> Log:
    """Return three segments of ten batches of five records each; the first two have index entries on disk."""
    log = make_log(index_interval_bytes=600)
    for number in range(30):
        append(
            log, *[(f"k{n}", f"{number}-{n}" * 10) for n in range(5)], timestamp=1_000 + number, roll=number in (9, 19)
        )
    return log


def position_of(log: Log, base_offset: int) -> tuple[str, int]:
    """Return log file and position of the batch."""
    segment = log.segments.floor(base_offset)
    assert segment is not None
    position = segment.position_of(base_offset)
    assert position is not None
    return f"{segment.base_offset:020}.log", position


Change = Callable[[bytearray, int], None]


def flip(at: int) -> Change:
    def change(data: bytearray, position: int) -> None:
        data[position + at] ^= 1

    return change


def overwrite(at: int, content: bytes) -> Change:
    def change(data: bytearray, position: int) -> None:
        data[position + at : position + at + len(content)] = content

    return change


def cut(at: int) -> Change:
    def change(data: bytearray, position: int) -> None:
        del data[position + at :]

    return change


DAMAGES: dict[str, tuple[Change, str, str, range]] = {
    # The change of the batch at offset 70; the expected and the found value in the error; the lost offsets.
    "a flipped bit in a value": (flip(200), "CRC-32C 0x", "0x", range(70, 75)),
    "a flipped bit in the CRC": (flip(18), "CRC-32C 0x", "0x", range(70, 75)),
    "an old magic": (overwrite(16, b"\1"), "a batch of magic 2", "magic 1", range(70, 75)),
    "a length that ends nowhere": (overwrite(8, b"\x7f\xff\xff\xff"), "bytes", "2147483659 bytes", range(70, 75)),
    "a length that is too short": (overwrite(8, b"\0\0\0\1"), "bytes", "13 bytes", range(70, 75)),
    "a length that takes in the next batches": (overwrite(10, b"\4\0"), "CRC-32C 0x", "0x", range(70, 75)),
    "a base offset that does not rise": (
        overwrite(0, bytes(7) + b"\x40"),
        "a base offset above 69",
        "64",
        range(70, 75),
    ),
    "a base offset of another segment": (
        overwrite(0, bytes(6) + b"\4\0"),
        "offsets below 100",
        "1028",
        range(70, 75),
    ),
    "the end of the segment is gone": (cut(100), "a batch of 61 to 100 bytes", " bytes", range(70, 100)),
    "the end of the segment is gone in a header": (cut(20), "header of 61 bytes", "20 bytes", range(70, 100)),
}


@pytest.mark.parametrize(("change", "expected", "actual", "lost"), DAMAGES.values(), ids=DAMAGES)
def test_damage_stops_a_read_or_is_counted(
    log: Log, tmp_path: Path, change: Change, expected: str, actual: str, lost: range
) -> None:
    directory = on_disk(log, tmp_path)
    name, position = position_of(log, 70)
    data = bytearray((directory / name).read_bytes())
    change(data, position)
    (directory / name).write_bytes(data)
    found = opened(directory)
    with pytest.raises(CorruptSourceError) as refused:
        rows(found, 0, 150, 1 << 20)
    offset = int.from_bytes(data[position : position + 8]) if len(data) >= position + 61 else -1
    assert str(refused.value).startswith(f"{directory / name}, byte {position}, offset {offset}: expected ")
    told, _, seen = str(refused.value).partition(", found ")
    assert expected in told
    assert actual in seen
    dropped: list[Damage] = []
    kept = [row[0] for row in rows(found, 0, 150, 1 << 20, on_damage=dropped.append)]
    gone = sorted(set(range(150)) - set(kept))
    # After a broken length reading continues at the next batch in the index, which may be a little later.
    assert set(lost) <= set(gone)
    assert len(gone) <= max(len(lost), 25)
    assert dropped[0].position == position
    assert sum(damage.size_bytes for damage in dropped) > 0
    (middle,) = (split for split in found.splits(0, 150, max_bytes=1 << 20) if split.segment_base_offset == 50)
    assert damage_in(middle) == dropped


def test_a_segments_last_batch_is_not_skipped_at_the_boundary(log: Log, tmp_path: Path) -> None:
    """No CRC covers a base offset."""
    directory = on_disk(log, tmp_path)
    name, position = position_of(log, 95)
    data = bytearray((directory / name).read_bytes())
    data[position + 6] = 1
    (directory / name).write_bytes(data)
    with pytest.raises(CorruptSourceError, match=f"byte {position}, offset 351: expected offsets below 100, found 355"):
        rows(opened(directory), 0, 150, 1 << 20)


def test_invalid_records_are_refused_despite_a_valid_crc(log: Log, tmp_path: Path) -> None:
    directory = on_disk(log, tmp_path)
    bad = batch(("k", "v"), base_offset=150)
    bad[61] += 2  # the record's length
    segment = RecordBatch(bad)
    bad[17:21] = segment.computed_crc().to_bytes(4, "big")
    path = directory / f"{100:020}.log"
    data = path.read_bytes()
    path.write_bytes(data + bad + batch(("k", "w"), base_offset=151))
    found = opened(directory)
    with pytest.raises(CorruptSourceError, match=f"byte {len(data)}, offset 150: expected 1 records that can be read"):
        rows(found, 0, 152, 1 << 20)
    dropped: list[Damage] = []
    assert [row[0] for row in rows(found, 140, 152, 1 << 20, on_damage=dropped.append)] == [*range(140, 150), 151]
    assert [(damage.offset, damage.record_count, damage.size_bytes) for damage in dropped] == [(150, 1, len(bad))]


@pytest.mark.parametrize("tail_bytes", [1, 60, 61, 100, 200])
def test_a_torn_end_of_the_last_segment_is_not_damage(log: Log, tmp_path: Path, tail_bytes: int) -> None:
    directory = on_disk(log, tmp_path)
    path = directory / f"{100:020}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + batch(("k", "v" * 500), base_offset=150)[:tail_bytes])
    found = opened(directory)
    assert (found.torn_bytes, found.log_end_offset) == (tail_bytes, 150)
    assert len(rows(found, 0, 1_000, 1_000)) == 150
    path.write_bytes(whole + bytes(tail_bytes))
    assert opened(directory).torn_bytes == tail_bytes, "as a preallocated file"
    assert path.read_bytes() == whole + bytes(tail_bytes), "nothing is written"


def test_a_last_segment_torn_below_the_durable_end_is_damaged(log: Log, tmp_path: Path) -> None:
    directory = on_disk(log, tmp_path)
    path = directory / f"{100:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    assert len(rows(opened(directory, durable_end_offset=145), 0, 150, 1 << 20)) == 145
    with pytest.raises(CorruptSourceError, match="offset 145: expected a batch of 61 to"):
        rows(opened(directory, durable_end_offset=150), 0, 150, 1 << 20)


def test_a_last_segment_followed_by_foreign_bytes_is_damaged(log: Log, tmp_path: Path) -> None:
    directory = on_disk(log, tmp_path)
    path = directory / f"{100:020}.log"
    path.write_bytes(path.read_bytes() + b"#" * 100)
    with pytest.raises(CorruptSourceError, match="expected a batch of magic 2, found magic 35"):
        rows(opened(directory), 0, 1_000, 1 << 20)


def lose_index(index: Path) -> None:
    index.unlink()


def preallocate(index: Path) -> None:
    index.write_bytes(index.read_bytes() + bytes(4096))


def point_elsewhere(index: Path) -> None:
    """Write entries that are in order, and all wrong."""
    index.write_bytes(b"".join((n * 5 + 4).to_bytes(4) + (n * 100 + 7).to_bytes(4) for n in range(1, 10)))


@pytest.mark.parametrize("spoil", [lose_index, preallocate, point_elsewhere])
def test_offset_indexes_are_not_trusted(log: Log, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    directory = on_disk(log, tmp_path)
    for base_offset in (0, 50):
        spoil(directory / f"{base_offset:020}.index")
    found = opened(directory)
    assert [row[0] for row in rows(found, 0, 150, 500)] == list(range(150))


def test_a_high_watermark_bounds_the_read_range(log: Log, tmp_path: Path) -> None:
    directory = on_disk(log, tmp_path)
    assert opened(directory, high_watermark=125).readable_end_offset == 125
    assert opened(directory, high_watermark=1_000).readable_end_offset == 150
    assert opened(directory, high_watermark=125).transactions()[0] == 125


def live_log(directory: Path) -> Log:
    log = make_log(OsFiles(), data_dir=str(directory), index_interval_bytes=0)
    for number in range(12):
        append(log, *[(f"k{n}", f"{number}") for n in range(5)], timestamp=1_000 + number, roll=number % 4 == 3)
    return log


def planned(log: Log) -> list[Split]:
    found = opened(Path(log.directory))
    splits = list(found.splits(0, 60, max_bytes=1 << 20))
    found.close()
    return splits


def read_all(splits: list[Split]) -> list[Row]:
    return [
        tuple(row.values())
        for split in splits
        for each in read_split(split, Wanted(SCHEMA))
        for row in each.to_pylist()
    ]


def test_a_log_cleaned_after_planning_is_read_by_offsets(tmp_path: Path) -> None:
    """Segments were replaced and deleted; every offset is read once, from its present place."""
    log = live_log(tmp_path)
    splits = planned(log)
    clean(log)
    assert len(log.segments) < 4
    now = [as_row(record) for _, record in readable(log, 0, 60)]
    assert len(now) < 60
    assert read_all(splits) == now


class DisturbedFiles(ReadingFiles):
    """Files of which one access, counted from 0, runs something first."""

    def __init__(self, number: int, work: Callable[[], object]) -> None:
        super().__init__()
        self.left = number
        self._work = work

    def _note(self) -> None:
        self.left -= 1
        if self.left == -1:
            self._work()

    def list(self, directory: str) -> list[str]:
        self._note()
        return super().list(directory)

    def identity(self, path: str) -> int:
        self._note()
        return super().identity(path)

    def statuses(self, directory: str, names: Iterable[str]) -> Sequence[FileStatus]:
        def noted() -> Iterator[str]:
            for name in names:
                self._note()
                yield name

        return super().statuses(directory, noted())


def a_pass(log: Log) -> None:
    clean(log)
    remove_deleted(log, 1 << 40)


def a_roll(log: Log) -> None:
    append(log, ("new", "1"), roll=True)


@pytest.mark.parametrize("work", [a_pass, a_roll])
@pytest.mark.parametrize("max_bytes", [300, 1 << 20])
@pytest.mark.parametrize("is_old", [False, True])
def test_a_log_that_changes_while_it_is_planned_is_read_by_offsets(
    tmp_path: Path, work: Callable[[Log], None], max_bytes: int, is_old: bool
) -> None:
    """The change comes before each access of the plan in turn."""
    for number in range(60):
        log = live_log(tmp_path / str(number))
        if is_old:
            os.utime(log.directory, (1, 1))
        files = DisturbedFiles(number, partial(work, log))
        found = opened(Path(log.directory), files=files)
        splits = list(found.splits(0, 60, max_bytes=max_bytes))
        found.close()
        is_done = files.left >= 0
        assert read_all(splits) == [as_row(record) for _, record in readable(log, 0, 60)], number
        log.release_files()
        if is_done:
            break
    assert 4 < number < 59


def test_records_deleted_after_planning_are_reported(tmp_path: Path) -> None:
    log = live_log(tmp_path)
    splits = planned(log)
    log.advance_log_start(25)
    log.segments.first.delete_files()
    with pytest.raises(
        SourceChangedError, match="offsets 0 to 20 were deleted while they were read; the log begins at 20"
    ):
        read_all(splits)


def test_a_swap_of_any_duration_is_read_through(log: Log, tmp_path: Path) -> None:
    directory = on_disk(log, tmp_path)
    before = rows(opened(directory), 0, 150, 1 << 20)
    (directory / f"{50:020}.log").rename(directory / f"{50:020}.log.swap")
    (directory / f"{100:020}.log.cleaned").write_bytes(b"")
    found = opened(directory)
    assert [segment.base_offset for segment in found.segments] == [0, 50, 100]
    assert before
    (directory / f"{50:020}.log.swap").rename(directory / f"{50:020}.log")
    assert rows(found, 0, 150, 1 << 20) == before


def test_a_recreated_topic_is_not_read_as_the_old_one(tmp_path: Path) -> None:
    log = live_log(tmp_path)
    splits = planned(log)
    shutil.rmtree(log.directory)
    anew = make_log(OsFiles(), data_dir=str(tmp_path))
    for number in range(60):
        append(anew, ("other", f"{number}"))
    write_partition_metadata(OsFiles(), anew.directory, bytes(range(16)))
    with pytest.raises(SourceChangedError, match="the topic was deleted and created again while it was read"):
        read_all(splits)


def test_a_truncated_end_is_reported(tmp_path: Path) -> None:
    log = live_log(tmp_path)
    splits = planned(log)
    cut_off(log, 50)
    with pytest.raises(SourceChangedError, match=r"offsets 40 to 60 were deleted while they were read; .* ends at 50"):
        read_all(splits)


def test_a_reused_inode_is_noticed(tmp_path: Path) -> None:
    """File systems reuse the number of a removed file."""
    log = live_log(tmp_path)
    first = planned(log)[0]
    header = Path(first.log_path).read_bytes()[:HEADER_BYTES]
    clean(log)
    now = [as_row(record) for _, record in readable(log, first.from_offset, first.up_to_offset)]
    inode = Path(first.log_path).stat().st_ino
    as_last = first._replace(inode=inode, end=1, changed_ns=None, first_header=header)
    for split in (first._replace(inode=inode), as_last):
        assert read_all([split]) == now


def test_open_transactions_of_a_running_broker_are_read(tmp_path: Path) -> None:
    """The index entry of the last segment is in the broker's memory; the marker in the log contains the same."""
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    producer = Producer(log, 7, transactional=True)
    producer.write("a")
    log.roll(0)
    producer.write("b")
    producer.abort()
    producer.write("c")
    producer.commit()
    producer.write("d")
    found = opened(Path(log.directory))
    stable_end, aborted = found.transactions()
    assert (stable_end, [txn[1:3] for txn in aborted]) == (5, [(0, 2)])
    assert [row[1] for row in rows(found, 0, stable_end, 1 << 20, wanted=Wanted(SCHEMA, aborted))] == [b"c"]


def test_offsets_far_above_the_base_are_read(tmp_path: Path) -> None:
    base = 2**40
    log = log_with_holes((base, [batch(("a", "1"), base_offset=base), batch(("b", "2"), base_offset=base + 2**31 - 1)]))
    found = opened(on_disk(log, tmp_path))
    assert [row[0] for row in rows(found, 0, 2**63 - 1, 1)] == [base, base + 2**31 - 1]


def test_aborted_transactions_are_known_after_a_power_loss_deletes_their_index(tmp_path: Path) -> None:
    """Nothing above the recovery point was synced: the producers' snapshot may exist nevertheless, and the index not."""
    log = make_log()
    append(log, ("k", "1"), roll=True)
    producer = Producer(log, 7, transactional=True)
    producer.write("k")
    producer.abort()
    log.roll(0)
    append(log, ("z", "1"))
    directory = on_disk(log, tmp_path)
    expected = opened(directory).transactions()
    assert len(expected[1]) == 1
    index = Path(paths.txn_index_path(str(directory), 1))
    for left in (None, b"", index.read_bytes()[:20]):
        index.unlink() if left is None else index.write_bytes(left)
        assert opened(directory, durable_end_offset=1).transactions() == expected


@pytest.mark.parametrize("marks", [Producer.abort, Producer.commit])
def test_a_marker_above_the_high_watermark_decides_nothing(tmp_path: Path, marks: Callable[[Producer], int]) -> None:
    log = make_log()
    append(log, ("k", "1"))
    producer = Producer(log, 7, transactional=True)
    producer.write("k")
    log.roll(0)
    marks(producer)
    log.roll(0)
    append(log, ("z", "1"))
    directory = on_disk(log, tmp_path)
    assert opened(directory, high_watermark=2).transactions()[0] == 1
    assert opened(directory, high_watermark=3).transactions()[0] == 3


def test_a_part_has_the_aborted_transactions_that_overlap_it(tmp_path: Path) -> None:
    """Long transactions overlap many parts, and end in any order."""
    log = live_log(tmp_path)
    found = opened(Path(log.directory))
    for seed in range(size(20, 200)):
        rng = random.Random(seed)
        ends = sorted(rng.sample(range(60), rng.randrange(20)))
        aborted = [AbortedTxn(1, rng.choice((0, end, rng.randint(0, end))), end, end + 1) for end in ends]
        for split, own in OpenLog(found, 60, aborted).tasks(
            0, 60, max_bytes=rng.choice((1, 300, 1 << 20)), since_ms=None
        ):
            overlapping = [each for each in aborted if each.first_offset < split.up_to_offset]
            assert list(own) == [each for each in overlapping if each.last_offset >= split.from_offset], seed
    found.close()
    log.release_files()
