"""The ends of the broker's lives, and what the next one begins with: see `...broker.lives`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ....storage.data_dirs.data_dir import DataDirectoryError
from ....storage.disk.files import DirectoryLockedError
from ....storage.topics.catalog_file import CatalogError
from ....storage.topics.config import ConfigError
from ...broker.lives import LifeOverError
from ...control import lives as control
from ...control.broker_state import BrokerState, broker_state
from ...control.errors import ControlError, Kind
from ...control.lives import SnapshotCopied
from ...control.operation import Name
from ..call import Call, Lives, Nothing


async def restart(lives: Lives, request: Nothing) -> BrokerState:
    return await _next_life(lives, lives.restart)


async def crash(lives: Lives, request: Nothing) -> BrokerState:
    return await _next_life(lives, lives.crash)


async def reset(lives: Lives, request: Nothing) -> BrokerState:
    return await _next_life(lives, lives.reset)


@dataclass(frozen=True, slots=True)
class PathRequest:
    path: Name
    """Absolute, on the broker's machine."""


async def snapshot(lives: Lives, request: PathRequest) -> SnapshotCopied:
    return await control.snapshot(lives, request.path)


async def restore(lives: Lives, request: PathRequest) -> SnapshotCopied:
    return await control.restore(lives, request.path)


async def _next_life(lives: Lives, begin: Callable[[], Awaitable[None]]) -> BrokerState:
    """The broker as it is then."""
    try:
        await begin()
        return await lives.call(_state)
    except LifeOverError as error:
        raise ControlError(Kind.UNAVAILABLE, str(error)) from error
    except (OSError, ConfigError, CatalogError, DirectoryLockedError, DataDirectoryError) as error:
        raise ControlError(Kind.FAILED, f"{error}; the broker is {lives.state}") from error


async def _state(broker: Any) -> BrokerState:
    return broker_state(broker)


CALLS: tuple[Call[Any, Any], ...] = (
    *(
        Call("POST", path, doc, Nothing, BrokerState, function, statuses=(500, 503), any_time=True)
        for path, doc, function in (
            ("/v1/restart", "Stop cleanly and start again, on the same ports, with the same data.", restart),
            ("/v1/crash", "Die as by `kill -9`, without a goodbye to clients, and start again, with recovery.", crash),
            (
                "/v1/reset",
                "Lose all topics, groups and configs, and start as the first time: no faults, the clock not moved.",
                reset,
            ),
        )
    ),
    *(
        Call("POST", path, doc, PathRequest, SnapshotCopied, function, statuses=(409, 500, 503), any_time=True)
        for path, doc, function in (
            (
                "/v1/snapshot",
                "Stop cleanly, copy all data to a new directory of the broker's machine, and start again.",
                snapshot,
            ),
            (
                "/v1/restore",
                "Put a snapshot in place of all data, have the clock as it was then, and no faults.",
                restore,
            ),
        )
    ),
)
