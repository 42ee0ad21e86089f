"""Worker threads: a limited number for each kind of work on each disk, and a few for long computations in Python.

A disk that hangs blocks the callers that need it, and its own threads, but neither another disk nor other work. Trio's own
forty threads, which would be shared by all otherwise, are for work that cannot hang.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from time import perf_counter
from typing import TypeVar, TypeVarTuple

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.files import DamagedFileError, FileSlice, WouldWaitError
from ...storage.logs.log import Log
from ...storage.logs.log_reader import LogReader
from ...storage.steps import Steps

log = logging.getLogger("ottla.disk")

SIDE_BY_SIDE, MANY = 8, 16

Arguments = TypeVarTuple("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Work(Enum):
    """A kind of work, with the largest number of its threads per data directory."""

    CATALOG = "the catalog, and directories of partitions that come and go", 2
    CHECKPOINT = "checkpoints that a request waits for", 2
    WRITE = "batches of megabytes on their way to their logs", 2
    SYNC = "appends made durable; several at a time share one commit of the file system", 8
    BACKGROUND = "deleted files, retention and checkpoints that no request waits for", 4
    READ = "loads of coordinators, the room that is left", 4
    COLD = "what is not in the page cache; more at a time make few disks faster", 4
    SEARCH = "searches by timestamp; each may unpack a batch", 2
    MOVE = "partitions on their way to another data directory, a megabyte at a time", 2
    DRY_RUN = "dry runs of clean passes; each has the memory of one", 1
    CLEAN = "clean passes: as many as there are cleaner threads", math.inf

    def __init__(self, what: str, threads_max: float) -> None:
        self.what = what
        self.threads_max = threads_max


_LIMITERS: trio.lowlevel.RunVar[dict[tuple[Work, str], trio.CapacityLimiter]] = trio.lowlevel.RunVar("disk threads")


def threads(work: Work, data_dir: str) -> trio.CapacityLimiter:
    """Return the limiter of one kind of work in one data directory."""
    try:
        limiters = _LIMITERS.get()
    except LookupError:
        limiters = {}
        _LIMITERS.set(limiters)
    found = limiters.get((work, data_dir))
    if found is None:
        found = limiters[work, data_dir] = trio.CapacityLimiter(work.threads_max)
    return found


async def in_thread(
    work: Work, data_dir: str, function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    """Run `function(*arguments)` in a thread; returns or raises what it does."""
    return await trio.to_thread.run_sync(function, *arguments, limiter=threads(work, data_dir))


SEARCHING_S = 0.05
"""Duration of one slice of a search in a thread, in seconds; then other work gets the thread."""


async def search(data_dir: str, steps: Steps[Result]) -> Result:
    """Run a search in the threads for searches, slice by slice; returns or raises what it does. May be cancelled between slices."""
    while not (ended := await in_thread(Work.SEARCH, data_dir, _run_some, steps)):
        pass
    return ended[0]


def _run_some(steps: Steps[Result]) -> list[Result]:
    """Run one slice; returns the result in a list, which is empty if the search has not ended."""
    until_s = perf_counter() + SEARCHING_S
    try:
        while perf_counter() < until_s:
            next(steps)
    except StopIteration as end:
        return [end.value]
    return []


async def on_disk(
    work: Work, data_dir: str, function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    """Run a function as `in_thread` does, for a request that waits: an OSError becomes an error that clients understand.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR: `function` raised OSError, which is also logged.
    """
    try:
        return await in_thread(work, data_dir, function, *arguments)
    except OSError as error:
        log.error("disk operation failed: %s", error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"disk operation failed: {error}") from error


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function as `map` does, with several calls at a time if the items are many: concurrent syncs share one commit of
    the file system.

    Call it in a worker thread, which does part of the work. If a call raises, running calls are finished before the return, and
    no further call begins. If a thread cannot be started, fewer do the work.
    """
    if len(items) < MANY:
        return list(map(function, items))
    left = deque(enumerate(items))
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def work() -> None:
        with suppress(IndexError):
            while not errors:
                index, item = left.popleft()
                try:
                    results[index] = function(item)
                except BaseException as error:  # noqa: BLE001 -- raised below, in the caller's thread
                    errors.append(error)

    others = [threading.Thread(target=work) for _ in range(SIDE_BY_SIDE - 1)]
    with suppress(RuntimeError):
        for each in others:
            each.start()
    work()
    for each in others:
        if each.ident is not None:
            each.join()
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(items))]


TRIES_MAX = 16
"""How often cold data is loaded for one read of a log before the read waits itself. An index, and the headers at both ends of a
fetch, need half as many; only a machine without free memory drops the data before it is used."""


async def load_cold(cold: WouldWaitError, log: LogReader) -> None:
    """Load data from the disk that a read of `log` needs. If that fails, the next read without `at_once` raises the reason."""
    with suppress(OSError, KafkaError, DamagedFileError):
        await trio.to_thread.run_sync(cold.bring, limiter=threads(Work.COLD, os.path.dirname(log.directory)))


async def have_made(log: Log) -> None:
    """Create a log on disk, for an append that must not wait. If the disk refuses, the append raises the error."""
    if not log.is_made:
        await load_cold(WouldWaitError(log.make), log)


async def read_ahead(part: FileSlice) -> None:
    """Wait until the bytes of `part` are in memory. Cancellation abandons the thread.

    Raises:
        OSError: The disk refused.
    """
    disk = f"device {os.fstat(part.file.fileno()).st_dev}"
    await trio.to_thread.run_sync(
        part.file.read_ahead, part.position, part.size_bytes, limiter=threads(Work.COLD, disk), abandon_on_cancel=True
    )


Given = TypeVar("Given")


class Worker(Enum):
    """A thread for computations in Python. Each runs one call at a time, as Python's threads only compete with each other."""

    ADMIN = "the admin listener: JSON of megabytes takes a second or two"
    ADVICE = "simulations of the cleaner: up to some ten seconds"
    REGISTRY = "the schema registry: at most a tenth of a second, for requests that must not wait for large schemas"
    SCHEMAS = "schemas that take longer to parse or to compare"
    RECORDS = "records that are decoded with their schemas: about a second"


_LIMITERS_OF_WORKERS: trio.lowlevel.RunVar[dict[Worker, trio.CapacityLimiter]] = trio.lowlevel.RunVar("workers")


async def in_worker(work: Callable[[Given], Result], given: Given, worker: Worker = Worker.ADMIN) -> Result:
    """Run `work(given)` in a thread for computations; returns or raises what it does."""
    try:
        limiters = _LIMITERS_OF_WORKERS.get()
    except LookupError:
        limiters = {each: trio.CapacityLimiter(1) for each in Worker}
        _LIMITERS_OF_WORKERS.set(limiters)
    return await trio.to_thread.run_sync(work, given, limiter=limiters[worker])
