"""Partitions that somebody else compacts, `ottla-spark install --admin` above all: see `..cleaning.leases`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

from ....storage.cleaning.cleaner_checkpoints import data_dir_of
from ....storage.disk import paths
from ....storage.disk.paths import TopicPartition
from ...cleaning.leases import LEASE_MS_MAX
from ...control.operation import Length, Name, PartitionId, Range, TopicName
from ...runtime.disk import Work, in_thread
from ...runtime.time_slices import TimeSlice
from ..call import Call, Lives, Nothing

_UINT32_MAX = 2**32 - 1

Segment = tuple[int, int]
"""Base offset, and size in bytes."""


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    topic: TopicName
    partition: PartitionId


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


async def status(lives: Lives, request: PartitionRequest) -> CleaningStatus:
    broker = lives.broker
    tp = TopicPartition(request.topic, request.partition)
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
class PauseRequest:
    topic: TopicName
    partition: PartitionId
    lease_ms: Annotated[int, Range(1, LEASE_MS_MAX)]
    """From now on."""
    lease: Name | None = None
    """Of one that is to be renewed."""


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """The cleaner keeps off the partition."""

    lease: str
    """Names it in other calls."""
    expires_ms: int
    """By the broker's clock, ms since 1970."""
    now_ms: int
    """The broker's clock, likewise."""


async def pause(lives: Lives, request: PauseRequest) -> LeaseGiven:
    broker = lives.broker
    tp = TopicPartition(request.topic, request.partition)
    lease = await broker.leases.pause(tp, request.lease_ms, request.lease)
    return LeaseGiven(lease.lease_id, broker.clock.wall_at(lease.due_ms), broker.clock.now_ms())


@dataclass(frozen=True, slots=True)
class InstallRequest:
    topic: TopicName
    partition: PartitionId
    lease: Name
    sources: Annotated[tuple[tuple[Annotated[int, Range(0)], Annotated[int, Range(0)]], ...], Length(1)]
    """Base offset and size in bytes of each segment that goes: neighbours, in order."""
    staged: Name
    """The directory with the manifest, in the staging folder beside the partition's data directory."""
    manifest_crc: Annotated[int, Range(0, _UINT32_MAX)]
    """CRC-32C of the manifest."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The segment that took the place of the others."""

    base_offset: int
    size_bytes: int


async def install(lives: Lives, request: InstallRequest) -> Installed:
    tp = TopicPartition(request.topic, request.partition)
    new = await lives.broker.leases.install(tp, request.lease, request.sources, request.staged, request.manifest_crc)
    return Installed(new.base_offset, new.size_bytes)


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    topic: TopicName
    partition: PartitionId
    lease: Name
    clean_up_to: Annotated[int, Range(0, paths.OFFSET_MAX)] | None = None
    """Written to the cleaner's checkpoint, unless that is higher already."""


async def resume(lives: Lives, request: ResumeRequest) -> Nothing:
    tp = TopicPartition(request.topic, request.partition)
    await lives.broker.leases.resume(tp, request.lease, request.clean_up_to)
    return Nothing()


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/cleaning/status",
        "One partition as the cleaner holds it now, with its segments.",
        PartitionRequest,
        CleaningStatus,
        status,
        statuses=(404, 500),
    ),
    Call(
        "POST",
        "/v1/cleaning/pause",
        "Keep the cleaner off a partition for a time: a new lease, or one renewed.",
        PauseRequest,
        LeaseGiven,
        pause,
        statuses=(404, 409, 500),
    ),
    Call(
        "POST",
        "/v1/cleaning/install",
        "Under a lease: put one staged segment in the place of neighbours that are still what you say.",
        InstallRequest,
        Installed,
        install,
        statuses=(404, 409, 500),
    ),
    Call(
        "POST",
        "/v1/cleaning/resume",
        "Give a lease back; you may say up to where the partition is clean now.",
        ResumeRequest,
        Nothing,
        resume,
        statuses=(404, 409, 500),
    ),
)
