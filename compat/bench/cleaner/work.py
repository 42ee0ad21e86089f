"""The directory of the bench's logs, and the machine's other load."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

TMPFS = Path("/dev/shm")


@contextmanager
def work_directory(raw_bytes: int) -> Iterator[Path]:
    """Make a temporary directory on tmpfs, or in the default directory if tmpfs has no room.

    It has room for logs of three times that size and for the results of passes.
    """
    fits = TMPFS.is_dir() and shutil.disk_usage(TMPFS).free > 6 * raw_bytes
    with TemporaryDirectory(prefix="ottla-bench-", dir=TMPFS if fits else None) as folder:
        yield Path(folder)


def load_note() -> str:
    """Return a note for the reader: threads that wait for a CPU distort the figures first."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
