"""Each new active segment draws a random part of `segment.jitter.ms`, however it became active."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.storage.disk import paths
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.lives.moved_life import A, made
from support.logs.make_log import TP, append, clean, delete_old_segments
from support.noted import each_case

CONFIG = LogConfig(cleanup_policy=("compact",), segment_ms=1_000, segment_jitter_ms=400)


class Largest(random.Random):
    """A random generator that returns the largest possible number."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return (start if stop is None else stop) - 1


def opened(
    files: CrashFiles | None = None, *, is_clean: bool = False, log_start_offset: int = 0, config: LogConfig = CONFIG
) -> Log:
    files = CrashFiles() if files is None else files
    files.make_dir("/d/t-0")
    stop = ShutdownState(is_clean, 0, log_start_offset)
    return load_log(LogPlace(files, "/d/t-0", TP), config, stop, now_ms=0, rng=Largest())


def written() -> Log:
    """Return a log with segments at offsets 0, 2 and 4, the last of which holds two batches."""
    log = opened()
    for index in range(6):
        append(log, ("k", str(index)), timestamp=1_000, roll=index in (1, 3))
    return log


def disk_of(log: Log) -> CrashFiles:
    assert isinstance(log.files, CrashFiles)
    return log.files


def stopped(log: Log) -> CrashFiles:
    log.close(0)
    return disk_of(log)


def _rolled() -> Log:
    log = written()
    log.roll(0)
    return log


def _rolled_by_an_append() -> Log:
    log = written()
    append(log, ("k", "late"), timestamp=1_602)
    assert log.segments.active.base_offset == 6
    return log


def _emptied_by_retention() -> Log:
    log = written()
    log.config = replace(CONFIG, cleanup_policy=("delete",), retention_ms=1)
    assert delete_old_segments(log, 10_000, 0) == 3
    return log


def _cleaned() -> Log:
    log = opened(stopped(written()), is_clean=True)
    clean(log)
    return log


def _of_lost_index() -> Log:
    files = stopped(written())
    files.remove(paths.segment_path("/d/t-0", 4, paths.INDEX))
    return opened(files, is_clean=True)


def _with_a_torn_end() -> Log:
    files = disk_of(written())
    file = files.open(paths.log_path("/d/t-0", 4))
    file.truncate(file.size() - 1)
    file.close()
    return opened(files)


WAYS: dict[str, Callable[[], Log]] = {
    "a new log": opened,
    "a log that was never written, after a start": lambda: opened(disk_of(opened())),
    "after a clean stop": lambda: opened(stopped(written()), is_clean=True),
    "after a crash": lambda: opened(disk_of(written())),
    "after a clean stop, its index lost": _of_lost_index,
    "after a crash, its end torn": _with_a_torn_end,
    "after a crash, the log's start above its end": lambda: opened(disk_of(written()), log_start_offset=50),
    "rolled by hand": _rolled,
    "rolled by an append": _rolled_by_an_append,
    "after retention took all": _emptied_by_retention,
    "after a clean pass": _cleaned,
}


@each_case("way", WAYS)
def test_an_active_segment_has_drawn_its_jitter(way: str) -> None:
    assert WAYS[way]().segments.active.rolling_jitter_ms == 399


def test_the_jitter_is_below_segment_ms() -> None:
    assert opened(config=replace(CONFIG, segment_jitter_ms=5_000)).segments.active.rolling_jitter_ms == 999


@pytest.mark.parametrize("lag_ms", [1, 2, 100, 999])
def test_the_jitter_is_below_the_compaction_lag(lag_ms: int) -> None:
    """Otherwise each append would begin a segment, and use a file descriptor."""
    log = opened(config=replace(CONFIG, segment_jitter_ms=900, max_compaction_lag_ms=lag_ms))
    for index in range(5):
        append(log, ("k", str(index)), timestamp=1_000)
    assert [segment.base_offset for segment in log.segments] == [0]
    append(log, ("k", "late"), timestamp=1_001 + lag_ms)
    assert log.segments.active.base_offset == 5


def test_without_jitter_nothing_is_drawn() -> None:
    assert opened(config=replace(CONFIG, segment_jitter_ms=0)).segments.active.rolling_jitter_ms == 0


def test_a_moved_log_keeps_the_drawn_jitter_of_its_active_segment() -> None:
    manager, log = made()
    log.segments.active.rolling_jitter_ms = 123
    move = manager.relocation(A, "/e", 0)
    move.begin()
    while move.step(1 << 20):
        pass
    move.prepare()
    assert move.finish(0)
    move.complete()
    move.release()
    assert (log.data_dir, log.segments.active.rolling_jitter_ms) == ("/e", 123)


def test_logs_created_together_roll_at_different_times() -> None:
    files, rng = CrashFiles(), random.Random(1)
    drawn = set()
    for index in range(40):
        files.make_dir(f"/d/t-{index}")
        log = load_log(LogPlace(files, f"/d/t-{index}", TP), CONFIG, now_ms=0, rng=rng)
        drawn.add(log.segments.active.rolling_jitter_ms)
    assert len(drawn) > 30
