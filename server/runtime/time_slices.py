"""Time slices: limits on how long one task may keep Trio's thread.

    time_slice = TimeSlice()
    async for group in time_slice.each(groups):
        ...

Between two groups there may be a checkpoint: objects that were looked up before it may have been deleted since.

Tasks that want another slice wait in one queue. The first has waited longest and is next. Each pass of Trio's scheduler lets in
as many as PASS_S has room for, and at least one; each counts as a whole slice, or as its last one if that was longer. With a
plain checkpoint all would run in every pass, and a task with little to do would wait for the slices of all.

Slices that begin in the same pass, e.g. of a hundred tasks that one event has woken, must not add up either: once a pass has
lasted PASS_S, slices that begin in it are short.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterable
from heapq import merge
from itertools import islice
from time import perf_counter
from typing import Any, Generic, Protocol, Self, TypeVar

import trio

from ...storage.steps import Steps

Thing = TypeVar("Thing")
Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Ordered = TypeVar("Ordered", str, int)

SLICE_S = 0.003
PASS_S = 0.005
LATE_SLICE_PART = 0.1
"""Fraction of a slice for a task whose slice begins after the pass has lasted PASS_S: enough for most requests."""
# Number of names that are sorted at once, in a millisecond.
SORTED_AT_ONCE = 4_096


class TimeSlice:
    """The time slice of the task that makes it. It begins at once, and again after each wait.

    `end_s` is its end, by `perf_counter`.
    """

    __slots__ = ("_begin_s", "end_s")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin again, after the task has waited for something else."""
        now_s = self._begin_s = perf_counter()
        pass_end_s = _pass_end_s()
        if now_s <= pass_end_s:
            self.end_s = now_s + SLICE_S
        else:
            self.end_s = max(now_s + LATE_SLICE_PART * SLICE_S, pass_end_s + SLICE_S)

    @staticmethod
    def is_pass_over() -> bool:
        """Return whether this pass of the scheduler has lasted as long as a pass should: waiting tasks get the next one."""
        return perf_counter() >= _pass_end_s()

    def is_over(self) -> bool:
        """Return whether the task has kept the thread for its slice. Costs a tenth of a microsecond."""
        return perf_counter() >= self.end_s

    async def next(self) -> None:
        """Let the other tasks run, and begin again when this one is the first in the queue. A checkpoint; may be cancelled."""
        try:
            line = _LINE.get()
        except LookupError:
            line = _Line()
            _LINE.set(line)
        # A whole slice may follow a short one.
        await line.wait(max(perf_counter() - self._begin_s, SLICE_S))
        self._begin_s = perf_counter()
        self.end_s = self._begin_s + SLICE_S

    def each(self, things: Iterable[Thing]) -> _Each[Thing]:
        """Yield `things` one after the other. Other tasks run in between whenever the slice is over."""
        return _Each(self, things)

    async def map(self, work: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
        """Apply `work` to each of `things`. The collection must not change during the call; the objects in it may."""
        found: list[Result] = []
        for thing in things:  # not by `each`, which takes as long as a short work
            if self.is_over():
                await self.next()
            found.append(work(thing))
        return found

    async def distinct(self, things: Iterable[Key]) -> dict[Key, None]:
        """Return the distinct `things`, in their order."""
        return {thing: None async for thing in self.each(things)}

    async def empty(self, *unneeded: dict[Any, Any] | list[Any]) -> None:
        """Empty these collections, in slices: a hundred thousand errors, e.g., would otherwise be freed at once."""
        for things in unneeded:
            take: Callable[[], object] = things.popitem if isinstance(things, dict) else things.pop
            while things:
                if self.is_over():
                    await self.next()
                take()

    async def sorted(self, things: Iterable[Ordered]) -> list[Ordered]:
        """Sort things, in slices."""
        left, runs = iter(things), list[list[Ordered]]()
        while run := sorted(islice(left, SORTED_AT_ONCE)):
            runs.append(run)
            if self.is_over():
                await self.next()
        return runs[0] if len(runs) == 1 else await self.map(lambda thing: thing, merge(*runs))


async def run_cooperatively(steps: Steps[Result], time_slice: TimeSlice | None = None) -> Result:
    """Run all steps, and return their result. Other tasks run in between whenever the slice, that of the caller if given, is
    over. Raises what a step raises."""
    time_slice = time_slice or TimeSlice()
    try:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            if time_slice.is_over():
                await time_slice.next()
    finally:
        steps.close()  # Frees what it holds now, not when a traceback is dropped.


def begun(steps: Steps[Result], time_slice: TimeSlice) -> Result | Coroutine[Any, Any, Result]:
    """Run the first step. Return the result if that is all; else a coroutine that runs the rest cooperatively and returns it."""
    try:
        next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
    return run_cooperatively(steps, time_slice)


class _Each(Generic[Thing]):
    """Iterator over things in slices. It is not an async generator, as Trio cannot close one that is left early."""

    __slots__ = ("_things", "_time_slice")

    def __init__(self, time_slice: TimeSlice, things: Iterable[Thing]) -> None:
        self._time_slice = time_slice
        self._things = iter(things)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Thing:
        for thing in self._things:
            if self._time_slice.is_over():
                await self._time_slice.next()
            return thing
        raise StopAsyncIteration


class _Line:
    """The queue of tasks that want another slice."""

    def __init__(self) -> None:
        self._waiting = OrderedDict[trio.lowlevel.Task, float]()
        """Time of a pass that each waiting task takes, in seconds."""
        self._is_one_ahead = False
        """Whether a task that found the queue empty continues in the next pass."""
        self._is_letting_in = False

    async def wait(self, slice_s: float) -> None:
        if not (self._waiting or self._is_one_ahead):
            self._is_one_ahead = True
            try:
                await trio.lowlevel.checkpoint()
            finally:
                self._is_one_ahead = False
            return
        task = trio.lowlevel.current_task()
        self._waiting[task] = slice_s
        if not self._is_letting_in:
            self._is_letting_in = True
            trio.lowlevel.spawn_system_task(self._wake_first)

        def stop_waiting(_raise_cancel: Any) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(stop_waiting)

    async def _wake_first(self) -> None:
        """Wake the first tasks in each pass, as many as fit, until the queue is empty."""
        try:
            while self._waiting:
                await trio.lowlevel.checkpoint()
                room_s = PASS_S
                while self._waiting:
                    task, slice_s = self._waiting.popitem(last=False)
                    trio.lowlevel.reschedule(task)
                    room_s -= slice_s
                    if room_s <= 0:
                        break
        finally:
            self._is_letting_in = False


class _Passes(trio.abc.Instrument):
    """Instrument that knows when the present pass should end."""

    def __init__(self) -> None:
        self.end_s = perf_counter() + PASS_S
        self.count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.end_s = perf_counter() + PASS_S
        self.count += 1


def passes() -> int:
    """Return the number of scheduler passes since the first time slice."""
    return _passes().count


def _pass_end_s() -> float:
    try:
        return _PASSES.get().end_s
    except LookupError:
        return _passes().end_s
    except RuntimeError:  # outside of Trio
        return perf_counter() + PASS_S


def _passes() -> _Passes:
    try:
        return _PASSES.get()
    except LookupError:
        made = _Passes()
        trio.lowlevel.add_instrument(made)
        _PASSES.set(made)
        return made


_PASSES: trio.lowlevel.RunVar[_Passes] = trio.lowlevel.RunVar("passes of the scheduler")
_LINE: trio.lowlevel.RunVar[_Line] = trio.lowlevel.RunVar("queue for time slices")

AWAKE_MAX = 16
"""Largest number of tasks that were woken and have not run yet."""


class Sleeper(Protocol):
    """A task that waits. Hashable, by identity."""

    def wake_now(self) -> None:
        """Wake the task."""


class WakeupThrottle:
    """Throttle for tasks that one event wakes: only a few are woken at a time.

    When one append or one rebalance ends the waits of a thousand tasks, each wakes another one as it runs. A woken task takes a
    tenth of a millisecond; in one pass of the scheduler all other tasks would wait for all of these.
    """

    def __init__(self) -> None:
        self._awake: set[Sleeper] = set()
        self._next: OrderedDict[Sleeper, None] = OrderedDict()

    def wake(self, sleeper: Sleeper) -> None:
        """Wake a task now, or as soon as others have run. May be called again. A woken task must call `leave` in any case."""
        if len(self._awake) < AWAKE_MAX:
            self._awake.add(sleeper)
            sleeper.wake_now()
        elif sleeper not in self._awake:
            self._next[sleeper] = None

    def leave(self, sleeper: Sleeper) -> None:
        """Note that the task runs, or has stopped waiting."""
        self._next.pop(sleeper, None)
        if sleeper in self._awake:
            self._awake.remove(sleeper)
            if self._next:
                self.wake(self._next.popitem(last=False)[0])
