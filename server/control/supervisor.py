"""Operations that end a run of the broker and start the next one: see `broker.supervisor`.

They take the `Supervisor`, not the present broker.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from ...storage.data_dirs.snapshots import Snapshot, SnapshotError
from ...storage.disk.health import DataDirectoryError
from ...storage.topics.config import ConfigError
from ..broker.broker import Broker
from ..broker.supervisor import Supervisor
from ..runtime.errors import ControlError, Kind
from .broker_state import BrokerState, broker_state
from .operation import Name, operation

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SnapshotCopied:
    """A snapshot that was made or restored."""

    path: str
    """Absolute path on the broker's machine."""
    files: int
    size_bytes: int
    clock_ahead_ms: int
    """How far the broker's clock had been moved when the snapshot was made."""

    @classmethod
    def from_snapshot(cls, found: Snapshot) -> Self:
        return cls(found.path, found.file_count, found.size_bytes, found.clock_ahead_ms)


@operation("POST", "/v1/restart", statuses=(500, 503))
async def restart(supervisor: Supervisor) -> BrokerState:
    """Stop cleanly and start again, on the same ports, with the same data."""
    return await _next_run(supervisor, supervisor.restart)


@operation("POST", "/v1/crash", statuses=(500, 503))
async def crash(supervisor: Supervisor) -> BrokerState:
    """Kill the broker as with `kill -9`, and start it again, with log recovery."""
    return await _next_run(supervisor, supervisor.crash)


@operation("POST", "/v1/reset", statuses=(500, 503))
async def reset(supervisor: Supervisor) -> BrokerState:
    """Delete all topics, groups and configs, remove all faults, and reset the clock."""
    return await _next_run(supervisor, supervisor.reset)


@operation("POST", "/v1/snapshot", statuses=(409, 500, 503))
async def snapshot(supervisor: Supervisor, path: Name) -> SnapshotCopied:
    """Stop cleanly, copy all data to a new directory on the broker's machine, and start again.

    Args:
        path: Absolute path on the broker's machine.
    """
    return SnapshotCopied.from_snapshot(await _done(supervisor.snapshot(_absolute(path))))


@operation("POST", "/v1/restore", statuses=(409, 500, 503))
async def restore(supervisor: Supervisor, path: Name) -> SnapshotCopied:
    """Restore all data and the clock from a snapshot, and remove all faults.

    Args:
        path: Absolute path on the broker's machine.
    """
    return SnapshotCopied.from_snapshot(await _done(supervisor.restore(_absolute(path))))


async def _next_run(supervisor: Supervisor, begin: Callable[[], Awaitable[None]]) -> BrokerState:
    """Return the state of the broker in its next run."""
    try:
        await begin()
        return await supervisor.call(_state)
    except (OSError, ConfigError, DataDirectoryError) as error:
        raise ControlError(Kind.FAILED, f"{error}; the broker is {supervisor.state}") from error


async def _state(broker: Broker) -> BrokerState:
    return broker_state(broker)


def _absolute(path: str) -> str:
    """Check that a path is absolute, since a remote caller does not know the broker's working directory."""
    if not os.path.isabs(path):
        raise ControlError(
            Kind.INVALID, f"path: expected an absolute path on the broker's machine, found {path[:200]!r}"
        )
    return path


async def _done(change: Awaitable[Result]) -> Result:
    """Convert errors to ControlError: CONFLICT for a snapshot, UNAVAILABLE if no run follows, FAILED otherwise."""
    try:
        return await change
    except SnapshotError as error:
        raise ControlError(Kind.CONFLICT, str(error)) from error
    except (OSError, DataDirectoryError) as error:
        raise ControlError(Kind.FAILED, str(error)) from error
