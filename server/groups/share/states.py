"""Partitions of a share group with states at the share coordinator, as last written. Tables are values: a change makes a new
table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError

# Limits of a group's record of states, which is made, written and read in one piece: some milliseconds.
TOPICS_MAX = 500
PARTITIONS_MAX = 20_000

UNKNOWN_TOPIC = "<UNKNOWN>"
"""Apache Kafka's name for a topic that was deleted."""

Topics: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""
NameOf: TypeAlias = Callable[[bytes], str | None]
"""Function that returns the name of a topic id; None if no such topic exists."""

SharePlace: TypeAlias = tuple[bytes, int]
"""Topic id, partition."""
Refusals: TypeAlias = Mapping[SharePlace, KafkaError]
"""Partitions for which the operation failed, with the errors."""
Offsets: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> offset."""

UNKNOWN_OFFSET = -1
"""Start offset that is not known before the first fetch."""


class StateSummary(NamedTuple):
    """
    Attributes:
        start_offset: The first record that is not completed; UNKNOWN_OFFSET before the first fetch.
        delivery_complete_count: Number of completed records after it; -1 if unknown.
        error: Reason why the state is not known.
    """

    start_offset: int
    leader_epoch: int
    delivery_complete_count: int
    error: KafkaError | None = None


class Persister(Protocol):
    """Store of the states of share partitions, Apache Kafka's Persister: the interface of the share coordinator for groups.

    Each method returns errors per partition; a KafkaError is for all partitions.
    """

    async def initialize(self, group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        """Initialize the states of these partitions at these offsets, also if they exist."""

    async def delete(self, group_id: str, partitions: Topics) -> Refusals:
        """Forget these states; they need not exist."""


class TopicStates(NamedTuple):
    """Partitions of one topic, with the name that it had when this was written."""

    name: str
    partitions: frozenset[int]


def check_size(topics: int, partitions: int) -> None:
    """Raise KafkaError UNKNOWN_SERVER_ERROR for more states than can be written and read in one piece."""
    if topics > TOPICS_MAX or partitions > PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"too many partition states for the group ({partitions} partitions in {topics} topics, limits"
            f" {PARTITIONS_MAX} and {TOPICS_MAX})",
        )


@dataclass(frozen=True, slots=True)
class StateTable:
    """Partitions with states at the share coordinator, by topic id.

    Attributes:
        initializing: States that were requested, and that the share coordinator has not confirmed yet.
        initialized: States that the share coordinator has, so members may get the partitions.
        deleting: Topics whose states the share coordinator was asked to forget, and has not confirmed yet; with the topics'
            names.
    """

    initializing: Mapping[bytes, TopicStates] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicStates] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def with_requested(self, partitions: Topics, name_of: NameOf) -> StateTable:
        """Return the table after a request to initialize these states."""
        return StateTable(
            _together(self.initializing, partitions, name_of),
            self.initialized,
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions},
        )

    def with_initialized(self, partitions: Topics, name_of: NameOf) -> StateTable:
        """Return the table after these states were initialized."""
        return StateTable(
            _without(self.initializing, partitions), _together(self.initialized, partitions, name_of), self.deleting
        )

    def refused(self, partitions: Topics) -> StateTable:
        """Return the table after the initialization of these states failed."""
        return StateTable(_without(self.initializing, partitions), self.initialized, self.deleting)

    def with_deleting(self, topics: Collection[bytes], name_of: NameOf) -> StateTable:
        """Return the table after a request to forget the initialized states of these topics."""
        return StateTable(
            self.initializing,
            {topic_id: one for topic_id, one in self.initialized.items() if topic_id not in topics},
            {**self.deleting, **{topic_id: name_of(topic_id) or UNKNOWN_TOPIC for topic_id in topics}},
        )

    def deleted(self, topics: Collection[bytes]) -> StateTable:
        """Return the table after the states of these topics were forgotten."""
        left = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return StateTable(self.initializing, self.initialized, left)

    def without(self, topics: Container[bytes]) -> StateTable:
        """Return the table without these topics, which were deleted."""
        return StateTable(
            {topic_id: one for topic_id, one in self.initializing.items() if topic_id not in topics},
            {topic_id: one for topic_id, one in self.initialized.items() if topic_id not in topics},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics},
        )

    @property
    def partition_count(self) -> int:
        return sum([len(one.partitions) for one in (*self.initializing.values(), *self.initialized.values())])

    def topic_ids(self) -> frozenset[bytes]:
        return frozenset().union(self.initializing, self.initialized, self.deleting)


def _together(before: Mapping[bytes, TopicStates], more: Topics, name_of: NameOf) -> dict[bytes, TopicStates]:
    found = dict(before)
    for topic_id, partitions in more.items():
        known = found[topic_id].partitions if topic_id in found else frozenset()
        found[topic_id] = TopicStates(name_of(topic_id) or UNKNOWN_TOPIC, known | partitions)
    return found


def _without(before: Mapping[bytes, TopicStates], less: Topics) -> dict[bytes, TopicStates]:
    found = {}
    for topic_id, (name, partitions) in before.items():
        if left := partitions - less.get(topic_id, frozenset()):
            found[topic_id] = TopicStates(name, left)
    return found
