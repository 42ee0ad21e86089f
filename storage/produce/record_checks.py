"""Whether the records of a produced batch are what a topic may hold: Apache Kafka's rules for magic 2, record by record.

The compiled kernel walks the records of every batch, on every topic, as Apache Kafka does, and unpacks compressed ones
for it. Found are lengths, counts and headers that do not fit, bytes behind the last record, offset deltas other than 0,
1, 2, …, missing keys on compacted topics, timestamps out of bounds, and the true max timestamp. Without it Python would
have to walk, forty times as slowly; then records are looked at only where something forces it:

    compacted topics                  each record must have a key; damage behind the key is not noticed
    message.timestamp.before.max.ms   set: each timestamp is compared
    message.timestamp.after.max.ms    the header's max timestamp is beyond it: the records that are, are named
    compression.type                  other than the batch's codec

A small batch is looked at at once, on the thread that owns the logs. What would take longer than that thread may be
away is a `HeavyBatchError`, and then a job for another one.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ...protocol.compression import Codec, Packer, UnpackLimitError
from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import HEADER_BYTES, LOG_APPEND_TIME_BIT, NO_TIMESTAMP, RecordBatch, null_key_indexes, wrapped
from .. import kernel
from ..kernel import Found

NO_KEY = "Compacted topic cannot accept message without key"
"""How the error of a record begins that was refused for that."""

RECORD_ERRORS_MAX = 10_000
"""Records named in one refusal. A megabyte of the smallest records holds ten times as many."""

FRAMES_MAX = 1 << 18
"""Frames in which a batch may be packed; snappy's smallest blocks, of 1 KiB, are half as many in the largest batch.

Java's and librdkafka's writers make a frame a batch, or one for 32 KiB. Empty frames cost time alone, and no limit of bytes
is a bound on them."""

# What may be done at once: each takes less than 200 µs.
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
"""Of records, before and after they are unpacked."""

_LONG_BYTES = AT_ONCE_BYTES[Codec.NONE]
LOG_APPEND_TIME = "LogAppendTime"
_I64_MIN, _I64_MAX = -(1 << 63), (1 << 63) - 1
_SOUND = Found.SOUND
# An old library, which Python takes until it is built anew, has no such class.
_WALKS_PIECES = kernel.COMPILED and hasattr(kernel, "RecordWalk")
_GOES_ON = (Found.KEYLESS, Found.UNTIMELY)
_UNREADABLE = {
    Found.DAMAGED: "length of record {0} does not match its fields, or exceeds its batch",
    Found.MISNUMBERED: "record {0} does not have offset delta {0}",
    Found.LEFT_OVER: "unexpected bytes after the {0} records of the batch",
}


class RecordRules(Protocol):
    """The topic options that count here; a `LogConfig` has them."""

    @property
    def is_compact(self) -> bool: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...


class HeavyBatchError(Exception):
    """To look at these records takes too long for a thread that others wait for. Nothing was changed."""


class RecordError(NamedTuple):
    """One refused record of a produce request, as the response names it."""

    batch_index: int
    """The record's place in its batch, from 0."""
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class EarlyRefusalError(KafkaError):
    """A refusal that Apache Kafka finds before it asks the log, so the answer names no log start.

    INVALID_RECORD: there is no batch, there are several, or one has an old magic. Any other code: the transaction's coordinator
    refused, or a partition that has seen a later epoch.
    """


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
    """Look at the records of a batch whose header and CRC are good.

    Args:
        packer: Is given the records, unpacked, whatever the rules say.
        at_once: Others wait for this thread. If not, packed records are looked at in pieces, and none is kept.

    Returns:
        The batch's max timestamp: the true one if its records were looked at, else what the header says.

    Raises:
        InvalidRecordError: Some records must not be in this topic; they are named.
        KafkaError: INVALID_RECORD (the records cannot be read), MESSAGE_TOO_LARGE (unpacked, over what any batch may
            be).
        HeavyBatchError: Only if `at_once`.
    """
    is_compiled = kernel.COMPILED
    compares = not is_compiled and _must_compare_timestamps(batch, config, now_ms)
    if not (is_compiled or config.is_compact or compares or packer is not None):
        return batch.max_timestamp
    try:
        if _WALKS_PIECES and batch.codec and not at_once:
            max_timestamp, errors = _walk(batch, None, config, now_ms, packer, at_once=False)
        else:
            payload = _unpacked(batch, at_once)
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
        return batch.is_log_append_time  # only brokers stamp
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
    try:
        return batch.payload(max_bytes=AT_ONCE_BYTES[codec], max_frames=AT_ONCE_FRAMES)
    except UnpackLimitError:
        raise HeavyBatchError from None


class _Stop(NamedTuple):
    """Where a walk through the records of a batch has come to."""

    found: int
    """A `Found`; after a keyless or an untimely record the walk goes on."""
    number: int
    """Of the record that is damaged or misnumbered, or of the one after a keyless or untimely one."""
    timestamp: int
    """Of an untimely record; the largest at the end."""


def _stops(payload: memoryview, batch: RecordBatch, earliest: int, latest: int, wants_keys: bool) -> Iterator[_Stop]:
    """All stops of a walk through one block."""
    count, base_timestamp = batch.record_count, batch.base_timestamp
    # Then the wait to get the interpreter lock back does not count.
    is_long = count > AT_ONCE_RECORDS or len(payload) > _LONG_BYTES
    found, at, index, top = Found.KEYLESS, 0, 0, NO_TIMESTAMP
    while found in _GOES_ON:
        found, at, index, top = kernel.check_records(
            payload, at, index, count, base_timestamp, earliest, latest, wants_keys, NO_TIMESTAMP, is_long
        )
        yield _Stop(found, index, top)


def _stops_in_pieces(
    batch: RecordBatch, earliest: int, latest: int, wants_keys: bool, packer: Packer | None
) -> Iterator[_Stop]:
    """The same of a batch that is unpacked meanwhile, and of which no more than a piece is ever held."""
    walk = kernel.RecordWalk(batch.record_count, batch.base_timestamp, earliest, latest, wants_keys)
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
    """Return the largest timestamp of the records, and what is wrong with each that is to be refused, by its index.

    Args:
        payload: The records, unpacked; None: in pieces, which the packer gets, too.

    Raises:
        CorruptRecordError: The block is not what the batch's header says.
        HeavyBatchError: Only if `at_once`: many are wrong.
    """
    earliest, latest = _I64_MIN, _I64_MAX
    is_stamped = batch.attributes & LOG_APPEND_TIME_BIT
    if not is_stamped and config.message_timestamp_type != LOG_APPEND_TIME:
        earliest, latest = timestamp_bounds(config, now_ms)
    if payload is None:
        stops = _stops_in_pieces(batch, earliest, latest, config.is_compact, packer)
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
            raise HeavyBatchError
        errors[number - 1] = NO_KEY if found == Found.KEYLESS else _untimely(timestamp, number - 1, config, now_ms)
        if len(errors) == RECORD_ERRORS_MAX:
            break
    if is_stamped:
        if at_once and batch.record_count > AT_ONCE_ERRORS:  # all of them, if any
            raise HeavyBatchError
        top = max(batch.max_timestamp, NO_TIMESTAMP)
        errors = _errors_of_stamped(batch, config, now_ms) | errors
    return top, errors


def timestamp_bounds(config: RecordRules, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that a record may have."""
    earliest, latest = _I64_MIN, _I64_MAX
    # Not max and min: of every small request this is a part that shows.
    if (bound := now_ms - config.message_timestamp_before_max_ms) > earliest:
        earliest = bound
    if (bound := now_ms + config.message_timestamp_after_max_ms) < latest:
        latest = bound
    return earliest, latest


def _errors_of_stamped(batch: RecordBatch, config: RecordRules, now_ms: int) -> dict[int, str]:
    """What is wrong with a batch that its producer stamped: every record has its max timestamp."""
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
    """`_walk` without the compiled kernel: keys and, if `compares`, timestamps."""
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
        errors |= dict.fromkeys(null_keys, NO_KEY)  # of two faults of a record the key is named
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
