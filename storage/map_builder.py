"""The first half of a clean pass: read the dirty part of a log and learn which record of each key is the newest."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..protocol.records import HEADER_BYTES, RecordBatch
from .batch_chunks import read_chunks
from .clean_kernel import map_key, scan_keys
from .index import AbortedTxn
from .offset_map import OffsetMap
from .segment import LogSegment
from .transaction_state import TransactionState


class DirtyMap(NamedTuple):
    """A sealed map of the dirty part, and what the second half needs to follow it."""

    offsets: OffsetMap
    first_dirty_offset: int
    ordinal_ends: dict[int, int]
    """Segment base offset -> ordinal after the segment's last record that the map knows. The second half numbers
    records for itself; these tell it that both halves mean the same records."""
    bytes_read: int
    keyless_count: int

    @property
    def end_offset(self) -> int:
        """The first offset that the map does not cover: the next pass's first dirty offset."""
        return self.offsets.latest_offset + 1


def build_map(
    segments: Sequence[LogSegment],
    start_offset: int,
    end_offset: int,
    *,
    aborted: Iterable[AbortedTxn],
    max_entries: int,
    secret: bytes,
    chunk_bytes: int,
    checkpoint: Callable[[int], None],
) -> DirtyMap:
    """Map the keys of `start_offset` (inclusive) to `end_offset` (exclusive), or as many as fit.

    Args:
        segments: Those that hold the range, in order; `end_offset` is where the last one ends.
        aborted: Transactions that overlap the range; their keys supersede nothing.
        secret: SECRET_BYTES that nobody can know who wrote the keys.
        checkpoint: Called before every chunk with the bytes read since; may raise to stop.

    Raises:
        CorruptRecordError: A batch or a record cannot be read.
        OSError: The disk refused.
    """
    builder = _MapBuilder(start_offset, max_entries, secret, aborted)
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    ordinal_ends: dict[int, int] = {}
    bytes_read = 0
    is_full = False
    for segment, segment_end in zip(segments, ends, strict=False):  # no segment, one end: nothing is dirty
        checkpoint(0)
        position = segment.floor_position(start_offset)
        for chunk in read_chunks(segment, position, chunk_bytes):
            bytes_read += len(chunk.data)
            is_full = not all(builder.take(chunk.data, at, batch) for at, batch in chunk.batches)
            checkpoint(len(chunk.data))
            if is_full:
                break
        ordinal_ends[segment.base_offset] = builder.offsets.record_count
        if is_full:
            break
        # Offsets that no batch has are covered too, or a pass over a hole would end where it began (KAFKA-8764).
        builder.offsets.latest_offset = segment_end - 1
    builder.offsets.seal()
    return DirtyMap(builder.offsets, start_offset, ordinal_ends, bytes_read, builder.keyless_count)


class _MapBuilder:
    def __init__(self, start_offset: int, max_entries: int, secret: bytes, aborted: Iterable[AbortedTxn]) -> None:
        self.offsets = OffsetMap(max_entries)
        # With nothing dirty a pass ends where it began, and still lets go what has reached its horizon.
        self.offsets.latest_offset = start_offset - 1
        self.keyless_count = 0
        self._start_offset = start_offset
        self._secret = secret
        self._transactions = TransactionState()
        self._transactions.add_aborted(aborted)

    def take(self, data: bytes, at: int, batch: RecordBatch) -> bool:
        """Put one batch into the map; False if it became full before the batch's end."""
        if batch.is_control:
            self._transactions.on_control(batch)
        elif not self._transactions.on_data(batch) and batch.last_offset >= self._start_offset:
            if batch.base_offset < self._start_offset or batch.record_count > self.offsets.free_entries:
                if not self._take_singly(batch):
                    return False
            else:
                payload, start, end = records_block(data, at, batch)
                scanned = scan_keys(payload, start, end, batch.record_count, self._secret)
                self.offsets.add(scanned)
                if scanned.has_keyless:
                    self.keyless_count += scanned.keys.count(None)
        if batch.last_offset >= self._start_offset:
            self.offsets.latest_offset = batch.last_offset
        return True

    def _take_singly(self, batch: RecordBatch) -> bool:
        """The same for a batch of which only a part goes into the map.

        Its records all get ordinals if one of them went in; if none did, the second half takes it for a batch beyond
        the map, which has none.
        """
        offsets = self.offsets
        first = offsets.record_count
        skipped = keyless = 0
        for span in batch.spans():
            if span.key is None or span.offset < self._start_offset:
                skipped += 1
                keyless += span.offset >= self._start_offset
            elif offsets.free_entries == 0:
                if offsets.latest_offset >= batch.base_offset:
                    offsets.skip_records(first + batch.record_count - offsets.record_count)
                return False
            else:
                offsets.skip_records(skipped)
                offsets.put(map_key(span.key, self._secret), is_tombstone=not span.has_value)
                offsets.latest_offset = span.offset
                self.keyless_count += keyless
                skipped = keyless = 0
        offsets.skip_records(skipped)
        self.keyless_count += keyless
        return True


def records_block(data: bytes, at: int, batch: RecordBatch) -> tuple[bytes, int, int]:
    """The unpacked records of the batch at `data[at:]`, as a buffer with start and end; no copy where none is packed."""
    if batch.codec == 0:
        return data, at + HEADER_BYTES, at + batch.size_bytes
    payload = bytes(batch.payload())
    return payload, 0, len(payload)
