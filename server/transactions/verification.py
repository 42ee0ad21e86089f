"""Whether a partition may take a batch of a transaction: asked of the transaction coordinator before the first one.

Without the question, a batch that arrives after its transaction was aborted would open one that nobody ends, and hold
back all readers of committed records. Answer and append belong into one turn of the event loop, so that no marker can
come between. Once a batch of the transaction is in the partition, its producer state answers.

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

# Partitions of a request that are added to its transaction in one turn: 2 us each.
ASKED_AT_ONCE = 1_000

NOT_NOW = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Answers of the coordinator after which the same batch may be taken later."""


class Ability(Enum):
    """What the version of a request tells of its client; see the module."""

    OLD = "old"
    ABORTABLE = "abortable"
    ADDING = "adding"


def ability_of(version: int, *, abortable_since: int, adding_since: int) -> Ability:
    """What a request's version tells, from the first versions with the two newer abilities."""
    if version >= adding_since:
        return Ability.ADDING
    return Ability.ABORTABLE if version >= abortable_since else Ability.OLD


class Verification:
    """The transactional batches of one request: one producer, one batch for each partition.

    Args:
        sequences: The batches' base sequences. Other partitions have plain batches, or none.
    """

    def __init__(
        self,
        transactions: TransactionService,
        transactional_id: str,
        producer: Producer,
        ability: Ability,
        sequences: Mapping[TopicPartition, int],
    ) -> None:
        self._transactions = transactions
        self._ground = transactions.ground
        self._transactional_id = transactional_id
        self._producer = producer
        self._ability = ability
        self._sequences = sequences
        self._unasked = iter(sequences)
        self._asked: set[TopicPartition] = set()
        """What has been taken of them."""
        self._shard: TransactionShard | None = None
        """Which knows the transactional id, as it was asked last."""
        self._told_up_to: int | None = None
        """Where the coordinator's log ended when it was first asked, or last wrote something down; None: not asked."""

    async def check(self, topic_partition: TopicPartition) -> None:
        """Return in a turn of the event loop in which what the request has for this partition may be appended.

        The coordinator's word is on disk by then, where `flush.messages` of `__transaction_state` asks for it: records of
        a transaction that nobody knows of would hold back readers for ever. Errors as for `check_now`.
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
        """Return if what the request has for this partition may be appended, in this very turn.

        Raises:
            EarlyRefusalError: INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_ABORTABLE (to old clients
                INVALID_TXN_STATE), or one of NOT_NOW: until the batch is written, no later one of its producer is.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        adds = self._ability is Ability.ADDING
        if topic_partition not in self._sequences:
            return
        if not adds and not self._ground.config.current.transaction_partition_verification_enable:
            return
        if not self._begin(topic_partition):
            return
        try:
            if error := self._ask(topic_partition, add=adds).get(topic_partition):
                raise error
        except KafkaError as error:
            # An error that a frame keeps which it names would leave all of a large request to the collector.
            raise self._refused(topic_partition, error) from error

    def _refused(self, topic_partition: TopicPartition, error: KafkaError) -> EarlyRefusalError:
        translated = self._translate(error)
        if translated.code not in NOT_NOW:
            producers = self._ground.topics.partition(*topic_partition).log.producers
            producers.end_verification(self._producer.producer_id)
        return translated

    def _begin(self, topic_partition: TopicPartition) -> bool:
        """Whether the coordinator must be asked about the partition."""
        log = self._ground.topics.partition(*topic_partition).log
        try:
            return log.producers.begin_verification(
                *self._producer,
                self._sequences[topic_partition],
                bumps_epoch=self._ability is Ability.ADDING,
                elapsed_ms=self._ground.clock.elapsed_ms(),
            )
        except KafkaError as error:
            raise EarlyRefusalError(error.code, error.message) from error

    def _ask(self, topic_partition: TopicPartition, *, add: bool) -> dict[TopicPartition, KafkaError]:
        """Partitions are added together with those that follow in the request: one record in the coordinator's log, not one
        each."""
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
            return False  # It is told when its turn comes.

    def _translate(self, error: KafkaError) -> EarlyRefusalError:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH  # the word for it that producers expect in these answers
        elif code is ErrorCode.TRANSACTION_ABORTABLE and self._ability is Ability.OLD:
            code = ErrorCode.INVALID_TXN_STATE
        return EarlyRefusalError(code, error.message)
