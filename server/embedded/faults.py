"""Faults, declared from a test: `with broker.fault("Produce", error="NOT_LEADER_OR_FOLLOWER") as fault: ... fault.wait()`."""

from __future__ import annotations

import math
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from ..broker.broker import Broker as Inner
from ..faults.table import DeclaredFault as Declared
from ..runtime.errors import ControlError, Kind
from . import operations
from .operation_method import OperationMethod
from .running import Running

if TYPE_CHECKING:  # Loaded when somebody asks for it: no start shall wait for that.
    from ..control.faults import FaultState
    from ..faults.declaration import Declaration, Disconnect, DiskTrouble


class Fault:
    """An injected fault. Used as a context manager, it is removed at the end of the block."""

    def __init__(self, broker: Faulting, declared: Declared) -> None:
        self._broker = broker
        self._declared = declared

    @property
    def id(self) -> int:
        """Number of the fault, the same as over HTTP."""
        return self._declared.id

    @property
    def declaration(self) -> Declaration:
        """The arguments of the fault."""
        return self._declared.declaration

    @property
    def hits(self) -> int:
        """Number of requests that the fault has hit; for a disk fault, number of operations."""
        return self._declared.hits

    @property
    def is_active(self) -> bool:
        """Whether the fault can still hit requests: it was not removed, and `count` is not used up."""
        return self._declared.is_active

    def wait(self, hits: int = 1, timeout: float = 10.0) -> None:
        """Wait until the fault has hit this many requests in total.

        Args:
            timeout: Time limit in seconds.

        Raises:
            TimeoutError: The fault did not hit enough requests in time, or was removed first.
            RuntimeError: The broker is not running.
        """

        async def wait() -> None:
            with trio.move_on_after(timeout):
                await self._declared.wait(hits)

        self._broker.run(wait)
        if self.hits < hits:
            why = f"within {timeout:g} s" if not self._declared.removed.is_set() else "before it was removed"
            raise TimeoutError(f"fault {self.id}: {self.hits} hits {why}, expected {hits}")

    def remove(self) -> None:
        """Remove the fault. Delayed requests continue, and connections whose responses were dropped are closed. Does nothing
        if the fault was removed before, or the broker was stopped."""

        async def remove() -> None:
            self._declared.remove()

        if not self._declared.removed.is_set() and self._broker.state != "stopped":
            self._broker.run(remove)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        state = "active" if self.is_active else "removed" if self._declared.removed.is_set() else "spent"
        return f"<ottla fault {self.id} {state}, {self.hits} hits>"


class Faulting(Running):
    """Request faults, disk faults, and leader moves."""

    def fault(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client: str | None = None,
        node: int | None = None,
        version: int | None = None,
        error: str | None = None,
        after: bool = False,
        delay: float | timedelta = 0,
        disconnect: Disconnect | None = None,
        drop_response: bool = False,
        corrupt_batch: bool = False,
        disk: DiskTrouble | None = None,
        data_dir: str | None = None,
        count: int | None = 1,
        skip: int = 0,
    ) -> Fault:
        """Inject a fault into requests or the disk; docs/faults.md describes each argument.

        `client` is the `client_id` of requests; `delay` is in seconds, or a timedelta.

        The fault is active when this returns, also for open connections. It survives a `restart` (disk faults do not), and ends
        when `count` is used up, on removal, or on `reset`.

        Raises:
            ControlError: The arguments are invalid.
            RuntimeError: The broker is not running.
        """
        # In this thread, that the broker's need not wait for it.
        from ..control.faults import declare
        from ..faults.declaration import Declaration

        import_module("..handlers.faulted", __package__)
        declaration = Declaration(
            api=api,
            topic=topic,
            partition=partition,
            group=group,
            transactional_id=transactional_id,
            client_id=client,
            node=node,
            version=version,
            error=error,
            after=after,
            delay_ms=_milliseconds(delay),
            disconnect=disconnect,
            drop_response=drop_response,
            corrupt_batch=corrupt_batch,
            disk=disk,
            data_dir=data_dir,
            count=count,
            skip=skip,
        )

        async def declared(inner: Inner) -> Fault:
            state = await declare(inner, declaration)
            made = inner.faults.get(state.fault_id)
            assert made is not None
            return Fault(self, made)

        return self._ask(declared)

    def faults(self) -> list[FaultState]:
        """Return all faults, oldest first, including those used up."""
        from ..control.faults import list_faults

        return list(self._ask(list_faults).faults)

    def clear_faults(self) -> int:
        """Remove all faults, and return their number."""
        from ..control.faults import clear_faults

        return self._ask(clear_faults).removed

    move_leader = OperationMethod(lambda: operations.nodes.move_leader)
    move_coordinator = OperationMethod(lambda: operations.nodes.move_coordinator)


def _milliseconds(delay: float | timedelta) -> int:
    """Rounded up, that no delay is lost."""
    if not isinstance(delay, timedelta):
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not math.isfinite(delay):
            raise ControlError(Kind.INVALID, f"delay: expected seconds or a timedelta, found {delay!r}")
        return math.ceil(delay * 1000)
    return -(-delay // timedelta(milliseconds=1))
