"""A coordinator's records in its topic: `RecordStore` over the broker's logs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.files import FileSlice
from ...storage.disk.paths import TopicPartition
from ..partitions.appends import Appends
from ..partitions.topics import Topics
from .records import Pair, Producer, Records

logger = logging.getLogger("ottla.coordination")

# Size of one read while loading, and so the maximum that one step of replay handles.
LOAD_BYTES = 1 << 20

# Error of an append -> error for the coordinator's client; all other codes pass unchanged.
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


def as_client_error(error: KafkaError) -> KafkaError:
    """Return the log's error in the form for the coordinator's client."""
    return KafkaError(APPEND_ERRORS.get(error.code, error.code), error.message)


class LogStore:
    """Store of records in a topic of a broker.

    Args:
        base_sequence: First sequence number of each batch, -1 for none. The numbers are not used, but a topic must have the
            same bytes as with Apache Kafka.
    """

    def __init__(self, topics: Topics, appends: Appends, topic: str, *, base_sequence: int) -> None:
        self._topics = topics
        self._appends = appends
        self._topic = topic
        self._base_sequence = base_sequence

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        try:
            made = records if isinstance(records, Records) else Records(records)
            batch = made.sealed(now_ms, producer, self._base_sequence)
            return self._appends.append_own(TopicPartition(self._topic, partition), batch).base_offset
        except KafkaError as error:
            raise as_client_error(error) from error
        except Exception as error:
            # The caller must undo its changes, whatever the reason of the failure.
            logger.exception("cannot append to %s-%d", self._topic, partition)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"append failed: {error!r}") from error

    async def settle(self, partition: int) -> None:
        """Return once the partition is on disk as `flush.messages` requires. Raises KafkaError as `append`."""
        log = self._topics.partition(self._topic, partition).log
        if log.needs_flush:
            try:
                await self._appends.flusher.flush([log])
            except KafkaError as error:
                raise as_client_error(error) from error

    def end_offset(self, partition: int) -> int:
        """Return the end of the log, flushed or not."""
        return self._topics.partition(self._topic, partition).log.log_end_offset

    def is_flushed(self, partition: int, up_to: int | None = None) -> bool:
        """Whether everything, or all below `up_to`, is on disk as `flush.messages` requires."""
        log = self._topics.partition(self._topic, partition).log
        return not log.needs_flush or (up_to is not None and log.recovery_point >= up_to)

    def max_batch_bytes(self, partition: int) -> int:
        return self._topics.partition(self._topic, partition).log.config.max_message_bytes

    def leader_epoch(self, partition: int) -> int:
        return self._topics.partition(self._topic, partition).leader_epoch

    def start_offset(self, partition: int) -> int:
        return self._topics.partition(self._topic, partition).log.log_start_offset

    def read(self, partition: int, offset: int) -> FileSlice:
        log = self._topics.partition(self._topic, partition).log
        # Not up to the high watermark: records that are being flushed have been applied also, and no answer contains them
        # before.
        return log.read(offset, max_bytes=LOAD_BYTES, up_to=log.log_end_offset)
