"""Why the partitions of a topic are or are not cleaned, when they will be, and by what: see `services.explaining`."""

from __future__ import annotations

from dataclasses import dataclass

from ...broker.broker import Broker
from ...runtime.time_slices import TimeSlice
from ...services.explaining import Explaining, PartitionExplanation
from ..operation import PartitionId, TopicName, operation
from ..partitions import logs_of, one_or_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the cleaner makes of a topic now. As a text it is a block to be read."""

    topic: str
    now_ms: int
    """The broker's clock, in ms since 1970."""
    partitions: tuple[PartitionExplanation, ...]

    @property
    def is_eligible(self) -> bool:
        """Whether the next round of the cleaner may take any partition."""
        return any(each.eligible for each in self.partitions)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.partitions)

    def __repr__(self) -> str:
        return f"<Explanation of {self.topic}\n{self}\n>"


@operation("GET", "/v1/topics/{topic}/explain", statuses=(404, 409), only_waits=True)
async def explain(broker: Broker, topic: TopicName, partition: PartitionId | None = None) -> Explanation:
    """Why each partition is or is not eligible for the cleaner, when it will be, and what makes it so.

    Args:
        partition: Null: all.

    Raises:
        ControlError: NOT_FOUND: there is no such topic or partition; FAILED: the disk refused.
    """
    logs = logs_of(broker, topic, one_or_all(partition))
    now_ms = broker.clock.now_ms()
    explaining = await Explaining.of(broker.services, logs, TimeSlice())
    found = tuple([await explaining.next() for _ in logs])
    return Explanation(topic=topic, now_ms=now_ms, partitions=found)
