"""Successive runs of a broker, on the same sockets.

    restart             a clean stop, then a start
    crash               like kill -9, then a start: unflushed data is in the page cache, or lost with the process
    snapshot, restore   a clean stop; the data directories are copied away, or replaced; a start
    reset               a crash, and the data directories emptied; a start

The listening sockets stay open, so ports stay the same, no other program gets them, and connections made between two runs wait
for the next one. All nodes are started again. The clock continues. Only a reset is like the first start: without moves of the
clock, without faults, with another cluster id.

A single task executes all runs, and handles requests for the next one in order. If a run cannot begin, the caller gets the error.
The ports then stay bound but closed until a later start succeeds, or the stop. The same happens when the data directories have
failed (`failed_dirs`), which ends a run like `kill -9`.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import trio

from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..cluster.nodes import close_all
from ..config.static_config import StaticConfig
from ..faults.table import Faults
from ..runtime.clock import Clock
from ..runtime.errors import ControlError, Kind
from ..runtime.nursery import open_plain_nursery
from ..runtime.threads import Arguments, Work, in_thread
from ..services.former_run import FormerRun
from .broker import Broker, nodes_of
from .failed_dirs import FailedDirs
from .run import End, run_broker

if TYPE_CHECKING:
    from ...storage.data_dirs.snapshots import Snapshot
    from .contents import DirectoryContents

log = logging.getLogger("ottla.supervisor")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RunEndedError(ControlError):
    """The broker does not serve, or the run of the call has ended: UNAVAILABLE."""

    def __init__(self, sentence: str) -> None:
        super().__init__(Kind.UNAVAILABLE, sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return RunEndedError, self.args


@dataclass(slots=True, eq=False)
class _Request:
    """Request to end a run, and to begin the next one unless `end` is STOP."""

    end: End
    between: Callable[[], None] | None = None
    """Work between the runs, in a worker thread. The next run begins even if it raises."""
    clock_ahead_ms: int | None = None
    """Milliseconds by which the restarted clock is ahead of the wall clock; faults are removed as well. None, or an error of
    `between`: the clock continues."""
    is_reset: bool = False
    """Whether the next run begins without data, like the first one."""
    is_awaited: bool = True
    error: BaseException | None = None
    granted: trio.Event = field(default_factory=trio.Event)


class Supervisor:
    """The runs of a broker. All on Trio's thread; made by `run_supervisor`."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        clock: Clock,
        files: Files,
        rng: random.Random,
        admin: HttpListener | None = None,
        registry: HttpListener | None = None,
        prepare: Callable[[Broker], Awaitable[object]] | None = None,
    ) -> None:
        self.static = static
        self.clock = clock
        self.files = files
        self.rng = rng
        self._admin = admin
        self._registry = registry
        self._prepare = prepare
        self.nodes = nodes_of(static)
        self.faults = Faults()
        """Faults declared for all runs, until a reset; those of disks end with the run."""
        self._former_run: FormerRun | None = None
        """The last run that has ended, as the next one must know it."""
        self.broker = self._make_broker()
        """The broker of the present run; between two runs that of the last one, closed, or of the next."""
        self.failure: Exception | None = None
        """Error with which the last requested run could not begin, or with which the last one ended."""
        self.disks_lost = trio.Event()
        """Set when a run has ended with its data directories, and not because of a declared fault."""
        self.is_serving = False
        """Whether `broker` serves: not while it starts, between two runs, or while it stops."""
        self.ended = trio.Event()
        """Set when the present run begins to end."""
        self._is_over = False
        self._changed = trio.Event()
        """Set, and replaced, when `is_serving`, `failure` or `_is_over` change."""
        self._requests: deque[_Request] = deque()
        self._wished = trio.Event()
        self._changing = trio.Lock()
        """Held from a request, or from its staging, to its end: a start removes staged files that it finds."""
        self._open: set[_Request] = set()
        """Requests that are not completed: those in the queue, and the one in progress."""
        self._companions: list[Callable[[Broker], Awaitable[object]]] = []
        self._calls: set[trio.CancelScope] = set()
        self._calls_over = trio.Event()

    @property
    def admin_address(self) -> str | None:
        """HOST:PORT of the admin listener; None without one."""
        return None if self._admin is None else self._admin.address

    @property
    def registry_address(self) -> str | None:
        """HOST:PORT of the schema registry; None without one."""
        return None if self._registry is None else self._registry.address

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of each node's first listener, comma-separated, in id order. The same in all runs."""
        return ",".join(node.listeners[0].address for node in self.nodes)

    @property
    def state(self) -> str:
        """`serving`, `changing` between two runs, `down` after a run that could not begin, or `stopped`."""
        if self._is_over:
            return "stopped"
        if self.is_serving:
            return "serving"
        return "changing" if self.failure is None else "down"

    # What each of these raises: RunEndedError if the broker is being stopped, so that no further run begins; and the error
    # with which the next one cannot begin, from `Broker.open`, or OSError if another program has taken a stopped node's port:
    # see the module.

    async def restart(self) -> None:
        """Stop cleanly and start again; returns when the broker serves."""
        await self._submit(_Request(End.PAUSE))

    async def crash(self) -> None:
        """End like `kill -9`, and start again, with recovery; returns when the broker serves."""
        await self._submit(_Request(End.CRASH))

    async def reset(self) -> None:
        """End like `kill -9`, delete all data, with the dynamic configs and the cluster id, and start as the first time.

        Only producer ids continue, so that an older producer never shares an id with a new one.

        Raises:
            OSError: The disk refused the deletion; the broker serves, with the old data.
        """
        await self._submit(_Request(End.CRASH, self._contents.emptying(self.rng), clock_ahead_ms=0, is_reset=True))

    async def snapshot(self, path: str) -> Snapshot:
        """Stop cleanly, copy all data to the new directory `path`, on disk, and start again.

        Raises:
            SnapshotError: `path` exists, or is in a data directory; nothing was done.
            OSError: A disk refused; nothing is left in `path`, and the broker serves.
        """
        saved: list[Snapshot] = []
        contents = self._contents
        place = await self._on_disk(contents.check_place, path)
        await self._submit(
            _Request(End.PAUSE, lambda: saved.append(contents.save(place, self.rng, self.clock.ahead_ms)))
        )
        return saved[0]

    async def restore(self, path: str) -> Snapshot:
        """Replace all data by that of a snapshot, and set the clock ahead as it was then; faults are removed.

        The snapshot is read and copied while the broker serves. Then the broker is stopped, its content is exchanged, and it is
        started. If the process dies during that, the next start finds all of the old data, or all of the new.

        Raises:
            SnapshotError: `path` is not a snapshot, not complete, or another broker's; nothing was done.
            OSError: A disk refused; the broker serves, with the old data.
        """
        contents = self._contents
        snapshot = await self._on_disk(contents.read, path)
        async with self._changing:
            for each in tuple(self._open):  # of callers that were cancelled, or the stop
                await each.granted.wait()
            with trio.CancelScope(shield=True):  # staged files must be used or removed
                exchange = await self._on_disk(contents.staged, snapshot, self.rng)
                try:
                    await self._wait_for(
                        _Request(
                            End.PAUSE, partial(contents.put_in_place, exchange), clock_ahead_ms=snapshot.clock_ahead_ms
                        )
                    )
                except RunEndedError:
                    await self._on_disk(exchange.drop)
                    raise
        return snapshot

    async def _on_disk(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        data_dir = self.broker.config.current.data_dirs[0]
        return await in_thread(Work.BACKGROUND, data_dir, work, *arguments)

    @property
    def _contents(self) -> DirectoryContents:
        from .contents import DirectoryContents  # A start must not load it.

        return DirectoryContents(self.files, self.broker.config.current.data_dirs, self.static.node_ids[0])

    def in_each_run(self, companion: Callable[[Broker], Awaitable[object]]) -> None:
        """Run `companion(broker)` in the present run and in every later one; it is cancelled at the end of each."""
        self._companions.append(companion)
        if self.is_serving:
            self.broker.tasks.start_soon(companion, self.broker)

    async def call(
        self,
        function: Callable[Concatenate[Broker, Parameters], Awaitable[Result]],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        """Call `function(broker, …)` in the present run; between two, in the next one. Returns or raises what it does.

        Raises:
            RunEndedError: The run ended first, and the function was cancelled; or no run is present or requested.
        """
        broker = await self._serving()
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await function(broker, *args, **options)
            finally:
                self._calls.discard(scope)
                if not self._calls:
                    self._calls_over.set()
        raise RunEndedError("the broker was stopped or restarted before the call completed")

    async def stop(self) -> None:
        """Stop cleanly, release the ports, and return when that is done. Does nothing if it has stopped."""
        if not self._is_over:
            request = _Request(End.STOP)
            self._open.add(request)
            self._requests.appendleft(request)
            self._wished.set()
            await request.granted.wait()

    async def _submit(self, request: _Request) -> None:
        async with self._changing:
            await self._wait_for(request)

    async def _wait_for(self, request: _Request) -> None:
        if self._is_over or any(each.end is End.STOP for each in self._requests):
            raise RunEndedError("the broker is stopping")
        self._open.add(request)
        self._requests.append(request)
        self._wished.set()
        try:
            await request.granted.wait()
        finally:
            request.is_awaited = False
        if request.error is not None:
            raise request.error

    async def _serving(self) -> Broker:
        while not self.is_serving:
            if self._is_over:
                raise RunEndedError("the broker has stopped")
            if self.failure is not None:
                raise RunEndedError(f"the broker is down: {self.failure}")
            await self._changed.wait()
        return self.broker

    def listen(self) -> None:
        """Listen on all addresses of all nodes: a stopped node is started with the next run.

        Raises:
            OSError: An address cannot be bound.
        """
        for node in self.nodes:
            node.bind(self.broker.config.current.listen_backlog)
            node.is_alive = node.is_registered = True

    # The task

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start one run after another until `stop`. The task has started when the first run serves.

        From then on only `stop` ends it, not the cancellation of its nursery: users of the broker end first.
        """
        try:
            with trio.CancelScope() as scope:
                request = await self._first_run(scope, task_status)
                while request is None or request.end is not End.STOP:
                    request = await (self._close_until_request() if request is None else self._next_run(request))
        finally:
            self._is_over = True
            self.is_serving = False
            self._notify()
            self._cancel_calls()
            for each in self._open:
                if each.end is not End.STOP:
                    each.error = RunEndedError("the broker was stopped")
                each.granted.set()

    async def _first_run(self, scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> _Request | None:
        def note_begun() -> None:
            task_status.started()
            # A start that is being cancelled has not started: Trio waits for its end.
            scope.shield = trio.current_effective_deadline() > -math.inf

        return await self._run_once(note_begun, is_first=True)

    async def _next_run(self, request: _Request) -> _Request | None:
        """Run the requested run, as `_run_once` does. In any case, `request` is granted."""
        try:
            if request.between is not None:
                await trio.to_thread.run_sync(request.between)
        except Exception as error:  # noqa: BLE001 - the caller gets any error, and the present data is served
            request.error = error
        else:
            if request.clock_ahead_ms is not None:
                self.clock.reset(request.clock_ahead_ms)
                self.faults.clear()
        self.broker = self._make_broker(
            self.broker.next_producer_id, self.broker.config.features_epoch + 1, self._former_run
        )
        self.broker.collector.take_over()
        has_begun = False

        def note_begun() -> None:
            nonlocal has_begun
            has_begun = True
            self._grant(request)

        try:
            is_first = request.is_reset and request.error is None
            return await self._run_once(
                note_begun, is_first=is_first, begins_emptied=request.clock_ahead_ms is not None
            )
        except Exception as error:
            if has_begun:
                raise
            self.failure = request.error = error
            log.error("the broker cannot be restarted: %s", error)
            self._grant(request)
            return await self._close_until_request()

    async def _close_until_request(self) -> _Request:
        """Close the ports until the next request, and return it."""
        for node in self.nodes:
            node.pause()
        self._notify()
        return await self._next_request()

    def _grant(self, request: _Request) -> None:
        if request.error is not None and not request.is_awaited:
            log.error("the caller of a failed restart has gone: %s", request.error)
        self._open.discard(request)
        request.granted.set()

    def _make_broker(
        self, next_producer_id: int = 0, features_epoch: int = 0, former_run: FormerRun | None = None
    ) -> Broker:
        return Broker(
            self.static,
            self.nodes,
            clock=self.clock,
            files=self.files,
            rng=self.rng,
            faults=self.faults,
            next_producer_id=next_producer_id,
            features_epoch=features_epoch,
            former_run=former_run,
        )

    async def _run_once(
        self, begun: Callable[[], None], *, is_first: bool = False, begins_emptied: bool = False
    ) -> _Request | None:
        """Execute one run; return the request that has ended it, or None if its data directories have failed."""
        broker = self.broker
        self.listen()
        async with run_broker(broker) as ending:
            broker.services.former_run.begin(trio.current_time())
            if self._prepare is not None and is_first:
                ending.end = End.PAUSE  # should it fail
                await self._prepare(broker)
            for companion in self._companions:
                broker.tasks.start_soon(companion, broker)
            self.is_serving, self.failure, self.ended = True, None, trio.Event()
            if begins_emptied:
                broker.tasks.start_soon(broker.background_jobs.tick)  # deletes the old files without a wait
            begun()
            self._notify()
            try:
                request = await self._next_request_or_failure(broker.failed_dirs)
            finally:
                self.is_serving = False
                self.ended.set()
            clients = [each for each in broker.connections if not each.is_closed_by_peer()]
            self._former_run = FormerRun(broker.services.topics.names_of_run(), clients)
            if request is None:
                ending.end = End.CRASH
                self._disks_failed(broker.failed_dirs)
            else:
                ending.end = request.end
            await self._end_calls(broker)
        return request

    def _disks_failed(self, failed_dirs: FailedDirs) -> None:
        self.failure = OSError(failed_dirs.reason)
        if failed_dirs.is_declared:
            log.error("%s (injected fault): the broker is down until it is restarted", failed_dirs.reason)
        else:
            self.disks_lost.set()

    async def _next_request(self) -> _Request:
        while not self._requests:
            self._wished = trio.Event()
            await self._wished.wait()
        return self._requests.popleft()

    async def _next_request_or_failure(self, failed_dirs: FailedDirs) -> _Request | None:
        """Return the next request; None if the data directories fail before."""
        failed_dirs.on_end = lambda: self._wished.set()
        while not self._requests:
            if failed_dirs.reason is not None:
                return None
            self._wished = trio.Event()
            await self._wished.wait()
        return self._requests.popleft()

    async def _end_calls(self, broker: Broker) -> None:
        broker.services.cleaning.stop()  # for callers that wait for the end of a pass
        while self._calls:
            self._calls_over = trio.Event()
            self._cancel_calls()
            await self._calls_over.wait()

    def _cancel_calls(self) -> None:
        for scope in self._calls:
            scope.cancel()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class HttpListener(Protocol):
    """Interface to a listener of `http`, which is a higher room and is loaded only if it is on. It serves through all
    runs."""

    @property
    def address(self) -> str:
        """HOST:PORT to connect to, once it is bound."""

    @property
    def has_token(self) -> bool:
        """Whether clients need a token."""

    def bind(self) -> None:
        """Bind its address; before the data directories are opened."""

    def close(self) -> None:
        """Release the address."""

    async def run(self, supervisor: Supervisor) -> None:
        """Serve until cancelled."""


def warn_of_way_around(static: StaticConfig, listener: HttpListener, name: str) -> None:
    """Log one line if logins or ACLs are set, but an HTTP listener requires no token, and so bypasses both."""
    nodes = [static.node(node_id) for node_id in static.node_ids]
    what = [
        name
        for name, is_set in (
            ("logins", any(node.sasl for node in nodes)),
            ("ACLs", any(node.authorization is not None for node in nodes)),
        )
        if is_set
    ]
    if what and not listener.has_token:
        log.warning(
            "the %s at %s bypasses %s: without a token, every user and program on this machine can read and"
            " change everything; set a token (--admin-token-file FILE, %s, or admin_token of ottla.Broker)",
            name,
            listener.address,
            " and ".join(what),
            "OTTLA_ADMIN_TOKEN",
        )


@asynccontextmanager
async def run_supervisor(
    static: StaticConfig,
    *,
    clock: Clock | None = None,
    files: Files | None = None,
    rng: random.Random | None = None,
    admin: HttpListener | None = None,
    registry: HttpListener | None = None,
    prepare: Callable[[Broker], Awaitable[object]] | None = None,
) -> AsyncIterator[Supervisor]:
    """Start a broker, yield its runs while the block runs, and stop it cleanly.

    Args:
        clock: The broker's clock, for all runs.
        rng: Source of ids, jitter and replica placement.
        prepare: Called in the first run, and in the one after a reset, before it counts as serving.

    Raises:
        OSError: An address cannot be bound, or the disk refuses.
        DataDirectoryError: A data directory cannot be used; each message is one clear line, and nothing was written.
        Any error inside of a run, unchanged.
    """
    supervisor = Supervisor(
        static,
        clock=clock or Clock(),
        files=files or OsFiles(),
        rng=rng or random.Random(),
        admin=admin,
        registry=registry,
        prepare=prepare,
    )
    http = [listener for listener in (admin, registry) if listener is not None]
    try:
        supervisor.listen()
        for listener in http:
            listener.bind()
            warn_of_way_around(static, listener, "admin listener" if listener is admin else "schema registry")
        async with open_plain_nursery() as nursery:
            for listener in http:
                nursery.start_soon(listener.run, supervisor)
            try:
                await nursery.start(supervisor.run)
                yield supervisor
            finally:
                with trio.CancelScope(shield=True):
                    await supervisor.stop()
                nursery.cancel_scope.cancel()
    finally:
        close_all(supervisor.nodes)
        for listener in http:
            listener.close()
