"""Where the logs of the bench lie, and what else the machine does."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

TMPFS = Path("/dev/shm")


@contextmanager
def work_directory(raw_bytes: int) -> Iterator[Path]:
    """A temporary directory on tmpfs, or where temporary files go if that has no room.

    It has room for logs of three times that size and for what passes leave of them.
    """
    fits = TMPFS.is_dir() and shutil.disk_usage(TMPFS).free > 6 * raw_bytes
    with TemporaryDirectory(prefix="ottla-bench-", dir=TMPFS if fits else None) as folder:
        yield Path(folder)


def load_note() -> str:
    """For the reader of the figures: threads that wait for a CPU are what spoils them first."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
