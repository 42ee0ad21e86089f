"""Python's collector of cycles, where the process is the broker's own: when it may look at old objects, and at which.

A full collection looks at every object that there is, with all threads held: a quarter of a second for a million. There is
next to nothing for it to find here: what exceptions leave, mostly. So Python does none of its own accord; one is done when memory
has grown or shrunk by much, and now and then. What stays for long, which is mostly partitions, is kept out of it.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from sys import getallocatedblocks

import trio

from .freeing import give_back

log = logging.getLogger("ottla.collector")

NEVER = 1 << 30
PARTITIONS_KEPT_AT_ONCE = 200
"""Each has some 80 objects. What is garbage in that moment stays, too, so this is not done for a few."""
LOOK_S = 5.0
CHANGED_BLOCKS = 500_000
"""Of Python's memory since the last collection, some forty megabytes; and by a quarter, as Python itself has it."""
NOW_AND_THEN_S = 600.0


class Collector:
    """The collector as one broker uses it. Nothing is done unless it `is_ours`."""

    def __init__(self) -> None:
        self.is_ours = False
        """Whether the process has no other use of it: while `run` runs."""
        self._put_off = 0
        self._partitions_made = 0

    async def run(self) -> None:
        """Decide when old objects are looked at, until cancelled. For who owns the process."""
        thresholds = gc.get_threshold()
        gc.set_threshold(*thresholds[:2], NEVER)
        self.is_ours = True
        known_blocks, done_s = getallocatedblocks(), trio.current_time()
        try:
            while True:
                await trio.sleep(LOOK_S)
                blocks, now_s = getallocatedblocks(), trio.current_time()
                # Where much has gone, something of it may be left that only a collection finds.
                is_other = abs(blocks - known_blocks) > max(CHANGED_BLOCKS, known_blocks // 4)
                if not self._put_off and (is_other or now_s - done_s >= NOW_AND_THEN_S):
                    gc.collect()
                    try:
                        await trio.to_thread.run_sync(give_back)
                    except (
                        OSError,
                        RuntimeError,
                        MemoryError,
                    ) as error:  # no thread can be had, say: the broker goes on
                        log.warning("memory could not be given back to the system: %s", error)
                    known_blocks, done_s = getallocatedblocks(), now_s
        finally:
            self.is_ours = False
            gc.set_threshold(*thresholds)

    def put_off(self) -> None:
        """Old objects are left alone until `go_on` has been called as often: much is made that goes soon."""
        self._put_off += 1

    def go_on(self) -> None:
        """Take back one `put_off`."""
        self._put_off -= 1

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
