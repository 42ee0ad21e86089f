"""Who has the least comes first; of those who have as much, who would at Apache Kafka.

Its task assignor takes from a `java.util.PriorityQueue`, in which ties come out in an order that follows from the heap alone, and is
not the one in which they were put in. With the same heap the same members are given the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A binary heap. Adding and taking compare as often as there are levels, at most twice."""

    def __init__(self, items: Iterable[tuple[float, T]] = ()) -> None:
        self._heap: list[tuple[float, T]] = []
        for amount, item in items:
            self.add(amount, item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def first(self) -> T:
        """Who is taken next; there must be somebody."""
        return self._heap[0][1]

    def add(self, amount: float, item: T) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append((amount, item))
        while at and amount < heap[above := (at - 1) // 2][0]:
            heap[at] = heap[above]
            at = above
        heap[at] = (amount, item)

    def take(self) -> T:
        """Raises IndexError if there is nobody."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last[1]
        taken, at, below = heap[0][1], 0, 1
        while below < len(heap):
            if below + 1 < len(heap) and heap[below + 1][0] < heap[below][0]:
                below += 1
            if last[0] <= heap[below][0]:
                break
            heap[at] = heap[below]
            at, below = below, 2 * below + 1
        heap[at] = last
        return taken
