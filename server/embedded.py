"""The broker inside another program: in its Trio loop, or in a thread of it.

async with ottla.open_broker() as broker: ...         # inside Trio
with ottla.Broker() as broker: broker.bootstrap       # anywhere else
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import trio
import trio.from_thread

from ..storage.disk.os_files import OsFiles
from ..storage.disk.paths import TopicPartition
from .broker import broker as server
from .cleaning.status import CleanerStatus
from .cluster.opening import static_config_with_stored_id
from .config.properties import Properties
from .runtime.clock import Clock

T = TypeVar("T")


@asynccontextmanager
async def open_broker(
    data_dir: str | None = None,
    *,
    nodes: int = 1,
    profile: str = "dev",
    overrides: Mapping[str, str] | None = None,
    features: Mapping[str, int] | None = None,
    listener: str = "127.0.0.1:0",
    clock: Clock | None = None,
    rng: random.Random | None = None,
    admin: str | None = None,
    admin_token: str | None = None,
) -> AsyncIterator[server.Broker]:
    """A broker that serves while the block runs.

    Args:
        data_dir: Where logs are kept; without it a temporary directory, removed at the end.
        nodes: How many broker ids to play, each on a port of its own.
        profile: `dev` (quick reactions) or `kafka` (Apache Kafka's defaults).
        overrides: Broker options by name, as texts.
        features: Finalized levels by name, e.g. `{"transaction.version": 1}`.
        listener: HOST:PORT of the first node; port 0 takes a free one.
        clock: The broker's time; tests move it.
        rng: Source of ids, jitter and replica placement; a seeded one makes them repeat.
        admin: [HOST:]PORT of the admin HTTP listener; without it there is none.
        admin_token: What its clients have to know; without it the listener is on a loopback address only.

    Raises:
        ConfigError: An option is refused.
        OSError, DirectoryLockedError and the like: as `broker.run_broker`.
    """
    host, _, port = listener.rpartition(":")
    admin_http = None if admin is None else _admin_http(admin, admin_token)
    directory = tempfile.mkdtemp(prefix="ottla-") if data_dir is None else data_dir
    flags = {"listeners": f"PLAINTEXT://{host}:{port}", "log.dirs": directory}
    try:
        static = static_config_with_stored_id(
            OsFiles(),
            profile=profile,
            file=Properties(features=dict(features or {})),
            flags=flags,
            overrides=overrides or {},
            nodes=nodes,
        )
        async with server.run_broker(static, clock=clock, rng=rng, admin=admin_http) as broker:
            yield broker
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


def _admin_http(address: str, token: str | None) -> server.AdminListener:
    from .http.listener import AdminHttp

    return AdminHttp(address, token)


class Broker:
    """A broker in a thread of this process, for programs and tests that do not run Trio.

    Takes the arguments of `open_broker`. Use it as a context manager, or call `start` and `stop`, from any thread.
    """

    def __init__(self, data_dir: str | None = None, **options: Any) -> None:
        self._data_dir = data_dir
        self._options = options
        self._run: _Run | None = None
        self._served: _Run  # The last one that did.
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return once the broker serves. After `stop` it may be started again, on the same data directory if it has one.

        Raises:
            RuntimeError: It runs already, or another thread stopped it meanwhile.
            Whatever kept it from starting, or interrupted the wait (KeyboardInterrupt, a test's time limit); nothing is
            left behind. Should that be interrupted once more, the next `start` or `stop` ends what is left first.
        """
        run = _Run(self._data_dir, self._options)
        try:
            with self._changing:
                if self._run is not None and not self._run.is_stopping:
                    raise RuntimeError("the broker runs already")
                run.before = self._run
                self._run = run
            run.start()
            self._served = run
        except BaseException:
            run.is_stopping = True  # Even if this is interrupted, too.
            self._end(run)
            raise

    def stop(self) -> None:
        """Stop cleanly and return when everything is on disk. Raises what went wrong inside, if anything did.

        Should it be interrupted, call it again.
        """
        run = self._run
        if run is not None and self._end(run) and run.failure is not None:
            raise run.failure

    def _end(self, run: _Run) -> bool:
        """Stop `run` and forget it; False if another thread has done so."""
        run.stop()
        with self._changing:
            if self._run is not run:
                return False
            self._run = None
            return True

    @property
    def inner(self) -> server.Broker:
        """The broker itself, which belongs to its own thread: use it inside of what `run` runs."""
        return self._served.broker

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT…]` for clients."""
        return self.inner.bootstrap

    def advance_clock(self, by_ms: int) -> None:
        """Let `by_ms` more have passed by the broker's clock: what becomes due by it is due at once.

        A negative number sets back the wall time alone, as an operator may: nothing is due later for it.
        """
        self._call(self.inner.clock.advance, by_ms)

    def stop_node(self, node_id: int) -> None:
        """Stop one node, as `ottla.server.broker.broker.Broker.stop_node`; the others serve on."""
        self.run(self.inner.stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, as `ottla.server.broker.broker.Broker.start_node`."""
        self.run(self.inner.start_node, node_id)

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `ottla.server.broker.metrics`."""
        return self._call(self.inner.metrics)

    def cleaner_status(self) -> dict[TopicPartition, CleanerStatus]:
        """What the cleaner has done to each partition, and what it waits for."""
        return self._call(self.inner.cleaner_status)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function of the broker on its thread and return what it returns."""
        return trio.from_thread.run(function, *args, trio_token=self._served.token)

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        return trio.from_thread.run_sync(function, *args, trio_token=self._served.token)


class _Run:
    """One life of an embedded broker: from a start, whatever becomes of it, to the end of its thread.

    Whoever starts or stops it may be interrupted between any two steps. So what is to happen is written down before it
    is done, and `stop` does all that is left, however often it is called and from however many threads.
    """

    def __init__(self, data_dir: str | None, options: dict[str, Any]) -> None:
        self.before: _Run | None = None
        """One that was interrupted; it holds the data directory until it has ended."""
        self.is_stopping = False
        self.failure: BaseException | None = None
        self.token: trio.lowlevel.TrioToken | None = None
        self.broker: server.Broker
        self._data_dir = data_dir
        self._options = options
        self._beginning = threading.Lock()
        self._has_begun = False
        self._is_serving = False
        self._decided = _Latch()
        """It serves, or never will."""
        self._over = _Latch()
        self._stop = trio.Event()
        self._scope = trio.CancelScope()

    def start(self) -> None:
        """Return once it serves; raises what kept it from that."""
        if self.before is not None:
            self.before.stop()
        threading.Thread(target=self._live, name="ottla-broker", daemon=True).start()
        self._decided.wait()
        if self.failure is not None:
            raise self.failure
        if self.is_stopping:
            raise RuntimeError("the broker was stopped while it started")

    def stop(self) -> None:
        """Return when nothing of it is left."""
        self.is_stopping = True
        if self.before is not None:
            self.before.stop()
        with self._beginning:
            if not self._has_begun:
                return  # And never will, should its thread still come.
        if self.token is not None:
            with suppress(trio.RunFinishedError):
                self.token.run_sync_soon(self._end)
        self._over.wait()

    def _end(self) -> None:
        self._stop.set()
        if not self._is_serving:
            self._scope.cancel()

    def _live(self) -> None:
        try:
            with self._beginning:
                if self.is_stopping:
                    return
                self._has_begun = True
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that called us
            self.failure = error
        finally:
            self._decided.open()
            self._over.open()

    async def _main(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        if self.is_stopping:  # Whoever stops it writes this down before looking for the token.
            return
        with self._scope:
            async with open_broker(self._data_dir, **self._options) as self.broker:
                self._is_serving = True
                self._decided.open()
                await self._stop.wait()


class _Latch:
    """Opened for good by one thread, waited for by any.

    A wait may be interrupted at any moment: a threading.Event could then keep its lock, and who opens it would hang.
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
        with self._closed:  # The next one gets it from us.
            assert self._is_open
