"""Deadlines in a heap: set, moved and cleared in constant time, so that 100 000 members cost no scan.

Used by coordinators for everything that must happen later, and always by time that passes (`Clock.elapsed_ms`), whatever
becomes of the wall clock meanwhile. The heap holds (time, deadline) pairs lazily: moving a
deadline to a later time, which every heartbeat does, writes one number; the pair already in the heap comes up at the
old time, is found early, and is queued again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from .jobs import IsOver, never

# The heap begins anew when more than half of it, and at least this many pairs, belong to no deadline any more. What there was
# goes over some pairs at a time, with each that is queued: all of a hundred thousand took 40 ms.
SPARE_ENTRIES = 64
MOVED_AT_ONCE = 4
# Pairs that belong to no deadline any more and stand before the earliest: 2 us each, and there may be as many as there were
# deadlines that have been cleared together.
DROPPED_AT_ONCE = 1_000


class Deadline:
    """Something to do at `due_ms` of elapsed time, or nothing while that is None. Change it only through `Deadlines`."""

    __slots__ = ("action", "due_ms", "queued_ms")

    def __init__(self, action: Callable[[int], None]) -> None:
        self.action = action
        """Called with the wall time, for what it writes down, once its time has come; the deadline is cleared before."""
        self.due_ms: int | None = None
        self.queued_ms: int | None = None


Pair: TypeAlias = tuple[int, int, Deadline]


class Deadlines:
    """All deadlines of one coordinator.

    Args:
        elapsed_ms: Time that passes; see `Clock`.
        on_earlier: Called whenever the earliest deadline may have moved to an earlier time, so that whoever
            sleeps until `next_due_ms` can be woken.
    """

    def __init__(self, elapsed_ms: Callable[[], int], on_earlier: Callable[[], None] = lambda: None) -> None:
        self.elapsed_ms = elapsed_ms
        self.on_earlier = on_earlier
        self._heap: list[Pair] = []
        self._old: list[Pair] = []
        """The heap before, as far as its pairs have not gone over."""
        self._order = 0
        self._set_count = 0

    def start(self, deadline: Deadline, delay_ms: int) -> None:
        """Let `deadline` be due `delay_ms` from now, whatever it was before."""
        due_ms = self.elapsed_ms() + delay_ms
        if deadline.due_ms is None:
            self._set_count += 1
        deadline.due_ms = due_ms
        if deadline.queued_ms is None or due_ms < deadline.queued_ms:
            self._queue(deadline)
            if self._front()[0][2] is deadline:
                self.on_earlier()

    def clear(self, deadline: Deadline) -> None:
        """Let `deadline` never be due. Clearing twice is fine."""
        if deadline.due_ms is not None:
            deadline.due_ms = None
            self._set_count -= 1

    def forget(self, deadline: Deadline) -> None:
        """`clear` one that will not be set any more, and let go of what its action refers to."""
        self.clear(deadline)
        deadline.action = _nothing

    def next_due_ms(self) -> int | None:
        """When the earliest deadline is due, in elapsed time; None when there is none. Now, if it takes `run_due` to find
        it behind many that were cleared."""
        if not self._find_first():
            return self.elapsed_ms()
        front = self._front()
        return front[0][0] if front else None

    def run_due(self, now_ms: int, is_over: IsOver = never) -> None:
        """Run the actions of deadlines that are due, earliest first, with `now_ms`, the wall time, until it `is_over`, one
        at least. The others are due still.

        What an action starts waits for the next call even if it is due at once, so that a call always ends. If an
        action raises, the others wait for the next call too.
        """
        elapsed_ms, last_before = self.elapsed_ms(), self._order
        while self._find_first() and (front := self._front()) and front[0][0] <= elapsed_ms:
            if front[0][1] > last_before:
                return
            deadline = heappop(front)[2]
            deadline.queued_ms = None
            self.clear(deadline)
            deadline.action(now_ms)
            if is_over():
                return

    def _queue(self, deadline: Deadline, order: int | None = None) -> None:
        assert deadline.due_ms is not None
        if not self._old and len(self._heap) > 2 * self._set_count + SPARE_ENTRIES:
            self._old, self._heap = self._heap, []
        for _ in range(min(MOVED_AT_ONCE, len(self._old))):
            self._take_over(self._old.pop())  # A heap without its last pair is one.
        # The running number keeps deadlines of one time in the order in which they were set, and tells `run_due` which were
        # set since it began.
        if order is None:
            order = self._order = self._order + 1
        deadline.queued_ms = deadline.due_ms
        heappush(self._heap, (deadline.due_ms, order, deadline))

    def _take_over(self, pair: Pair) -> None:
        """Put a pair of the old heap into the new one, unless it belongs to no set deadline."""
        queued_ms, _, deadline = pair
        if queued_ms == deadline.queued_ms:
            if deadline.due_ms is None:
                deadline.queued_ms = None
            else:
                heappush(self._heap, pair)

    def _front(self) -> list[Pair]:
        """The heap in which the earliest pair is the first; empty if there is none."""
        old, heap = self._old, self._heap
        return old if old and (not heap or old[0] < heap[0]) else heap

    def _find_first(self) -> bool:
        """Drop pairs until the earliest is that of a set deadline, or there is none. False: there are more to drop."""
        for _ in range(DROPPED_AT_ONCE):
            front = self._front()  # what is dropped may be queued again, in either
            if not front:
                return True
            queued_ms, order, deadline = front[0]
            if queued_ms == deadline.queued_ms and deadline.due_ms == queued_ms:
                return True
            heappop(front)
            if queued_ms == deadline.queued_ms:
                deadline.queued_ms = None
                if deadline.due_ms is not None:
                    self._queue(deadline, order)
        return False


def _nothing(_now_ms: int) -> None:
    """The action of a deadline that is forgotten."""
