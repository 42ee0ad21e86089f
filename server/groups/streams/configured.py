"""A topology applied to the existing topics: the tasks of each subtopology, the partitions of each internal topic, and the
topics that are missing or wrong.

A repartition topic without a partition count of its own has as many partitions as the largest topic that the subtopology before
it reads. Topics that are joined must have the same partition count. A changelog has one partition for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import Subtopology, TopicInfo
from ...coordination.jobs import A_PIECE, Steps
from ..assigning.topics import TopicView
from .topology import Topology, sources_of

_NAMES_SHOWN = 3

PartitionCount = Callable[[str], int | None]

_FAILED = "Failed to compute number of partitions for all repartition topics"


def repartition_counts(subtopologies: Collection[Subtopology], existing: Callable[[str], int | None]) -> dict[str, int]:
    """Return the partition count of each repartition topic that is read or written, by name.

    A topic without a count of its own has that of the largest topic that a writer of it reads, along the topology. Apache Kafka
    passes over all subtopologies until every count is known, and uses the counts known at each visit. Here a subtopology is visited
    only once: when Kafka would first visit it with a known count. So the time for a long chain is linear.

    Args:
        subtopologies: Subtopologies in the order of Kafka's passes.
        existing: Partition count of a topic that exists; None if it does not.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY: topics form a cycle, or a topic is read that no subtopology writes.
    """
    order = list(subtopologies)
    counts: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for at, one in enumerate(order):
        for topic in one.repartition_source_topics:
            readers.setdefault(topic.name, []).append(at)
            if topic.partitions:
                counts[topic.name] = topic.partitions
    if not readers and not any(map(attrgetter("repartition_sink_topics"), order)):
        return {}
    # (pass, place in it) of the first visit of a subtopology with a known count.
    due = [(0, at) for at, one in enumerate(order) if one.source_topics or _known_counts(one, counts)]
    queued = {at for _, at in due}
    while due:
        time_slice, at = heappop(due)
        one = order[at]
        known = _known_counts(one, counts) + [
            count for name in one.source_topics if (count := existing(name)) is not None
        ]
        for sink in one.repartition_sink_topics if known else ():
            if sink in counts:
                continue
            counts[sink] = max(known)
            for reader in readers.get(sink, ()):
                if reader not in queued:
                    queued.add(reader)
                    heappush(due, (time_slice if reader > at else time_slice + 1, reader))
    if any(sink not in counts for one in order for sink in one.repartition_sink_topics):
        message = f"{_FAILED}. There may be loops in the topology that cannot be resolved."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if any(topic.name not in counts for one in order for topic in one.repartition_source_topics):
        message = f"{_FAILED}, because a repartition source topic is never used as a sink topic."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    return counts


def _known_counts(one: Subtopology, counts: dict[str, int]) -> list[int]:
    return [counts[topic.name] for topic in one.repartition_source_topics if topic.name in counts]


class StatusCode(IntEnum):
    """Status codes of a group in the answers to its members; numbers as in StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(NamedTuple):
    """Reason why no member can work. Clients log the detail, which is in Apache Kafka's words."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic that the coordinator creates for the group. A `replication_factor` of 0 means the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """One subtopology, with as many tasks as its largest source has partitions. Names are sorted."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    """Changelog topics; if there are any, the tasks have state."""


class Configured(NamedTuple):
    """
    Attributes:
        subtopologies: Subtopologies by id, in the order of ids; None if they cannot be computed.
        missing: Internal topics that must be created, by name.
        problem: Reason why the group must wait; None if it need not.
    """

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic]
    problem: Problem | None


def configure(topology: Topology, topics: TopicView) -> Steps[Configured]:
    """Apply the topology to the topics. The topics are read all at once, and the rest is done in pieces.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY: no set of topics could fit the topology.
    """
    counts = {}
    for name in topology.required:
        topic_id = topics.id_of(name)
        if topic_id is not None:
            counts[name] = topics.partition_count(topic_id)
    if len(counts) > A_PIECE:
        yield
    found = yield from _configure(topology, counts.get)
    return Configured(None, {}, found) if isinstance(found, Problem) else found


def _configure(topology: Topology, existing: PartitionCount) -> Steps[Configured | Problem]:
    subtopologies = topology.subtopologies.values()
    if gone := sorted({name for one in subtopologies for name in one.source_topics if existing(name) is None}):
        return Problem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_names_text(gone)} are missing.")
    is_long = len(topology.required) > A_PIECE
    if is_long:
        yield
    decided = repartition_counts(subtopologies, existing)
    if is_long:
        yield

    def count_of(name: str) -> int:
        count = existing(name)
        count = decided.get(name) if count is None else count
        if count is None:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Cannot determine the number of partitions of {name}."
            )
        return count

    if any(map(attrgetter("copartition_groups"), subtopologies)):
        problem = yield from _copartition(subtopologies, decided, count_of)
        if problem is not None:
            return problem
    tasks: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for number, (key, one) in enumerate(topology.subtopologies.items(), 1):
        tasks[key] = max(map(count_of, sources_of(one)), default=0)
        if not tasks[key]:
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"No source topics found for subtopology {key}")
        # A changelog that two subtopologies share has the size that the last one needs, as in Apache Kafka.
        sizes.update(dict.fromkeys(map(attrgetter("name"), one.state_changelog_topics), tasks[key]))
        if number % A_PIECE == 0:
            yield
    made = {}
    for number, (key, one) in enumerate(topology.subtopologies.items(), 1):
        repartition = yield from _internal(
            one.repartition_source_topics, lambda info: info.partitions or decided[info.name]
        )
        changelogs = yield from _internal(one.state_changelog_topics, lambda info: sizes[info.name])
        made[key] = ConfiguredSubtopology(
            tasks[key],
            tuple(sorted(set(one.source_topics))),
            repartition,
            tuple(sorted(set(one.repartition_sink_topics))),
            changelogs,
        )
        if number % A_PIECE == 0:
            yield
    missing = _missing(made.values(), existing)
    if isinstance(missing, Problem):
        return missing
    if not missing:
        return Configured(made, {}, None)
    detail = f"Internal topics are missing: {_names_text(list(missing))}"
    return Configured(made, missing, Problem(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _internal(
    infos: Iterable[TopicInfo], partitions_of: Callable[[TopicInfo], int]
) -> Steps[tuple[InternalTopic, ...]]:
    topics = {}
    for info in infos:
        configs = {config.key: config.value for config in info.topic_configs}
        topics[info.name] = InternalTopic(info.name, partitions_of(info), info.replication_factor, configs)
        yield
    for topic in topics.values():
        if topic.partitions < 1:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"{topic.name} cannot have {topic.partitions} partitions."
            )
    return tuple(map(topics.__getitem__, sorted(topics)))


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], existing: PartitionCount
) -> dict[str, InternalTopic] | Problem:
    wanted = {topic.name: topic for one in subtopologies for topic in (*one.repartition_sources, *one.changelogs)}
    missing = {}
    for name in sorted(wanted):
        found, expected = existing(name), wanted[name].partitions
        if found is None:
            missing[name] = wanted[name]
        elif found != expected:
            return Problem(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, found {found}",
            )
    return missing


def _copartition(
    subtopologies: Collection[Subtopology], decided: dict[str, int], count_of: Callable[[str], int]
) -> Steps[Problem | None]:
    """Set the partition counts of repartition topics to those of the topics that they are joined with."""
    infos = [info for one in subtopologies for info in one.repartition_source_topics]
    internal = {info.name for info in infos}
    # Their partition counts are not changed here, although other topics that read them may leave theirs open.
    fixed = {info.name for info in infos if info.partitions}
    fixed_counts = {count_of(name) for name in fixed}
    for one in subtopologies:
        for group in one.copartition_groups:
            names = {
                *(_topic_at(one.source_topics, index) for index in group.source_topics),
                *(_topic_at(one.repartition_source_topics, index).name for index in group.repartition_source_topics),
            }
            repartition = {name: count_of(name) for name in sorted(names) if name in internal}
            others = {name: count_of(name) for name in sorted(names) if name not in internal}
            yield
            if not names:
                continue
            shown = others or repartition
            counts = set(others.values()) or fixed_counts or {max(repartition.values())}
            if len(counts) > 1:
                topics = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
                return Problem(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Following topics do not have the same number of partitions: [{{{topics}}}]",
                )
            (count,) = counts
            for name, own in repartition.items():
                decided[name] = count
                if name in fixed and own != count:
                    return Problem(
                        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions"
                        f" [{count}] of the source topic.",
                    )
    return None


def _topic_at(topics: tuple[Any, ...], index: int) -> Any:
    if not 0 <= index < len(topics):
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Invalid topic index {index} in a copartition group of {len(topics)} topics.",
        )
    return topics[index]


def _names_text(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} additional topics" if more > 0 else "")
