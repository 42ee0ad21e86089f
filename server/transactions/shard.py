"""All transactional ids of one partition of `__transaction_state`, and their loading."""

from __future__ import annotations

import logging

from ...protocol.records import Record, RecordBatch
from ..coordination.jobs import Job
from ..coordination.shard import Shard
from ..partitions.internal_topics import TRANSACTIONS_TOPIC
from .metadata import CLOSED, TransactionMetadata, TransactionState
from .records import read_record

log = logging.getLogger("ottla.transactions")


class TransactionShard(Shard):
    """The transactional ids of one partition."""

    topic = TRANSACTIONS_TOPIC

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.coordinator_epoch = 0
        """Epoch of the partition's leader, which markers contain; known once the shard is ACTIVE."""
        self.transactions: dict[str, TransactionMetadata] = {}
        self.open: dict[str, None] = {}
        """Ids whose transaction is not closed, oldest first. Only these have time-outs or need markers."""
        self.time_outs: dict[str, int] = {}
        """Id of a transaction that is not decided -> elapsed time at which it times out. `completer` keeps the table."""
        self.waiting: set[str] = set()
        """Ids of decided transactions whose next step waits for a flush of the decision or of markers."""

    def drop(self) -> Job:
        for table in (self.transactions, self.open, self.time_outs):
            while table:
                table.popitem()
                yield

    def put(self, metadata: TransactionMetadata) -> None:
        """Store the metadata that the log has now."""
        transactional_id = metadata.transactional_id
        self.transactions[transactional_id] = metadata
        if metadata.state is not TransactionState.ONGOING:
            self.time_outs.pop(transactional_id, None)
        if metadata.state in CLOSED:
            self.open.pop(transactional_id, None)
        else:
            self.open[transactional_id] = None

    def remove(self, transactional_id: str) -> None:
        """Forget a transactional id, if it is known."""
        self.transactions.pop(transactional_id, None)
        self.open.pop(transactional_id, None)
        self.time_outs.pop(transactional_id, None)

    def _replay_batch(self, batch: RecordBatch) -> None:
        if batch.is_control:
            # No transaction writes to this topic, but earlier versions of this broker let a client write a marker to it.
            log.warning(
                "%s-%d: ignored an unexpected marker at offset %d", self.topic, self.partition, batch.base_offset
            )
            return
        for record in self._records_of(batch):
            self._apply_or_pass(record, self._apply)

    def _apply(self, record: Record) -> None:
        found = read_record(record.key, record.value)
        if found is None:
            log.warning("%s-%d: unknown record type at offset %d", self.topic, self.partition, record.offset)
        elif found.metadata is None:
            self.remove(found.transactional_id)
        else:
            self.put(found.metadata)
