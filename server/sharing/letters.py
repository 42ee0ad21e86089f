"""Contents of dead letters: headers that tell the reason, and a copy of the record if its group has that option."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...protocol.batch_builder import RecordParts, build_batch
from ...protocol.errors import CorruptRecordError, KafkaError
from ...protocol.records import HEADER_BYTES, Record, RecordBatch, batches
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.files import FileSlice, WouldWaitError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..runtime.threads import TRIES_MAX, Work, in_thread, load_cold
from .share_partition import DeadRecords

logger = logging.getLogger("ottla.sharing")

READ_BYTES = 1 << 20
UNPACKED_BYTES_MAX = 16 << 20
"""Maximum size of a batch, as stored and unpacked, whose records are copied."""

BATCH_BYTES_MAX = 1 << 20
"""Maximum size of a batch, unless one copy is larger: the topic may allow gigabytes."""

REJECTED = b"Offset rejected by client."
EXHAUSTED = b"Offset delivery count exceeded the threshold."
_RECORD_OVERHEAD_BYTES = 31
"""Maximum size of a record's own fields: three lengths, attributes, timestamp, offset, number of headers."""
_LENGTH_BYTES = 5


class Copy(NamedTuple):
    """Key and value of a record."""

    key: bytes | None
    value: bytes | None


class Copies(NamedTuple):
    """
    Attributes:
        records: Copies by offset. Records that are too large, or not in the log, have none.
        end: First offset that was not looked up, since the copies of those before it fill a batch.
    """

    records: dict[int, Copy]
    end: int


_NO_COPY = Copy(None, None)


class LetterBatch(NamedTuple):
    """
    Attributes:
        data: The batch; empty without dead letters.
        left: Records that were not looked at.
        keyless: Records without dead letters, since these would have no keys.
    """

    data: bytearray
    left: list[DeadRecords]
    keyless: list[DeadRecords]


class Letters:
    """Dead letters for records of one partition.

    Args:
        source: The partition.
        now_ms: Their timestamp.
    """

    def __init__(self, source: TopicPartition, group_id: str, now_ms: int) -> None:
        self._now_ms = now_ms
        self._before_offset = (
            ("__dlq.errors.topic", source.topic.encode()),
            ("__dlq.errors.partition", b"%d" % source.partition),
        )
        self._group = ("__dlq.errors.group", group_id.encode())

    def batch(
        self, some: Sequence[DeadRecords], copies: Copies, max_bytes: int, *, needs_keys: bool = False
    ) -> LetterBatch:
        """Make a batch with the first dead letters. A copy that does not fit into a batch of its own is left out.

        Args:
            some: Records in the order of their offsets.
            max_bytes: Maximum size that the topic allows.
            needs_keys: Leave out dead letters without keys, as the topic is compacted.
        """
        records: list[RecordParts] = []
        keyless: list[DeadRecords] = []
        size_bytes, most_bytes = HEADER_BYTES, min(max_bytes, BATCH_BYTES_MAX)
        for at, one in enumerate(some):
            for offset in range(one.first, one.last + 1):
                parts = self._record(one, offset, copies.records.get(offset, _NO_COPY))
                part_bytes = _size_at_most(parts)
                is_full = bool(records) and size_bytes + part_bytes > most_bytes
                if is_full or ((records or keyless) and offset >= copies.end):
                    left = [one._replace(first=offset), *some[at + 1 :]]
                    return LetterBatch(_built(records), left, keyless)
                if size_bytes + part_bytes > max_bytes and len(_built([parts])) > max_bytes:
                    parts = self._record(one, offset, _NO_COPY)
                if needs_keys and parts[2] is None:
                    keyless.append(one._replace(first=offset, last=offset))
                else:
                    records.append(parts)
                    size_bytes += part_bytes
        return LetterBatch(_built(records), [], keyless)

    def _record(self, one: DeadRecords, offset: int, copy: Copy) -> RecordParts:
        headers = (
            *self._before_offset,
            ("__dlq.errors.offset", b"%d" % offset),
            self._group,
            ("__dlq.errors.delivery.count", b"%d" % one.delivery_count),
            ("__dlq.errors.message", REJECTED if one.is_rejected else EXHAUSTED),
        )
        return 0, self._now_ms, copy.key, copy.value, headers


def _built(records: Sequence[RecordParts]) -> bytearray:
    return build_batch((at, *parts[1:]) for at, parts in enumerate(records)) if records else bytearray()


def _size_at_most(parts: RecordParts) -> int:
    _, _, key, value, headers = parts
    of_headers = sum(2 * _LENGTH_BYTES + len(name) + len(header or b"") for name, header in headers)
    return _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + of_headers


async def copy_records(log: Log, offsets: Sequence[int], max_bytes: int) -> Copies:
    """Copy records from a log; worker threads read and unpack them.

    Args:
        offsets: Offsets in order.
        max_bytes: Maximum size of one copy. All together are smaller than BATCH_BYTES_MAX, unless the first is larger.
    """
    found: dict[int, Copy] = {}
    at, room_bytes = 0, max_bytes
    try:
        while at < len(offsets) and (part := await _part(log, offsets[at])):
            if part.size_bytes > UNPACKED_BYTES_MAX:
                at += 1
                continue
            copied = await in_thread(Work.READ, data_dir_of(log), _copy, part, offsets[at:], max_bytes, room_bytes)
            found |= copied.records
            at += copied.done
            if copied.is_full:
                return Copies(found, offsets[at])
            room_bytes = copied.room_bytes
    except (KafkaError, CorruptRecordError, OSError, MemoryError) as error:
        logger.warning("%s: cannot copy records from offset %d: %s", log.topic_partition, offsets[at], error)
    return Copies(found, offsets[-1] + 1)


async def _part(log: Log, offset: int) -> FileSlice:
    """Return whole batches from the one with this offset on."""
    tries = 0
    while True:
        tries += 1
        at_once = tries < TRIES_MAX
        try:
            end = log.locate(log.high_watermark, at_once=at_once)
            return log.fetch(max(offset, log.log_start_offset), max_bytes=READ_BYTES, end=end, at_once=at_once).records
        except WouldWaitError as cold:
            await load_cold(cold, log)


class _Copied(NamedTuple):
    """
    Attributes:
        done: Number of offsets that were looked up.
        room_bytes: What is left of the room.
        is_full: Whether the next record does not fit.
    """

    records: dict[int, Copy]
    done: int
    room_bytes: int
    is_full: bool


def _copy(part: FileSlice, offsets: Sequence[int], max_bytes: int, room_bytes: int) -> _Copied:
    """Copy records from some batches. For a worker thread."""
    found: dict[int, Copy] = {}
    done = 0
    for batch in batches(part.read()):
        end = bisect_left(offsets, batch.next_offset, done)
        wanted = frozenset(offsets[done:end])
        for record in _records(batch) if wanted else ():
            if record.offset in wanted:
                size_bytes = len(record.key or b"") + len(record.value or b"")
                if size_bytes > max_bytes:
                    continue
                if size_bytes > room_bytes:
                    return _Copied(found, bisect_left(offsets, record.offset), room_bytes, True)
                found[record.offset] = Copy(record.key, record.value)
                room_bytes = min(room_bytes, BATCH_BYTES_MAX) - size_bytes
        done = end
    return _Copied(found, done, room_bytes, False)


def _records(batch: RecordBatch) -> Iterator[Record]:
    """Iterate over the records of a batch; a batch that is too large when unpacked ends at once, markers have none."""
    if not batch.is_control:
        with suppress(CorruptRecordError):
            yield from batch.records(max_bytes=UNPACKED_BYTES_MAX)
