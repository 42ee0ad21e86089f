"""Python's collector of cycles, where the process is the broker's own: when it may look at old objects, and at which.

A full collection looks at every object that there is, with all threads held: a quarter of a second for a million. There is
next to nothing for it to find here, so it is put off while much is made that goes soon or stays for long, and what stays for
long, which is mostly partitions, is kept out of it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = 1 << 30
PARTITIONS_KEPT_AT_ONCE = 200
"""Each has some 80 objects. What is garbage in that moment stays, too, so this is not done for a few."""


class Collector:
    """The collector as one broker uses it. Nothing is done unless it `is_ours`."""

    def __init__(self) -> None:
        self.is_ours = False
        """Whether the process has no other use of it; for who owns the process to say."""
        self._put_off = 0
        self._thresholds = gc.get_threshold()
        self._partitions_made = 0

    def put_off(self) -> None:
        """Old objects are left alone until `go_on` has been called as often."""
        self._put_off += 1
        if self._put_off == 1 and self.is_ours:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], NEVER)

    def go_on(self) -> None:
        """Take back one `put_off`."""
        self._put_off -= 1
        if self._put_off == 0 and self.is_ours:
            gc.set_threshold(*self._thresholds)

    @contextmanager
    def putting_off(self) -> Iterator[None]:
        """`put_off` for the time of the block."""
        self.put_off()
        try:
            yield
        finally:
            self.go_on()

    def partitions_made(self, count: int) -> None:
        """So many more partitions are there to stay: no collection need look at what there is by now, once they are many."""
        self._partitions_made += count
        if self.is_ours and self._partitions_made >= PARTITIONS_KEPT_AT_ONCE:
            self._partitions_made = 0
            gc.collect(1)
            gc.freeze()
