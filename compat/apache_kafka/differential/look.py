"""The visible state of a topic at a broker, and its files: read in the same way from both brokers."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...support.logs.segment_files import base_offset, cleaner_checkpoint, segments
from .batches import decode
from .wire import Wire

Dump = dict[str, Any]
MEMORY = Path("/dev/shm")


def scratch_folder() -> TemporaryDirectory[str]:
    """Return a folder for a log, in memory if possible: no test here is about a power loss."""
    return TemporaryDirectory(prefix="compat-differential-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


def times_to_ask(log: bytes, before_ms: int) -> list[int]:
    """Return timestamps for ListOffsets: of some records, around them, and beyond all, but none from `before_ms` on.

    A segment without records answers for the times up to its file's modification, which is another one at each broker.
    """
    stamps = sorted({record.timestamp for batch in decode(log) for record in batch.records})
    some = [*stamps[:: max(1, len(stamps) // 4)], *stamps[-1:]]
    return sorted({stamp + more for stamp in some for more in (0, 1) if 0 <= stamp < before_ms - 1})


def dump(wire: Wire, topic: str, data: Path, *, before_ms: int = 0, times: list[int] | None = None) -> Dump:
    """See `history`. `times` are those to ask ListOffsets for; chosen from the log's, before `before_ms`, unless given."""
    fetched = wire.dump(topic)
    asked = times_to_ask(fetched.log, before_ms) if times is None else times
    return {
        "log": fetched.log.hex(),
        "log_start": fetched.log_start,
        "high_watermark": fetched.high_watermark,
        "last_stable": fetched.last_stable,
        "offsets": [[stamp, *wire.offset_at(topic, stamp)] for stamp in [-2, -1, *asked]],
        "segments": [base_offset(path) for path in segments(data / f"{topic}-0")],
        "checkpoint": cleaner_checkpoint(data, topic),
    }
