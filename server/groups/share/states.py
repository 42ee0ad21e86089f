"""Which partitions of a share group have states at the share coordinator, as it was written down last. Tables are values: a change makes
another one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError

# What one record says of all partitions of a group is made, written and read in one turn: some milliseconds.
TOPICS_MAX = 500
PARTITIONS_MAX = 20_000

UNKNOWN_TOPIC = "<UNKNOWN>"
"""What Apache Kafka calls a topic that is gone."""

Topics: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""
NameOf: TypeAlias = Callable[[bytes], str | None]
"""Name of a topic id; None: there is none."""

SharePlace: TypeAlias = tuple[bytes, int]
"""Topic id, partition."""
Refusals: TypeAlias = Mapping[SharePlace, KafkaError]
"""The partitions for which it failed, and why."""
Offsets: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> offset."""

UNKNOWN_OFFSET = -1
"""Where a group begins in a partition is known with the first fetch only."""


class StateSummary(NamedTuple):
    """
    Attributes:
        start_offset: The first record that is not done with; UNKNOWN_OFFSET, nobody has fetched.
        delivery_complete_count: How many after it are done with; -1: nobody has said.
        error: Why nothing is known.
    """

    start_offset: int
    leader_epoch: int
    delivery_complete_count: int
    error: KafkaError | None = None


class StateKeeper(Protocol):
    """Who keeps the states of share partitions: the share coordinator, as far as groups ask something of it.

    Each method tells partition by partition; a KafkaError is for all of them.
    """

    async def initialize(self, group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        """Begin the states of these partitions at these offsets, or begin them anew."""

    async def delete(self, group_id: str, partitions: Topics) -> Refusals:
        """Forget these states; there may be none."""


class TopicStates(NamedTuple):
    """Partitions of one topic; the name is the one that it had when this was written."""

    name: str
    partitions: frozenset[int]


def check_size(topics: int, partitions: int) -> None:
    """Raise KafkaError UNKNOWN_SERVER_ERROR for more than can be written down, and read, in one turn."""
    if topics > TOPICS_MAX or partitions > PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"too many partition states for the group ({partitions} partitions in {topics} topics, limits"
            f" {PARTITIONS_MAX} and {TOPICS_MAX})",
        )


@dataclass(frozen=True, slots=True)
class StateTable:
    """Which partitions have states at the share coordinator, by topic id.

    Attributes:
        initializing: It was asked to begin them, and has not answered yet.
        initialized: It has them, so members may have the partitions.
        deleting: It was asked to forget all of a topic, and has not answered yet; with the topic's name.
    """

    initializing: Mapping[bytes, TopicStates] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicStates] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def asked_for(self, partitions: Topics, name_of: NameOf) -> StateTable:
        """The share coordinator is asked to begin these."""
        return StateTable(
            _together(self.initializing, partitions, name_of),
            self.initialized,
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions},
        )

    def begun(self, partitions: Topics, name_of: NameOf) -> StateTable:
        """It has begun them."""
        return StateTable(
            _without(self.initializing, partitions), _together(self.initialized, partitions, name_of), self.deleting
        )

    def refused(self, partitions: Topics) -> StateTable:
        """It could not begin them."""
        return StateTable(_without(self.initializing, partitions), self.initialized, self.deleting)

    def to_delete(self, topics: Collection[bytes], name_of: NameOf) -> StateTable:
        """It is asked to forget all that is initialized of these."""
        return StateTable(
            self.initializing,
            {topic_id: one for topic_id, one in self.initialized.items() if topic_id not in topics},
            {**self.deleting, **{topic_id: name_of(topic_id) or UNKNOWN_TOPIC for topic_id in topics}},
        )

    def deleted(self, topics: Collection[bytes]) -> StateTable:
        """It has forgotten them."""
        left = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return StateTable(self.initializing, self.initialized, left)

    def without(self, topics: Container[bytes]) -> StateTable:
        """These topics are gone."""
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
