"""Watches a partition's directory: how many segments were sealed, when the cleaner rests, when to kill."""

import os
import threading
import time
from pathlib import Path

from ..support.segment_files import cleaner_checkpoint, work_files


class SegmentCounter(threading.Thread):
    """Notes every segment that ever appears, since the cleaner merges them while the writers still write."""

    def __init__(self, partition_dir: Path) -> None:
        super().__init__(daemon=True)
        self.partition_dir = partition_dir
        self.names: set[str] = set()
        self.halt = threading.Event()

    def run(self) -> None:
        while not self.halt.wait(0.05):
            self.names.update(name for name in _names(self.partition_dir) if name.endswith(".log"))

    def sealed(self) -> int:
        """Stop watching; all segments seen but the active one."""
        self.halt.set()
        self.join()
        return len(self.names) - 1


def wait_until_the_cleaner_rests(
    data_dir: Path, topic: str, *, rest_s: float = 3.0, timeout_s: float = 300.0, at_least: int = 1
) -> bool:
    """Wait until the checkpoint is at `at_least` or above, and it and the files have not changed for `rest_s`."""
    deadline = time.monotonic() + timeout_s
    state: object = None
    since = time.monotonic()
    while time.monotonic() < deadline:
        checkpoint = cleaner_checkpoint(data_dir, topic)
        now = (checkpoint, sorted(_names(data_dir / f"{topic}-0")))
        if now != state:
            state, since = now, time.monotonic()
        elif time.monotonic() - since > rest_s and (checkpoint or 0) >= at_least:
            return True
        time.sleep(0.1)
    return False


def wait_for_work_files(partition_dir: Path, timeout_s: float) -> bool:
    """Return the moment a `.cleaned` or `.swap` file is there; False when none came."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if work_files(partition_dir):
            return True
        time.sleep(0.0005)
    return False


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
