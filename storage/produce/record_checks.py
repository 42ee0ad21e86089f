"""Check of the records of a produced batch against a topic's rules: Apache Kafka's rules for magic 2, record by record.

The compiled kernel reads the records of every batch on every topic, as Apache Kafka does; compressed ones are unpacked first.
It finds invalid lengths, counts and headers, bytes after the last record, and offset deltas other than 0, 1, 2, …. It also
finds missing keys on compacted topics, timestamps out of bounds, and the true max timestamp. Pure Python is forty times as
slow, so without the kernel records are read only if one of these requires it:

    compacted topics                  each record must have a key; damage after the key is not noticed
    message.timestamp.before.max.ms   set: each timestamp is compared
    message.timestamp.after.max.ms    the header's max timestamp is beyond it: the error names such records
    compression.type                  other than the batch's codec
    max.decompressed.message.bytes    less than any compressed batch may unpack to: the length of each record is compared

A small batch is checked at once, on the thread that owns the logs. A batch that would block this thread for too long, or whose
codec is not loaded yet, raises `LargeBatchError`, and another thread checks it.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ...protocol.compression import MAX_DECOMPRESSED_BATCH_BYTES, Codec, Packer, is_loaded
from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import HEADER_BYTES, LOG_APPEND_TIME_BIT, NO_TIMESTAMP, RecordBatch, null_key_indexes, wrapped
from .. import kernel
from ..disk.files import WriteAhead
from ..kernel import Found

NO_KEY = "Compacted topic cannot accept message without key"
"""Beginning of the error for a record without key."""

RECORD_ERRORS_MAX = 10_000
"""Largest number of records that one error names. A megabyte of the smallest records has ten times as many."""

FRAMES_MAX = 1 << 18
"""Largest number of compression frames in a batch: twice that of snappy's smallest blocks, of 1 KiB, in the largest batch.

The Java client and librdkafka make one frame per batch, or one per 32 KiB. A limit of bytes does not bound empty frames,
which only cost time."""

# Limits of what may be done at once: each takes less than 200 µs.
AT_ONCE_RECORDS = 8_000
AT_ONCE_ERRORS = 100
AT_ONCE_FRAMES = 64
AT_ONCE_BYTES: dict[int, int] = {
    Codec.NONE: 1 << 20,
    Codec.GZIP: 32 << 10,
    Codec.SNAPPY: 128 << 10,
    Codec.LZ4: 256 << 10,
    Codec.ZSTD: 64 << 10,
}
"""Bytes of records, before and after they are unpacked, by codec."""

_LONG_BYTES = AT_ONCE_BYTES[Codec.NONE]
LOG_APPEND_TIME = "LogAppendTime"
_I64_MIN, _I64_MAX = -(1 << 63), (1 << 63) - 1
_SOUND = Found.SOUND
# An old compiled kernel, used until it is rebuilt, lacks this class.
_WALKS_PIECES = kernel.COMPILED and hasattr(kernel, "RecordWalk")
_GOES_ON = (Found.KEYLESS, Found.UNTIMELY)
_UNREADABLE = {
    Found.DAMAGED: "length of record {0} does not match its fields, or exceeds its batch or the topic's maximum",
    Found.MISNUMBERED: "record {0} does not have offset delta {0}",
    Found.LEFT_OVER: "unexpected bytes after the {0} records of the batch",
}


class RecordRules(Protocol):
    """The topic options used here; a `LogConfig` has them."""

    @property
    def is_compact(self) -> bool: ...
    @property
    def max_decompressed_message_bytes(self) -> int: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...


class ValidationConfig(RecordRules, Protocol):
    """The topic options used here; a `LogConfig` has them."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def is_stored_as_sent(self) -> bool: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...


class CheckedBatch(NamedTuple):
    """A valid batch for a topic with this config. Its bytes have not been changed."""

    batch: RecordBatch
    """The batch as it was sent, or recompressed."""
    max_timestamp: int
    config: ValidationConfig


class LargeBatchError(Exception):
    """Checking or writing this batch would block the calling thread for too long. Offsets and producers are unchanged.

    Args:
        begun: The checked batch and its write, which another thread does; it raises OSError if the disk refuses. None if the
            batch is not checked yet: another thread checks it.
    """

    def __init__(self, begun: tuple[CheckedBatch, WriteAhead] | None = None) -> None:
        super().__init__("a large batch must be checked" if begun is None else "a large batch must be written")
        self.begun = begun


class RecordError(NamedTuple):
    """One refused record of a produce request, as in the response."""

    batch_index: int
    """Index of the record in its batch, from 0."""
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class EarlyRefusalError(KafkaError):
    """A refusal before the log is involved, as in Apache Kafka, so the response has no log start offset.

    INVALID_RECORD: no batch, several batches, or an old magic. NOT_LEADER_OR_FOLLOWER: another node leads the partition. Any
    other code: the transaction's coordinator refused, or the partition has seen a later epoch.

    Args:
        leader: The partition's leader and its epoch, if the request reached a node that does not lead it.
    """

    def __init__(self, code: ErrorCode, message: str, leader: tuple[int, int] | None = None) -> None:
        super().__init__(code, message)
        self.leader = leader


class InvalidRecordError(KafkaError):
    """A batch refused for some of its records: INVALID_RECORD or INVALID_TIMESTAMP.

    The only refusal whose message Apache Kafka sends to the client.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[type["InvalidRecordError"], tuple[ErrorCode, str, tuple[RecordError, ...]]]:
        return (type(self), (self.code, self.message, self.record_errors))


def check_records(
    batch: RecordBatch,
    topic_partition: object,
    config: RecordRules,
    now_ms: int,
    *,
    packer: Packer | None = None,
    at_once: bool = False,
) -> int:
    """Check the records of a batch whose header and CRC are valid.

    Args:
        packer: Gets the unpacked records, whatever the rules are.
        at_once: Do not block. Without it, compressed records are checked in pieces that are not kept.

    Returns:
        The batch's max timestamp: the true one if its records were read, else that of the header.

    Raises:
        InvalidRecordError: The topic's rules forbid some records; the error names them.
        KafkaError: INVALID_RECORD (the records cannot be read), MESSAGE_TOO_LARGE (the unpacked records are larger than
            any batch may be).
        LargeBatchError: Only if `at_once`.
    """
    is_compiled = kernel.COMPILED
    compares = not is_compiled and _must_compare_timestamps(batch, config, now_ms)
    bytes_max = config.max_decompressed_message_bytes
    is_bounded = bytes_max < MAX_DECOMPRESSED_BATCH_BYTES and batch.codec > 0
    if not (is_compiled or config.is_compact or compares or packer is not None or is_bounded):
        return batch.max_timestamp
    try:
        if _WALKS_PIECES and batch.codec and not at_once:
            max_timestamp, errors = _walk(batch, None, config, now_ms, packer, at_once=False)
        else:
            payload = _unpacked(batch, at_once)
            if is_bounded and kernel.has_longer(payload, bytes_max):
                raise CorruptRecordError(f"a record is larger than max.decompressed.message.bytes={bytes_max}")
            if packer is not None:
                packer.add(payload)
            if is_compiled:
                max_timestamp, errors = _walk(batch, payload, config, now_ms, None, at_once=at_once)
            else:
                max_timestamp, errors = _walk_if_forced(batch, payload, config, now_ms, compares)
    except CorruptRecordError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Cannot read the records for {topic_partition}: {error.message}"
        ) from None
    if errors:
        raise _refusal(errors, topic_partition)
    return max_timestamp


def _must_compare_timestamps(batch: RecordBatch, config: RecordRules, now_ms: int) -> bool:
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return batch.is_log_append_time  # only brokers may use LogAppendTime
    return (
        batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms < _I64_MAX
        or (batch.is_log_append_time and batch.max_timestamp == NO_TIMESTAMP)
    )


def _unpacked(batch: RecordBatch, at_once: bool) -> memoryview:
    codec = batch.codec
    if not codec:
        return batch.view[HEADER_BYTES:]
    if not at_once:
        return batch.payload(max_frames=FRAMES_MAX)
    if not is_loaded(codec):
        raise LargeBatchError
    try:
        return batch.payload(max_bytes=AT_ONCE_BYTES[codec], max_frames=AT_ONCE_FRAMES)
    except CorruptRecordError as error:
        if not error.is_over_limit:
            raise
        raise LargeBatchError from None


class _Stop(NamedTuple):
    """A point where a walk through the records of a batch stops."""

    found: int
    """A `Found`; after a keyless or an untimely record the walk continues."""
    number: int
    """Index of a damaged or misnumbered record, or of the record after a keyless or untimely one."""
    timestamp: int
    """Timestamp of an untimely record; at the end, the largest timestamp."""


def _stops(payload: memoryview, batch: RecordBatch, earliest: int, latest: int, wants_keys: bool) -> Iterator[_Stop]:
    """Yield all stops of a walk through the unpacked records of a batch."""
    count, base_timestamp = batch.record_count, batch.base_timestamp
    # For a long walk the kernel releases the GIL; the time to get it back is small in comparison.
    is_long = count > AT_ONCE_RECORDS or len(payload) > _LONG_BYTES
    found, at, index, top = Found.KEYLESS, 0, 0, NO_TIMESTAMP
    while found in _GOES_ON:
        found, at, index, top = kernel.check_records(
            payload, at, index, count, base_timestamp, earliest, latest, wants_keys, NO_TIMESTAMP, is_long
        )
        yield _Stop(found, index, top)


def _stops_in_pieces(
    batch: RecordBatch, earliest: int, latest: int, wants_keys: bool, bytes_max: int, packer: Packer | None
) -> Iterator[_Stop]:
    """Yield all stops of a walk through a compressed batch, which is unpacked one piece at a time."""
    walk = kernel.RecordWalk(batch.record_count, batch.base_timestamp, earliest, latest, wants_keys)
    walk.size_max = bytes_max
    for piece in batch.pieces(max_frames=FRAMES_MAX):
        if packer is not None:
            packer.add(piece)
        found, at = Found.KEYLESS, 0
        while found in _GOES_ON:
            found, at, timestamp = walk.feed(piece, at)
            if found != _SOUND:
                yield _Stop(found, walk.number, timestamp)
        if found != _SOUND:
            return
    yield _Stop(walk.end(), walk.number, walk.top)


def _walk(
    batch: RecordBatch,
    payload: memoryview | None,
    config: RecordRules,
    now_ms: int,
    packer: Packer | None,
    *,
    at_once: bool,
) -> tuple[int, dict[int, str]]:
    """Return the largest timestamp of the records, and the errors of the refused records by index.

    Args:
        payload: The unpacked records; None: unpack them in pieces, and give these to the packer also.

    Raises:
        CorruptRecordError: The records do not match the batch's header.
        LargeBatchError: Only if `at_once`: a record is refused, in a batch with many.
    """
    earliest, latest = _I64_MIN, _I64_MAX
    is_stamped = batch.attributes & LOG_APPEND_TIME_BIT
    if not is_stamped and config.message_timestamp_type != LOG_APPEND_TIME:
        earliest, latest = timestamp_bounds(config, now_ms)
    if payload is None:
        bytes_max = config.max_decompressed_message_bytes
        stops = _stops_in_pieces(batch, earliest, latest, config.is_compact, bytes_max, packer)
    else:
        stops = _stops(payload, batch, earliest, latest, config.is_compact)
    errors: dict[int, str] = {}
    top = NO_TIMESTAMP
    for found, number, timestamp in stops:
        if found in _UNREADABLE:
            raise CorruptRecordError(_UNREADABLE[found].format(number))
        if found == _SOUND:
            top = timestamp
            break
        if at_once and len(errors) == AT_ONCE_ERRORS:
            raise LargeBatchError
        errors[number - 1] = NO_KEY if found == Found.KEYLESS else _untimely(timestamp, number - 1, config, now_ms)
        if len(errors) == RECORD_ERRORS_MAX:
            break
    if is_stamped:
        if at_once and batch.record_count > AT_ONCE_ERRORS:  # all of them, if any
            raise LargeBatchError
        top = max(batch.max_timestamp, NO_TIMESTAMP)
        errors = _errors_of_stamped(batch, config, now_ms) | errors
    return top, errors


def timestamp_bounds(config: RecordRules, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest timestamp that a record may have."""
    earliest, latest = _I64_MIN, _I64_MAX
    # Not max and min: their cost is noticeable in every small request.
    if (bound := now_ms - config.message_timestamp_before_max_ms) > earliest:
        earliest = bound
    if (bound := now_ms + config.message_timestamp_after_max_ms) < latest:
        latest = bound
    return earliest, latest


def _errors_of_stamped(batch: RecordBatch, config: RecordRules, now_ms: int) -> dict[int, str]:
    """Return the errors of a batch to which its producer gave LogAppendTime: every record has its max timestamp."""
    timestamp = batch.max_timestamp
    count = min(batch.record_count, RECORD_ERRORS_MAX)
    if config.message_timestamp_type == LOG_APPEND_TIME or timestamp == NO_TIMESTAMP:
        return {index: _stamped(index) for index in range(count)}
    behind, ahead = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if -ahead <= now_ms - timestamp <= behind:
        return {}
    return {index: _untimely(timestamp, index, config, now_ms) for index in range(count)}


def _walk_if_forced(
    batch: RecordBatch, payload: memoryview, config: RecordRules, now_ms: int, compares: bool
) -> tuple[int, dict[int, str]]:
    """Check keys and, if `compares`, timestamps: `_walk` without the compiled kernel."""
    null_keys = null_key_indexes(payload, batch.record_count, at_most=RECORD_ERRORS_MAX)
    max_timestamp = batch.max_timestamp
    errors: dict[int, str] = {}
    if compares and batch.is_log_append_time:
        errors = _errors_of_stamped(batch, config, now_ms)
    elif compares:
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        max_timestamp = NO_TIMESTAMP
        for index, span in enumerate(batch.spans(payload)):
            timestamp = wrapped(batch.base_timestamp + span.timestamp_delta)
            max_timestamp = max(max_timestamp, timestamp)
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest and len(errors) < RECORD_ERRORS_MAX:
                errors[index] = _untimely(timestamp, index, config, now_ms)
    if config.is_compact:
        errors |= dict.fromkeys(null_keys, NO_KEY)  # of two errors of a record, the key's counts
    return max_timestamp, errors


def _untimely(timestamp: int, index: int, config: RecordRules, now_ms: int) -> str:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return (
        f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should"
        f" be within [{earliest}, {latest}]"
    )


def _stamped(index: int) -> str:
    return (
        f"Invalid timestamp type in message with offset {index}. Producer should not set timestamp type"
        " to LogAppendTime."
    )


def _refusal(errors: dict[int, str], topic_partition: object) -> InvalidRecordError:
    keyless = f"{NO_KEY} in topic partition {topic_partition}"
    named = tuple(
        RecordError(index, keyless if errors[index] is NO_KEY else errors[index]) for index in sorted(errors)
    )[:RECORD_ERRORS_MAX]
    if any(message is not NO_KEY for message in errors.values()):
        return InvalidRecordError(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", named
        )
    shown = ", ".join(map(str, named[:3]))
    return InvalidRecordError(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(named)} record errors in total, and only showing the"
        f" first three errors at most: [{shown}]",
        named,
    )
