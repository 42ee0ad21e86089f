"""A partition that moves from one data directory to another, on a disk that loses power."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ottla.storage.data_dirs.inspection import inspect_dirs
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.data_dirs.partition_dirs import assign
from ottla.storage.data_dirs.relocation import Relocation
from ottla.storage.disk import paths
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.topics.catalog_file import PartitionEntry, TopicEntry
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.disk.crash_search import CrashSearch
from support.logs.make_log import Producer, append, contents

A = TopicPartition("a", 0)
TOPIC_ID = bytes(range(1, 17))
DIRS = ("/d", "/e")
TOPICS = {"a": TopicEntry("a", TOPIC_ID, (PartitionEntry((0,), 0),))}
CONFIG = LogConfig(file_delete_delay_ms=0, index_interval_bytes=0)
START_OFFSET = 2


def started(files: CrashFiles, notes: list[str] | None = None) -> LogManager:
    """Start data directories as the broker does."""
    told: list[str] = [] if notes is None else notes
    manager = LogManager(files, DIRS, rng=random.Random(0), note=told.append)
    assign(files, inspect_dirs(files, DIRS), TOPICS, told.append).apply(files, random.Random(1), told.append)
    manager.load(0, 0, config_for=lambda each: CONFIG if each == A else None)
    return manager


def made(files: CrashFiles | None = None) -> tuple[LogManager, Log]:
    """Create a log in /d: two sealed segments with an aborted transaction, and an active one with three batches."""
    manager = started(files or CrashFiles())
    (log,) = manager.create([A], topic_id=TOPIC_ID, config=CONFIG, now_ms=0, elapsed_ms=0)
    producer = Producer(log, 7, transactional=True)
    producer.write("x", "y")
    producer.abort()
    log.roll(0)
    append(log, ("k1", "v"), ("k2", "v"), roll=True)
    for number in range(2):
        append(log, (f"k{number}", "w"))
    producer.write("z")
    producer.abort()
    return manager, log


def caught_up(move: Relocation, allowed_bytes: int = 1 << 20) -> None:
    """Copy until nothing is left for the moment."""
    while move.step(allowed_bytes):
        pass


def partition_dirs(files: CrashFiles) -> list[str]:
    """Return every directory in the data directories."""
    return [f"{each}/{name}" for each in DIRS for name in files.list(each) if files.is_dir(paths.join(each, name))]


@dataclass(frozen=True)
class MovedLife:
    """A move with appends at every stage; either each of them is flushed or none."""

    flushes: bool

    def search(
        self,
        *,
        losses: int,
        ordered: bool = False,
        thinned_to: int = 1,
        recover_thinned_to: int = 1,
        later_thinned_to: int = 1,
        skipped: Callable[[str], bool] | None = None,
    ) -> CrashSearch[LogManager, int]:
        """Lose power wherever it can be lost, and check the results; arguments as of CrashSearch and CrashFiles."""
        start = CrashFiles()
        manager, log = made(start)
        log.advance_log_start(START_OFFSET)
        manager.checkpoint_log_starts()
        log.flush(0)
        manager.checkpoint_recovery_points()
        expected = [*contents(log), *((9 + number, b"m", str(number + 1).encode()) for number in range(4))]
        durable, written = [log.log_end_offset], [log.log_end_offset]
        manager.release()
        start.skipped = skipped

        def append_next(log: Log, value: str) -> None:
            real = log.log_end_offset
            written[0] = real  # an append is one write, which is complete or missing
            append(log, ("m", value))
            written[0] = log.log_end_offset
            if self.flushes:
                log.flush(0)
                durable[0] = log.log_end_offset

        def scenario(files: CrashFiles) -> None:
            again = started(files)
            (log,) = again.logs.values()
            move = again.relocation(A, "/e", 0)
            move.begin()
            caught_up(move)
            append_next(log, "1")
            caught_up(move)
            move.prepare()
            append_next(log, "2")
            assert move.finish(1 << 20)
            append_next(log, "3")
            move.complete()
            append_next(log, "4")

        def check(found: LogManager, owed: int) -> None:
            (log,) = found.logs.values()
            assert log.log_end_offset >= owed
            assert contents(log) == [each for each in expected if each[0] < log.log_end_offset]
            assert log.log_start_offset == START_OFFSET
            files = log.files
            assert isinstance(files, CrashFiles)
            assert len([each for each in partition_dirs(files) if each.endswith("/a-0")]) == 1

        search = CrashSearch[LogManager, int](
            recover=started,
            key=lambda found: repr(
                [(log.directory, log.log_end_offset, log.log_start_offset) for log in found.logs.values()]
            ),
            check=check,
            ordered=ordered,
            losses=losses,
            thinned_to=thinned_to,
            recover_thinned_to=recover_thinned_to,
            later_thinned_to=later_thinned_to,
        )
        search.run(scenario, start, lambda if_killed: written[0] if if_killed else durable[0])
        return search


MOVES = {
    "a move to another data directory": MovedLife(flushes=False),
    "a move, and every append flushed": MovedLife(flushes=True),
}
