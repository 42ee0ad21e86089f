"""Deadlines in a heap: set, moved and cleared in constant time, so that 100 000 members cost no scan.

Coordinators use them for everything that must happen later. They run by elapsed time (`Clock.elapsed_ms`), so changes of the
wall clock do not matter. The heap of (time, deadline) pairs is lazy: moving a deadline to a later time, as every heartbeat
does, writes one number. The pair in the heap reaches the front at the old time, is found to be early, and is queued again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from .jobs import IsOver, never

# The heap is replaced when more than half of its pairs, and at least this many, belong to no deadline. The old pairs are moved
# some at a time, with each new pair: moving a hundred thousand at once took 40 ms.
SPARE_ENTRIES = 64
MOVED_AT_ONCE = 4
# Maximum number of pairs without deadline that are removed from the front at once. Each takes 2 us, and as many may be there as
# deadlines were cleared together.
DROPPED_AT_ONCE = 1_000


class Deadline:
    """An action at `due_ms` of elapsed time, or none while that is None. Only `Deadlines` may change it."""

    __slots__ = ("action", "due_ms", "queued_ms")

    def __init__(self, action: Callable[[int], None]) -> None:
        self.action = action
        """Function that is called at the deadline with the wall time, for records that it writes; the deadline is cleared
        before."""
        self.due_ms: int | None = None
        self.queued_ms: int | None = None


Pair: TypeAlias = tuple[int, int, Deadline]


class Deadlines:
    """All deadlines of one coordinator.

    Args:
        elapsed_ms: Monotonic time; see `Clock`.
        on_earlier: Function that is called whenever the earliest deadline may have moved to an earlier time, to wake the task
            that sleeps until `next_due_ms`.
    """

    def __init__(self, elapsed_ms: Callable[[], int], on_earlier: Callable[[], None] = lambda: None) -> None:
        self.elapsed_ms = elapsed_ms
        self.on_earlier = on_earlier
        self._heap: list[Pair] = []
        self._old: list[Pair] = []
        """The old heap: its pairs that are not moved yet."""
        self._order = 0
        self._set_count = 0

    def start(self, deadline: Deadline, delay_ms: int) -> None:
        """Set `deadline` to `delay_ms` from now, whatever it was before."""
        due_ms = self.elapsed_ms() + delay_ms
        if deadline.due_ms is None:
            self._set_count += 1
        deadline.due_ms = due_ms
        if deadline.queued_ms is None or due_ms < deadline.queued_ms:
            self._queue(deadline)
            if self._first_heap()[0][2] is deadline:
                self.on_earlier()

    def clear(self, deadline: Deadline) -> None:
        """Clear `deadline`, so that it is never due. Clearing it twice is allowed."""
        if deadline.due_ms is not None:
            deadline.due_ms = None
            self._set_count -= 1

    def forget(self, deadline: Deadline) -> None:
        """Clear a deadline that will not be set again, and release the objects that its action refers to."""
        self.clear(deadline)
        deadline.action = _nothing

    def next_due_ms(self) -> int | None:
        """Return the elapsed time of the earliest deadline; None if no deadline is set. Return the present time if `run_due`
        must first remove many cleared ones."""
        if not self._find_first():
            return self.elapsed_ms()
        front = self._first_heap()
        return front[0][0] if front else None

    def run_due(self, now_ms: int, is_over: IsOver = never) -> None:
        """Run the actions of due deadlines, earliest first, with the wall time `now_ms`: at least one, and then until
        `is_over()`. The others stay due.

        A deadline that an action sets waits for the next call even if it is due at once, so every call ends. If an action
        raises, the others also wait for the next call.
        """
        elapsed_ms, last_before = self.elapsed_ms(), self._order
        while self._find_first() and (front := self._first_heap()) and front[0][0] <= elapsed_ms:
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
            self._take_over(self._old.pop())  # A heap without its last pair is still a heap.
        # The running number keeps deadlines of the same time in the order in which they were set. It also shows `run_due` which
        # ones were set since it began.
        if order is None:
            order = self._order = self._order + 1
        deadline.queued_ms = deadline.due_ms
        heappush(self._heap, (deadline.due_ms, order, deadline))

    def _take_over(self, pair: Pair) -> None:
        """Move a pair of the old heap into the new one, unless it belongs to no set deadline."""
        queued_ms, _, deadline = pair
        if queued_ms == deadline.queued_ms:
            if deadline.due_ms is None:
                deadline.queued_ms = None
            else:
                heappush(self._heap, pair)

    def _first_heap(self) -> list[Pair]:
        """Return the heap whose first pair is the earliest; empty if there is none."""
        old, heap = self._old, self._heap
        return old if old and (not heap or old[0] < heap[0]) else heap

    def _find_first(self) -> bool:
        """Drop pairs until the earliest belongs to a set deadline, or no pair is left. Return False if more must be dropped."""
        for _ in range(DROPPED_AT_ONCE):
            front = self._first_heap()  # a dropped pair may be queued again, in either heap
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
    """Do nothing: the action of a deadline after `forget`."""
