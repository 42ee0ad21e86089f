"""The records of a share partition that are in flight: between its start and its end offset.

They were acquired in batches, and a batch stays one unit in the answers to members. Within a batch, consecutive records with
equal properties are one run. So a batch takes the same space for one record as for thousands, until its records get different
states.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """State of a record in flight; numbers as in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    """State that is never written."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """State of a record that is archived as soon as its dead letter is written."""
    ARCHIVED = 4


TERMINAL = frozenset({State.ACKNOWLEDGED, State.ARCHIVED})
"""States of records that are not delivered any more."""


class StateRun(NamedTuple):
    """Consecutive records of one batch with the same properties; both ends are inclusive."""

    first: int
    last: int
    state: State
    delivery_count: int
    member_id: str = ""
    """Id of the member that has acquired them."""
    locked_until_ms: int = 0
    """End of the lock, if they are acquired."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def continues(self, before: StateRun) -> bool:
        return self.first == before.last + 1 and self[2:] == before[2:]


class StateChange(NamedTuple):
    """New state of records; both ends are inclusive."""

    first: int
    last: int
    state: State
    member_id: str = ""
    locked_until_ms: int = 0
    delivered: int = 0
    """Number of deliveries that the change adds."""
    is_rejected: bool = False
    """Whether a member has rejected them, which their dead letters say."""


class Batch:
    """Records that were first acquired together.

    Attributes:
        first, last: Ends of the batch at that time; both inclusive.
        runs: Runs that are left of it, in order and without gaps.
    """

    __slots__ = ("first", "last", "runs")

    def __init__(self, runs: list[StateRun]) -> None:
        self.first = runs[0].first
        self.last = runs[-1].last
        self.runs = runs

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def between(self, first: int, last: int) -> list[StateRun]:
        """Return the whole runs that have a record from `first` to `last`."""
        low, high = self._places(first, last)
        return self.runs[low:high]

    def change(self, changes: Sequence[StateChange]) -> int:
        """Apply changes that are in order, do not overlap, and all have a record of this batch.

        Returns:
            The increase of the number of records in a terminal state.
        """
        low, high = self._places(changes[0].first, changes[-1].last)
        # The neighbours may become equal to the changed runs.
        low, high = max(low - 1, 0), high + 1
        made: list[StateRun] = []
        ended, ahead = 0, iter(changes)
        change: StateChange | None = next(ahead)
        for run in self.runs[low:high]:
            at = run.first
            while change is not None and change.first <= run.last:
                if change.first > at:
                    _add(made, run._replace(first=at, last=change.first - 1))
                at, until = max(at, change.first), min(run.last, change.last)
                state, delivered = change.state, run.delivery_count + change.delivered
                _add(made, StateRun(at, until, state, delivered, change.member_id, change.locked_until_ms))
                ended += (until - at + 1) * ((state in TERMINAL) - (run.state in TERMINAL))
                at = until + 1
                if change.last > run.last:
                    break
                change = next(ahead, None)
            if at <= run.last:
                _add(made, run._replace(first=at))
        self.runs[low:high] = made
        return ended

    def cut(self, first: int) -> int:
        """Forget the records before `first`, which is in the batch. Return the number of those that were in a terminal
        state."""
        low, _ = self._places(first, first)
        gone = self.runs[:low]
        ended = sum(run.size for run in gone if run.state in TERMINAL)
        partly = self.runs[low]
        if partly.state in TERMINAL:
            ended += first - partly.first
        self.runs[: low + 1] = [partly._replace(first=first)]
        return ended

    def _places(self, first: int, last: int) -> tuple[int, int]:
        """Return the indexes of the runs that have a record from `first` to `last`: the first one, and the one after the
        last."""
        low = bisect_left(self.runs, first, key=lambda run: run.last)
        return low, bisect_right(self.runs, last, low, key=lambda run: run.first)


def _add(runs: list[StateRun], run: StateRun) -> None:
    if runs and run.continues(runs[-1]):
        run = run._replace(first=runs.pop().first)
    runs.append(run)


class InFlight:
    """Batches in order, with possible gaps between them.

    Attributes:
        ended: Number of records in a terminal state.
    """

    __slots__ = ("_batches", "_firsts", "ended")

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._firsts: list[int] = []
        self.ended = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    @property
    def first(self) -> Batch:
        return self._batches[0]

    @property
    def last(self) -> Batch:
        return self._batches[-1]

    def floor(self, offset: int) -> Batch | None:
        """Return the last batch that begins at or before `offset`."""
        at = bisect_right(self._firsts, offset)
        return self._batches[at - 1] if at else None

    def beginning(self, first: int, last: int) -> list[Batch]:
        """Return the batches that begin in this range, both ends inclusive."""
        return self._batches[bisect_left(self._firsts, first) : bisect_right(self._firsts, last)]

    def between(self, first: int, last: int) -> list[Batch]:
        """Return the batches that have a record in this range, both ends inclusive."""
        floor = self.floor(first)
        begin = first if floor is None or floor.last < first else floor.first
        return self.beginning(begin, last)

    def add(self, batch: Batch) -> None:
        """Add a batch in a range without batches."""
        at = bisect_left(self._firsts, batch.first)
        self._firsts.insert(at, batch.first)
        self._batches.insert(at, batch)
        self.ended += sum(run.size for run in batch.runs if run.state in TERMINAL)

    def change(self, changes: list[StateChange]) -> None:
        """Apply changes that are in order and do not overlap; records that are not in flight are ignored."""
        if not changes:
            return
        at = 0
        for batch in self.between(changes[0].first, changes[-1].last):
            while at < len(changes) and changes[at].last < batch.runs[0].first:
                at += 1
            until = at
            while until < len(changes) and changes[until].first <= batch.last:
                until += 1
            if until > at:
                self.ended += batch.change(changes[at:until])
                # The last of them may continue in the next batch.
                at = until - 1

    def cut(self, first: int) -> None:
        """Forget everything before `first`."""
        gone = 0
        while gone < len(self._batches) and self._batches[gone].last < first:
            self.ended -= sum(run.size for run in self._batches[gone].runs if run.state in TERMINAL)
            gone += 1
        del self._batches[:gone], self._firsts[:gone]
        if self._batches and self._batches[0].runs[0].first < first:
            self.ended -= self._batches[0].cut(first)
