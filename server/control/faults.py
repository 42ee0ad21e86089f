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
    """A fault, and its hits so far."""

    fault_id: int
    hits: int
    """Number of requests hit, counted when the fault fires; a request that is executed first is counted afterwards. For a disk
    fault, number of operations that failed or were delayed."""
    is_active: bool
    """Whether the fault can still hit requests: it was not removed, and is not used up."""
    left: int | None
    """Number of requests that it will still hit; null: all."""
    declaration: Declaration


@dataclass(frozen=True, slots=True)
class FaultList:
    """All faults, oldest first, including those used up."""

    faults: tuple[FaultState, ...]


WAIT_MS_MAX = 600_000
FaultId = Annotated[int, Range(1, INT64_MAX)]


@dataclass(frozen=True, slots=True)
class FaultsCleared:
    """Result of removing all faults."""

    removed: int
    """Number of removed faults."""


@operation("POST", "/v1/faults", statuses=(404,))
async def declare(broker: Broker, declaration: Declaration) -> FaultState:
    """Add a fault for requests or for a disk.

    It is active when this returns.

    Raises:
        ControlError: INVALID: the arguments are invalid; NOT_FOUND: node or data directory not found.
    """
    ids = [node.node_id for node in broker.nodes]
    if declaration.node is not None and declaration.node not in ids:
        raise ControlError(Kind.NOT_FOUND, f"node {declaration.node} not found; nodes: {', '.join(map(str, ids))}")
    if declaration.disk is not None:
        _check_disk(broker, declaration.data_dir)
    return state_of(broker.faults.declare(declaration))


@operation("GET", "/v1/faults", only_waits=True)
async def list_faults(broker: Broker) -> FaultList:
    """List all faults, including those used up."""
    return FaultList(tuple(map(state_of, broker.faults)))


@operation("GET", "/v1/faults/{fault_id}", statuses=(404,), only_waits=True)
async def get_fault(broker: Broker, fault_id: FaultId) -> FaultState:
    """Show one fault and its hits.

    Raises:
        ControlError: NOT_FOUND.
    """
    return state_of(_fault(broker, fault_id))


@operation("DELETE", "/v1/faults/{fault_id}", statuses=(404,))
async def remove_fault(broker: Broker, fault_id: FaultId) -> FaultState:
    """Remove a fault; requests that it delays continue.

    Connections whose responses it dropped are closed. Returns the final state of the fault.

    Raises:
        ControlError: NOT_FOUND: the fault does not exist, or was removed before.
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
    """Wait until a fault has hit a number of requests, or until the timeout.

    Also returns when the fault is removed; compare `hits`.

    Args:
        timeout_ms: Time limit in milliseconds; after it, the response has the hits so far.

    Raises:
        ControlError: NOT_FOUND: the fault does not exist.
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
        there_are = f"faults: {', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}" if ids else "no faults exist"
        raise ControlError(Kind.NOT_FOUND, f"fault {fault_id} not found; {there_are}")
    return fault


def _check_disk(broker: Broker, data_dir: str | None) -> None:
    if not isinstance(broker.files, DiskFiles):
        raise ControlError(Kind.INVALID, "disk faults are not supported by a broker with its own file system")
    if data_dir is not None and data_dir not in broker.files.data_dirs:
        there_are = ", ".join(broker.files.data_dirs)
        raise ControlError(Kind.NOT_FOUND, f"data directory {data_dir!r} not found; data directories: {there_are}")
