"""Starting, stopping and reaching a broker in a thread of this process: what all groups of methods stand on."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar, TypeVarTuple, Unpack

import trio
import trio.from_thread

from ..broker.broker import Broker as Inner
from ..broker.lives import Lives
from ..control.lives import SnapshotCopied
from ..runtime.errors import ControlError
from .in_trio import beside
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
    "the broker runs in the process that this one was forked from: only broker.bootstrap and broker.admin answer here;"
    " use them with a client of this process, or start the broker after the fork"
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
        """As `ottla.open_broker`. Nothing starts yet.

        Raises:
            TypeError: An argument that there is not, or of another type.
            ConfigError: An override that is no broker option, or a directory that cannot be meant.
        """
        self._options = checked("ottla.Broker", data_dir, arguments)
        self._run: Run | None = None
        self._was_started = False
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        """`start`, unless it runs already. The end of the block stops it in any case."""
        return self if self._runs_here() else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """As `with`, in Trio and asyncio, whose loop continues while the broker starts."""
        if self._runs_here():
            return self
        try:
            await beside(self.start)
        except Exception:
            raise
        except BaseException:  # cancelled: nobody will call `__aexit__`
            await beside(self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await beside(self.stop)

    def start(self) -> Self:
        """Return once the broker serves. After `stop` it may be started again, on the same data directory if it has one.

        Raises:
            RuntimeError: It runs already, or another thread stopped it meanwhile.
            Whatever kept it from starting, or interrupted the wait (KeyboardInterrupt, a test's time limit); nothing is
            left behind. Should that be interrupted once more, the next `start` or `stop` ends what is left first.
        """
        run = Run(self._options)
        try:
            with self._changing:
                if self._run is not None and not self._run.is_stopping:
                    raise RuntimeError(_ELSEWHERE if self._run.is_elsewhere else "the broker runs already")
                run.before = self._run
                self._run = run
                self._was_started = True
            run.start()
            return self  # Whatever interrupts us before our caller has it ends the broker.
        except BaseException:
            run.is_stopping = True  # Even if this is interrupted, too.
            self._end(run)
            raise

    def stop(self) -> None:
        """Stop cleanly and return when everything is on disk. Raises what went wrong inside, if anything did.

        Should it be interrupted, call it again. Harmless if it does not run.
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

    # Its lives

    def restart(self) -> None:
        """Stop cleanly and start again: on the same ports, with the same data; the clock goes on. All nodes live again.

        Returns once it serves.

        Raises:
            RuntimeError: It does not run.
            Whatever keeps it from starting; it is down then, and another `restart`, or `stop` and `start`, may follow.
        """
        self.run(self._lives.restart)

    def crash(self) -> None:
        """Die as by `kill -9`, without a goodbye to clients, and start again as `restart` does, with recovery.

        What was acknowledged is there; it is the process that died, and not the machine.
        """
        self.run(self._lives.crash)

    def reset(self) -> None:
        """Lose all topics, groups and configs in milliseconds, and start as the first time: no faults, the clock not moved.

        Clients are cut off without a goodbye, and find another cluster on the same ports. Of a data directory only what is
        the broker's goes.

        Raises:
            RuntimeError: It does not run.
            OSError: The disk refused; the broker serves, with the data that it had.
        """
        self.run(self._lives.reset)

    def snapshot(self, path: str | os.PathLike[str]) -> SnapshotCopied:
        """Stop cleanly, copy everything to the new directory `path`, and start again, as `restart` does.

        Raises:
            RuntimeError: It does not run.
            SnapshotError: `path` is taken, or in the data directory; nothing was done.
            OSError: A disk refused; nothing is left in `path`, and the broker serves.
        """
        return SnapshotCopied.of(self.run(self._lives.snapshot, os.path.expanduser(os.fspath(path))))

    def restore(self, path: str | os.PathLike[str]) -> SnapshotCopied:
        """Have everything as it was when the snapshot in `path` was made, the broker's clock with it, and no faults.

        Raises:
            RuntimeError: It does not run.
            SnapshotError: `path` holds no snapshot, or not all of it, or another broker's; nothing was done.
            OSError: A disk refused; the broker serves, with what it had.
        """
        return SnapshotCopied.of(self.run(self._lives.restore, os.path.expanduser(os.fspath(path))))

    # What it is, from outside

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT…]` for clients, also in a forked process. RuntimeError while it does not run."""
        return self._known.lives.bootstrap

    @property
    def admin(self) -> str | None:
        """`HOST:PORT` of the admin HTTP listener; None if it was not asked for. Also in a forked process.

        RuntimeError while it does not run.
        """
        return self._known.lives.admin_address

    @property
    def tls(self) -> Tls:
        """What its clients want in order to speak TLS. RuntimeError: it does not, as it was made without `tls=True`."""
        if self._options.tls is None:
            raise RuntimeError("the broker does not speak TLS: use ottla.Broker(tls=True)")
        return self._options.tls

    def token(self, user: str, lifetime_s: float = 3600, scope: str = "") -> str:
        """A signed token of OAUTHBEARER that names this user, as `mechanism="OAUTHBEARER"` has the broker take them.

        Args:
            lifetime_s: How long it holds, by the broker's clock; one of less than nothing has expired.
            scope: Its claim of that name; left out if empty.

        Raises:
            RuntimeError: The broker takes none, or does not serve.
            ValueError: A name or a lifetime that cannot be meant.
        """
        if self._options.vouching is None:
            raise RuntimeError('the broker takes no tokens: use ottla.Broker(mechanism="OAUTHBEARER")')
        return self._options.vouching.token(user, self._now_ms(), lifetime_s, scope)

    def _now_ms(self) -> int:
        return self.inner.clock.now_ms()

    def sasl(self, user: str | None = None, mechanism: str | None = None) -> Sasl:
        """What a client wants in order to log in.

        Args:
            user: One of `users`; the first one unless named. By OAUTHBEARER anybody, for whom tokens are made.
            mechanism: By which; PLAIN unless named, if `users` may log in by it.

        Raises:
            RuntimeError: Nobody logs in, as it was made without `users`.
            ValueError: There is no such user, or it does not log in by that.
        """
        from .sasl import sasl_for

        if (vouching := self._options.vouching) is not None:
            if mechanism not in (None, "OAUTHBEARER"):
                raise ValueError(f"nobody logs in by {mechanism}, but by OAUTHBEARER")
            return vouching.sasl("client" if user is None else user, self._options.tls, self._now_ms)
        return sasl_for(self._options.users, self._options.tls, user, mechanism)

    @property
    def security(self) -> Security:
        """How Ottla's own client speaks with it: as the first of `users`, if there are any."""
        from ..client.security import PLAIN

        if self._options.users or self._options.vouching is not None:
            return self.sasl().security
        return PLAIN if self._options.tls is None else self._options.tls.security

    @property
    def data_dir(self) -> str:
        """Where its logs are; several directories are separated by commas. RuntimeError while it does not run."""
        return ",".join(self.inner.config.current.data_dirs)

    @property
    def state(self) -> str:
        """`new`, `starting`, `serving`, `changing` between two lives, `down` if it could not start again, or `stopped`."""
        run = self._run
        if run is None:
            return "stopped" if self._was_started else "new"
        if run.has_ended:
            return "stopped"
        return run.lives.state if run.is_serving else "starting"

    def __repr__(self) -> str:
        run = self._run
        if run is None or not run.is_serving:
            return f"<ottla.Broker {self.state}>"
        return f"<ottla.Broker {run.lives.bootstrap} {self.state}>"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]

    # Its inside

    @property
    def inner(self) -> Inner:
        """The broker of the present life, which belongs to its own thread: use it inside of what `run` runs."""
        return self._lives.broker

    def run(self, function: Callable[[*Arguments], Awaitable[Result]], *args: *Arguments) -> Result:
        """Run an async function on the broker's thread and return what it returns.

        Raises:
            RuntimeError: It does not run, or was stopped meanwhile.
        """
        try:
            return trio.from_thread.run(function, *args, trio_token=self._present.token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise RuntimeError(self._why_not()) from None

    def _ask(
        self,
        operation: Callable[Concatenate[Inner, Parameters], Awaitable[Result]],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        """What `operation(broker, …)` returns, in the present life. LifeOverError if that ends first."""

        async def ask() -> Result:
            return await self._lives.call(operation, *args, **options)

        try:
            return self.run(ask)
        except ControlError as refusal:
            # A failing test is to show its own lines and the sentence, not what lies between in the broker's thread.
            raise refusal.with_traceback(None) from None

    def _call(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        async def call() -> Result:
            return function(*args)

        return self.run(call)

    @property
    def _lives(self) -> Lives:
        return self._present.lives

    @property
    def _known(self) -> Run:
        """The present run, which may be that of the process that this one was forked from."""
        run = self._run
        if run is None or not run.is_serving or run.has_ended:
            raise RuntimeError(self._why_not())
        return run

    @property
    def _present(self) -> Run:
        run = self._known
        if run.is_elsewhere:
            raise RuntimeError(_ELSEWHERE)
        return run

    def _runs_here(self) -> bool:
        """RuntimeError: It runs in the process that this one was forked from."""
        run = self._run
        if run is None or run.is_stopping or run.has_ended or not run.is_serving:
            return False
        return self._present is run

    def _why_not(self) -> str:
        match self.state:
            case "new":
                return f"the broker was not started: {_HOW_TO_START}"
            case "starting":
                return "the broker is being started by another thread, and does not serve yet"
            case _:
                return f"the broker was stopped: {_HOW_TO_START}"
