"""Where the tests' files are: in memory if there is room, as a file that is made and synced takes 1 to 5 ms on a disk.

A full run uses the disk, as users do. What is about a power loss has a disk of its own making in either (`support.disk`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

NEEDED_BYTES = 4 << 30
"""A run leaves some hundred MB, and pytest keeps those of three."""


def put_in_memory(environment: MutableMapping[str, str], memory: Path = Path("/dev/shm")) -> None:
    """Let this process and those that it starts have their temporary files in `memory`, unless the user says where (`TMPDIR`)."""
    if "TMPDIR" not in environment and os.access(memory, os.W_OK) and is_large_enough(os.statvfs(memory)):
        environment["TMPDIR"] = str(memory)
        tempfile.tempdir = None  # pytest's own files have been somewhere before


def is_large_enough(about: os.statvfs_result) -> bool:
    """And runs programs: tests write some. A container's memory often does neither."""
    return about.f_bavail * about.f_frsize >= NEEDED_BYTES and not about.f_flag & os.ST_NOEXEC
