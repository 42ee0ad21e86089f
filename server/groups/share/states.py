"""Which partitions of a share group have states at the share coordinator, as it was written down last. Tables are values: a change makes
another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicStates(NamedTuple):
    """Partitions of one topic; the name is the one that it had when this was written."""

    name: str
    partitions: frozenset[int]


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
