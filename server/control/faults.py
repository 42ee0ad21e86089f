"""Faults: declared, listed, waited for, removed. What may be declared stands in `server.faults.declaration`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import trio

from ..broker.broker import Broker
from ..faults.declaration import COUNT_MAX, Declaration
from ..faults.disk import DiskFiles
from ..faults.table import DeclaredFault
from ..runtime.errors import ControlError, Kind
from .operation import INT64_MAX, Range, operation


@dataclass(frozen=True, slots=True)
class FaultState:
    """A declared fault, and what it has met so far."""

    fault_id: int
    hits: int
    """Requests that it has met, counted when it begins to act, or, where they are carried out first, then. Of a disk, operations
    that were refused or had to wait."""
    is_active: bool
    """Whether it may meet more: it has not been removed, and has some left."""
    left: int | None
    """How many requests more it is for; null: all."""
    declaration: Declaration


@dataclass(frozen=True, slots=True)
class FaultList:
    """All that are declared, spent ones included, oldest first."""

    faults: tuple[FaultState, ...]


WAIT_MS_MAX = 600_000
FaultId = Annotated[int, Range(1, INT64_MAX)]


@dataclass(frozen=True, slots=True)
class FaultsCleared:
    """What a clear has done."""

    removed: int
    """How many there were."""


@operation("POST", "/v1/faults", statuses=(404,))
async def declare(broker: Broker, declaration: Declaration) -> FaultState:
    """Declare a fault: which requests, and what becomes of them; or what is wrong with a disk.

    It is in force from now on.

    Raises:
        ControlError: INVALID: it may not be declared, in one line; NOT_FOUND: there is no such node or data directory.
    """
    ids = [node.node_id for node in broker.nodes]
    if declaration.node is not None and declaration.node not in ids:
        raise ControlError(
            Kind.NOT_FOUND, f"there is no node {declaration.node}; there are: {', '.join(map(str, ids))}"
        )
    if declaration.disk is not None:
        _check_disk(broker, declaration.data_dir)
    return state_of(broker.faults.declare(declaration))


@operation("GET", "/v1/faults", only_waits=True)
async def list_faults(broker: Broker) -> FaultList:
    """All declared faults, spent ones included."""
    return FaultList(tuple(map(state_of, broker.faults)))


@operation("GET", "/v1/faults/{fault_id}", statuses=(404,), only_waits=True)
async def get_fault(broker: Broker, fault_id: FaultId) -> FaultState:
    """One fault, and what it has met.

    Raises:
        ControlError: NOT_FOUND.
    """
    return state_of(_fault(broker, fault_id))


@operation("DELETE", "/v1/faults/{fault_id}", statuses=(404,))
async def remove_fault(broker: Broker, fault_id: FaultId) -> FaultState:
    """Remove a fault: who is kept waiting by it goes on.

    Connections that it has silenced are closed. Returns it as it was in the end.

    Raises:
        ControlError: NOT_FOUND: there is none, or not any more.
    """
    fault = _fault(broker, fault_id)
    fault.remove()
    return state_of(fault)


@operation("DELETE", "/v1/faults")
async def clear_faults(broker: Broker) -> FaultsCleared:
    """Remove all faults."""
    return FaultsCleared(broker.faults.clear())


@operation("GET", "/v1/faults/{fault_id}/wait", statuses=(404,), only_waits=True)
async def wait_for_fault(
    broker: Broker,
    fault_id: FaultId,
    hits: Annotated[int, Range(1, COUNT_MAX)] = 1,
    timeout_ms: Annotated[int, Range(0, WAIT_MS_MAX)] = 10_000,
) -> FaultState:
    """Answer once a fault has met so many requests, or the time is over.

    Or once it is removed: `hits` tells which.

    Args:
        timeout_ms: Then the answer is what it has met so far.

    Raises:
        ControlError: NOT_FOUND: there is none.
    """
    fault = _fault(broker, fault_id)
    with trio.move_on_after(timeout_ms / 1000):
        await fault.wait(hits)
    return state_of(fault)


def state_of(fault: DeclaredFault) -> FaultState:
    """As it is now."""
    return FaultState(fault.id, fault.hits, fault.is_active, fault.left, fault.declaration)


def _fault(broker: Broker, fault_id: int) -> DeclaredFault:
    fault = broker.faults.get(fault_id)
    if fault is None:
        ids = [str(each.id) for each in broker.faults]
        there_are = f"there are: {', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}" if ids else "there are none"
        raise ControlError(Kind.NOT_FOUND, f"there is no fault {fault_id}; {there_are}")
    return fault


def _check_disk(broker: Broker, data_dir: str | None) -> None:
    if not isinstance(broker.files, DiskFiles):
        raise ControlError(
            Kind.INVALID, "this broker was given files of its own, whose disks can have no declared faults"
        )
    if data_dir is not None and data_dir not in broker.files.data_dirs:
        there_are = ", ".join(broker.files.data_dirs)
        raise ControlError(Kind.NOT_FOUND, f"there is no data directory {data_dir!r}; there are: {there_are}")
