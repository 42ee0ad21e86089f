"""Keys and values of `__transaction_state`, in Apache Kafka's format.

    key    type i16 (0), transactional id
    value  schema version i16 (0; 1 from transaction version 1 on), metadata

A null value deletes the transactional id. Other types of key and later versions of the value are skipped, as they may
be left over from a newer broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ...protocol.wire import codec
from ...storage.disk.paths import TopicPartition
from ..coordination.records import read_message, read_number, write_blob
from .metadata import FOLLOWS, TransactionMetadata, TransactionState

_KEY_TYPE = 0
_KEY = codec(TransactionLogKey, 0, False)
_VALUES = (codec(TransactionLogValue, 0, False), codec(TransactionLogValue, 1, True))
"""By schema version."""
_FIRST_TAGGED_VERSION = 1


def transaction_key(transactional_id: str) -> bytes:
    return write_blob(_KEY_TYPE, _KEY, TransactionLogKey(transactional_id=transactional_id))


def transaction_value(metadata: TransactionMetadata, transaction_version: int) -> bytes:
    """The value that stands for `metadata` in a cluster of this transaction version."""
    is_empty = metadata.state is TransactionState.EMPTY
    version = min(transaction_version, _FIRST_TAGGED_VERSION)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if is_empty else tuple(partitions_by_topic(metadata.partitions)),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return write_blob(version, _VALUES[version], value)


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """The partitions, sorted, one element a topic."""
    # A transaction may have thousands, written down with each that is added; to sort pairs takes four times as long.
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic)]


class TransactionRecord(NamedTuple):
    """What one record says; no metadata when it deletes the transactional id."""

    transactional_id: str
    metadata: TransactionMetadata | None


def read_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """What one record says; None for a type or version that this broker does not know.

    Raises:
        ProtocolError: Key or value are not of their format.
    """
    if key is None:
        raise ProtocolError("record without a key")
    if read_number(key) != _KEY_TYPE:
        return None
    transactional_id = read_message(_KEY, key).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    version = read_number(value)
    if not 0 <= version < len(_VALUES):
        return None
    return TransactionRecord(transactional_id, _metadata(transactional_id, read_message(_VALUES[version], value)))


def _metadata(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    if value.transaction_status not in FOLLOWS:
        raise ProtocolError(f"invalid persisted transaction state {value.transaction_status}")
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(one.topic, partition)
            for one in value.transaction_partitions or ()
            for partition in one.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
