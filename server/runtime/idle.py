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
        steps, quiet = others.steps, 0
        # Twice: those who step in one pass do so in any order, so one who is woken may come after us in the next.
        while quiet < 2:
            await trio.lowlevel.checkpoint()
            quiet = quiet + 1 if steps == others.steps else 0
            steps = others.steps
    finally:
        trio.lowlevel.remove_instrument(others)
