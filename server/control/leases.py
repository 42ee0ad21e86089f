"""Partitions that somebody else compacts, `ottla-spark install --admin` above all: see `..cleaning.leases`."""

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
"""Likewise."""


@dataclass(frozen=True, slots=True)
class CleaningStatus:
    """One partition as the cleaner holds it now."""

    data_dir: str
    """Without links."""
    cleaning: str
    """`not held`, `in progress`, `being aborted`, or `paused`, by a lease or by who deletes it."""
    lease_expires_ms: int | None
    """Of the lease on it, by the broker's clock; null where there is none."""
    now_ms: int
    """The broker's clock, ms since 1970."""
    log_start_offset: int
    log_end_offset: int
    segments: tuple[Segment, ...]
    """Base offset and size in bytes of each, the active one last."""


@operation("GET", "/v1/cleaning/status", statuses=(404, 500))
async def cleaning_status(broker: Broker, topic: TopicName, partition: PartitionId) -> CleaningStatus:
    """One partition as the cleaner holds it now, with its segments."""
    tp = TopicPartition(topic, partition)
    log = broker.leases.log_of(tp)
    data_dir = data_dir_of(log)
    real_data_dir = await in_thread(Work.READ, data_dir, os.path.realpath, data_dir)
    segments = await TimeSlice().map(lambda each: (each.base_offset, each.size_bytes), log.segments)
    lease = broker.leases.of(tp)
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
    """The cleaner keeps off the partition."""

    lease: str
    """Names it in other calls."""
    expires_ms: int
    """By the broker's clock, ms since 1970."""
    now_ms: int
    """The broker's clock, likewise."""


@operation("POST", "/v1/cleaning/pause", statuses=(404, 409, 500))
async def pause_cleaning(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId,
    lease_ms: Annotated[int, Range(1, LEASE_MS_MAX)],
    lease: Name | None = None,
) -> LeaseGiven:
    """Keep the cleaner off a partition for a time: a new lease, or one renewed.

    Args:
        lease_ms: From now on.
        lease: Of one that is to be renewed.
    """
    given = await broker.leases.pause(TopicPartition(topic, partition), lease_ms, lease)
    return LeaseGiven(given.lease_id, broker.clock.wall_at(given.due_ms), broker.clock.now_ms())


@dataclass(frozen=True, slots=True)
class Installed:
    """The segment that took the place of the others."""

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
    """Under a lease: put one staged segment in the place of neighbours that are still what you say.

    Args:
        sources: Base offset and size in bytes of each segment that goes: neighbours, in order.
        staged: The directory with the manifest, in the staging folder beside the partition's data directory.
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
    """Give a lease back; you may say up to where the partition is clean now.

    Args:
        clean_up_to: Written to the cleaner's checkpoint, unless that is higher already.
    """
    await broker.leases.resume(TopicPartition(topic, partition), lease, clean_up_to)
    return Nothing()
