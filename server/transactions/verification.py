"""Check whether a partition may accept a batch of a transaction: the transaction coordinator is asked before the first batch.

Without the check, a batch that arrives after its transaction was aborted would open a transaction without end, which would
block all readers of committed records. Check and append must run in one step of the event loop, so that no marker can come
between. Once a batch of the transaction is in the partition, the partition's producer state is checked instead.

    ability    its requests                          the coordinator         TRANSACTION_ABORTABLE becomes
    OLD        Produce to 10, TxnOffsetCommit to 3   checks                  INVALID_TXN_STATE
    ABORTABLE  Produce 11, TxnOffsetCommit 4         checks                  what it is
    ADDING     Produce 12, TxnOffsetCommit 5         adds the partition      what it is

Source: KIP-890, parts 1 (checking) and 2 (adding).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ...storage.produce.record_checks import EarlyRefusalError
from ..coordination.records import Producer

if TYPE_CHECKING:
    from .service import TransactionService
    from .shard import TransactionShard

# Number of partitions of a request that are added to its transaction in one step: 2 us each.
ASKED_AT_ONCE = 1_000

NOT_NOW = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the coordinator after which the same batch may be accepted later."""


class TransactionSupport(Enum):
    """Abilities of a client, as the version of its request shows; see the module."""

    OLD = "old"
    ABORTABLE = "abortable"
    ADDING = "adding"


def transaction_support_of(version: int, *, abortable_since: int, adding_since: int) -> TransactionSupport:
    """Return the ability that a request's version shows, given the first versions with the two newer abilities."""
    if version >= adding_since:
        return TransactionSupport.ADDING
    return TransactionSupport.ABORTABLE if version >= abortable_since else TransactionSupport.OLD


class Verification:
    """The transactional batches of one request: one producer, one batch for each partition.

    Args:
        sequences: Base sequences of the batches. Other partitions have plain batches, or none.
    """

    def __init__(
        self,
        transactions: TransactionService,
        transactional_id: str,
        producer: Producer,
        transaction_support: TransactionSupport,
        sequences: Mapping[TopicPartition, int],
    ) -> None:
        self._transactions = transactions
        self._deps = transactions.deps
        self._transactional_id = transactional_id
        self._producer = producer
        self._transaction_support = transaction_support
        self._sequences = sequences
        self._unasked = iter(sequences)
        self._asked: set[TopicPartition] = set()
        """Partitions that were taken from `_unasked`."""
        self._shard: TransactionShard | None = None
        """Shard of the transactional id at the last request to the coordinator."""
        self._told_up_to: int | None = None
        """End of the coordinator's log when it was first asked, or last wrote a record; None: it was not asked."""

    async def check(self, topic_partition: TopicPartition) -> None:
        """Return in a step of the event loop in which the request's batch for this partition may be appended.

        The coordinator's records are on disk then, as `flush.messages` of `__transaction_state` requires: data of a transaction
        that the coordinator does not know would block readers for ever. Errors as for `check_now`.
        """
        while True:
            self.check_now(topic_partition)
            if self._told_up_to is None:
                return
            assert self._shard is not None
            if self._transactions.is_flushed(self._shard, self._told_up_to):
                return
            try:
                await self._transactions.settle(self._shard)
            except KafkaError as error:
                raise self._translate(error) from error

    def check_now(self, topic_partition: TopicPartition) -> None:
        """Return if the request's batch for this partition may be appended in this same step.

        Raises:
            EarlyRefusalError: INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_ABORTABLE (for old clients
                INVALID_TXN_STATE), or one of NOT_NOW. Until the batch is written, no later batch of its producer is.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        adds = self._transaction_support is TransactionSupport.ADDING
        if topic_partition not in self._sequences:
            return
        if not adds and not self._deps.config.current.transaction_partition_verification_enable:
            return
        if not self._begin(topic_partition):
            return
        try:
            if error := self._ask(topic_partition, add=adds).get(topic_partition):
                raise error
        except KafkaError as error:
            # The error must not reference a frame that references it: all of a large request would be left to the garbage
            # collector.
            raise self._refused(topic_partition, error) from error

    def _refused(self, topic_partition: TopicPartition, error: KafkaError) -> EarlyRefusalError:
        translated = self._translate(error)
        if translated.code not in NOT_NOW:
            producers = self._deps.topics.partition(*topic_partition).log.producers
            producers.end_verification(self._producer.producer_id)
        return translated

    def _begin(self, topic_partition: TopicPartition) -> bool:
        """Return whether the coordinator must be asked about the partition."""
        log = self._deps.topics.partition(*topic_partition).log
        try:
            return log.producers.begin_verification(
                *self._producer,
                self._sequences[topic_partition],
                bumps_epoch=self._transaction_support is TransactionSupport.ADDING,
                elapsed_ms=self._deps.clock.elapsed_ms(),
            )
        except KafkaError as error:
            raise EarlyRefusalError(error.code, error.message) from error

    def _ask(self, topic_partition: TopicPartition, *, add: bool) -> dict[TopicPartition, KafkaError]:
        """Ask the coordinator about a partition. Partitions are added together with the next ones of the request, so the
        coordinator's log gets one record for all, not one for each."""
        asked = [topic_partition]
        if add and topic_partition not in self._asked:
            some = tuple(islice(self._unasked, ASKED_AT_ONCE))
            self._asked.update(some)
            asked += [other for other in some if other != topic_partition and self._is_wanted(other)]
        transactions, transactional_id = self._transactions, self._transactional_id
        shard = self._shard = transactions.coordinator.shard_for(transactional_id)
        before = transactions.end_offset(shard)
        answer = transactions.verify(shard, transactional_id, *self._producer, asked, add=add)
        after = transactions.end_offset(shard)
        if self._told_up_to is None or after != before:
            self._told_up_to = after
        return answer

    def _is_wanted(self, topic_partition: TopicPartition) -> bool:
        try:
            return self._begin(topic_partition)
        except KafkaError:
            return False  # The error is raised when this partition is checked.

    def _translate(self, error: KafkaError) -> EarlyRefusalError:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH  # the code that producers expect in these answers
        elif code is ErrorCode.TRANSACTION_ABORTABLE and self._transaction_support is TransactionSupport.OLD:
            code = ErrorCode.INVALID_TXN_STATE
        return EarlyRefusalError(code, error.message)
