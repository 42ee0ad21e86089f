"""One clean pass with Ottla's cleaner; one plain copy. As a program, one pass in a process of its own:

    python -m compat.bench.cleaner.passes DIRECTORY FIRST_DIRTY_OFFSET NOW_MS

CPU seconds are those of the calling thread, which does all the work. Opening and closing the log are not measured.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from ottla.storage.cleaning.cleaner import IO_BUFFER_BYTES_MIN, Cleaner
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.filter.offset_map import SECRET_BYTES

from .generate import open_log

# A broker's only cleaner thread has these, with the defaults of the options.
DEDUPE_BUFFER_BYTES, LOAD_FACTOR, IO_BUFFER_BYTES = 128 << 20, 0.9, 512 << 10
COPY_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Pass:
    """The cost and the result of a pass; `end_offset` is the next first dirty offset."""

    cpu_s: float
    end_offset: int
    records_read: int
    records_kept: int


@contextmanager
def fresh_copy(log: Path, to: Path) -> Iterator[Path]:
    """Copy the partition directory `log` below `to`, and delete the copy at the end.

    Its segments are links, since the pass does not write to them.
    """
    directory = to / log.name
    directory.mkdir(parents=True)
    for file in log.iterdir():
        if file.suffix == ".log":
            (directory / file.name).hardlink_to(file)
        else:
            shutil.copy2(file, directory)
    try:
        yield directory
    finally:
        shutil.rmtree(to)


@cache
def _cleaner() -> Cleaner:
    """Return one cleaner for all passes, as a busy cleaner thread and the JVM's side have it."""
    return Cleaner(
        dedupe_buffer_bytes=DEDUPE_BUFFER_BYTES,
        load_factor=LOAD_FACTOR,
        io_buffer_bytes=max(IO_BUFFER_BYTES, IO_BUFFER_BYTES_MIN),
    )


def clean_with_ottla(directory: Path, first_dirty_offset: int, now_ms: int) -> Pass:
    """Clean everything below the active segment."""
    log = open_log(directory, now_ms)
    cleaner = _cleaner()
    to_clean = measure(log, first_dirty_offset, now_ms).for_worker()
    started_s = time.thread_time()
    end_offset, stats = cleaner.clean(
        to_clean,
        now_ms,
        secret=os.urandom(SECRET_BYTES),
        swap=lambda new, old: log.replace_segments(new, old, now_ms),
        checkpoint=lambda _: None,
    )
    cpu_s = time.thread_time() - started_s
    log.release_files()
    return Pass(cpu_s, end_offset, stats.records_read, stats.records_written)


def copy_plainly(directory: Path) -> float:
    """Return the CPU seconds to read the sealed segments in chunks and write them to one new file in the same directory."""
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


def _resident_bytes(name: str) -> int:
    """VmRSS or VmHWM of this process: unlike `ru_maxrss`, the peak counts from the start of this very program."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def main(directory: str, first_dirty_offset: str, now_ms: str) -> None:
    before = _resident_bytes("VmRSS")
    done = clean_with_ottla(Path(directory), int(first_dirty_offset), int(now_ms))
    print(json.dumps(asdict(done) | {"resident_before_bytes": before, "resident_peak_bytes": _resident_bytes("VmHWM")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
