"""Pictures of logs, taken from memory: cheap enough for each second.

Also the remaining records in a range of one partition, from its files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakKeyDictionary

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.paths import OFFSET_MAX
from ...storage.logs.log import Log
from ...storage.pictures.capturing import BARS_MAX, picture_in_pieces
from ...storage.pictures.contents import BUCKETS_MAX, RangeScan
from ...storage.pictures.log_picture import Contents, LogPicture
from ..broker.broker import Broker
from ..cleaning.advice import CleanerStatus
from ..runtime.errors import ControlError, Kind, check_number
from ..runtime.threads import Work, in_thread, search
from ..runtime.time_slices import TimeSlice, run_cooperatively
from .operation import PartitionId, Range, TopicName, operation
from .partitions import logs_of, one_or_all

ASKED_BARS_MAX = 10_000
"""Maximum number of bars of each log."""
PICTURES_MAX = 1_000
"""Maximum number of pictures of all topics together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPicture:
    """The logs of a topic as a picture."""

    topic: str
    now_ms: int
    """The broker's clock, in ms since 1970."""
    partitions: tuple[LogPicture, ...]

    def _repr_html_(self) -> str:
        """Return a drawing of the logs for notebooks; see `storage.pictures.page`."""
        from ...storage.pictures.page import fragment

        return fragment(self.topic, self.partitions)

    def __str__(self) -> str:
        from ...storage.pictures.text import bar, state, style

        look = style(is_unicode=True, has_colours=False)
        return "\n".join(
            f"{each.name:<{_NAME_PLACES}} {bar(each, _BAR_PLACES, look)} {state(each)}" for each in self.partitions
        )


_NAME_PLACES, _BAR_PLACES = 16, 48


@operation("GET", "/v1/topics/{topic}/picture", statuses=(404, 409), only_waits=True)
async def topic_picture(
    broker: Broker,
    topic: TopicName,
    partition: PartitionId | None = None,
    *,
    bars_max: Annotated[int, Range(1, ASKED_BARS_MAX)] = BARS_MAX,
) -> TopicPicture:
    """Show the logs of a topic as the cleaner sees them: segments, offsets, the current pass, and the last pass before and after.

    In a notebook, the result is displayed as a drawing.

    Args:
        partition: Partition number (default: all partitions of the topic).
        bars_max: Maximum number of bars for each partition; with more segments, adjacent ones of the same kind share a bar.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: `bars_max` is out of bounds.
    """
    check_number("bars_max", bars_max, 1, ASKED_BARS_MAX)
    logs = logs_of(broker, topic, one_or_all(partition))
    found = await pictures(broker, logs, bars_max=bars_max)
    return TopicPicture(topic=topic, now_ms=broker.clock.now_ms(), partitions=tuple(found))


async def pictures(
    broker: Broker, logs: Sequence[Log], time_slice: TimeSlice | None = None, *, bars_max: int = BARS_MAX
) -> list[LogPicture]:
    """Return the picture of each of these logs, as of the moment at which it was taken."""
    time_slice = time_slice or TimeSlice()
    found: dict[Log, LogPicture] = {}
    states: dict[Log, tuple[object, ...] | None] = {}
    """States of the logs whose pictures must be taken again."""
    async for log, dirty_from in time_slice.each(
        zip(logs, broker.services.cleaning.manager.first_dirty_offsets(logs), strict=True)
    ):
        await _ready(log, time_slice)
        state = _state(broker, log, dirty_from, bars_max)
        known_state, known = _TAKEN.get(log, (None, None))
        if known is None or state is None or state != known_state:
            states[log] = state
        else:
            found[log] = known
    assessments = broker.services.cleaning.statuses(list(states), with_ways=False)
    async for (log, state), assessing in time_slice.each(zip(states.items(), assessments, strict=True)):
        found[log] = taken = await _take_picture(
            broker, log, await run_cooperatively(assessing, time_slice), time_slice, bars_max
        )
        if (
            state is not None
            and taken.eligible_at_ms is None
            and state == _state(broker, log, taken.first_dirty_offset, bars_max)
        ):
            _TAKEN[log] = state, taken
    return [found[log] for log in logs]


async def _take_picture(
    broker: Broker, log: Log, status: CleanerStatus, time_slice: TimeSlice, bars_max: int
) -> LogPicture:
    watched, tp = broker.services.cleaning.watched, log.topic_partition
    return await run_cooperatively(
        picture_in_pieces(
            log,
            status.eligibility,
            passes=status.passes,
            running=watched.running(tp),
            last_pass=watched.last(tp),
            horizon=watched.horizon(tp),
            bars_max=bars_max,
        ),
        time_slice,
    )


_TAKEN: WeakKeyDictionary[Log, tuple[tuple[object, ...], LogPicture]] = WeakKeyDictionary()
"""Cache: the last picture of each log, with its `_state`. Only logs that no operation has and whose picture does not
change with time alone. Of hundreds of partitions that are displayed each second few have changed.
"""


def _state(broker: Broker, log: Log, dirty_from: int, bars_max: int) -> tuple[object, ...] | None:
    """Return everything that a picture depends on, to detect changes; None if it cannot be determined cheaply."""
    cleaning, tp = broker.services.cleaning, log.topic_partition
    manager, watched, segments = cleaning.manager, cleaning.watched, log.segments
    if manager.is_held(tp) or log.config.min_compaction_lag_ms:
        return None
    return (
        log.config,
        log.failure,
        manager.uncleanable.get(tp),
        manager.retries.waiting(tp, broker.clock.now_ms()),
        cleaning.why_off(),
        dirty_from,
        segments.changes,
        segments.active.size_bytes,
        log.log_start_offset,
        log.last_stable_offset,
        log.high_watermark,
        log.log_end_offset,
        log.counter.clean,
        watched.last(tp),
        watched.horizon(tp),
        bars_max,
    )


async def all_pictures(broker: Broker, *, bars_max: int = BARS_MAX, most: int = PICTURES_MAX) -> list[LogPicture]:
    """Return the pictures of clients' topics, by name, at most `most`: compacted ones first."""
    logs = await logs_by_name(broker)
    compacted = [log for log in logs if log.config.is_compact]
    return await pictures(
        broker, [*compacted, *(log for log in logs if not log.config.is_compact)][:most], bars_max=bars_max
    )


async def logs_by_name(broker: Broker, *, internal: bool = False) -> list[Log]:
    """Return all logs by topic and partition: those of clients' topics, optionally with the internal ones."""
    time_slice, logs = TimeSlice(), list[Log]()
    topics = {each.name: each for each in broker.services.topics if internal or not each.is_internal}
    async for name in time_slice.each(await time_slice.sorted(topics)):
        logs += [each.log for each in topics[name].partitions]
    return logs


async def picture_of(broker: Broker, log: Log, *, bars_max: int = BARS_MAX) -> LogPicture:
    """Return the picture of one log."""
    (found,) = await pictures(broker, [log], bars_max=bars_max)
    return found


async def _ready(log: Log, time_slice: TimeSlice) -> None:
    """Read the facts about a log that are on disk, once after a start."""
    if not log.is_surveyed or not log.segments.active.is_ready:
        await in_thread(Work.READ, data_dir_of(log), _survey, log)
        time_slice.begin()


def _survey(log: Log) -> None:
    """Read those facts. Errors are ignored here: the operation that needs the data reports them."""
    log.survey()
    with suppress(Exception):
        log.segments.active.get_ready()


BUCKETS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    """One partition, with a range of offsets enlarged."""

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
    """Show one log in the same way, and which offsets of a range still have a record.

    Args:
        from_offset: Start of the range (default: log start); lower values are raised to the log start.
        to_offset: End of the range, exclusive (default: log end); higher values are lowered to the log end.
        buckets: Maximum number of parts into which the range is divided.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: the range or number is invalid; FAILED: the log cannot be
            read.
    """
    check_number("buckets", buckets, 1, BUCKETS_MAX)
    for name, given in (("from_offset", from_offset), ("to_offset", to_offset)):
        if given is not None:
            check_number(name, given, 0, OFFSET_MAX)
    if from_offset is not None and to_offset is not None and from_offset > to_offset:
        raise ControlError(
            Kind.INVALID, f"from_offset: must not be greater than to_offset={to_offset}, found {from_offset}"
        )
    (log,) = logs_of(broker, topic, [partition])
    picture = await picture_of(broker, log)
    start, end = log.log_start_offset, log.log_end_offset
    low = start if from_offset is None else min(max(start, from_offset), end)
    high = end if to_offset is None else min(max(low, to_offset), end)
    try:
        contents = await search(data_dir_of(log), RangeScan(log, low, high, buckets=buckets).steps())
    except KafkaError as error:
        raise ControlError(Kind.FAILED, error.message) from error
    except OSError as error:
        raise ControlError(Kind.FAILED, f"{log.topic_partition}: {error}") from error
    if (low, high) == (start, end) and contents.looked_at_to_offset == end:
        broker.services.cleaning.watched.note_horizon(log.topic_partition, contents.horizon)
    return PartitionPicture(now_ms=broker.clock.now_ms(), log=picture, contents=contents)
