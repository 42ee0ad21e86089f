"""The batches of a Produce request that belong to a transaction, and their check by the transaction coordinator.

`verification` runs the check. This file knows Produce: its contents, how long it may wait, and the errors that its clients
understand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.messages.produce import ProduceRequest
from ...protocol.records import ATTRIBUTES_LOW_BYTE_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT, RecordBatch
from ...storage.disk.paths import TopicPartition
from ...storage.produce.record_checks import EarlyRefusalError
from ..config.broker_config import BrokerConfig
from ..coordination.records import Producer
from ..partitions.topics import Topics
from ..runtime.clock import Clock
from ..runtime.time_slices import TimeSlice
from .verification import NOT_NOW, TransactionSupport, Verification, transaction_support_of

if TYPE_CHECKING:
    from .service import TransactionService

# First versions that name topics by id, whose clients know TRANSACTION_ABORTABLE, and that add partitions.
_TOPIC_IDS_SINCE = 13
_ABORTABLE_SINCE = 11
_ADDING_SINCE = 12


class TransactionalWrites:
    """The transactional batches of one Produce request.

    Args:
        verification: Check of the batches; None if all of them are for topics that do not exist.
        nowhere: Partitions of topics that do not exist. If such a topic is created while the request waits, it must not get a
            batch that the coordinator does not know.
    """

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        verification: Verification | None,
        nowhere: Collection[TopicPartition] = (),
        *,
        waits: bool,
    ) -> None:
        self._clock = clock
        self._retry_ms = config.add_partitions_to_txn_retry_backoff_ms
        self._verification = verification
        self._nowhere = nowhere
        self._waits = waits
        self._until_ms = clock.elapsed_ms() + config.add_partitions_to_txn_retry_backoff_max_ms

    async def check(self, topic_partition: TopicPartition) -> None:
        """Return in the step of the event loop in which the batch for this partition may be appended.

        From version 12 on, a producer need not wait for the end of its last transaction before it writes in the next. The
        request waits a short time instead.

        Raises:
            EarlyRefusalError: The error for the client.
        """
        if topic_partition in self._nowhere:
            raise EarlyRefusalError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} did not exist when the request was received"
            )
        while self._verification is not None:
            try:
                return await self._verification.check(topic_partition)
            except EarlyRefusalError as error:
                is_waiting = self._waits and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                # With a frozen clock the client would get no answer.
                if not is_waiting or self._clock.is_frozen or self._clock.elapsed_ms() >= self._until_ms:
                    raise self._translated(error) from error
            await self._clock.sleep(self._retry_ms)

    def _translated(self, error: EarlyRefusalError) -> EarlyRefusalError:
        """Return the error in a form that clients of this version retry, or do not retry, as they should."""
        if error.code is ErrorCode.INVALID_TXN_STATE:
            return EarlyRefusalError(error.code, f"Partition was not added to the transaction: {error.message}")
        if error.code not in NOT_NOW or (self._waits and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
            return error
        return EarlyRefusalError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error}",
        )


async def transactional_writes(
    body: ProduceRequest,
    version: int,
    time_slice: TimeSlice,
    *,
    topics: Topics,
    clock: Clock,
    config: BrokerConfig,
    transactions: Callable[[], TransactionService],
    may_use: Callable[[str], bool] | None,
    unwritten: Collection[str | bytes],
) -> TransactionalWrites | None:
    """Return the transactional batches of a request; None if it has none.

    Args:
        transactions: Function that returns the coordinator, and creates it at the first call: most requests do not need it.
        may_use: Whether the client may write with a transactional id; None: every client may.
        unwritten: Names or ids of topics, as in the request, that the client may not write to. They are not added to the
            transaction.

    Raises:
        KafkaError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED (batches of a transaction, and no transactional id, or one that
            the client may not use),
            INVALID_PRODUCER_ID_MAPPING (batches of several producers).
    """
    found = []
    async for topic in time_slice.each(body.topic_data):
        async for data in time_slice.each(topic.partition_data):
            if (batch := _transactional_batch(data.records)) is not None:
                found.append((topic, data.index, batch))
    if not found:
        return None
    if body.transactional_id is None or not (may_use is None or may_use(body.transactional_id)):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    producers: set[Producer] = set()
    sequences: dict[TopicPartition, int] = {}
    nowhere: set[TopicPartition] = set()
    async for topic, index, batch in time_slice.each(found):
        known = topics.get(topic.name) if version < _TOPIC_IDS_SINCE else topics.by_id(topic.topic_id)
        if unwritten and (topic.name if version < _TOPIC_IDS_SINCE else topic.topic_id) in unwritten:
            continue
        # Batches for unknown topics, or without producer, need no check by the coordinator.
        if known is None:
            nowhere.add(TopicPartition(topic.name, index))
        elif not known.is_internal and batch.has_producer:
            producers.add(Producer(batch.producer_id, batch.producer_epoch))
            sequences[TopicPartition(known.name, index)] = batch.base_sequence
    if not producers:
        return TransactionalWrites(clock, config, None, nowhere, waits=False) if nowhere else None
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    transaction_support = transaction_support_of(version, abortable_since=_ABORTABLE_SINCE, adding_since=_ADDING_SINCE)
    verification = Verification(transactions(), body.transactional_id, producers.pop(), transaction_support, sequences)
    return TransactionalWrites(
        clock, config, verification, nowhere, waits=transaction_support is TransactionSupport.ADDING
    )


def is_one_plain_batch(body: ProduceRequest) -> bool:
    """Whether a request has the common form: one partition, and records without transaction. The coordinator need not be asked
    about it."""
    topics = body.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return False
    records = topics[0].partition_data[0].records
    return (
        not isinstance(records, memoryview)
        or len(records) < HEADER_BYTES
        or not records[ATTRIBUTES_LOW_BYTE_POSITION] & TRANSACTIONAL_BIT  # this byte decides nearly always
        or _transactional_batch(records) is None
    )


def _transactional_batch(records: object) -> RecordBatch | None:
    """Return the header of the first batch in `records` if it belongs to a transaction. The log reports invalid batches."""
    if not isinstance(records, memoryview) or len(records) < HEADER_BYTES:
        return None
    if not records[ATTRIBUTES_LOW_BYTE_POSITION] & TRANSACTIONAL_BIT:
        return None  # Nearly every batch: this byte decides.
    try:
        batch = RecordBatch(records)
    except CorruptRecordError:
        return None
    return batch
