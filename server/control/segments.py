"""Segments on demand: roll an active segment now, and apply retention now."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import KafkaError
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..cleaning.cleaning import Deleted
from ..runtime.errors import ControlError, Kind, refusal
from ..runtime.time_slices import TimeSlice
from .operation import Partitions, TopicName, operation
from .partitions import logs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRolled:
    """Result of a roll for one partition."""

    partition: int
    has_rolled: bool
    """False: the active segment is empty and was not rolled."""
    active_segment_before: int
    """Base offset of the active segment before the call."""
    active_segment: int
    """Base offset of the active segment now."""
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """Result of `roll`; str() of it is readable text."""

    topic: str
    partitions: tuple[PartitionRolled, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{self.topic}-{each.partition}: rolled, the active segment starts at {each.active_segment}"
            if each.has_rolled
            else f"{self.topic}-{each.partition}: nothing to roll, the active segment is empty"
            for each in self.partitions
        )


@operation("POST", "/v1/topics/{topic}/roll", statuses=(404, 409))
async def roll(broker: Broker, topic: TopicName, partitions: Partitions | None = None) -> Rolled:
    """Close the active segment of each partition if it contains records, and start a new one.

    The new segment starts at the log end. The cleaner and retention process closed segments only. The call does not sync to disk;
    the background flush does.

    Args:
        partitions: Partition numbers (default: all partitions of the topic).

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; FAILED: the disk failed. Partitions before the failed one have
            rolled.
    """
    logs, time_slice = logs_of(broker, topic, partitions), TimeSlice()
    return Rolled(
        topic=topic, partitions=tuple(await time_slice.map(lambda each: roll_one(each, broker.clock.now_ms()), logs))
    )


def roll_one(log: Log, now_ms: int) -> PartitionRolled:
    """Run `roll` on one log."""
    before = log.segments.active.base_offset
    try:
        active = log.roll(now_ms)
    except KafkaError as error:
        raise refusal(error) from error
    return PartitionRolled(
        partition=log.topic_partition.partition,
        has_rolled=active.base_offset != before,
        active_segment_before=before,
        active_segment=active.base_offset,
        log_end_offset=log.log_end_offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetained:
    """Result of retention for one partition."""

    topic: str
    partition: int
    log_start_offset_before: int
    log_start_offset: int
    log_end_offset: int
    segments_deleted: int
    bytes_deleted: int
    explanation: str | None
    """Why retention was not applied, or only in part; None if it was applied, even if nothing was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Result of `apply_retention`; str() of it is readable text, which lists only partitions with changes or problems."""

    partitions: tuple[PartitionRetained, ...]

    def __str__(self) -> str:
        told = [each for each in self.partitions if each.explanation is not None or _has_deleted(each)]
        lines = [each.explanation or _deleted_sentence(each) for each in told]
        if rest := len(self.partitions) - len(told):
            lines.append(f"{rest} partition{'s' * (rest != 1)}{' more' * bool(told)}: nothing to delete")
        return "\n".join(lines)


def _has_deleted(done: PartitionRetained) -> bool:
    return bool(done.segments_deleted) or done.log_start_offset != done.log_start_offset_before


def _deleted_sentence(done: PartitionRetained) -> str:
    return (
        f"{done.topic}-{done.partition}: deleted {done.segments_deleted} segment{'s' * (done.segments_deleted != 1)} with {done.bytes_deleted} bytes; log"
        f" from {done.log_start_offset} (before: {done.log_start_offset_before}) to {done.log_end_offset}"
    )


@operation("POST", "/v1/retention", statuses=(404, 409))
async def apply_retention(broker: Broker, topic: TopicName | None = None) -> Retained:
    """Apply retention now, to one topic or to all.

    Works like the next round of the retention job: by log start offset, and with policy `delete` by size and age. It includes
    compacted logs, which are otherwise handled by the cleaner's threads, and waits for running clean passes. Without a topic,
    partitions that another process compacts, or that are offline, are skipped and named in the result.

    Args:
        topic: Topic name (default: all topics, including internal ones).

    Raises:
        ControlError: Only with a topic. NOT_FOUND: topic not found; CONFLICT: another process compacts a partition; FAILED: the disk
            failed. Retention was applied to the partitions before the failed one.
    """
    logs = list(broker.services.logs.logs.values()) if topic is None else logs_of(broker, topic)
    rows, time_slice = [], TimeSlice()
    async for each in time_slice.each(logs):
        row = await _retain(broker, each)
        if topic is not None and row.explanation is not None:
            raise ControlError(Kind.CONFLICT if each.failure is None else Kind.FAILED, row.explanation)
        rows.append(row)
    return Retained(partitions=tuple(rows))


async def _retain(broker: Broker, log: Log) -> PartitionRetained:
    before = log.log_start_offset
    deleted, explanation = await _retain_when_free(broker, log)
    return PartitionRetained(
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        log_start_offset_before=before,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments_deleted=deleted.segments,
        bytes_deleted=deleted.size_bytes,
        explanation=explanation,
    )


async def _retain_when_free(broker: Broker, log: Log) -> tuple[Deleted, str | None]:
    """Apply retention, and return what was deleted, and why no more."""
    cleaning, tp = broker.services.cleaning, log.topic_partition
    while True:
        if cleaning.logs.get(tp) is not log:
            return Deleted(), f"{tp} was deleted"
        if log.failure is not None:
            return Deleted(), f"{tp} is offline: {log.failure}"
        changes, state = cleaning.clean_requests.changes, cleaning.manager.state_name(tp)
        if (done := await cleaning.retain_one(log)) is not None:
            return done, done.failure
        if tp in cleaning.leased_until_ms:
            return Deleted(), f"{tp} is {state}: another process compacts it"
        if (mark := cleaning.manager.uncleanable.get(tp)) is not None:
            return Deleted(), f"{tp} is marked uncleanable because a clean pass failed ({mark.reason})"
        await cleaning.clean_requests.change(changes)
