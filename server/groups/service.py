"""Group coordination inside Trio; see `coordination.service`.

Only this file of the package knows more of the broker than its own topic. One `GroupService` serves all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import inf

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ..cluster.nodes import Node
from ..coordination.deps import CoordinatorDeps
from ..coordination.holds import TICK_MS
from ..coordination.service import CoordinatorService
from ..partitions.internal_topics import OFFSETS_TOPIC
from ..partitions.topics import Topics
from ..runtime.deferrals import Deferrals
from .coordinator import GroupCoordinator
from .settings import GroupSettings, group_defaults
from .shard import GroupShard
from .share.flows import ShareFlows
from .share.protocol import StatesToInitialize
from .share.states import Persister


class GroupService(CoordinatorService[GroupCoordinator, GroupShard]):
    """The group coordinator of a broker.

    Args:
        persister: Function that returns the persister of share states.
    """

    def __init__(self, deps: CoordinatorDeps, persister: Callable[[], Persister]) -> None:
        self._settings = settings = GroupSettings.from_config(deps.config.current)
        settings.groups = deps.config.groups
        self._states_to_initialize, self._states_todo = trio.open_memory_channel[StatesToInitialize](inf)
        super().__init__(
            deps,
            lambda store, on_earlier: GroupCoordinator(
                settings,
                store,
                topics=BrokerTopics(deps.topics, deps.nodes),
                elapsed_ms=deps.clock.elapsed_ms,
                on_earlier=on_earlier,
                request_states=self._states_to_initialize.send_nowait,
            ),
            topic=OFFSETS_TOPIC,
            # Apache Kafka's group coordinator numbers each batch from 0, although it is not an idempotent producer.
            base_sequence=0,
        )
        self.held = Deferrals(TICK_MS) if settings.ottla_hold_heartbeats else None
        """Responses to heartbeats that are held; None if none are."""
        self.shares = ShareFlows(self.coordinator, persister, deps.clock.now_ms)
        deps.config.watchers.append(self.reconfigure)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the service, see `CoordinatorService.run`, end held responses, and initialize the states that share groups
        request, each request in its own task."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._grant)
            if self.held is not None:
                nursery.start_soon(self.held.run)
            await super().run(task_status)

    async def _grant(self) -> None:
        async with trio.open_nursery() as nursery:
            async for states in self._states_todo:
                nursery.start_soon(self.shares.initialize, states)

    def reconfigure(self) -> None:
        """Apply the broker options that may change while the broker runs."""
        self._settings.defaults = group_defaults(self.deps.config.current)

    def check_consumer_protocol(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if consumer groups are not served."""
        if self.deps.config.feature_level("group.version") < 1:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the feature group.version is 0")
        if "consumer" not in self.deps.config.current.group_coordinator_rebalance_protocols:
            message = 'group.coordinator.rebalance.protocols does not contain "consumer"'
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)

    def check_streams_protocol(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if streams groups are not served."""
        if self.deps.config.feature_level("streams.version") < 1:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the feature streams.version is 0")
        if "streams" not in self.deps.config.current.group_coordinator_rebalance_protocols:
            message = 'group.coordinator.rebalance.protocols does not contain "streams"'
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)

    @property
    def keeps_topology_descriptions(self) -> bool:
        """See `GroupSettings`."""
        return self._settings.keeps_topology_descriptions

    def topic_created(self, name: str) -> None:
        self.coordinator.topics_changed([name], self.deps.clock.now_ms(), has_new=True)

    def topic_grew(self, name: str) -> None:
        """Notify the groups of a topic that got more partitions."""
        self.coordinator.topics_changed([name], self.deps.clock.now_ms(), has_new=False)

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """Forget the offsets in a deleted topic, and notify the groups."""
        now_ms = self.deps.clock.now_ms()
        self.coordinator.topics_changed([name], now_ms, has_new=False)
        self.coordinator.topic_deleted(name, topic_id, now_ms)

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction's marker that was written to a partition of `__consumer_offsets`."""
        self.coordinator.transaction_ended(partition, producer_id, commit=commit)


class BrokerTopics:
    """The broker's topics, as consumer groups see them (`assigning.topics.TopicView`)."""

    def __init__(self, topics: Topics, nodes: Sequence[Node]) -> None:
        self._topics = topics
        self._nodes = nodes

    def names(self) -> Iterator[str]:
        return (topic.name for topic in self._topics)

    def id_of(self, name: str) -> bytes | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: bytes) -> int:
        topic = self._topics.by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    @cached_property
    def _rack_of(self) -> dict[int, str]:
        return {node.node_id: node.rack for node in self._nodes if node.rack is not None}

    def racks(self, topic_id: bytes) -> list[list[str]]:
        rack_of = self._rack_of
        topic = self._topics.by_id(topic_id) if rack_of else None
        partitions = () if topic is None else topic.partitions
        return [[rack_of[node_id] for node_id in one.replicas if node_id in rack_of] for one in partitions]
