"""Group records in the real topic: `RecordStore` over the broker's logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.batch_builder import build_batch
from ...protocol.errors import ErrorCode, KafkaError
from ...storage.files import FileSlice
from ...storage.paths import TopicPartition
from ..internal_topics import OFFSETS_TOPIC
from .records import Pair

if TYPE_CHECKING:
    from ..broker import Broker

# One read while loading, and so the most that one step of replay works on.
LOAD_BYTES = 1 << 20

# What a group's client is told when the append to the offsets partition fails; all other codes pass as they are.
APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class LogStore:
    """`__consumer_offsets` of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def append(self, partition: int, records: Sequence[Pair], now_ms: int) -> int:
        rows = ((at, now_ms, key, value, ()) for at, (key, value) in enumerate(records))
        # Apache Kafka's coordinator numbers each batch from 0 too, though it is no idempotent producer.
        batch = build_batch(rows, base_sequence=0)
        try:
            return self._broker.append_internal(TopicPartition(OFFSETS_TOPIC, partition), batch).base_offset
        except KafkaError as error:
            raise KafkaError(APPEND_ERRORS.get(error.code, error.code), error.message) from error

    def start_offset(self, partition: int) -> int:
        return self._broker.topics.partition(OFFSETS_TOPIC, partition).log.log_start_offset

    def read(self, partition: int, offset: int) -> FileSlice:
        log = self._broker.topics.partition(OFFSETS_TOPIC, partition).log
        return log.read(offset, max_bytes=LOAD_BYTES, up_to=log.high_watermark)
