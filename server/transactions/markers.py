"""Writing of the markers that end transactions, into the partitions that the transactions wrote to.

The transaction coordinator calls it for its own transactions, and the WriteTxnMarkers handler for administrators. All nodes
share one process, so a marker is written at once, whichever node leads the partition.
"""

from __future__ import annotations

import logging
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ...storage.produce.txn_markers import build_marker
from ..partitions.appends import Appends
from ..partitions.internal_topics import OFFSETS_TOPIC, TAKE_NO_TRANSACTIONS
from ..partitions.topics import Topics

log = logging.getLogger("ottla.transactions")

SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors of a partition that has a later epoch of the producer or coordinator; they are permanent."""


class OffsetStore(Protocol):
    """Store of the offsets that transactions commit: the group coordinator."""

    def transaction_ended(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction's marker that was written to a partition of `__consumer_offsets`."""


class Markers:
    """Writer of markers in the partitions of one broker."""

    def __init__(self, topics: Topics, appends: Appends, offsets: OffsetStore) -> None:
        self._topics = topics
        self._appends = appends
        self._offsets = offsets

    def write_own(
        self,
        topic_partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None:
        """Run `write` for a transaction of this coordinator. A superseded marker counts as written if the producer has no open
        transaction in the partition: otherwise the transactional id would wait for ever."""
        try:
            self.write(
                topic_partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                commit=commit,
                transaction_version=transaction_version,
            )
        except KafkaError as error:
            if error.code not in SUPERSEDED:
                raise
            state = self._topics.partition(*topic_partition).log.producers.get(producer_id)
            if state is None or state.current_txn_first_offset is not None:
                raise
            log.warning(
                "%s: producer %d has no open transaction, marker skipped: %s", topic_partition, producer_id, error
            )

    def write(
        self,
        topic_partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None:
        """End the producer's transaction in one partition. The marker is written even if no transaction is open.

        Readers of committed records that wait for the partition are woken. In `__consumer_offsets` the transaction's offsets
        become the groups' positions, or are dropped.

        Args:
            producer_epoch: Epoch of the producer; under transaction version 2 the epoch after the transaction's own (KIP-890).
            coordinator_epoch: Leader epoch of the partition of `__transaction_state` whose leader decided.

        Raises:
            KafkaError: Nothing was written. UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION: an internal topic that takes
                no transactions, whose next load would read the marker; NOT_LEADER_OR_FOLLOWER (no live node leads it),
                NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR: the caller may retry. INVALID_PRODUCER_EPOCH,
                TRANSACTION_COORDINATOR_FENCED: another coordinator, or a later epoch of the producer, has written before.
        """
        if topic_partition.topic in TAKE_NO_TRANSACTIONS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition} does not support transactions")
        marker = build_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            now_ms=self._appends.clock.now_ms(),
        )
        self._appends.append_own(topic_partition, marker, transaction_version=transaction_version)
        if topic_partition.topic == OFFSETS_TOPIC:
            self._offsets.transaction_ended(topic_partition.partition, producer_id, commit=commit)
