"""Who keeps the states of share partitions: the share coordinator, as far as groups ask something of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ....protocol.errors import KafkaError
from .states import Topics

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
    """Each of these tells partition by partition; a KafkaError is for all of them."""

    async def initialize(self, group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        """Begin the states of these partitions at these offsets, or begin them anew."""

    async def delete(self, group_id: str, partitions: Topics) -> Refusals:
        """Forget these states; there may be none."""
