"""Reads of a log by the broker itself, without a wait for the disk on Trio's thread."""

from __future__ import annotations

from ...storage.disk.files import FileSlice, WouldWaitError
from ...storage.logs.log import Log
from ..runtime.threads import TRIES_MAX, load_cold


async def read_part(log: Log, at: int, end: int, max_bytes: int) -> FileSlice:
    """Return whole batches from offset `at` on, below the offset `end`; empty if none is left.

    Raises:
        KafkaError: As `Log.fetch`.
    """
    tries = 0
    while True:
        tries += 1
        at_once = tries < TRIES_MAX
        try:
            place = log.locate(end, at_once=at_once)
            return log.fetch(max(at, log.log_start_offset), max_bytes=max_bytes, end=place, at_once=at_once).records
        except WouldWaitError as cold:
            await load_cold(cold, log)
