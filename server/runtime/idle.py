"""A moment in which no task has anything to do: whatever was woken before has gone on as far as it can."""

from __future__ import annotations

import trio
import trio.lowlevel


class _Others(trio.abc.Instrument):
    """Counts the steps of all tasks but one."""

    def __init__(self, mine: trio.lowlevel.Task) -> None:
        self._mine = mine
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._mine:
            self.steps += 1


async def idle() -> None:
    """Return once a pass of the scheduler had no step of any other task; what other threads do is not waited for.

    Keeps the scheduler running until then. `trio.testing.wait_all_tasks_blocked` does the same, but brings pytest with it.
    """
    others = _Others(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(others)
    try:
        await trio.lowlevel.checkpoint()  # who was woken in this pass steps in the next one
        steps = -1
        while steps != others.steps:
            steps = others.steps
            await trio.lowlevel.checkpoint()
    finally:
        trio.lowlevel.remove_instrument(others)
