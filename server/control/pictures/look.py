"""A closer look at one partition: its picture, and what is left in a range of its offsets."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Annotated

from ....protocol.errors import KafkaError
from ....storage.cleaning.cleaner_checkpoints import data_dir_of
from ....storage.disk.paths import OFFSET_MAX
from ....storage.logs.log import Log
from ....storage.pictures.contents import BUCKETS_MAX, Look
from ....storage.pictures.log_picture import Contents, LogPicture
from ....storage.steps import Steps
from ...broker.broker import Broker
from ...runtime.disk import Work, in_thread
from ..errors import ControlError, Kind, check_number
from ..operation import PartitionId, Range, TopicName, operation
from ..partitions import logs_of
from .taking import picture_of

BUCKETS = 200
LOOKING_S = 0.05
"""How long a look has a thread before others get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    """One partition, and a part of it as through a magnifying glass."""

    now_ms: int
    """The broker's clock, in ms since 1970."""
    log: LogPicture
    contents: Contents


@operation("GET", "/v1/topics/{topic}/partitions/{partition}/picture", statuses=(404, 409), only_waits=True)
async def partition_picture(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId,
    *,
    from_offset: Annotated[int, Range(0, OFFSET_MAX)] | None = None,
    to_offset: Annotated[int, Range(0, OFFSET_MAX)] | None = None,
    buckets: Annotated[int, Range(1, BUCKETS_MAX)] = BUCKETS,
) -> PartitionPicture:
    """One log likewise, and which offsets of a range still have a record.

    Args:
        from_offset: Null: the log's start. One below that begins there.
        to_offset: Exclusive. Null: the log's end. One beyond that ends there.
        buckets: Into how many parts the range is divided, at most.

    Raises:
        ControlError: NOT_FOUND: there is no such topic or partition; INVALID: no such range or number; FAILED: what is there
            cannot be read.
    """
    check_number("buckets", buckets, 1, BUCKETS_MAX)
    for name, given in (("from_offset", from_offset), ("to_offset", to_offset)):
        if given is not None:
            check_number(name, given, 0, OFFSET_MAX)
    if from_offset is not None and to_offset is not None and from_offset > to_offset:
        raise ControlError(Kind.INVALID, f"from_offset: expected one up to to_offset={to_offset}, found {from_offset}")
    (log,) = logs_of(broker, topic, [partition])
    picture = await picture_of(broker, log)
    start, end = log.log_start_offset, log.log_end_offset
    low = start if from_offset is None else min(max(start, from_offset), end)
    high = end if to_offset is None else min(max(low, to_offset), end)
    try:
        contents = await _looked(log, Look(log, low, high, buckets=buckets))
    except KafkaError as error:
        raise ControlError(Kind.FAILED, error.message) from error
    except OSError as error:
        raise ControlError(Kind.FAILED, f"{log.topic_partition}: {error}") from error
    if (low, high) == (start, end) and contents.looked_at_to_offset == end:
        broker.services.cleaning.watched.note_horizon(log.topic_partition, contents.horizon)
    return PartitionPicture(now_ms=broker.clock.now_ms(), log=picture, contents=contents)


async def _looked(log: Log, look: Look) -> Contents:
    steps, data_dir = look.steps(), data_dir_of(log)
    while (found := await in_thread(Work.SEARCH, data_dir, _run_some, steps)) is None:
        pass
    return found


def _run_some(steps: Steps[Contents]) -> Contents | None:
    """Go on for a while; None: it is not at its end."""
    until_s = perf_counter() + LOOKING_S
    try:
        while perf_counter() < until_s:
            next(steps)
    except StopIteration as end:
        found: Contents = end.value
        return found
    return None
