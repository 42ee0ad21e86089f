"""Reads that wait for the disk: in worker threads, so that nobody else does.

Each disk has threads of its own. One that hangs holds up those who read from it what is in nobody's memory, and no other.
"""

from __future__ import annotations

import os
from contextlib import suppress

import trio

from ...protocol.errors import KafkaError
from ...storage.disk.files import DamagedFileError, FileSlice, WouldWaitError
from ...storage.logs.log import Log
from ...storage.logs.log_reader import LogReader
from .disk import Work, threads

TRIES_MAX = 16
"""How often something is brought for one look at a log before it is done whatever comes. An index, and the headers at both
ends of what is fetched, are half as many; only a machine that has no memory left drops them before they are used."""


async def bring(cold: WouldWaitError, log: LogReader) -> None:
    """Wait for what a look at `log` had to wait for. If that cannot be had, who looks without `at_once` is told why."""
    with suppress(OSError, KafkaError, DamagedFileError):
        await trio.to_thread.run_sync(cold.bring, limiter=threads(Work.COLD, os.path.dirname(log.directory)))


async def have_made(log: Log) -> None:
    """Make a log on disk, for an append that must not wait. If the disk refuses, the append raises the error."""
    if not log.is_made:
        await bring(WouldWaitError(log.make), log)


async def read_ahead(part: FileSlice) -> None:
    """Wait until the bytes of `part` are in memory. May be abandoned.

    Raises:
        OSError: The disk refused.
    """
    disk = f"device {os.fstat(part.file.fileno()).st_dev}"
    await trio.to_thread.run_sync(
        part.file.read_ahead, part.position, part.size_bytes, limiter=threads(Work.COLD, disk), abandon_on_cancel=True
    )
