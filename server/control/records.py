"""Records of a partition, read and appended: for people, and for tests in languages without a Kafka client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from ...protocol.batch_builder import build_batch
from ...protocol.errors import CorruptRecordError, KafkaError
from ...protocol.records import Record, RecordBatch, batches
from ...protocol.schemas.frames import Decoded, Frames, frame_of
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.files import FileSlice
from ..broker.broker import Broker
from ..client.values import murmur2, partition_of_hash
from ..partitions.large_appends import append_later
from ..partitions.reading import read_part
from ..partitions.topics import NO_LEADER
from ..registry.records import SCHEMAS_TOPIC
from ..runtime.errors import ControlError, Kind, check_number, refusal
from ..runtime.threads import Work, in_thread, in_worker
from .operation import INT64_MAX, Encoding, Length, Name, PartitionId, Range, TopicName, decoded, encoded, operation
from .partitions import logs_of, topic_named

COUNT, COUNT_MAX = 100, 500
READ_BYTES_MAX = 1 << 20
"""Maximum bytes of one response: of batches as stored, and of records as shown, since a kilobyte may unpack to
megabytes. The first record is returned even if it is larger, up to UNPACKED_BYTES_MAX.
"""
UNPACKED_BYTES_MAX = 16 << 20
"""Maximum unpacked bytes of one batch. Larger ones need a consumer."""
HEADERS_MAX = 100


@dataclass(frozen=True, slots=True)
class HeaderState:
    """A header of a record."""

    name: str
    value: str | None
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class RecordState:
    """One record of the log."""

    offset: int
    timestamp_ms: int
    """Set by the producer or the broker; -1: none."""
    key: str | None
    key_encoding: Encoding
    """`text` if the key is valid UTF-8, else `base64`."""
    value: str | None
    """Null for a tombstone."""
    value_encoding: Encoding
    value_bytes: int
    key_decoded: Decoded | None
    """The key as JSON, if its bytes name a schema of the schema registry."""
    value_decoded: Decoded | None
    """The value as JSON, if its bytes name a schema of the schema registry."""
    headers: tuple[HeaderState, ...]
    marker: str | None
    """`COMMIT` or `ABORT` for the marker that ends a transaction of `producer_id`; `CONTROL` for other control records."""
    is_transactional: bool
    producer_id: int | None


@dataclass(frozen=True, slots=True)
class RecordList:
    """Records in the order of their offsets."""

    topic: str
    partition: int
    records: tuple[RecordState, ...]
    next_offset: int
    """Offset at which to continue."""
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class RecordAppended:
    """Position of a new record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@operation("GET", "/v1/topics/{topic}/records", statuses=(404, 500), only_waits=True)
async def read_records(
    broker: Broker,
    topic: Name,
    partition: PartitionId = 0,
    *,
    offset: Annotated[int, Range(0)] | None = None,
    count: Annotated[int, Range(1, COUNT_MAX)] = COUNT,
) -> RecordList:
    """Show records of a partition, starting at an offset (default: the newest records).

    Args:
        offset: First offset; values below the log start mean the log start. Default: `count` offsets before the end.
        count: Maximum number of records; fewer if they exceed 1 MiB.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: a number is out of bounds, or a batch is too large to show;
            FAILED: the log cannot be read.
    """
    check_number("count", count, 1, COUNT_MAX)
    found, frames = await read_undecoded(broker, topic, partition, offset, count)
    return replace(found, records=await _decoded(broker, topic, found.records, frames))


async def read_undecoded(
    broker: Broker, topic: str, partition: int, offset: int | None, count: int
) -> tuple[RecordList, list[Frames]]:
    """Return what `read_records` does but for the values that schemas make, and the schemas that keys and values name."""
    (log,) = logs_of(broker, topic, [partition])
    end = log.log_end_offset
    at = max(log.log_start_offset, end - count if offset is None else offset)
    records: list[_Read] = []
    size_bytes = 0
    while at < end and len(records) < count and size_bytes < READ_BYTES_MAX:
        try:
            part = await read_part(log, at, end, READ_BYTES_MAX - size_bytes)
        except KafkaError as error:
            raise refusal(error) from error
        if not len(part):
            at = end
        elif len(part) > UNPACKED_BYTES_MAX:
            raise ControlError(
                Kind.INVALID,
                f"batch at offset {at} is too large to show ({len(part)} bytes, limit {UNPACKED_BYTES_MAX})",
            )
        else:
            room = count - len(records), READ_BYTES_MAX - size_bytes
            try:
                found, at, told_bytes = await in_thread(Work.READ, data_dir_of(log), _records, part, at, *room)
            except (OSError, CorruptRecordError) as error:
                raise ControlError(Kind.FAILED, f"{log.topic_partition}: {error}") from error
            size_bytes += max(len(part), told_bytes)
            records += found
    shown = tuple(each.state for each in records)
    return RecordList(topic, partition, shown, at, log.log_start_offset, end), [each.frames for each in records]


class _Read(NamedTuple):
    state: RecordState
    frames: Frames


async def _decoded(
    broker: Broker, topic: str, records: tuple[RecordState, ...], frames: list[Frames]
) -> tuple[RecordState, ...]:
    """Return records with what their schemas make of them, if the cluster has schemas."""
    if broker.services.topics.get(SCHEMAS_TOPIC) is not None and any(key or value for key, value in frames):
        decode_frames = await in_worker(_decoding, None)
        pairs = zip(records, await decode_frames(broker, topic, frames), strict=True)
        return tuple(replace(each, key_decoded=key, value_decoded=value) for each, (key, value) in pairs)
    return records


def _decoding(_: None) -> Callable[..., Awaitable[list[tuple[Decoded | None, Decoded | None]]]]:
    """Load the code for schemas, which most brokers do not need: that takes too long for Trio's thread."""
    from ..registry.decoding.shown import decode_frames

    return decode_frames


def _records(part: FileSlice, at: int, count: int, max_bytes: int) -> tuple[list[_Read], int, int]:
    """Return at most `count` records from offset `at` on, where to continue, and their bytes.

    The last record is the first that exceeds `max_bytes`. For a worker thread.
    """
    found: list[_Read] = []
    told_bytes = 0
    for batch in batches(part.read()):
        for record in batch.records(max_bytes=UNPACKED_BYTES_MAX):
            if record.offset < at:
                continue
            if len(found) == count or told_bytes >= max_bytes:
                return found, record.offset, told_bytes
            frames = (
                (None, None)
                if batch.is_control
                else (
                    frame_of("key", record.key, record.headers),
                    frame_of("value", record.value, record.headers),
                )
            )
            found.append(_Read(_state(batch, record), frames))
            told_bytes += _json_bytes(record)
        at = max(at, batch.next_offset)
    return found, at, told_bytes


def _json_bytes(record: Record) -> int:
    headers = record.headers[:HEADERS_MAX]
    return len(record.key or b"") + len(record.value or b"") + sum(len(n) + len(v or b"") for n, v in headers)


def _state(batch: RecordBatch, record: Record) -> RecordState:
    key, key_encoding = _encode(record.key)
    value, value_encoding = _encode(record.value)
    return RecordState(
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=key,
        key_encoding=key_encoding,
        value=value,
        value_encoding=value_encoding,
        value_bytes=len(record.value or b""),
        key_decoded=None,
        value_decoded=None,
        headers=tuple(HeaderState(name, *_encode(header)) for name, header in record.headers[:HEADERS_MAX]),
        marker=_MARKERS.get(bytes(record.key or b""), "CONTROL") if batch.is_control else None,
        is_transactional=batch.is_transactional,
        producer_id=batch.producer_id if batch.has_producer else None,
    )


_MARKERS = {b"\0\0\0\0": "ABORT", b"\0\0\0\1": "COMMIT"}
"""Names of markers by the key of a control record: version i16, type i16."""


def _encode(data: bytes | None) -> tuple[str | None, Encoding]:
    return (None, Encoding.TEXT) if data is None else encoded(data)


_NO_HEADERS: Mapping[str, str] = {}


@operation("POST", "/v1/topics/{topic}/records", statuses=(404, 500, 503))
async def append_record(
    broker: Broker,
    topic: TopicName,
    key: str | None = None,
    value: str | None = None,
    key_encoding: Encoding = Encoding.TEXT,
    value_encoding: Encoding = Encoding.TEXT,
    headers: Annotated[Mapping[str, str], Length(0, HEADERS_MAX)] = _NO_HEADERS,
    timestamp_ms: Annotated[int, Range(0, INT64_MAX)] | None = None,
    partition: PartitionId | None = None,
) -> RecordAppended:
    """Append a record.

    Works like a producer without a producer id, with `acks=all`.

    Args:
        value: Value of the record; null writes a tombstone.
        timestamp_ms: Timestamp in milliseconds since 1970 (default: now, by the broker's clock).
        partition: Default: the one that the clients' default partitioner chooses for the key; 0 without a key.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: the topic is internal, or the record is rejected;
            UNAVAILABLE: the partition has no leader; FAILED: the disk failed.
    """
    key_bytes, value_bytes = _bytes("key", key, key_encoding), _bytes("value", value, value_encoding)
    index = partition
    if index is None:
        # In Python a megabyte takes longer than other tasks should wait.
        hashed = 0 if key_bytes is None else await in_worker(murmur2, key_bytes)
        index = partition_of_hash(hashed, len(topic_named(broker.services.topics, topic).partitions))
    there = topic_named(broker.services.topics, topic)
    services = broker.services
    if there.is_internal:
        raise ControlError(Kind.INVALID, f"{topic} is an internal topic; only the broker writes to it")
    logs_of(broker, topic, [index])
    found = there.partitions[index]
    log = found.log
    if found.present_leader == NO_LEADER:
        raise ControlError(Kind.UNAVAILABLE, f"{found.topic_partition} has no leader")
    at_ms = services.clock.now_ms() if timestamp_ms is None else timestamp_ms
    header_bytes = tuple((name, text.encode()) for name, text in headers.items())
    records = build_batch([(0, at_ms, key_bytes, value_bytes, header_bytes)])
    try:
        services.appends.check_insync(found)
        done = await append_later(services.appends, found, memoryview(records), None)
        await services.appends.complete(log, done)
    except KafkaError as error:
        raise refusal(error) from error
    logged_ms = at_ms if done.log_append_time_ms < 0 else done.log_append_time_ms
    return RecordAppended(topic, index, done.base_offset, logged_ms)


def _bytes(what: str, text: str | None, encoding: Encoding) -> bytes | None:
    return None if text is None else decoded(what, text, encoding)
