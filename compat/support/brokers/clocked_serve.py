"""`ottla serve` with a clock that another process moves, and with reports of its steps: run by `clocked_ottla.py`.

    python clocked_serve.py SOCKET serve …

A line on the Unix socket is a number of milliseconds by which to advance the broker's clock, answered by `done` afterwards. Or
it is `steps`, answered by the longest step of Trio's thread since the last request, as JSON (`Longest.taken`).
"""

import ctypes
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from ottla.server.broker.supervisor import run_supervisor
from ottla.server.commands import cli, serve
from ottla.server.runtime.clock import Clock

STEPS = "steps\n"


class Longest(trio.abc.Instrument):
    """The longest step of Trio's thread: no other task runs between two checkpoints of a task.

    The CPU time of this thread counts, which other programs do not lengthen. During a step the thread may also have waited
    without being ready to run, mostly for the interpreter's lock. Other threads of the process may have held the lock for that
    time, but not for longer than their own CPU time.
    """

    def __init__(self) -> None:
        self._schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._text = ctypes.create_string_buffer(100)
        # Unlike os.pread this keeps the interpreter's lock: the measurement must not let other threads take it.
        self._pread = ctypes.PyDLL(None).pread
        self._begun: tuple[int, int, int, bytes] | None = None
        self._forget()

    def _forget(self) -> None:
        self._cpu_ns, self._name, self._workers_ns = 0, "", 0

    def taken(self) -> str:
        """Return and reset the longest step: CPU in ms, its task's name, and the longest delay by other threads."""
        told = {"cpu_ms": self._cpu_ns / 1e6, "task": self._name, "workers_ms": self._workers_ns / 1e6}
        self._forget()
        return json.dumps(told)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if (cpu_ns := self._end()) > self._cpu_ns:
            self._cpu_ns, self._name = cpu_ns, ".".join(task.name.split(".")[-2:])

    def before_io_wait(self, timeout: float) -> None:
        # A time-out of 0 means that a task is ready to run: time that passes here is a wait for the interpreter's lock.
        self._begun = None
        if not timeout:
            self._begin()

    def after_io_wait(self, timeout: float) -> None:
        if self._begun:
            self._end()

    def _schedstat(self) -> bytes:
        self._pread(self._schedule, self._text, 100, 0)
        return self._text.value

    def _begin(self) -> None:
        schedule = self._schedstat()
        self._begun = time.monotonic_ns(), time.process_time_ns(), time.thread_time_ns(), schedule

    def _end(self) -> int:
        """Return the CPU time of the thread since `_begin`, in ns."""
        now_ns = time.thread_time_ns()
        if self._begun is None:  # the step in which the instrument was added
            return 0
        wall_ns, all_ns, thread_ns, schedule = self._begun
        cpu_ns = now_ns - thread_ns
        wall_ns = time.monotonic_ns() - wall_ns
        others_ns = time.process_time_ns() - all_ns - cpu_ns
        if min(wall_ns - cpu_ns, others_ns) > self._workers_ns:
            ready_ns = int(self._schedstat().split()[1]) - int(schedule.split()[1])
            self._workers_ns = max(self._workers_ns, min(wall_ns - cpu_ns - ready_ns, others_ns))
        return cpu_ns


def main(path: str, *arguments: str) -> int:
    clock, longest = Clock(), Longest()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(1)

    def tell(answers: queue.SimpleQueue[str]) -> None:
        answers.put(longest.taken())

    def obey(token: trio.lowlevel.TrioToken) -> None:
        while True:
            connection, _ = listening.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
                    if line == STEPS:
                        token.run_sync_soon(tell, answers)
                    else:
                        token.run_sync_soon(clock.advance, int(line))
                        token.run_sync_soon(answers.put, "done")
                    lines.write(f"{answers.get()}\n")
                    lines.flush()

    @asynccontextmanager
    async def run_measured(*given: Any, **options: Any) -> AsyncIterator[Any]:
        trio.lowlevel.add_instrument(longest)
        async with run_supervisor(*given, clock=clock, **options) as supervisor:
            threading.Thread(target=partial(obey, trio.lowlevel.current_trio_token()), daemon=True).start()
            yield supervisor

    vars(serve)[run_supervisor.__name__] = run_measured
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
