"""First half of a clean pass: read the dirty part of a log and learn which record of each key is the newest."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...protocol.records import RecordBatch, batch_size
from ..kernel import Stop
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from .batch_chunks import ChunkReader, place_of, unpacked, unreadable
from .dead_bits import DeadBits
from .offset_map import OffsetMap
from .transaction_state import PassTransactions


class DirtyMap(NamedTuple):
    """A map of the dirty part, with what the second half needs to use it."""

    offsets: OffsetMap
    first_dirty_offset: int
    ordinal_ends: dict[int, int]
    """Segment base offset -> number after its last numbered record; see `DeadBits`."""
    bytes_read: int

    @property
    def end_offset(self) -> int:
        """The first offset that the map does not cover: the next pass's first dirty offset."""
        return self.offsets.latest_offset + 1

    def dead_bits(self) -> DeadBits:
        """Return the bitmaps and the table; valid until the map's memory is used again."""
        offsets, keys = self.offsets, self.offsets.keys
        return DeadBits(
            offsets.dead,
            offsets.tombstones,
            keys.records,
            keys.keyless,
            self.first_dirty_offset,
            offsets.latest_offset,
            offsets.table,
            offsets.slots,
            offsets.secret,
            self.ordinal_ends,
            offsets.versions,
            None if offsets.versions is None else array("Q", b"\xff" * (8 * len(offsets.dead))),
        )


def build_map(
    offsets: OffsetMap,
    segments: Sequence[LogSegment],
    start_offset: int,
    end_offset: int,
    *,
    aborted: Iterable[AbortedTxn],
    reader: ChunkReader,
    record_bytes_max: int,
    checkpoint: Callable[[int], None],
) -> DirtyMap:
    """Map the keys of `start_offset` (inclusive) to `end_offset` (exclusive), or as many as fit.

    Args:
        offsets: An empty map of that range. If nothing is dirty, it stays empty: the pass ends where it began, and only
            removes what has reached its delete horizon.
        segments: The segments of the range, in order; `end_offset` is the end of the last one.
        aborted: Transactions that overlap the range; their keys supersede nothing.
        record_bytes_max: `max.decompressed.message.bytes`.
        checkpoint: Called before every chunk with the bytes read since; may raise to stop.

    Raises:
        CorruptRecordError: A batch or a record cannot be read.
        OSError: The disk refused.
    """
    builder = MapBuilder(offsets, start_offset, aborted, reader, record_bytes_max)
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    ordinal_ends: dict[int, int] = {}
    bytes_read = 0
    is_full = False
    for segment, segment_end in zip(segments, ends, strict=False):  # no segment, one end: nothing is dirty
        checkpoint(0)
        for size_bytes in reader.chunks(segment, segment.floor_position(start_offset)):
            bytes_read += size_bytes
            is_full = not builder.take(segment, size_bytes)
            checkpoint(size_bytes)
            if is_full:
                break
        ordinal_ends[segment.base_offset] = offsets.keys.records
        if is_full:
            break
        # Offsets without a batch are covered also, or a pass over a gap would end where it began (KAFKA-8764).
        offsets.keys.latest_offset = segment_end - 1
    return DirtyMap(offsets, start_offset, ordinal_ends, bytes_read)


def look_back(
    offsets: OffsetMap,
    segments: Sequence[LogSegment],
    log_start_offset: int,
    start_offset: int,
    *,
    aborted: Iterable[AbortedTxn],
    reader: ChunkReader,
    record_bytes_max: int,
    checkpoint: Callable[[int], None],
) -> int:
    """Let the records below the dirty part compete with those in the map, which needs versions; returns the bytes read.

    Args:
        offsets: The finished map of the dirty part.
        segments: The segments below `start_offset`, where the dirty part begins; the last one may reach into it.
        log_start_offset: Records below it are deleted, and win against none.
        aborted: Transactions that overlap the segments.

    Raises:
        As `build_map`.
    """
    covered = offsets.latest_offset
    offsets.keys.looks_back, offsets.keys.visible_from = True, log_start_offset
    builder = MapBuilder(offsets, start_offset, aborted, reader, record_bytes_max)
    bytes_read = 0
    for segment in segments:
        checkpoint(0)
        for size_bytes in reader.chunks(segment, 0):
            bytes_read += size_bytes
            builder.take(segment, size_bytes)
            checkpoint(size_bytes)
    offsets.keys.latest_offset = covered  # control batches and aborted ones have moved it
    return bytes_read


class MapBuilder:
    """Puts batches into a map, in order. `transactions` has the aborted transactions."""

    def __init__(
        self,
        offsets: OffsetMap,
        start_offset: int,
        aborted: Iterable[AbortedTxn],
        reader: ChunkReader,
        record_bytes_max: int,
    ) -> None:
        """
        Args:
            start_offset: Records below it are not put into the map, but get numbers if their batch reaches it.
            aborted: Aborted transactions that overlap the coming batches; their records get no numbers.
            record_bytes_max: `max.decompressed.message.bytes`.
        """
        self.transactions = PassTransactions()
        self._offsets = offsets
        self._start_offset = start_offset
        self._reader = reader
        self._record_bytes_max = record_bytes_max
        self.transactions.add_aborted(aborted)
        offsets.keys.wary_from = self.transactions.wary_from

    def take(self, segment: LogSegment, size_bytes: int) -> bool:
        """Put the whole batches of the reader's chunk into the map; False if it became full.

        Raises:
            CorruptRecordError: A batch or a record cannot be read.
        """
        view, keys = self._reader.view, self._offsets.keys
        at = 0
        while True:
            at, stop = keys.build(view, at, size_bytes)
            if stop == Stop.DONE:
                self._reader.advance(at)
                return True
            if stop == Stop.COMPRESSED:
                payload = unpacked(place_of(segment), view, at, self._record_bytes_max)
                while (stop := keys.build_block(view, at, payload)) == Stop.GROW:
                    self._offsets.grow(RecordBatch(view, at).record_count)
                if stop == Stop.DONE:
                    at += batch_size(view[at:])
                    continue
            if stop == Stop.FULL:
                return False
            elif stop == Stop.GROW:
                self._offsets.grow(RecordBatch(view, at).record_count)
            elif stop == Stop.CORRUPT:
                raise unreadable(place_of(segment), view, at)
            else:
                at += self._take_transactional(RecordBatch(view, at))

    def _take_transactional(self, batch: RecordBatch) -> int:
        """Take a control batch or one that may be of an aborted transaction; returns the bytes to skip."""
        transactions, keys = self.transactions, self._offsets.keys
        if batch.is_control:
            transactions.on_control(batch)
        elif not transactions.on_data(batch):
            keys.wary_from = max(transactions.wary_from, batch.next_offset)  # not aborted: the kernel takes it
            return 0
        if batch.last_offset >= self._start_offset:
            keys.latest_offset = batch.last_offset
        keys.wary_from = transactions.wary_from
        return batch.size_bytes
