"""What an application reads and writes: its subtopologies, as the first member of a group has brought them along.

They stay as they are while the group exists: Apache Kafka 4.3.1 has no updates of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from .....protocol.errors import ErrorCode, KafkaError
from .....protocol.messages import streams_group_heartbeat as wire
from .....protocol.messages import streams_group_log as log
from ....coordination.jobs import Steps

_ID, _NAME = attrgetter("subtopology_id"), attrgetter("name")


@dataclass(frozen=True, slots=True)
class Topology:
    """
    Attributes:
        subtopologies: By id, in the order of ids.
        required: The topics that it cannot do without: sources, repartition topics, changelogs.
        subtopology_of: Topic that is read -> id of who reads it.
    """

    epoch: int
    subtopologies: dict[str, log.Subtopology]
    required: frozenset[str] = field(init=False, compare=False)
    subtopology_of: dict[str, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        reads, changelogs = dict[str, str](), set[str]()
        for key, one in self.subtopologies.items():
            reads.update(dict.fromkeys(sources_of(one), key))
            changelogs.update(map(_NAME, one.state_changelog_topics))
        object.__setattr__(self, "subtopology_of", reads)
        object.__setattr__(self, "required", frozenset(reads).union(changelogs))

    @property
    def message(self) -> log.StreamsGroupTopologyValue:
        """As it is written down."""
        return log.StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=tuple(self.subtopologies.values()))


def sources_of(subtopology: log.Subtopology) -> Iterator[str]:
    """All topics that it reads."""
    return chain(subtopology.source_topics, map(_NAME, subtopology.repartition_source_topics))


def of_record(value: log.StreamsGroupTopologyValue) -> Topology:
    return Topology(value.epoch, {one.subtopology_id: one for one in sorted(value.subtopologies, key=_ID)})


def of_request(topology: wire.Topology) -> Steps[Topology]:
    """A topic a piece. Raises KafkaError UNKNOWN_SERVER_ERROR, as Apache Kafka: an epoch below 0, or two subtopologies of one
    id."""
    if topology.epoch < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Topology epoch must be non-negative.")
    subtopologies = dict[str, log.Subtopology]()
    for one in sorted(topology.subtopologies, key=_ID):
        if subtopologies:
            yield
        subtopologies[one.subtopology_id] = yield from _written(one)
    if len(subtopologies) < len(topology.subtopologies):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Two subtopologies have the same id.")
    return Topology(topology.epoch, subtopologies)


def _written(one: wire.Subtopology) -> Steps[log.Subtopology]:
    changelogs = yield from _topics(one.state_changelog_topics)
    repartition = yield from _topics(one.repartition_source_topics)
    return log.Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=one.source_topics,
        source_topic_regex=one.source_topic_regex,
        state_changelog_topics=changelogs,
        repartition_sink_topics=one.repartition_sink_topics,
        repartition_source_topics=repartition,
        copartition_groups=tuple(map(_group, one.copartition_groups)),
    )


def _group(one: wire.CopartitionGroup) -> log.CopartitionGroup:
    return log.CopartitionGroup(
        source_topics=one.source_topics,
        source_topic_regex=one.source_topic_regex,
        repartition_source_topics=one.repartition_source_topics,
    )


def _topics(infos: Iterable[wire.TopicInfo]) -> Steps[tuple[log.TopicInfo, ...]]:
    written = []
    for info in infos:
        written.append(_topic(info))
        yield
    return tuple(written)


def _topic(one: wire.TopicInfo) -> log.TopicInfo:
    return log.TopicInfo(
        name=one.name,
        partitions=one.partitions,
        replication_factor=one.replication_factor,
        topic_configs=tuple(log.TopicConfig(key=config.key, value=config.value) for config in one.topic_configs),
    )
