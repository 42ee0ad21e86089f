"""Start, stop and use of a broker in a thread of this process: the base of all groups of methods."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar, TypeVarTuple, Unpack

import trio
import trio.from_thread

from ..broker.broker import Broker as Inner
from ..broker.supervisor import Supervisor
from ..control.supervisor import SnapshotCopied
from ..runtime.errors import ControlError
from .in_trio import run_in_thread
from .options import BrokerArguments, checked, takes_arguments
from .run import Run

if TYPE_CHECKING:
    from ..client.security import Security
    from .sasl import Sasl
    from .tls import Tls

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
Parameters = ParamSpec("Parameters")

_ELSEWHERE = (
    "the broker runs in the parent process; after a fork only broker.bootstrap, broker.admin and"
    " broker.schema_registry are available."
    " Use them with a client, or start the broker after the fork"
)
_HOW_TO_START = "use `with ottla.Broker() as broker:`, or call start()"


class Running:
    """A broker in a thread, from start to stop."""

    @takes_arguments
    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        **arguments: Unpack[BrokerArguments],
    ) -> None:
        """Create a broker with the arguments of `ottla.open_broker`. Nothing starts yet.

        Raises:
            TypeError: An unknown argument, or one of a wrong type.
            ConfigError: An override that is not a broker option, or an invalid directory.
        """
        self._options = checked("ottla.Broker", data_dir, arguments)
        self._run: Run | None = None
        self._was_started = False
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        """Start the broker unless it is running already. The end of the block stops it in any case."""
        return self if self._runs_here() else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """Start the broker like `with`, in Trio and asyncio, without blocking the loop."""
        if self._runs_here():
            return self
        try:
            await run_in_thread(self.start)
        except Exception:
            raise
        except BaseException:  # cancelled: `__aexit__` will not be called
            await run_in_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_in_thread(self.stop)

    def start(self) -> Self:
        """Start the broker, and return when it is serving. After `stop` it can be started again, on the same `data_dir` if given.

        Raises:
            RuntimeError: The broker is already running, or another thread stopped it during the start.
            The error that prevented the start, or that interrupted the wait (KeyboardInterrupt, a test's time limit). Nothing is
            left running. If the cleanup is interrupted as well, the next `start` or `stop` completes it.
        """
        run = Run(self._options)
        try:
            with self._changing:
                if self._run is not None and not self._run.is_stopping:
                    raise RuntimeError(_ELSEWHERE if self._run.is_elsewhere else "the broker is already running")
                run.before = self._run
                self._run = run
                self._was_started = True
            run.start()
            return self  # An interruption before the caller has the return value ends the broker.
        except BaseException:
            run.is_stopping = True  # Set even if this is interrupted as well.
            self._end(run)
            raise

    def stop(self) -> None:
        """Stop cleanly, and return when everything is on disk. Raises an error that ended the broker, if there was one.

        If interrupted, call it again. Does nothing if the broker is not running.
        """
        run = self._run
        if run is not None and self._end(run) and run.failure is not None:
            raise run.failure

    def _end(self, run: Run) -> bool:
        """Stop `run` and forget it; False if another thread has done so."""
        run.stop()
        with self._changing:
            if self._run is not run:
                return False
            self._run = None
            return True

    # Its runs

    def restart(self) -> None:
        """Stop cleanly and start again, with the same ports, data and clock. Stopped nodes are started as well.

        Returns when the broker is serving.

        Raises:
            RuntimeError: The broker is not running.
            The error that prevented the start; the broker is down then. Call `restart` again, or `stop` and `start`.
        """
        self.run(self._supervisor.restart)

    def crash(self) -> None:
        """Kill the broker as with `kill -9`, and start it again as `restart` does, with log recovery.

        Acknowledged records are kept: a killed process is simulated, not a power loss.
        """
        self.run(self._supervisor.crash)

    def reset(self) -> None:
        """Delete all topics, groups and configs within milliseconds, remove all faults, and reset the clock.

        Client connections are closed; clients find a new cluster on the same ports. Only the broker's own files are deleted from
        its data directory.

        Raises:
            RuntimeError: The broker is not running.
            OSError: The disk failed; the broker continues to serve its old data.
        """
        self.run(self._supervisor.reset)

    def snapshot(self, path: str | os.PathLike[str]) -> SnapshotCopied:
        """Stop cleanly, copy all data to the new directory `path`, and start again as `restart` does.

        Raises:
            RuntimeError: The broker is not running.
            SnapshotError: `path` exists, or is inside the data directory; nothing was done.
            OSError: A disk failed; nothing is left in `path`, and the broker is serving.
        """
        return SnapshotCopied.from_snapshot(self.run(self._supervisor.snapshot, os.path.expanduser(os.fspath(path))))

    def restore(self, path: str | os.PathLike[str]) -> SnapshotCopied:
        """Restore all data and the clock from the snapshot in `path`, and remove all faults.

        Raises:
            RuntimeError: The broker is not running.
            SnapshotError: `path` contains no snapshot, an incomplete one, or that of another broker; nothing was done.
            OSError: A disk failed; the broker continues to serve its old data.
        """
        return SnapshotCopied.from_snapshot(self.run(self._supervisor.restore, os.path.expanduser(os.fspath(path))))

    # What it is, from outside

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT…]` for clients, also in a forked process. RuntimeError: the broker is not running."""
        return self._last_run.supervisor.bootstrap

    @property
    def admin(self) -> str | None:
        """`HOST:PORT` of the admin HTTP listener, or None without one. Also available in a forked process.

        RuntimeError: The broker is not running.
        """
        return self._last_run.supervisor.admin_address

    @property
    def schema_registry(self) -> str | None:
        """URL of the schema registry, or None without one. Also available in a forked process.

        RuntimeError: The broker is not running.
        """
        address = self._last_run.supervisor.registry_address
        return None if address is None else f"http://{address}"

    @property
    def tls(self) -> Tls:
        """Client settings for TLS. RuntimeError: the broker was created without `tls=True`."""
        if self._options.tls is None:
            raise RuntimeError("TLS is not enabled; use ottla.Broker(tls=True)")
        return self._options.tls

    def token(self, user: str, lifetime_s: float = 3600, scope: str = "") -> str:
        """Return a signed OAUTHBEARER token for this user; requires `mechanism="OAUTHBEARER"`.

        Args:
            lifetime_s: Lifetime in seconds, by the broker's clock; a token with a negative lifetime has expired.
            scope: The `scope` claim (default: none).

        Raises:
            RuntimeError: OAUTHBEARER is not enabled, or the broker is not serving.
            ValueError: The user name or lifetime is invalid.
        """
        if self._options.token_issuer is None:
            raise RuntimeError('tokens are not enabled; use ottla.Broker(mechanism="OAUTHBEARER")')
        return self._options.token_issuer.token(user, self._now_ms(), lifetime_s, scope)

    def _now_ms(self) -> int:
        return self.inner.clock.now_ms()

    def sasl(self, user: str | None = None, mechanism: str | None = None) -> Sasl:
        """Return the client settings for logging in.

        Args:
            user: One of `users` (default: the first). With OAUTHBEARER any name, for which tokens are created.
            mechanism: SASL mechanism (default: PLAIN, if enabled for `users`).

        Raises:
            RuntimeError: The broker was created without `users`.
            ValueError: The user was not found, or the mechanism is not enabled for it.
        """
        from .sasl import sasl_for

        if (token_issuer := self._options.token_issuer) is not None:
            if mechanism not in (None, "OAUTHBEARER"):
                raise ValueError(f"mechanism {mechanism} is not enabled (enabled: OAUTHBEARER)")
            return token_issuer.sasl("client" if user is None else user, self._options.tls, self._now_ms)
        return sasl_for(self._options.users, self._options.tls, user, mechanism)

    @property
    def security(self) -> Security:
        """Settings by which Ottla's own client connects: as the first of `users`, if there are any."""
        from ..client.security import PLAIN

        if self._options.users or self._options.token_issuer is not None:
            return self.sasl().security
        return PLAIN if self._options.tls is None else self._options.tls.security

    @property
    def data_dir(self) -> str:
        """The data directory, or several separated by commas. RuntimeError: the broker is not running."""
        return ",".join(self.inner.config.current.data_dirs)

    @property
    def state(self) -> str:
        """`new`, `starting`, `serving`, `changing` during a restart, `down` if a restart failed, or `stopped`."""
        run = self._run
        if run is None:
            return "stopped" if self._was_started else "new"
        if run.has_ended:
            return "stopped"
        return run.supervisor.state if run.is_serving else "starting"

    def __repr__(self) -> str:
        run = self._run
        if run is None or not run.is_serving:
            return f"<ottla.Broker {self.state}>"
        return f"<ottla.Broker {run.supervisor.bootstrap} {self.state}>"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]

    # Its inside

    @property
    def inner(self) -> Inner:
        """The broker of the present run, which belongs to its own thread: use it only in functions that `run` runs."""
        return self._supervisor.broker

    def run(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on the broker's thread and return its result.

        Raises:
            RuntimeError: The broker is not running, or was stopped during the call.
        """
        try:
            return trio.from_thread.run(function, *args, trio_token=self._present_run.token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise RuntimeError(self._why_unavailable()) from None

    def _ask(
        self,
        operation: Callable[Concatenate[Inner, Parameters], Awaitable[Result]],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        """Return the result of `operation(broker, …)` in the present run. RunEndedError if the run ends first."""

        async def ask() -> Result:
            return await self._supervisor.call(operation, *args, **options)

        try:
            return self.run(ask)
        except ControlError as refusal:
            # A failing test should show its own lines and the message, not the frames of the broker's thread.
            raise refusal.with_traceback(None) from None

    def _call(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        async def call() -> Result:
            return function(*args)

        return self.run(call)

    @property
    def _supervisor(self) -> Supervisor:
        return self._present_run.supervisor

    @property
    def _last_run(self) -> Run:
        """The present run, or that of the process that this one was forked from."""
        run = self._run
        if run is None or not run.is_serving or run.has_ended:
            raise RuntimeError(self._why_unavailable())
        return run

    @property
    def _present_run(self) -> Run:
        run = self._last_run
        if run.is_elsewhere:
            raise RuntimeError(_ELSEWHERE)
        return run

    def _runs_here(self) -> bool:
        """Return whether it runs in this process. RuntimeError: it runs in the process that this one was forked from."""
        run = self._run
        if run is None or run.is_stopping or run.has_ended or not run.is_serving:
            return False
        return self._present_run is run

    def _why_unavailable(self) -> str:
        match self.state:
            case "new":
                return f"the broker was not started; {_HOW_TO_START}"
            case "starting":
                return "the broker is still being started by another thread"
            case _:
                return f"the broker was stopped; {_HOW_TO_START}"
