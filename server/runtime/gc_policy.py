"""Policy for Python's cycle collector, if the process belongs to the broker alone: when it looks at old objects, and at which.

A full collection looks at every object, with all threads stopped: a quarter of a second for a million objects. It finds hardly
anything here, mostly what exceptions leave. So Python does none by itself. One is due when memory has grown or shrunk by much,
and at long intervals. If there is much to look at, it waits for a second with hardly any requests, for hours if necessary.
Objects that stay for long, mostly partitions, are excluded.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from sys import getallocatedblocks
from typing import ClassVar

import trio

from .deferred_free import give_back
from .time_slices import passes

log = logging.getLogger("ottla.collector")

NEVER = 1 << 30
PARTITIONS_KEPT_AT_ONCE = 200
"""Partitions after which objects are excluded. Each has some 80 objects. Garbage of that moment is excluded as well, so this is
not done for a few."""
LOOK_S = 5.0
CHANGED_BLOCKS = 500_000
"""Change of Python's memory since the last collection after which one is due, some forty megabytes; it must also be a quarter,
as in Python itself."""
NOW_AND_THEN_S = 600.0
LITTLE_BLOCKS = 100_000
"""Python's memory that is not excluded: up to this many blocks are collected at any time, in less than ten milliseconds."""
QUIET_S, QUIET_PASSES = 1.0, 20
"""Time, and passes of the scheduler in it, in which the broker counts as quiet: it has housekeeping and polling clients only,
and a collection delays no request."""
AT_LAST_S = 6 * 3_600.0
"""Longest delay of a collection, if the broker is never quiet, or large requests follow one another without end. Without it,
cyclic garbage would grow for ever."""


class GcPolicy:
    """The collector as one broker uses it. Does nothing unless it `is_ours`."""

    a_run_has_ended: ClassVar[bool] = False
    """Whether this process has run its own broker before, which has left memory of Python and of the C library."""

    def __init__(self) -> None:
        self.is_ours = False
        """Whether the process belongs to the broker alone: while `run` runs."""
        self._put_off = 0
        self._partitions_unkept = 0
        """Number of partitions since objects were last excluded; negative if there are fewer."""
        self._kept_blocks = 0

    async def run(self) -> None:
        """Decide when old objects are collected, until cancelled. For a broker that owns the process."""
        thresholds = gc.get_threshold()
        gc.set_threshold(*thresholds[:2], NEVER)
        self.is_ours = True
        changed, collected, is_due = _Since(), _Since(), False
        # If brokers run one after the other, none of them may get as old as NOW_AND_THEN_S.
        must_trim = GcPolicy.a_run_has_ended
        try:
            while True:
                await trio.sleep(LOOK_S)
                if self._put_off and collected.age_s() < AT_LAST_S:
                    continue
                must_trim = must_trim or changed.is_due()
                # After much was freed, something may be left that only a collection finds.
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
                    ) as error:  # e.g. no thread can be started: the broker continues
                        log.warning("cannot return memory to the system: %s", error)
                    changed, must_trim = _Since(), False
        finally:
            self.is_ours = False
            GcPolicy.a_run_has_ended = True
            gc.set_threshold(*thresholds)

    async def _may_collect(self, collected: _Since) -> bool:
        if getallocatedblocks() - self._kept_blocks <= LITTLE_BLOCKS or collected.age_s() >= AT_LAST_S:
            return True
        before = passes()
        await trio.sleep(QUIET_S)
        return passes() - before <= QUIET_PASSES and not self._put_off

    def take_over(self) -> None:
        """Collect the memory of a previous broker run in this process, before the next one serves: garbage, and excluded
        objects that are garbage now. Everything else is excluded. Without this a run would leave some megabytes."""
        if GcPolicy.a_run_has_ended:
            gc.unfreeze()
            gc.collect()
            self.keep()

    def keep(self) -> None:
        """Exclude all present objects from collections."""
        gc.freeze()
        self._partitions_unkept = 0
        self._kept_blocks = getallocatedblocks()

    def put_off(self) -> None:
        """Delay collections of old objects until `go_on` has been called as often: many short-lived objects are being made."""
        self._put_off += 1

    def go_on(self) -> None:
        """Undo one `put_off`."""
        self._put_off -= 1

    @contextmanager
    def putting_off(self) -> Iterator[None]:
        """Call `put_off` for the duration of the block."""
        self.put_off()
        try:
            yield
        finally:
            self.go_on()

    def partitions_made(self, count: int) -> None:
        """Count new partitions. Once they are many, all present objects are excluded from collections. Short-lived partitions
        are not counted: part of each would be left."""
        self._partitions_unkept += count
        if self.is_ours and self._partitions_unkept >= PARTITIONS_KEPT_AT_ONCE:
            gc.collect(1)
            self.keep()

    def look_at_new(self) -> None:
        """Look at new objects, after many were made while as many were freed: Python counts the difference only, and the next
        step that makes objects would pay for all of them."""
        if self.is_ours:
            gc.collect(1)

    def partitions_gone(self, count: int) -> None:
        """Count deleted partitions."""
        self._partitions_unkept -= count


class _Since:
    """Memory use at a moment, with the time."""

    def __init__(self) -> None:
        self._blocks = getallocatedblocks()
        self._at_s = trio.current_time()

    def age_s(self) -> float:
        return trio.current_time() - self._at_s

    def is_due(self) -> bool:
        """Return whether memory use has changed by much since, or much time has passed."""
        changed = abs(getallocatedblocks() - self._blocks)
        return changed > max(CHANGED_BLOCKS, self._blocks // 4) or self.age_s() >= NOW_AND_THEN_S
