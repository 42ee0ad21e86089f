"""The location of the tests' files: in memory if it has room, as creating and syncing a file takes 1 to 5 ms on a disk.

A full run uses the disk, as users do. Tests of a power loss use a fake disk in both (`support.disk`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

NEEDED_BYTES = 4 << 30
"""Required free space, far more than a run uses at once: pytest removes the files of each test that has passed."""
NOEXEC = 8
"""ST_NOEXEC of statvfs(3) on Linux; Python has this name only there."""


def put_in_memory(environment: MutableMapping[str, str], memory: Path = Path("/dev/shm")) -> None:
    """Put the temporary files of this process and its children into `memory`, unless the user sets `TMPDIR`.

    The folder goes into `environment` as TMPDIR. If `memory` is missing or too small, nothing changes.
    """
    if "TMPDIR" not in environment and os.access(memory, os.W_OK) and is_large_enough(os.statvfs(memory)):
        environment["TMPDIR"] = str(memory)
        tempfile.tempdir = None  # Python caches the first answer, and pytest has asked before.


def is_large_enough(about: os.statvfs_result) -> bool:
    """Return whether a file system has NEEDED_BYTES free and can run programs, as tests write some.

    Those of containers often fail both.
    """
    return about.f_bavail * about.f_frsize >= NEEDED_BYTES and not about.f_flag & NOEXEC
