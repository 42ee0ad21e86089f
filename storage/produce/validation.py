"""Checks of a leader before an append, and the fields that it sets: Apache Kafka's rules for magic 2.

    check_batch   header, CRC, records (`record_checks`); recompression. Needs no log, so any thread may do it
    assign        base offset and leader epoch, patched in place, outside the CRC; the timestamp under LogAppendTime
    admit         both at once, by the compiled kernel, for a small valid batch that needs no change

Codes: producers send a batch again after CORRUPT_MESSAGE, so that is only for damage during transfer (CRC, framing). Records
that the producer itself made invalid are INVALID_RECORD, after which producers give up.
"""

from enum import Enum
from typing import NamedTuple

from ...protocol.batch_builder import assign_in_place, seal_batch, set_timestamp_type_in_place
from ...protocol.checksum import crc32c
from ...protocol.compression import CODEC_NAMES, Codec, Packer, is_loaded
from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    OLD_LENGTH_MIN,
    RecordBatch,
)
from .. import kernel
from .record_checks import (
    AT_ONCE_BYTES,
    AT_ONCE_RECORDS,
    LOG_APPEND_TIME,
    CheckedBatch,
    EarlyRefusalError,
    LargeBatchError,
    ValidationConfig,
    check_records,
    timestamp_bounds,
)

AT_ONCE_PACKED_BYTES = 8 << 10
"""Bytes of records that may be recompressed at once, into the topic's codec; more make a batch heavy."""

_SMALL_BYTES = min(AT_ONCE_BYTES.values())
# An old compiled kernel, used until it is rebuilt, lacks this function.
_admit = getattr(kernel, "admit", None) if kernel.COMPILED else None
_CODEC_MAX = int(Codec.ZSTD)


class AppendOrigin(Enum):
    """Origin of an append, which decides how much is checked."""

    CLIENT = "client"
    """A producer: control batches, base offsets other than 0 and gaps in sequence numbers are refused."""
    COORDINATOR = "coordinator"
    """The broker's own group and transaction coordinators: markers, and batches without sequence numbers."""


class ValidatedBatches(NamedTuple):
    """Batches that are ready to be written."""

    records: memoryview
    """The bytes of the batches: the caller's, patched, or new ones."""
    batches: tuple[RecordBatch, ...]
    """The headers in these bytes. Always one: Apache Kafka appends no more at once."""
    log_append_time_ms: int
    """The timestamp given to every record, -1 under CreateTime."""


def check_batch(
    data: bytes | bytearray | memoryview,
    *,
    topic_partition: object,
    config: ValidationConfig,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    at_once: bool = False,
) -> CheckedBatch:
    """Check the batch that a producer has sent for one partition.

    Args:
        data: Exactly one batch; an incomplete second one after it is ignored, as in Apache Kafka.
        topic_partition: Name for error messages.
        at_once: Do not block: raise if the check takes longer than 200 µs.

    Raises:
        InvalidRecordError: INVALID_RECORD (no key on a compacted topic), INVALID_TIMESTAMP; it names the records.
        EarlyRefusalError: INVALID_RECORD: no batch or several, magic 0 or 1.
        KafkaError: INVALID_RECORD (a control batch, inconsistent counts, a producer
            without sequence number, records that cannot be read), MESSAGE_TOO_LARGE (over max.message.bytes, before or
            after recompression; or, unpacked, larger than any batch may be), CORRUPT_MESSAGE (CRC, framing),
            UNSUPPORTED_COMPRESSION_TYPE.
        LargeBatchError: Only if `at_once`.
    """
    batch = _only_batch(memoryview(data), topic_partition)
    if at_once and (batch.record_count > AT_ONCE_RECORDS or (batch.size_bytes > _SMALL_BYTES and _is_large(batch))):
        raise LargeBatchError
    _check_header(batch, topic_partition, config, origin)
    codec, packer = _target_codec(batch, config), None
    if codec != batch.attributes & CODEC_MASK:
        packer = Packer(codec, _level(codec, config), config.max_message_bytes - HEADER_BYTES)
    max_timestamp = check_records(batch, topic_partition, config, now_ms, packer=packer, at_once=at_once)
    if packer is not None:
        if at_once and (packer.size_bytes > AT_ONCE_PACKED_BYTES or not is_loaded(codec)):
            raise LargeBatchError
        batch = _recompressed(batch, packer, codec, topic_partition, config)
    return CheckedBatch(batch, max_timestamp, config)


def assign(checked: CheckedBatch, *, next_offset: int, now_ms: int, leader_epoch: int) -> ValidatedBatches:
    """Assign offsets from `next_offset` on to a checked batch. Patches it in place if it is writable, else a copy."""
    batch, max_timestamp, config = checked
    if batch.view.readonly:
        batch = RecordBatch(bytearray(batch.view))
    stamps = config.message_timestamp_type == LOG_APPEND_TIME
    if stamps or batch.attributes & LOG_APPEND_TIME_BIT or batch.max_timestamp != max_timestamp:
        set_timestamp_type_in_place(
            batch.view, log_append_time=stamps, max_timestamp=now_ms if stamps else max_timestamp
        )
        batch = RecordBatch(batch.view)
    assign_in_place(batch.view, next_offset, leader_epoch)
    batch.base_offset = next_offset
    batch.partition_leader_epoch = leader_epoch
    return ValidatedBatches(batch.view, (batch,), now_ms if stamps else NO_TIMESTAMP)


def admit(
    records: memoryview, config: ValidationConfig, next_offset: int, now_ms: int, leader_epoch: int
) -> tuple[int, int, int] | None:
    """Do the work of `check_batch` and `assign` for most small batches, in a fifth of the time.

    Returns:
        (last offset delta, max timestamp, producer id). None if those two must be called; nothing was changed then.
    """
    size_bytes = len(records)
    if (
        _admit is None
        or size_bytes > _SMALL_BYTES
        or size_bytes > config.max_message_bytes
        or not config.is_stored_as_sent
        or records.readonly
    ):
        return None
    earliest, latest = timestamp_bounds(config, now_ms)
    crc = crc32c(records[ATTRIBUTES_POSITION:])
    found: tuple[int, int, int] | None = _admit(
        records, crc, config.is_compact, earliest, latest, next_offset, leader_epoch
    )
    return found


def _only_batch(view: memoryview, topic_partition: object) -> RecordBatch:
    """Return the only batch in `view`. CORRUPT_MESSAGE for invalid bytes, INVALID_RECORD for a wrong number of batches."""
    end = _end_of_batch(view, 0)
    if end is None:
        raise _not_one(f"A produce request must have one record batch for {topic_partition}")
    if view[MAGIC_POSITION] != MAGIC:
        raise _not_one(f"Record batches for {topic_partition} must have magic 2")
    if end < len(view) and _end_of_batch(view, end) is not None:
        raise _not_one(f"A produce request must have exactly one record batch for {topic_partition}")
    return RecordBatch(view if end == len(view) else view[:end])


def _is_large(batch: RecordBatch) -> bool:
    return batch.size_bytes - HEADER_BYTES > AT_ONCE_BYTES.get(batch.codec, 0)


def _end_of_batch(view: memoryview, at: int) -> int | None:
    """Return the end of the batch at `at`, of any magic; None if it is incomplete."""
    if len(view) - at < LOG_OVERHEAD_BYTES:
        return None
    _, length = LOG_OVERHEAD.unpack_from(view, at)
    if length < OLD_LENGTH_MIN:
        raise CorruptRecordError(f"invalid record batch length {length}")
    if len(view) - at <= MAGIC_POSITION:
        return None
    magic = view[at + MAGIC_POSITION]
    if magic > MAGIC:
        raise CorruptRecordError(f"invalid record batch magic {magic}")
    end = at + LOG_OVERHEAD_BYTES + length
    return end if end <= len(view) else None


def _check_header(batch: RecordBatch, topic_partition: object, config: ValidationConfig, origin: AppendOrigin) -> None:
    from_client = origin is AppendOrigin.CLIENT
    if from_client and batch.base_offset != 0:
        raise _invalid(f"The base offset of a batch for {topic_partition} must be 0, but is {batch.base_offset}")
    if batch.size_bytes > config.max_message_bytes:
        raise _too_large(batch, topic_partition, config)
    if crc32c(batch.view[ATTRIBUTES_POSITION:]) != batch.crc:
        raise CorruptRecordError(f"CRC {batch.crc} of a batch for {topic_partition} does not match its content")
    attributes = batch.attributes
    if attributes & CODEC_MASK > _CODEC_MAX:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression codec {batch.codec}")
    if not from_client:
        return
    if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        raise _invalid(
            f"A batch for {topic_partition} has {batch.record_count} records and {batch.last_offset_delta + 1} offsets"
        )
    if attributes & CONTROL_BIT:
        raise _invalid(f"Clients are not allowed to write control records to {topic_partition}")
    if batch.base_sequence < 0 and batch.has_producer:
        raise _invalid(
            f"Invalid sequence number {batch.base_sequence} of producer {batch.producer_id} for {topic_partition}"
        )


def _too_large(batch: RecordBatch, topic_partition: object, config: ValidationConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The batch for {topic_partition} has {batch.size_bytes} bytes, which exceeds"
        f" max.message.bytes={config.max_message_bytes}",
    )


def _target_codec(batch: RecordBatch, config: ValidationConfig) -> int:
    codec = batch.attributes & CODEC_MASK
    if config.compression_type == "producer" or (not codec and batch.is_control):
        return codec
    return CODEC_NAMES[config.compression_type]


def _recompressed(
    batch: RecordBatch, packer: Packer, codec: int, topic_partition: object, config: ValidationConfig
) -> RecordBatch:
    """Return a new batch with the same records, offsets, timestamps and producer fields in another codec."""
    block = packer.finish()
    if packer.is_too_large:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch for {topic_partition}, recompressed with compression.type={config.compression_type}, exceeds"
            f" max.message.bytes={config.max_message_bytes}",
        )
    return RecordBatch(
        seal_batch(
            block,
            record_count=batch.record_count,
            base_offset=batch.base_offset,
            last_offset_delta=batch.last_offset_delta,
            attributes=batch.attributes & ~CODEC_MASK | codec,
            is_packed=True,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )


def _level(codec: int, config: ValidationConfig) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(Codec(codec))


def _not_one(message: str) -> EarlyRefusalError:
    return EarlyRefusalError(ErrorCode.INVALID_RECORD, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
