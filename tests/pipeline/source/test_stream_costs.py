"""The cost of a stream's trigger: its file operations depend on the new data, not on the log's length. It finds the same as a
first look.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from ottla.pipeline.source.batch_reader import SplitPartition
from ottla.pipeline.source.read_options import ReadOptions, by_partition
from ottla.pipeline.source.reading import Bounds, LogReader, Task
from ottla.pipeline.source.split_reader import Wanted, read_split
from ottla.pipeline.source.stream import StreamReader
from ottla.pipeline.stores.log_tails import Tail
from ottla.pipeline.stores.reading_files import FileStatus, LogFile, ReadingFiles
from ottla.pipeline.stores.store import Store
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import OFFSET_MAX, TopicPartition
from ottla.storage.logs.log import Log
from support.logs.make_log import Producer, append, clean, make_log, remove_deleted
from support.sizes import size

A0 = TopicPartition("a", 0)
OFFSETS = pa.schema([("offset", pa.int64())])


class CountingFiles(ReadingFiles):
    """A disk that counts its operations."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.bytes_read = 0

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> LogFile:
        self.asked["open"] += 1
        file = super().open(path, create=create, truncate=truncate)
        assert isinstance(file, LogFile)
        return file

    def list(self, directory: str) -> list[str]:
        self.asked["list"] += 1
        return super().list(directory)

    def exists(self, path: str) -> bool:
        self.asked["exists"] += 1
        return super().exists(path)

    def identity(self, path: str) -> int:
        self.asked["identity"] += 1
        return super().identity(path)

    def size(self, path: str) -> int:
        self.asked["size"] += 1
        return super().size(path)

    def mtime_ms(self, path: str) -> int:
        self.asked["mtime"] += 1
        return super().mtime_ms(path)

    def statuses(self, directory: str, names: Iterable[str]) -> Sequence[FileStatus]:
        found = super().statuses(directory, names)
        self.asked["status"] += len(found)
        return found


def trigger(reader: StreamReader, start: dict[str, dict[str, int]]) -> tuple[dict[str, dict[str, int]], list[Task]]:
    """Return the end of a micro-batch, and its tasks."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found = reader.partitions(start, end)
    return end, [each.value for each in found if isinstance(each, SplitPartition)]


def costs_of_triggers(data_dir: Path, segments: int, isolation_level: str) -> tuple[int, int]:
    """Return the file operations of a trigger with one new batch, and of one without new records.

    The log has `segments` segments.
    """
    log = make_log(OsFiles(), tp=A0, data_dir=str(data_dir))
    producer = Producer(log, 7, transactional=True)
    for number in range(segments):
        producer.write(f"k{number}")
        producer.abort() if number % 2 else producer.commit()
        log.roll(0)
    append(log, ("k", "1"))
    files = CountingFiles()
    reader = StreamReader(ReadOptions(path=str(data_dir), isolation_level=isolation_level), None, files)
    end, _ = trigger(reader, {"a": {"0": 0}})
    producer.write("l")
    producer.commit()
    files.asked.clear()
    again, tasks = trigger(reader, end)
    assert by_partition(again)[A0] == by_partition(end)[A0] + 2 and len(tasks) == 1
    with_a_batch = files.asked.total()
    trigger(reader, again)
    files.asked.clear()
    assert trigger(reader, again) == (again, [])
    reader.reportLatestOffset()
    log.release_files()
    return with_a_batch, files.asked.total()


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_a_triggers_cost_grows_with_new_records_only(tmp_path: Path, isolation_level: str) -> None:
    short = costs_of_triggers(tmp_path / "short", 5, isolation_level)
    long = costs_of_triggers(tmp_path / "long", 60, isolation_level)
    assert long == short
    assert long[0] <= 60
    assert long[1] <= 15, "a directory without changes is listed, and its log is not opened"


@pytest.mark.parametrize("preallocate", [False, True])
def test_bounds_are_kept_unless_a_batch_may_leave_size_and_time_of_the_file_as_they_are(
    tmp_path: Path, preallocate: bool
) -> None:
    log = make_log(OsFiles(), tp=A0, data_dir=str(tmp_path), preallocate=preallocate, segment_bytes=1 << 20)
    append(log, ("k", "1"))

    def look(before: Bounds | None) -> Bounds:
        return LogReader(Store(str(tmp_path)), committed=False).bounds(A0, before)

    now = look(None)
    within_one_tick = now._replace(end_offset=0)
    assert look(within_one_tick).end_offset == (1 if preallocate else 0)
    append(log, ("k", "2"))
    assert look(now).end_offset == 2
    log.release_files()


def outline(tasks: list[Task]) -> list[object]:
    """Return the ranges of tasks, without the file positions where they begin to look, and the records that they read."""
    about = [
        (task.split.segment_base_offset, task.split.from_offset, task.split.up_to_offset, task.aborted)
        for task in tasks
    ]
    offsets = [
        offset
        for task in tasks
        for batch in read_split(task.split, Wanted(OFFSETS, task.aborted))
        for offset in batch.column("offset").to_pylist()
    ]
    return [about, offsets]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("seed", range(size(3, 12)))
def test_a_reader_that_follows_a_log_sees_its_current_content(tmp_path: Path, seed: int, committed: bool) -> None:
    rng = random.Random(seed)
    log = make_log(OsFiles(), tp=A0, data_dir=str(tmp_path))
    append(log, ("first", "1"))
    writers = [Producer(log, number, transactional=True) for number in (7, 8)]
    is_open = [False, False]
    tails: dict[TopicPartition, Tail] = {}
    reached = 0
    for _ in range(60):
        _live(rng, log, writers, is_open)
        if rng.random() < 0.5:
            continue
        store = Store(str(tmp_path))
        with LogReader(store, committed=committed).opened(A0) as fresh:
            with LogReader(store, committed=committed, tails=tails).opened(A0, from_offset=OFFSET_MAX) as log_now:
                assert (log_now.start_offset, log_now.end_offset) == (fresh.start_offset, fresh.end_offset)
            with LogReader(store, committed=committed, tails=tails).opened(A0, from_offset=reached) as log_now:
                assert log_now.end_offset == fresh.end_offset
                found, wanted = (
                    [*each.tasks(reached, fresh.end_offset, max_bytes=1 << 20, since_ms=None)]
                    for each in (log_now, fresh)
                )
                assert outline(found) == outline(wanted)
            reached = rng.choice((reached, fresh.end_offset))
    log.release_files()


def _live(rng: random.Random, log: Log, writers: list[Producer], is_open: list[bool]) -> None:
    match rng.randrange(6):
        case 0 | 1:
            append(log, *((f"k{rng.randrange(5)}", str(rng.random())) for _ in range(rng.randint(1, 3))))
        case 2 | 3:
            number = rng.randrange(2)
            if is_open[number] and rng.random() < 0.6:
                rng.choice((writers[number].commit, writers[number].abort))()
                is_open[number] = False
            else:
                writers[number].write(f"k{rng.randrange(5)}")
                is_open[number] = True
        case 4:
            log.roll(0)
        case _:
            clean(log)
            remove_deleted(log, 1 << 40)
