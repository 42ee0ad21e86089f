"""One Trio loop in a thread, for the runs of one broker: from a start, successful or not, to the end of the thread."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress

import trio

from ..broker.supervisor import Supervisor
from .in_trio import embedded_supervisor
from .options import Options

THREAD_NAME = "ottla-broker"

_left: set[Run] = set()
"""Runs that have begun and not ended."""


class Run:
    """One run of a broker in a thread; see the module.

    A caller of start or stop may be interrupted between any two steps. So each step is recorded before it is done, and
    `stop` does everything that remains, however often it is called and from however many threads.
    """

    def __init__(self, options: Options) -> None:
        self.before: Run | None = None
        """An interrupted earlier run; it holds the data directory until it has ended."""
        self.is_stopping = False
        self.failure: BaseException | None = None
        self.token: trio.lowlevel.TrioToken | None = None
        self.supervisor: Supervisor
        self._options = options
        self._process_id = os.getpid()
        self._runner = threading.Thread(target=self._run_broker, name=THREAD_NAME, daemon=True)
        self._thread = 0
        self._beginning = threading.Lock()
        self._has_begun = False
        self.is_serving = False
        """Whether it has started; `supervisor` exists from then on."""
        self.has_ended = False
        self._decided = Latch()
        """Opened when the broker serves, or never will."""
        self._over = Latch()
        self._stop = trio.Event()
        self._scope = trio.CancelScope()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process is a fork, which has neither the run's thread nor a right to its directory."""
        return os.getpid() != self._process_id

    def start(self) -> None:
        """Start the thread, and return once the broker serves; raise the error that prevented that."""
        if self.before is not None:
            self.before.stop()
        self._runner.start()
        self._decided.wait()
        if self.failure is not None:
            raise self.failure
        if self.is_stopping:
            raise RuntimeError("the broker was stopped during its start")

    def stop(self) -> None:
        """Stop, and return when nothing of the run is left.

        RuntimeError in the run's own thread, which would wait for itself.
        """
        if self.is_elsewhere:
            return
        if threading.get_ident() == self._thread:
            raise RuntimeError("stop() was called in the broker's own thread; call it in another thread")
        self.is_stopping = True
        if self.before is not None:
            self.before.stop()
        with self._beginning:
            if not self._has_begun:
                return  # It never will, even if its thread still starts.
        if self.token is not None:
            with suppress(trio.RunFinishedError):
                self.token.run_sync_soon(self._end)
        self._over.wait()
        self._runner.join()  # The thread only has to return.

    def _end(self) -> None:
        self._stop.set()
        if not self.is_serving:
            self._scope.cancel()

    def _run_broker(self) -> None:
        try:
            with self._beginning:
                if self.is_stopping:
                    return
                self._has_begun = True
            self._thread = threading.get_ident()
            _left.add(self)
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that called us
            self.failure = error
        finally:
            _left.discard(self)
            self.has_ended = True
            self._thread = 0  # The thread's ID may be assigned to another thread.
            self._decided.open()
            self._over.open()

    async def _main(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        if self.is_stopping:  # The stopping thread sets this before it reads the token.
            return
        with self._scope:
            async with embedded_supervisor(self._options) as self.supervisor:
                self.is_serving = True
                self._decided.open()
                await self._stop.wait()


class Latch:
    """Latch that one thread opens once, and any thread waits for.

    A wait may be interrupted at any moment: a threading.Event could then keep its lock, and the opening thread would
    hang.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._closed = threading.Lock()
        self._closed.acquire()

    def open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._closed.release()

    def wait(self) -> None:
        with self._closed:  # Released at once for the next waiting thread.
            assert self._is_open


@atexit.register
def _stop_all() -> None:
    """Stop all brokers that a program has not stopped at its exit: cleanly, and without leaving their temporary directories."""
    for run in list(_left):
        run.stop()
