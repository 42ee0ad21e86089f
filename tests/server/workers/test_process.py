"""A process that says nothing for long is killed; one that answers, however slowly, is not."""

from __future__ import annotations

import subprocess
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from ottla.server.runtime.nursery import Tasks
from ottla.server.workers.link import Link
from ottla.server.workers.process import ASKED_EVERY_S, SILENT_TIMES, NodeProcess, begun


class FakeProgram:
    """As `subprocess.Popen`, for a process whose end of the link is in the test."""

    pid = 4711

    def __init__(self) -> None:
        self.is_killed = False

    def kill(self) -> None:
        self.is_killed = True

    def poll(self) -> int | None:
        return None


def watched(silent_s: float) -> tuple[bool, str]:
    """Whether a process is killed that answers, then does not for so long, then does again; and what it is called."""

    async def run() -> tuple[bool, str]:
        one, other = trio.socket.socketpair()
        link = Link(trio.SocketStream(one), {})
        program = FakeProgram()
        process = NodeProcess(1, cast("subprocess.Popen[bytes]", program), link)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            nursery.start_soon(process.heed)
            answering = Link(trio.SocketStream(other), {"here": lambda: None})
            await trio.sleep(silent_s)
            with trio.move_on_after(200):
                await answering.run()
            nursery.cancel_scope.cancel()
        other.close()
        return program.is_killed, process.what_was()

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def test_one_that_is_silent_for_half_a_minute_is_killed() -> None:
    is_killed, what = watched(ASKED_EVERY_S * (SILENT_TIMES + 1))
    assert is_killed
    assert what == "the process of node 1 (pid 4711) has said nothing for 30 s, and"


def test_one_that_answers_is_not() -> None:
    assert not watched(0)[0]
    assert not watched(ASKED_EVERY_S * (SILENT_TIMES - 1))[0]


def test_one_that_never_speaks_ends_the_start_that_waits_for_it() -> None:
    async def run() -> None:
        tasks = Tasks()
        async with trio.open_nursery() as tasks.nursery:
            process = await begun(1, {}, (), lambda door: door.close(), tasks, program=("sh", "-c", "exec sleep 600"))
            with trio.fail_after(60):
                process.kill()
                await process.ended()
            assert process.what_was().endswith("has ended with -9, and")

    trio.run(run)


def test_a_program_that_is_not_there_is_refused() -> None:
    async def run() -> None:
        tasks = Tasks()
        async with trio.open_nursery() as tasks.nursery:
            with pytest.raises(OSError, match="No such file"):
                await begun(1, {}, (), lambda door: door.close(), tasks, program=("/no/such/program",))

    trio.run(run)
