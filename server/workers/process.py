"""One process of a node: a program with an end of two pairs of sockets, asked every few seconds whether it is there."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import trio

from ..runtime.nursery import Tasks
from .link import Link, Served

log = logging.getLogger("ottla.workers")

PROGRAM = (sys.executable, "-m", "ottla.server.commands.worker")
ASKED_EVERY_S = 3.0
SILENT_TIMES = 10
"""So often in a row without a byte of an answer: whoever changes topics waits meanwhile, so it is killed then, and started again.
Not one long wait: of a machine that slept, or a first process that was stopped, one of these ends too early, and no more."""


class NodeProcess:
    """From its start to its end."""

    def __init__(self, node_id: int, process: subprocess.Popen[bytes], link: Link) -> None:
        self.node_id = node_id
        self.link = link
        self._process = process
        self._was_silent = False

    async def heed(self) -> None:
        """Until it has gone: kill it when it is silent for long."""
        silent, heard = 0, self.link.heard
        while not self.link.lost.is_set():
            self.link.poke()
            with trio.move_on_after(ASKED_EVERY_S):
                await self.link.lost.wait()
                return
            silent = 0 if self.link.heard != heard else silent + 1
            heard = self.link.heard
            if silent == SILENT_TIMES:
                self._was_silent = True
                log.error("%s is killed", self.what_was())
                self.kill()
                return

    def what_was(self) -> str:
        """For people: which process, and how it ended, if that is known."""
        name = f"the process of node {self.node_id} (pid {self._process.pid})"
        if self._was_silent:
            return f"{name} has said nothing for {ASKED_EVERY_S * SILENT_TIMES:.0f} s, and"
        code = self._process.poll()
        return name if code is None else f"{name} has ended with {code}, and"

    def kill(self) -> None:
        """As by kill -9; nothing if it has ended."""
        self._process.kill()

    async def ended(self) -> None:
        """Return once it has gone for good: who lost the link only may still have its directory. It is killed for that."""
        await self.link.lost.wait()
        self.kill()
        await trio.to_thread.run_sync(self._process.wait)


async def begun(
    node_id: int,
    served: Served,
    passed: Sequence[int],
    take_over: Callable[[socket.socket], None],
    tasks: Tasks,
    program: Sequence[str] = PROGRAM,
) -> NodeProcess:
    """Start one.

    Args:
        passed: Descriptors that it gets besides.
        take_over: Is given what its clients' requests come through.

    Raises:
        OSError: The system refuses.
    """
    ours, theirs = socket.socketpair()
    door, their_door = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    command = [*program, str(theirs.fileno()), str(their_door.fileno()), logging.getLevelName(log.getEffectiveLevel())]
    try:
        descriptors = [theirs.fileno(), their_door.fileno(), *passed]
        process = await trio.to_thread.run_sync(_started, command, descriptors)
    except OSError:
        ours.close()
        door.close()
        raise
    finally:
        theirs.close()
        their_door.close()
    link = Link(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), served)
    made = NodeProcess(node_id, process, link)
    tasks.start_soon(link.run)
    tasks.start_soon(made.heed)
    take_over(door)
    tasks.start_soon(_close_with, link, door)
    return made


def _started(command: Sequence[str], passed: Sequence[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)


async def _close_with(link: Link, door: socket.socket) -> None:
    await link.lost.wait()
    with suppress(OSError):
        trio.lowlevel.notify_closing(door)
        door.close()
