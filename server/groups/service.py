"""Group coordination inside Trio; see `coordination.service`.

The only file of this package that knows the broker. `Broker` owns one `GroupService` for all its nodes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from ..coordination.service import CoordinatorService
from ..internal_topics import OFFSETS_TOPIC
from .coordinator import GroupCoordinator
from .settings import GroupSettings

if TYPE_CHECKING:
    from ..broker import Broker


class GroupService(CoordinatorService[GroupCoordinator]):
    """The group coordinator of a broker."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self._settings = settings = GroupSettings(
            **{one.name: getattr(config, one.name) for one in fields(GroupSettings)}
        )
        super().__init__(
            broker,
            lambda store, on_earlier: GroupCoordinator(settings, store, on_earlier=on_earlier),
            topic=OFFSETS_TOPIC,
            # Apache Kafka's group coordinator numbers each batch from 0, though it is no idempotent producer.
            base_sequence=0,
        )

    def reconfigure(self) -> None:
        """Take over what may change of the broker's options while it runs."""
        self._settings.group_consumer_assignment_interval_ms = self._broker.config.group_consumer_assignment_interval_ms

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """Forget the offsets committed in a topic that was deleted."""
        self.coordinator.topic_deleted(name, topic_id, self._broker.clock.now_ms())

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A transaction's marker was written to a partition of `__consumer_offsets`."""
        self.coordinator.transaction_ended(partition, producer_id, commit=commit)
