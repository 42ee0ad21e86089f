"""Work on the disk: in worker threads, so many for each kind of work and each data directory.

A disk that hangs holds up whoever needs it, and the threads of its own, but neither another disk nor other work: Trio's
own forty threads, which all would share otherwise, are for what cannot hang.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import TypeVar, TypeVarTuple

import trio

from ...protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.disk")

SIDE_BY_SIDE, MANY = 8, 16

Arguments = TypeVarTuple("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Work(Enum):
    """What is done, and by how many threads a data directory at most."""

    CATALOG = "the catalog, and directories of partitions that come and go", 2
    CHECKPOINT = "checkpoints for somebody who waits", 2
    WRITE = "batches of megabytes on their way to their logs", 2
    SYNC = "appends made durable; several at a time share one commit of the file system", 8
    HOUSEKEEPING = "deleted files, retention and checkpoints that nobody waits for", 4
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
    """Those of one kind of work in one data directory."""
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
    """What `function(*arguments)` returns, or raises."""
    return await trio.to_thread.run_sync(function, *arguments, limiter=threads(work, data_dir))


async def on_disk(
    work: Work, data_dir: str, function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    """`in_thread`, for what a request waits for: a failure becomes an error that clients understand.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR where `function` raised OSError; the operator gets a line too.
    """
    try:
        return await in_thread(work, data_dir, function, *arguments)
    except OSError as error:
        log.error("disk operation failed: %s", error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"disk operation failed: {error}") from error


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """As `map`, with some at a time if they are many: syncs at one time share one commit of the file system.

    To be called in a worker thread, which does its part. What is under way when one raises has ended on return, and no other
    is begun; where no thread can be had, fewer do it.
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
