"""Compaction, rolls and retention on demand: see `..control.compaction` and `..control.segments`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.compaction import TIMEOUT_S_MAX, Compacted, Compaction, compact, wait_until_compacted
from ...control.segments import Retained, Rolled, apply_retention, roll
from ..call import Call, Lives
from ..fields import Length, PartitionId, Range, TopicName

Partitions = Annotated[tuple[PartitionId, ...], Length(1)]


@dataclass(frozen=True, slots=True)
class CompactRequest:
    topic: TopicName
    partitions: Partitions | None = None
    """Numbers; all of the topic if not given."""
    force: bool = False
    """Roll, and clean whatever ratio and lags say; never what an open transaction has not decided."""
    roll: bool = False
    """Roll the active segments first, if they have records."""


async def compacted(lives: Lives, request: CompactRequest) -> Compaction:
    return await compact(lives.broker, request.topic, request.partitions, force=request.force, roll=request.roll)


@dataclass(frozen=True, slots=True)
class WaitRequest:
    topic: TopicName
    timeout_ms: Annotated[int, Range(0, int(TIMEOUT_S_MAX * 1_000))] = 10_000
    """Of real time, whatever the broker's clock does."""


async def waited(lives: Lives, request: WaitRequest) -> Compacted:
    return await wait_until_compacted(lives.broker, request.topic, request.timeout_ms / 1_000)


@dataclass(frozen=True, slots=True)
class RollRequest:
    topic: TopicName
    partitions: Partitions | None = None
    """Numbers; all of the topic if not given."""


async def rolled(lives: Lives, request: RollRequest) -> Rolled:
    return await roll(lives.broker, request.topic, request.partitions)


@dataclass(frozen=True, slots=True)
class RetentionRequest:
    topic: TopicName | None = None
    """All topics, the broker's own too, if not given."""


async def retained(lives: Lives, request: RetentionRequest) -> Retained:
    return await apply_retention(lives.broker, request.topic)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "POST",
        "/v1/topics/{topic}/compact",
        "Clean a compacted topic now: as the next round of the cleaner would, or by force.",
        CompactRequest,
        Compaction,
        compacted,
        statuses=(404, 409),
    ),
    Call(
        "GET",
        "/v1/topics/{topic}/compacted",
        "Wait until clean passes have covered what lies in closed segments now.",
        WaitRequest,
        Compacted,
        waited,
        statuses=(404, 409, 504),
        only_waits=True,
    ),
    Call(
        "POST",
        "/v1/topics/{topic}/roll",
        "Close the active segment of each partition that has records, and begin a new one.",
        RollRequest,
        Rolled,
        rolled,
        statuses=(404, 409),
    ),
    Call(
        "POST",
        "/v1/retention",
        "Delete now what retention lets go, of one topic or of all.",
        RetentionRequest,
        Retained,
        retained,
        statuses=(404, 409),
    ),
)
