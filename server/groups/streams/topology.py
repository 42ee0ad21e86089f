"""The topics that an application reads and writes: its subtopologies, as the first member of a group has sent them.

They do not change while the group exists: Apache Kafka has no updates of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import streams_group_heartbeat as wire
from ....protocol.messages import streams_group_log as log
from ....protocol.messages.streams_group_heartbeat import Subtopology

_ID, _NAME = attrgetter("subtopology_id"), attrgetter("name")


@dataclass(frozen=True, slots=True)
class Topology:
    """
    Attributes:
        subtopologies: Subtopologies by id, in the order of ids.
        required: Topics that the application needs: sources, repartition topics, changelogs.
        subtopology_of: Topic that is read -> id of the subtopology that reads it.
    """

    epoch: int
    subtopologies: dict[str, Subtopology]
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
        """The topology as the value of its record."""
        return log.StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=tuple(self.subtopologies.values()))


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """Return all topics that the subtopology reads."""
    return chain(subtopology.source_topics, map(_NAME, subtopology.repartition_source_topics))


def topology_from_record(value: log.StreamsGroupTopologyValue) -> Topology:
    return Topology(value.epoch, _by_id(value.subtopologies))


def topology_from_request(topology: wire.Topology) -> Topology:
    """Return the topology of a request. Raises KafkaError UNKNOWN_SERVER_ERROR, as Apache Kafka does, for an epoch below 0 or
    two subtopologies with one id."""
    if topology.epoch < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Topology epoch must be non-negative.")
    found = Topology(topology.epoch, _by_id(topology.subtopologies))
    if len(found.subtopologies) < len(topology.subtopologies):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Duplicate subtopology ID.")
    return found


def _by_id(subtopologies: Iterable[Subtopology]) -> dict[str, Subtopology]:
    return {one.subtopology_id: one for one in sorted(subtopologies, key=_ID)}
