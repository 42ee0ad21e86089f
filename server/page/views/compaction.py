"""Compaction progress of topics, and the button that compacts one: a section of the first page and of a topic's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...broker.broker import Broker
from ...partitions.topics import Topic
from ...runtime.time_slices import TimeSlice
from ..section import Row, Section

TOPICS_MAX = 50
"""Maximum number of shown topics; those with most to clean."""


@dataclass(frozen=True, slots=True)
class TopicStanding:
    """Progress of a topic, all partitions together."""

    topic: str
    is_compacted: bool
    is_internal: bool
    offsets: int
    """Number of offsets in its logs."""
    dirty: int
    """Number of offsets that no pass has covered."""
    under_way: int
    """Number of passes in progress."""


async def all_topics_section(broker: Broker) -> Section:
    """Return the section of all compacted topics except internal ones."""
    time_slice, found = TimeSlice(), []
    for topic in list(broker.services.topics):
        if topic.is_internal:
            continue
        standing = await _topic_standing(broker, topic, time_slice)
        if standing.is_compacted:
            found.append(standing)
    shown = sorted(sorted(found, key=_dirtiest)[:TOPICS_MAX], key=lambda each: each.topic)
    return Section("compaction", "compaction", len(found) - len(shown), _rows(shown))


async def topic_section(broker: Broker, topic: Topic) -> Section:
    """Return the section of `topic` alone, whatever its policy."""
    return Section("compact", "compact_topic", await _topic_standing(broker, topic, TimeSlice()))


def _dirtiest(standing: TopicStanding) -> int:
    return -standing.dirty


def _rows(standings: Sequence[TopicStanding]) -> tuple[Row, ...]:
    return tuple(Row(f"compacted-{each.topic}", each) for each in standings)


async def _topic_standing(broker: Broker, topic: Topic, time_slice: TimeSlice) -> TopicStanding:
    cleaning, offsets, dirty, under_way, is_compacted = broker.services.cleaning, 0, 0, 0, False
    logs = [partition.log for partition in topic.partitions]
    dirty_from = cleaning.manager.first_dirty_offsets(logs)
    async for log in time_slice.each(logs):
        is_compacted = "compact" in log.config.cleanup_policy
        if not is_compacted:
            break
        offsets += log.log_end_offset - log.log_start_offset
        dirty += max(0, log.log_end_offset - max(log.log_start_offset, next(dirty_from)))
        under_way += cleaning.watched.running(log.topic_partition) is not None
    return TopicStanding(topic.name, is_compacted, topic.is_internal, offsets, dirty, under_way)
