"""The process of one node: started, started again whenever it dies, stopped.

Its logs are recovered then, and its clients have waited at its port. One that dies again and again is started after a pause that
grows, so that a disk that fails is not read from its start every second.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from ..runtime.nursery import Tasks
from .link import Link, LinkLostError

log = logging.getLogger("ottla.workers")

PAUSES_S = (0, 1, 2, 4, 8, 16, 30)
"""Before it is started again: after its first death, its second …; the last one for all that follow."""
HEALTHY_S = 60.0
"""Who has served as long has the first pause before it."""
STOP_DEADLINE_S = 30.0


class Process(Protocol):
    """As `process.NodeProcess`."""

    link: Link

    def what_was(self) -> str: ...
    def kill(self) -> None: ...
    async def ended(self) -> None: ...


class Keeper:
    """See the module's text.

    Args:
        begin: Starts a process, which serves on return. OSError, LinkLostError: it does not come up, and is no more.
    """

    def __init__(self, begin: Callable[[], Awaitable[Process]], tasks: Tasks) -> None:
        self._begin = begin
        self._tasks = tasks
        self._process: Process | None = None
        """While it serves."""
        self._is_wanted = False
        self._starting = trio.CancelScope()
        """Of the pause before it is started again, and of that start."""
        self._over = trio.Event()
        """Set when the last process has ended, and no other follows."""
        self._over.set()

    async def start(self) -> None:
        """It serves on return. OSError: it does not come up."""
        try:
            process = await self._begin()
        except LinkLostError as error:
            raise OSError(str(error)) from error
        self._is_wanted, self._over = True, trio.Event()
        self._tasks.start_soon(self._keep, process)

    async def stop(self) -> None:
        """It has ended on return: cleanly, or killed if that takes too long. Nothing if it was not started."""
        self._is_wanted = False
        self._starting.cancel()
        if self._process is not None:
            self._process.link.tell("stop")
            with trio.move_on_after(STOP_DEADLINE_S):
                await self._over.wait()
                return
            log.error("%s does not stop, and is killed", self._process.what_was())
            self._process.kill()
        await self._over.wait()

    async def _keep(self, process: Process | None) -> None:
        deaths = 0
        try:
            while process is not None:
                self._process, since_s = process, trio.current_time()
                if not self._is_wanted:  # any more, since it began
                    process.kill()
                await process.ended()
                self._process = None
                if not self._is_wanted:
                    return
                if trio.current_time() - since_s >= HEALTHY_S:
                    deaths = 0
                process, deaths = await self._again(process.what_was(), deaths)
        finally:
            self._process = None
            self._over.set()

    async def _again(self, why: str, deaths: int) -> tuple[Process | None, int]:
        """The next process, None if none is wanted any more; how many have died in a row."""
        with trio.CancelScope() as self._starting:
            while True:
                pause_s = PAUSES_S[min(deaths, len(PAUSES_S) - 1)]
                deaths += 1
                log.error("%s is started again %s", why, f"in {pause_s} s" if pause_s else "at once")
                await trio.sleep(pause_s)
                try:
                    return await self._begin(), deaths
                except (LinkLostError, OSError) as error:
                    why = f"{error}: it"
        return None, deaths
