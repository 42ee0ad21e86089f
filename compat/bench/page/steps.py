"""The longest step of a broker's Trio thread while clients read and watch pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import trio

import ottla

from ...support.brokers.process import free_port


class Steps(trio.abc.Instrument):
    """CPU time of the thread from the beginning of each task's step to its end: of the longest, and whose it was."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.of = ""
        self._began_s = float("inf")

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s, self._began_s = time.thread_time() - self._began_s, float("inf")  # the first step began before
        if took_s > self.longest_s:
            self.longest_s, self.of = took_s, task.name


def longest_step(
    using: Callable[[str, str], AbstractContextManager[None]], meanwhile: Callable[[str], None]
) -> tuple[float, str]:
    """Return the longest step in milliseconds, and the task's name.

    Args:
        using: Called with the addresses of the broker and its admin listener, in a thread: a context that stays open while the
            pages are read.
        meanwhile: Called with the admin listener's address, in a thread: reads the pages. Only steps during it count.
    """

    def all_of_it(bootstrap: str, admin: str, steps: Steps) -> None:
        with using(bootstrap, admin):
            trio.from_thread.run_sync(trio.lowlevel.add_instrument, steps)
            meanwhile(admin)
            trio.from_thread.run_sync(trio.lowlevel.remove_instrument, steps)

    async def main() -> tuple[float, str]:
        steps, admin = Steps(), f"127.0.0.1:{free_port()}"
        async with ottla.open_broker(admin=admin) as broker:
            await trio.to_thread.run_sync(all_of_it, broker.bootstrap, admin, steps)
        return 1e3 * steps.longest_s, steps.of

    return trio.run(main)
