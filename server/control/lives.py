"""Snapshots of the whole broker, and back: see `broker.lives`. These take the `Lives`, not the present broker."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Self, TypeVar

from ...storage.data_dirs.data_dir import DataDirectoryError
from ...storage.data_dirs.snapshots import Snapshot, SnapshotError
from ...storage.topics.catalog_file import CatalogError
from ..broker.lives import LifeOverError, Lives
from .errors import ControlError, Kind

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SnapshotCopied:
    """A snapshot was made, or put in place."""

    path: str
    """Absolute, on the broker's machine."""
    files: int
    size_bytes: int
    clock_ahead_ms: int
    """How far the broker's clock had been moved when it was made."""

    @classmethod
    def of(cls, found: Snapshot) -> Self:
        return cls(found.path, found.file_count, found.size_bytes, found.clock_ahead_ms)


async def snapshot(lives: Lives, path: str) -> SnapshotCopied:
    """Copy everything to the new directory `path`, with a clean stop and a start around it."""
    return SnapshotCopied.of(await _done(lives.snapshot(_absolute(path))))


async def restore(lives: Lives, path: str) -> SnapshotCopied:
    """Have everything as it was when the snapshot in `path` was made, the clock with it, and no faults."""
    return SnapshotCopied.of(await _done(lives.restore(_absolute(path))))


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
    except LifeOverError as error:
        raise ControlError(Kind.UNAVAILABLE, str(error)) from error
    except (OSError, DataDirectoryError, CatalogError) as error:
        raise ControlError(Kind.FAILED, str(error)) from error
