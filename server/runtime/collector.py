"""Python's collector of cycles, where the process is the broker's own: when it may look at old objects, and at which.

A full collection looks at every object that there is, with all threads held: a quarter of a second for a million. There is
next to nothing for it to find here: what exceptions leave, mostly. So Python does none of its own accord. One is due when memory
has grown or shrunk by much, and now and then; where there is much to look at, it waits for a second in which clients ask for
next to nothing, for hours if need be. What stays for long, which is mostly partitions, is kept out of it.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from sys import getallocatedblocks
from typing import ClassVar

import trio

from .freeing import give_back
from .time_slices import passes

log = logging.getLogger("ottla.collector")

NEVER = 1 << 30
PARTITIONS_KEPT_AT_ONCE = 200
"""Each has some 80 objects. What is garbage in that moment stays, too, so this is not done for a few."""
LOOK_S = 5.0
CHANGED_BLOCKS = 500_000
"""Of Python's memory since the last collection, some forty megabytes; and by a quarter, as Python itself has it."""
NOW_AND_THEN_S = 600.0
LITTLE_BLOCKS = 100_000
"""Of Python's memory beside what is kept out: so many are looked at in less than ten milliseconds, at any time."""
QUIET_S, QUIET_PASSES = 1.0, 20
"""Nobody is kept waiting by what is done when the scheduler has had no more to do than this: housekeeping, and clients that
poll."""
AT_LAST_S = 6 * 3_600.0
"""Where it never gets quiet, or large requests follow one another without end, a collection comes after so long all the same: or what only it finds would grow for ever."""


class Collector:
    """The collector as one broker uses it. Nothing is done unless it `is_ours`."""

    a_life_has_ended: ClassVar[bool] = False
    """Whether this process had a broker of its own before, which has left memory of Python's and of the C library's."""

    def __init__(self) -> None:
        self.is_ours = False
        """Whether the process has no other use of it: while `run` runs."""
        self._put_off = 0
        self._partitions_unkept = 0
        """How many more there are than when all was kept last; fewer, if it is negative."""
        self._kept_blocks = 0

    async def run(self) -> None:
        """Decide when old objects are looked at, until cancelled. For who owns the process."""
        thresholds = gc.get_threshold()
        gc.set_threshold(*thresholds[:2], NEVER)
        self.is_ours = True
        changed, collected, is_due = _Since(), _Since(), False
        # Where lives follow one another, none need get as old as NOW_AND_THEN_S.
        must_trim = Collector.a_life_has_ended
        try:
            while True:
                await trio.sleep(LOOK_S)
                if self._put_off and collected.age_s() < AT_LAST_S:
                    continue
                must_trim = must_trim or changed.is_due()
                # Where much has gone, something of it may be left that only a collection finds.
                is_due = is_due or must_trim
                if is_due and await self._may_collect(collected):
                    gc.collect()
                    collected, is_due, must_trim = _Since(), False, True
                if must_trim:
                    try:
                        await trio.to_thread.run_sync(give_back)
                    except (
                        OSError,
                        RuntimeError,
                        MemoryError,
                    ) as error:  # no thread can be had, say: the broker goes on
                        log.warning("cannot return memory to the system: %s", error)
                    changed, must_trim = _Since(), False
        finally:
            self.is_ours = False
            Collector.a_life_has_ended = True
            gc.set_threshold(*thresholds)

    async def _may_collect(self, collected: _Since) -> bool:
        if getallocatedblocks() - self._kept_blocks <= LITTLE_BLOCKS or collected.age_s() >= AT_LAST_S:
            return True
        before = passes()
        await trio.sleep(QUIET_S)
        return passes() - before <= QUIET_PASSES and not self._put_off

    def take_over(self) -> None:
        """Before a life of the broker that follows another one in this process, while nobody is served: what that has left goes, and
        what was kept of it, too; the rest stays. It would come to some megabytes a life."""
        if Collector.a_life_has_ended:
            gc.unfreeze()
            gc.collect()
            self.keep()

    def keep(self) -> None:
        """What there is by now stays: no collection need look at it."""
        gc.freeze()
        self._partitions_unkept = 0
        self._kept_blocks = getallocatedblocks()

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
        """So many more partitions are there to stay: no collection need look at what there is by now, once they are many. Those
        that come and go are not: of what is kept for each of them something would be left."""
        self._partitions_unkept += count
        if self.is_ours and self._partitions_unkept >= PARTITIONS_KEPT_AT_ONCE:
            gc.collect(1)
            self.keep()

    def partitions_gone(self, count: int) -> None:
        """So many have been deleted."""
        self._partitions_unkept -= count


class _Since:
    """How much memory was taken at a moment, and when that was."""

    def __init__(self) -> None:
        self._blocks = getallocatedblocks()
        self._at_s = trio.current_time()

    def age_s(self) -> float:
        return trio.current_time() - self._at_s

    def is_due(self) -> bool:
        """Whether much has changed since, or much time has passed."""
        changed = abs(getallocatedblocks() - self._blocks)
        return changed > max(CHANGED_BLOCKS, self._blocks // 4) or self.age_s() >= NOW_AND_THEN_S
