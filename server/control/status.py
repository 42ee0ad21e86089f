"""A broker on one screen: where it is, its clock, its logs as they look, groups with lag, faults. One answer, taken in turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from ...storage.pictures.log_picture import LogPicture
from ..broker.broker import Broker
from .broker_state import BrokerState, broker_state
from .clock import ClockReading
from .clock import read as read_clock
from .faults import FaultState, list_faults
from .groups import GroupState, list_groups
from .operation import Range, TopicName, operation
from .partitions import logs_of
from .pictures import logs_by_name, pictures

BARS_MAX = 120
"""Of a log: a line of a terminal has few places more."""
PARTITIONS_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """A topic, with the pictures of its logs."""

    topic: str
    partitions: tuple[LogPicture, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Status of the whole broker."""

    broker: BrokerState
    clock: ClockReading
    topics: tuple[TopicStatus, ...]
    """In the order of names; partitions in the order of numbers."""
    partitions_left_out: int
    """Number of partitions beyond the first 2000."""
    groups: tuple[GroupState, ...]
    """In the order of ids."""
    faults: tuple[FaultState, ...]


@operation("GET", "/v1/status", statuses=(404, 409), only_waits=True)
async def status(
    broker: Broker,
    topic: TopicName | None = None,
    *,
    internal: bool = False,
    bars_max: Annotated[int, Range(1, 1_000)] = BARS_MAX,
) -> Status:
    """Show the broker at a glance: clock, pictures of its logs, groups with lag, faults.

    Args:
        topic: Topic to show (default: all topics).
        internal: Include internal topics if no topic is given.
        bars_max: Maximum number of bars for each partition.

    Raises:
        ControlError: NOT_FOUND: topic not found; UNAVAILABLE: groups are being loaded.
    """
    if topic is not None:
        logs = logs_of(broker, topic)
    else:
        logs = await logs_by_name(broker, internal=internal)
    found = await pictures(broker, logs[:PARTITIONS_MAX], bars_max=bars_max)
    return Status(
        broker=broker_state(broker),
        clock=read_clock(broker),
        topics=tuple(
            TopicStatus(topic=name, partitions=tuple(partitions))
            for name, partitions in groupby(found, key=lambda each: each.topic)
        ),
        partitions_left_out=max(0, len(logs) - PARTITIONS_MAX),
        groups=(await list_groups(broker)).groups,
        faults=(await list_faults(broker)).faults,
    )
