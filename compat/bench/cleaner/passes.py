"""One clean pass with Ottla's cleaner, and one plain copy; alone in a process: `python -m compat.bench.cleaner.passes`.

CPU seconds are the calling thread's, in which all of it happens. Opening and closing the log are not measured.
"""

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ottla.storage.cleaner import Cleaner
from ottla.storage.dirtiness import measure

from .generate import open_log

DEDUPE_BUFFER_BYTES, LOAD_FACTOR, IO_BUFFER_BYTES = 128 << 20, 0.9, 512 << 10
COPY_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass cost and what it did; `end_offset` is the next first dirty offset."""

    cpu_s: float
    end_offset: int
    records_read: int
    records_kept: int


def fresh_copy(log: Path, to: Path) -> Path:
    """The partition directory `log` once more, below `to`: its segments as links, since nobody writes to them."""
    directory = to / log.name
    directory.mkdir(parents=True)
    for file in log.iterdir():
        if file.suffix == ".log":
            (directory / file.name).hardlink_to(file)
        else:
            shutil.copy2(file, directory)
    return directory


def clean_with_ottla(directory: Path, first_dirty_offset: int, now_ms: int) -> Pass:
    """Clean everything below the active segment."""
    log = open_log(directory, now_ms)
    cleaner = Cleaner(dedupe_buffer_bytes=DEDUPE_BUFFER_BYTES, load_factor=LOAD_FACTOR, io_buffer_bytes=IO_BUFFER_BYTES)
    to_clean = measure(log, first_dirty_offset, now_ms).for_worker()
    started_s = time.thread_time()
    end_offset, stats = cleaner.clean(
        to_clean,
        now_ms,
        secret=os.urandom(16),
        swap=lambda new, old: log.replace_segments(new, old, now_ms),
        checkpoint=lambda _: None,
    )
    cpu_s = time.thread_time() - started_s
    log.release_files()
    return Pass(cpu_s, end_offset, stats.records_read, stats.records_written)


def copy_plainly(directory: Path) -> float:
    """CPU seconds of reading the sealed segments in chunks and writing them to one new file beside them."""
    segments = sorted(directory.glob("*.log"))[:-1]
    buffer = memoryview(bytearray(COPY_CHUNK_BYTES))
    started_s = time.thread_time()
    out = os.open(directory / "copy", os.O_WRONLY | os.O_CREAT, 0o644)
    for segment in segments:
        descriptor = os.open(segment, os.O_RDONLY)
        while size := os.readv(descriptor, [buffer]):
            os.write(out, buffer[:size])
        os.close(descriptor)
    os.close(out)
    return time.thread_time() - started_s
