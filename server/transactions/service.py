"""Transaction coordination inside Trio; see `coordination.service`.

Only this file and `markers` know more of the broker than the package's own topic. One `TransactionService` serves all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..cluster.nodes import Node
from ..cluster.producer_ids import ProducerIds
from ..coordination.deps import CoordinatorDeps
from ..coordination.records import Producer
from ..coordination.service import CoordinatorService
from ..partitions.internal_topics import TRANSACTIONS_TOPIC
from .coordinator import TransactionCoordinator, check_id
from .markers import Markers
from .metadata import FIRST_VERSION_WITH_EPOCH_BUMP
from .settings import TransactionSettings
from .shard import TransactionShard

FEATURE = "transaction.version"


class TransactionService(CoordinatorService[TransactionCoordinator, TransactionShard]):
    """The transaction coordinator of a broker."""

    def __init__(self, deps: CoordinatorDeps, producer_ids: ProducerIds, markers: Markers) -> None:
        config = deps.config
        settings = TransactionSettings.from_config(config.current)
        super().__init__(
            deps,
            lambda store, on_earlier: TransactionCoordinator(
                settings,
                store,
                write_marker=markers.write_own,
                when_flushed=deps.appends.when_flushed,
                take_producer_id=producer_ids.take_now,
                transaction_version=partial(config.feature_level, FEATURE),
                elapsed_ms=deps.clock.elapsed_ms,
                on_earlier=on_earlier,
            ),
            topic=TRANSACTIONS_TOPIC,
            base_sequence=-1,
        )

    async def route(self, node: Node, key: str) -> TransactionShard:
        if not self.coordinator.shards:
            check_id(key)  # An empty id must not create the topic.
        return await super().route(node, key)

    def verify(
        self,
        shard: TransactionShard,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> dict[TopicPartition, KafkaError]:
        """Check that partitions are in a producer's open transaction before it writes to them (KIP-890).

        Any node may coordinate the transactional id, as all share this process.

        Args:
            add: Whether to add the partitions to the transaction, as from transaction version 2 on.

        Returns:
            The partitions that may not be written to, with the errors to answer: those of AddPartitionsToTxn, or
                TRANSACTION_ABORTABLE for a partition that is not in the transaction.
        """
        producer = Producer(producer_id, producer_epoch)
        try:
            if add:
                now_ms = self.deps.clock.now_ms()
                self.coordinator.add_partitions(
                    shard, transactional_id, producer, partitions, FIRST_VERSION_WITH_EPOCH_BUMP, now_ms
                )
                return {}
            missing = self.coordinator.verify_partitions(shard, transactional_id, producer, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        return {
            one: KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"{one} is not in the transaction of {transactional_id}")
            for one in missing
        }
