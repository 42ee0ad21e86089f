"""Group coordination inside Trio; see `coordination.service`.

The only file of this package that knows the broker. `Broker` owns one `GroupService` for all its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.service import CoordinatorService
from ..partitions.internal_topics import OFFSETS_TOPIC
from .coordinator import GroupCoordinator
from .settings import GroupSettings

if TYPE_CHECKING:
    from ..broker.broker import Broker


class GroupService(CoordinatorService[GroupCoordinator]):
    """The group coordinator of a broker."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self._settings = settings = GroupSettings(
            **{one.name: getattr(config, one.name) for one in fields(GroupSettings)}
        )
        super().__init__(
            broker,
            lambda store, on_earlier: GroupCoordinator(
                settings, store, topics=BrokerTopics(broker), elapsed_ms=broker.clock.elapsed_ms, on_earlier=on_earlier
            ),
            topic=OFFSETS_TOPIC,
            # Apache Kafka's group coordinator numbers each batch from 0, though it is no idempotent producer.
            base_sequence=0,
        )

    def reconfigure(self) -> None:
        """Take over what may change of the broker's options while it runs."""
        self._settings.group_consumer_assignment_interval_ms = self._broker.config.group_consumer_assignment_interval_ms

    def check_consumer_protocol(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if consumer groups are not served."""
        if self._broker.feature_level("group.version") < 1:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the feature group.version is 0")
        if "consumer" not in self._broker.config.group_coordinator_rebalance_protocols:
            message = 'group.coordinator.rebalance.protocols does not name "consumer"'
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)

    def topic_created(self, name: str) -> None:
        """There is a new topic."""
        self.coordinator.topics_changed([name], self._broker.clock.now_ms(), has_new=True)

    def topic_grew(self, name: str) -> None:
        """A topic got more partitions."""
        self.coordinator.topics_changed([name], self._broker.clock.now_ms(), has_new=False)

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """A topic is gone: its offsets are forgotten."""
        now_ms = self._broker.clock.now_ms()
        self.coordinator.topics_changed([name], now_ms, has_new=False)
        self.coordinator.topic_deleted(name, topic_id, now_ms)

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A transaction's marker was written to a partition of `__consumer_offsets`."""
        self.coordinator.transaction_ended(partition, producer_id, commit=commit)


class BrokerTopics:
    """The broker's topics as consumer groups see them (`consumer.topics.TopicView`)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def names(self) -> Iterator[str]:
        return (topic.name for topic in self._broker.topics)

    def id_of(self, name: str) -> bytes | None:
        topic = self._broker.topics.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._broker.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: bytes) -> int:
        topic = self._broker.topics.by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    @cached_property
    def _rack_of(self) -> dict[int, str]:
        return {node.node_id: node.rack for node in self._broker.nodes if node.rack is not None}

    def racks(self, topic_id: bytes) -> list[list[str]]:
        rack_of = self._rack_of
        topic = self._broker.topics.by_id(topic_id) if rack_of else None
        partitions = () if topic is None else topic.partitions
        return [[rack_of[node_id] for node_id in one.replicas if node_id in rack_of] for one in partitions]
