"""Leases of partitions that another process compacts, mainly `ottla-spark install --admin`: see `..cleaning.leases`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ..broker.broker import Broker
from ..cleaning.leases import LEASE_MS_MAX
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice
from .operation import Length, Name, Nothing, PartitionId, Range, TopicName, operation

_UINT32_MAX = 2**32 - 1

Segment = tuple[int, int]
"""Base offset, and size in bytes."""
Source = tuple[Annotated[int, Range(0)], Annotated[int, Range(0)]]
"""Base offset and size in bytes of a segment to replace."""


@dataclass(frozen=True, slots=True)
class CleaningStatus:
    """Cleaning state of one partition."""

    data_dir: str
    """Absolute path with symbolic links resolved."""
    cleaning: str
    """`not held`, `in progress`, `being aborted`, or `paused` (by a lease or a deletion)."""
    lease_expires_ms: int | None
    """Expiry of the lease by the broker's clock; null without a lease."""
    now_ms: int
    """The broker's clock, in ms since 1970."""
    log_start_offset: int
    log_end_offset: int
    segments: tuple[Segment, ...]
    """Base offset and size in bytes of each segment, the active one last."""


@operation("GET", "/v1/cleaning/status", statuses=(404, 500))
async def cleaning_status(broker: Broker, topic: TopicName, partition: PartitionId) -> CleaningStatus:
    """Show the cleaning state and segments of one partition."""
    tp = TopicPartition(topic, partition)
    log = broker.leases.log_of(tp)
    data_dir = data_dir_of(log)
    real_data_dir = await in_thread(Work.READ, data_dir, os.path.realpath, data_dir)
    segments = await TimeSlice().map(lambda each: (each.base_offset, each.size_bytes), log.segments)
    lease = broker.leases.get(tp)
    return CleaningStatus(
        data_dir=real_data_dir,
        cleaning=broker.services.cleaning.manager.state_name(tp),
        lease_expires_ms=broker.clock.wall_at(lease.due_ms) if lease else None,
        now_ms=broker.clock.now_ms(),
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments=tuple(segments),
    )


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """A lease, under which the cleaner does not touch the partition."""

    lease: str
    """Id of the lease for other calls."""
    expires_ms: int
    """Expiry by the broker's clock, in ms since 1970."""
    now_ms: int
    """The broker's clock, in ms since 1970."""


@operation("POST", "/v1/cleaning/pause", statuses=(404, 409, 500))
async def pause_cleaning(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId,
    lease_ms: Annotated[int, Range(1, LEASE_MS_MAX)],
    lease: Name | None = None,
) -> LeaseGiven:
    """Pause the cleaner on a partition under a new or renewed lease.

    Args:
        lease_ms: Duration of the lease in milliseconds, from now.
        lease: Id of a lease to renew.
    """
    given = await broker.leases.pause(TopicPartition(topic, partition), lease_ms, lease)
    return LeaseGiven(given.lease_id, broker.clock.wall_at(given.due_ms), broker.clock.now_ms())


@dataclass(frozen=True, slots=True)
class Installed:
    """The segment that replaced the others."""

    base_offset: int
    size_bytes: int


@operation("POST", "/v1/cleaning/install", statuses=(404, 409, 500))
async def install_staged(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId,
    lease: Name,
    sources: Annotated[tuple[Source, ...], Length(1)],
    staged: Name,
    manifest_crc: Annotated[int, Range(0, _UINT32_MAX)],
) -> Installed:
    """Replace adjacent segments by one staged segment, under a lease, if the segments are unchanged.

    Args:
        sources: Base offset and size in bytes of each segment to replace: adjacent, in order.
        staged: The directory with the manifest, in the staging folder next to the partition's data directory.
        manifest_crc: CRC-32C of the manifest.
    """
    new = await broker.leases.install(TopicPartition(topic, partition), lease, sources, staged, manifest_crc)
    return Installed(new.base_offset, new.size_bytes)


@operation("POST", "/v1/cleaning/resume", statuses=(404, 409, 500))
async def resume_cleaning(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId,
    lease: Name,
    clean_up_to: Annotated[int, Range(0, paths.OFFSET_MAX)] | None = None,
) -> Nothing:
    """Release a lease, optionally with the offset up to which the partition is clean now.

    Args:
        clean_up_to: Offset for the cleaner's checkpoint; ignored if the checkpoint is higher already.
    """
    await broker.leases.resume(TopicPartition(topic, partition), lease, clean_up_to)
    return Nothing()
