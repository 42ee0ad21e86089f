"""What a leader checks before it appends, and the fields it fills in: Apache Kafka's rules for magic 2.

The log calls `validate_and_assign` for every append. Where nothing forces it, no record is looked at: the checks are
those of the batch header, and base offset and leader epoch are patched in place, outside the CRC. Records are
walked for

    compacted topics                  each record must have a key
    message.timestamp.before.max.ms   set: each timestamp is compared
    message.timestamp.after.max.ms    the header's max timestamp is beyond it: the records that are, are named
    compression.type                  other than the batch's codec: unpacked and packed again

Apache Kafka walks the records of every batch. What is not noticed here therefore: where no record is looked at, a
records block that does not hold what its header announces; elsewhere, damage behind a record's key; everywhere, a max
timestamp smaller than the records', and offset deltas that are not 0, 1, 2, ….

Codes: CORRUPT_MESSAGE makes producers send the same again, so it is for damage on the way (CRC, framing) alone. What a
producer really meant to send and nobody can read is INVALID_RECORD, which they give up on.
"""

import struct
from enum import Enum
from typing import NamedTuple, Protocol

from ..protocol.batch_builder import assign_in_place, seal_batch, set_timestamp_type_in_place
from ..protocol.compression import CODEC_NAMES, Codec, DecompressedTooLargeError
from ..protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ..protocol.records import CODEC_MASK, LOG_OVERHEAD_BYTES, MAGIC, NO_TIMESTAMP, RecordBatch, null_key_indexes

NO_KEY = "Compacted topic cannot accept message without key"
"""How the error of a record begins that was refused for that."""

RECORD_ERRORS_MAX = 10_000
"""Records named in one refusal. A megabyte of the smallest records holds ten times as many."""

LOG_APPEND_TIME = "LogAppendTime"
_UNBOUNDED_MS = 2**63 - 1
_LEGACY_OVERHEAD_BYTES = 14
"""The length of the smallest record of magic 0, below which a length cannot be one."""
_LENGTH = struct.Struct(">8xi")
_MAGIC_POSITION = 16


class AppendOrigin(Enum):
    """Who appends, and therefore how much is checked."""

    CLIENT = "client"
    """A producer: control batches, base offsets other than 0 and gaps in sequence numbers are refused."""
    COORDINATOR = "coordinator"
    """The broker's own group and transaction coordinators: markers, and batches without sequence numbers."""


class ValidationConfig(Protocol):
    """The topic options that count here; a `LogConfig` has them."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def is_compact(self) -> bool: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...


class RecordError(NamedTuple):
    """One refused record of a produce request, as the response names it."""

    batch_index: int
    """The record's place in its batch, from 0."""
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class InvalidRecordError(KafkaError):
    """A batch refused for some of its records: INVALID_RECORD or INVALID_TIMESTAMP.

    The only refusal whose message Apache Kafka sends to the client.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[type["InvalidRecordError"], tuple[ErrorCode, str, tuple[RecordError, ...]]]:
        return (type(self), (self.code, self.message, self.record_errors))


class ValidatedBatches(NamedTuple):
    """What is ready to be written."""

    records: memoryview
    """The bytes: those handed in, patched, or new ones."""
    batches: tuple[RecordBatch, ...]
    """The headers in these bytes. There is one: Apache Kafka appends no more at once."""
    log_append_time_ms: int
    """The timestamp given to every record, -1 under CreateTime."""

    @property
    def base_offset(self) -> int:
        return self.batches[0].base_offset

    @property
    def last_offset(self) -> int:
        return self.batches[0].last_offset

    @property
    def max_timestamp(self) -> int:
        return self.batches[0].max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The offset that index entries name for the max timestamp: the batch's last, as recovery would find it."""
        return self.batches[0].last_offset


def validate_and_assign(
    data: bytes | bytearray | memoryview,
    *,
    topic_partition: object,
    config: ValidationConfig,
    next_offset: int,
    now_ms: int,
    leader_epoch: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidatedBatches:
    """Check what a producer sent for one partition, and give it offsets from `next_offset` on.

    Args:
        data: Exactly one batch; a cut-off second one behind it is ignored, as by Apache Kafka. Patched in place if it
            is writable, copied otherwise.
        topic_partition: For messages.

    Raises:
        InvalidRecordError: INVALID_RECORD (no key on a compacted topic), INVALID_TIMESTAMP; it names the records.
        KafkaError: INVALID_RECORD (no batch or several, magic 0 or 1, a control batch, inconsistent counts, a producer
            without sequence number, records that cannot be read), MESSAGE_TOO_LARGE (over max.message.bytes, before or
            after recompression; or unpacked, over what any batch may be), CORRUPT_MESSAGE (CRC, framing),
            UNSUPPORTED_COMPRESSION_TYPE. Nothing was patched.
    """
    view = memoryview(data)
    if view.readonly:
        view = memoryview(bytearray(view))
    batch = _only_batch(view, topic_partition)
    _check_header(batch, topic_partition, config, origin)
    codec = _target_codec(batch, config)
    payload, max_timestamp = _check_records(batch, topic_partition, config, now_ms, needs_payload=codec != batch.codec)
    if payload is not None and codec != batch.codec:
        batch = _recompressed(batch, payload, codec, topic_partition, config)
    stamps = config.message_timestamp_type == LOG_APPEND_TIME
    if stamps or batch.is_log_append_time or batch.max_timestamp != max_timestamp:
        set_timestamp_type_in_place(
            batch.view, log_append_time=stamps, max_timestamp=now_ms if stamps else max_timestamp
        )
        batch = RecordBatch(batch.view)
    assign_in_place(batch.view, next_offset, leader_epoch)
    batch.base_offset = next_offset
    batch.partition_leader_epoch = leader_epoch
    return ValidatedBatches(batch.view, (batch,), now_ms if stamps else NO_TIMESTAMP)


def _only_batch(view: memoryview, topic_partition: object) -> RecordBatch:
    """The one batch in `view`. Tells bytes that cannot be a batch (CORRUPT_MESSAGE) from a wrong number of them."""
    end = _end_of_batch(view, 0)
    if end is None:
        raise _invalid(f"A produce request must have one record batch for {topic_partition}")
    if view[_MAGIC_POSITION] != MAGIC:
        raise _invalid(f"Record batches for {topic_partition} must have magic 2")
    if _end_of_batch(view, end) is not None:
        raise _invalid(f"A produce request must have exactly one record batch for {topic_partition}")
    return RecordBatch(view[:end])


def _end_of_batch(view: memoryview, at: int) -> int | None:
    """Where the batch at `at`, of any magic, ends; None if it is cut off before."""
    if len(view) - at < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(view, at)
    if length < _LEGACY_OVERHEAD_BYTES:
        raise CorruptRecordError(f"no record batch has a length of {length}")
    if len(view) - at <= _MAGIC_POSITION:
        return None
    magic = view[at + _MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptRecordError(f"no record batch has magic {magic}")
    end = at + LOG_OVERHEAD_BYTES + length
    return end if end <= len(view) else None


def _check_header(batch: RecordBatch, topic_partition: object, config: ValidationConfig, origin: AppendOrigin) -> None:
    from_client = origin is AppendOrigin.CLIENT
    if from_client and batch.base_offset != 0:
        raise _invalid(f"The base offset of a batch for {topic_partition} must be 0, but is {batch.base_offset}")
    _check_size(batch, topic_partition, config)
    if not batch.is_crc_valid():
        raise CorruptRecordError(f"CRC {batch.crc} of a batch for {topic_partition} is not that of its bytes")
    if batch.codec > Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression codec {batch.codec}")
    if not from_client:
        return
    if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        raise _invalid(
            f"A batch for {topic_partition} has {batch.record_count} records and {batch.last_offset_delta + 1} offsets"
        )
    if batch.is_control:
        raise _invalid(f"Clients are not allowed to write control records to {topic_partition}")
    if batch.has_producer and batch.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {batch.base_sequence} of producer {batch.producer_id} for {topic_partition}"
        )


def _check_size(batch: RecordBatch, topic_partition: object, config: ValidationConfig) -> None:
    if batch.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch for {topic_partition} has {batch.size_bytes} bytes, max.message.bytes is"
            f" {config.max_message_bytes}",
        )


def _check_records(
    batch: RecordBatch, topic_partition: object, config: ValidationConfig, now_ms: int, *, needs_payload: bool
) -> tuple[memoryview | None, int]:
    """Raise InvalidRecordError for the records that must not be in this topic.

    Returns:
        The payload if it was unpacked, and the max timestamp: the header's, or the records' if they were looked at.
    """
    checks_timestamps = _must_compare_timestamps(batch, config, now_ms)
    if not (config.is_compact or checks_timestamps or needs_payload):
        return None, batch.max_timestamp
    errors: dict[int, str] = {}
    max_timestamp = batch.max_timestamp
    try:
        payload = batch.payload()
        null_keys = null_key_indexes(payload, batch.record_count, at_most=RECORD_ERRORS_MAX)
        if checks_timestamps:
            max_timestamp, errors = _compare_timestamps(batch, payload, config, now_ms)
    except DecompressedTooLargeError:
        raise
    except CorruptRecordError as error:
        raise _invalid(f"Records for {topic_partition} cannot be read: {error.message}") from None
    if config.is_compact and null_keys:
        message = f"{NO_KEY} in topic partition {topic_partition}"
        for index in null_keys:
            errors.pop(index, None)  # of two faults of a record the key is named
        has_timestamp_error = bool(errors)
        errors |= dict.fromkeys(null_keys, message)
    else:
        has_timestamp_error = bool(errors)
    if errors:
        raise _refusal([RecordError(index, errors[index]) for index in sorted(errors)], has_timestamp_error)
    return payload, max_timestamp


def _must_compare_timestamps(batch: RecordBatch, config: ValidationConfig, now_ms: int) -> bool:
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return batch.is_log_append_time  # only brokers stamp
    return (
        batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms < _UNBOUNDED_MS
        or (batch.is_log_append_time and batch.max_timestamp == NO_TIMESTAMP)
    )


def _compare_timestamps(
    batch: RecordBatch, payload: memoryview, config: ValidationConfig, now_ms: int
) -> tuple[int, dict[int, str]]:
    """Return the largest timestamp of the records, and a message for each that is out of bounds, by index."""
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    takes_create_time = config.message_timestamp_type != LOG_APPEND_TIME
    max_timestamp = NO_TIMESTAMP
    errors: dict[int, str] = {}
    for index, span in enumerate(batch.spans(payload)):
        timestamp = batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp + span.timestamp_delta
        max_timestamp = max(max_timestamp, timestamp)
        if takes_create_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                errors[index] = (
                    f"Timestamp {timestamp} of message with offset {span.offset} is out of range. The timestamp should"
                    f" be within [{earliest}, {latest}]"
                )
        elif batch.is_log_append_time:
            errors[index] = (
                f"Invalid timestamp type in message with offset {span.offset}. Producer should not set timestamp type"
                " to LogAppendTime."
            )
        if len(errors) == RECORD_ERRORS_MAX:
            break
    return max_timestamp, errors


def _target_codec(batch: RecordBatch, config: ValidationConfig) -> int:
    if config.compression_type == "producer" or (batch.is_control and batch.codec == Codec.NONE):
        return batch.codec
    return CODEC_NAMES[config.compression_type]


def _recompressed(
    batch: RecordBatch, payload: memoryview, codec: int, topic_partition: object, config: ValidationConfig
) -> RecordBatch:
    """Return a new batch with the same records, offsets, timestamps and producer fields in another codec."""
    packed = RecordBatch(
        seal_batch(
            payload,
            record_count=batch.record_count,
            base_offset=batch.base_offset,
            last_offset_delta=batch.last_offset_delta,
            attributes=batch.attributes & ~CODEC_MASK | codec,
            level=_level(codec, config),
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )
    _check_size(packed, topic_partition, config)
    return packed


def _level(codec: int, config: ValidationConfig) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(Codec(codec))


def _refusal(errors: list[RecordError], has_timestamp_error: bool) -> InvalidRecordError:
    if has_timestamp_error:
        code = ErrorCode.INVALID_TIMESTAMP
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        code = ErrorCode.INVALID_RECORD
        shown = ", ".join(str(error) for error in errors[:3])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the"
            f" first three errors at most: [{shown}]"
        )
    return InvalidRecordError(code, message, tuple(errors))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
