"""Watches a partition's directory: how many segments were sealed, when the cleaner rests, when to kill."""

import os
import threading
import time
from pathlib import Path

from ..support.logs.segment_files import base_offset, cleaner_checkpoint, segments, work_files


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


def wait_until_the_cleaner_rests(data_dir: Path, topic: str, dirty_ratio: float = 0.5, timeout_s: float = 600) -> bool:
    """Wait until the cleaner has nothing to do, twice in a row half a second apart: False on a time-out.

    Nothing to do: of the bytes below the active segment, those at or above the cleaner's checkpoint are not more than
    `dirty_ratio` (the topic's `min.cleanable.dirty.ratio`), and no pass has left work files.
    """
    deadline = time.monotonic() + timeout_s
    resting = 0
    while time.monotonic() < deadline and resting < 2:
        resting = resting + 1 if _rests(data_dir, topic, dirty_ratio) else 0
        time.sleep(0.5)
    return resting == 2


def _rests(data_dir: Path, topic: str, dirty_ratio: float) -> bool:
    partition_dir = data_dir / f"{topic}-0"
    checkpoint = cleaner_checkpoint(data_dir, topic)
    try:
        sizes = {base_offset(segment): segment.stat().st_size for segment in segments(partition_dir)[:-1]}
    except FileNotFoundError:  # swapped during the check
        return False
    if checkpoint is None or not sizes or work_files(partition_dir):
        return False
    dirty_bytes = sum(size for base, size in sizes.items() if base >= checkpoint)
    return dirty_bytes <= dirty_ratio * sum(sizes.values())


def wait_for_work_files(partition_dir: Path, suffixes: tuple[str, ...], timeout_s: float) -> bool:
    """Return the moment a file with one of the suffixes exists; False on a time-out.

    A `.swap` file exists for a millisecond or so: while `.cleaned` files exist, this polls without a pause.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        names = _names(partition_dir)
        if any(name.endswith(suffixes) for name in names):
            return True
        if not any(name.endswith(".cleaned") for name in names):
            time.sleep(0.0005)
    return False


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
