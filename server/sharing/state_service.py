"""The share coordinator inside Trio; see `coordination.service`. One service serves all nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...protocol.errors import KafkaError
from ..coordination.deps import CoordinatorDeps
from ..coordination.service import CoordinatorService
from ..partitions.internal_topics import SHARE_STATE_TOPIC
from .share_records import SharePartitionKey
from .share_states import ShareState, ShareStateShard, WrittenState
from .state_coordinator import ShareStateCoordinator, ShareStateSettings

log = logging.getLogger("ottla.sharing")


class ShareStateService(CoordinatorService[ShareStateCoordinator, ShareStateShard]):
    """The share coordinator of a broker, for the leaders of share partitions and the group coordinator.

    Both are in the same process, whichever node they act for: they need no connection to the node that coordinates a key. The
    results are applied when a method returns, and on disk, as `flush.messages` requires, after `settle`.

    Args:
        on_replaced: See `ShareStateCoordinator`.
    """

    def __init__(self, deps: CoordinatorDeps, on_replaced: Callable[[SharePartitionKey], None]) -> None:
        settings = ShareStateSettings.from_config(deps.config.current)
        super().__init__(
            deps,
            lambda store, on_earlier: ShareStateCoordinator(
                settings,
                store,
                exists=self._exists,
                prune=self._prune,
                when_flushed=deps.appends.when_flushed,
                on_replaced=on_replaced,
                elapsed_ms=deps.clock.elapsed_ms,
                on_earlier=on_earlier,
            ),
            topic=SHARE_STATE_TOPIC,
            base_sequence=-1,
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """Read a state as `ShareStateCoordinator.read`; the returned state is on disk."""
        if not self.coordinator.shards:
            await self.ensure_topic()
        found = self.coordinator.read(key, leader_epoch, self.deps.clock.now_ms())
        await self.settle(self.coordinator.shard_for(key.text))
        return found

    def write(self, key: SharePartitionKey, written: WrittenState) -> None:
        """Write as `ShareStateCoordinator.write`, in this same step; `settled` waits for the disk."""
        self.coordinator.write(key, written, self.deps.clock.now_ms())

    async def settled(self, key: SharePartitionKey) -> None:
        """Return once the written state of `key` is on disk. Raises KafkaError as `settle`."""
        await self.settle(self.coordinator.shard_for(key.text))

    def topic_deleted(self, topic_id: bytes) -> None:
        """Forget the share partitions of a deleted topic."""
        self.coordinator.topic_deleted(topic_id, self.deps.clock.now_ms())

    def _exists(self, topic_id: bytes, partition: int) -> bool:
        topic = self.deps.topics.by_id(topic_id)
        return topic is not None and partition < len(topic.partitions)

    def _prune(self, partition: int, offset: int) -> None:
        """Advance the log start. Retention deletes the segments before it, and the next checkpoint writes it: before that a
        start reads some more records."""
        try:
            self.deps.topics.partition(SHARE_STATE_TOPIC, partition).log.advance_log_start(offset)
        except KafkaError as error:
            log.warning("cannot prune %s-%d yet: %s", SHARE_STATE_TOPIC, partition, error)
