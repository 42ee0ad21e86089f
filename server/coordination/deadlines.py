"""Deadlines in a heap: set, moved and cleared in constant time, so that 100 000 members cost no scan.

Used by everything in this package that must happen later, and always by time that passes (`Clock.elapsed_ms`), whatever
becomes of the wall clock meanwhile. The heap holds (time, deadline) pairs lazily: moving a
deadline to a later time, which every heartbeat does, writes one number; the pair already in the heap comes up at the
old time, is found early, and is queued again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from .jobs import IsOver, never

# The heap is rebuilt when more than half of it, and at least this many pairs, belong to no deadline any more.
SPARE_ENTRIES = 64


class Deadline:
    """Something to do at `due_ms` of elapsed time, or nothing while that is None. Change it only through `Deadlines`."""

    __slots__ = ("action", "due_ms", "queued_ms")

    def __init__(self, action: Callable[[int], None]) -> None:
        self.action = action
        """Called with the wall time, for what it writes down, once its time has come; the deadline is cleared before."""
        self.due_ms: int | None = None
        self.queued_ms: int | None = None


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
        self._heap: list[tuple[int, int, Deadline]] = []
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
            if self._heap[0][2] is deadline:
                self.on_earlier()

    def clear(self, deadline: Deadline) -> None:
        """Let `deadline` never be due. Clearing twice is fine."""
        if deadline.due_ms is not None:
            deadline.due_ms = None
            self._set_count -= 1

    def next_due_ms(self) -> int | None:
        """When the earliest deadline is due, in elapsed time; None when there is none."""
        while self._heap:  # `_drop_first` may put another in its place
            queued_ms, _, deadline = self._heap[0]
            if queued_ms == deadline.queued_ms and deadline.due_ms == queued_ms:
                return queued_ms
            self._drop_first()
        return None

    def run_due(self, now_ms: int, is_over: IsOver = never) -> None:
        """Run the actions of deadlines that are due, earliest first, with `now_ms`, the wall time, until it `is_over`, one
        at least. The others are due still.

        What an action starts waits for the next call even if it is due at once, so that a call always ends. If an
        action raises, the others wait for the next call too.
        """
        elapsed_ms, last_before = self.elapsed_ms(), self._order
        while (next_ms := self.next_due_ms()) is not None and next_ms <= elapsed_ms:
            if self._heap[0][1] > last_before:
                return
            deadline = heappop(self._heap)[2]
            deadline.queued_ms = None
            self.clear(deadline)
            deadline.action(now_ms)
            if is_over():
                return

    def _queue(self, deadline: Deadline, order: int | None = None) -> None:
        assert deadline.due_ms is not None
        if len(self._heap) > 2 * self._set_count + SPARE_ENTRIES:
            self._rebuild()
        # The running number keeps deadlines of one time in the order in which they were set, and tells `run_due` which were
        # set since it began.
        if order is None:
            order = self._order = self._order + 1
        deadline.queued_ms = deadline.due_ms
        heappush(self._heap, (deadline.due_ms, order, deadline))

    def _rebuild(self) -> None:
        """Leave out the pairs that belong to no set deadline."""
        kept = []
        for entry in self._heap:
            queued_ms, _, deadline = entry
            if queued_ms != deadline.queued_ms:
                continue
            if deadline.due_ms is None:
                deadline.queued_ms = None
            else:
                kept.append(entry)
        heapify(kept)
        self._heap = kept

    def _drop_first(self) -> None:
        queued_ms, order, deadline = heappop(self._heap)
        if queued_ms == deadline.queued_ms:
            deadline.queued_ms = None
            if deadline.due_ms is not None:
                self._queue(deadline, order)
