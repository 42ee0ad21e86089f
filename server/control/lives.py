"""The ends of the broker's lives, and what the next one begins with: see `broker.lives`. These take the `Lives`, not the present broker."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from ...storage.data_dirs.snapshots import Snapshot, SnapshotError
from ...storage.disk.health import DataDirectoryError
from ...storage.topics.config import ConfigError
from ..broker.broker import Broker
from ..broker.lives import Lives
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
    def of(cls, found: Snapshot) -> Self:
        return cls(found.path, found.file_count, found.size_bytes, found.clock_ahead_ms)


@operation("POST", "/v1/restart", statuses=(500, 503))
async def restart(lives: Lives) -> BrokerState:
    """Stop cleanly and start again, on the same ports, with the same data."""
    return await _next_life(lives, lives.restart)


@operation("POST", "/v1/crash", statuses=(500, 503))
async def crash(lives: Lives) -> BrokerState:
    """Kill the broker as with `kill -9`, and start it again, with log recovery."""
    return await _next_life(lives, lives.crash)


@operation("POST", "/v1/reset", statuses=(500, 503))
async def reset(lives: Lives) -> BrokerState:
    """Delete all topics, groups and configs, remove all faults, and reset the clock."""
    return await _next_life(lives, lives.reset)


@operation("POST", "/v1/snapshot", statuses=(409, 500, 503))
async def snapshot(lives: Lives, path: Name) -> SnapshotCopied:
    """Stop cleanly, copy all data to a new directory on the broker's machine, and start again.

    Args:
        path: Absolute path on the broker's machine.
    """
    return SnapshotCopied.of(await _done(lives.snapshot(_absolute(path))))


@operation("POST", "/v1/restore", statuses=(409, 500, 503))
async def restore(lives: Lives, path: Name) -> SnapshotCopied:
    """Restore all data and the clock from a snapshot, and remove all faults.

    Args:
        path: Absolute path on the broker's machine.
    """
    return SnapshotCopied.of(await _done(lives.restore(_absolute(path))))


async def _next_life(lives: Lives, begin: Callable[[], Awaitable[None]]) -> BrokerState:
    """The broker as it is then."""
    try:
        await begin()
        return await lives.call(_state)
    except (OSError, ConfigError, DataDirectoryError) as error:
        raise ControlError(Kind.FAILED, f"{error}; the broker is {lives.state}") from error


async def _state(broker: Broker) -> BrokerState:
    return broker_state(broker)


def _absolute(path: str) -> str:
    """Who asks from outside does not know where the broker was started."""
    if not os.path.isabs(path):
        raise ControlError(
            Kind.INVALID, f"path: expected an absolute path on the broker's machine, found {path[:200]!r}"
        )
    return path


async def _done(change: Awaitable[Result]) -> Result:
    """ControlError where it raises: CONFLICT for a snapshot, UNAVAILABLE where no life follows, FAILED else."""
    try:
        return await change
    except SnapshotError as error:
        raise ControlError(Kind.CONFLICT, str(error)) from error
    except (OSError, DataDirectoryError) as error:
        raise ControlError(Kind.FAILED, str(error)) from error
