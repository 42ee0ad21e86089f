"""Stage 1 of a compaction: one segment's keys, through the server's own map.

A segment is scanned in up to two zones, each with a map of its own. Clean records (below the first dirty offset) are
superseded only by dirty ones, never by one another:

    base              first dirty                  end
    | batch | batch | ba:tch | batch | batch | batch |
    |_____ clean ______|_________ dirty ____________|      the batch across the border is scanned twice

    numbers   0 1 2 …                                      of the data records in order, aborted ones left out

If records have versions, an entry has the version of its record, and the newest record of a key is the one with the highest.

Memory: the table, 24 bytes for each record of the segment, then 16 for each key; and its bitmaps. With versions 48, then 24.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from ...protocol.errors import KafkaError
from ...protocol.records import (
    ATTRIBUTES_POSITION,
    COUNT_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    RecordBatch,
    batch_size,
)
from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.filter.batch_chunks import ChunkReader, place_of, unpacked
from ...storage.filter.map_builder import MapBuilder
from ...storage.filter.offset_map import OffsetMap
from ...storage.filter.transaction_state import PassTransactions
from ...storage.kernel import Stop
from ...storage.segment.segment import LogSegment
from ...storage.topics.versions import NO_VERSION, VersionSource
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .plan import KEY_HASH, CompactionPlan
from .segment_bits import Numbers, SegmentBits, Words, pack, unpack

CHUNK_BYTES = 1 << 20

Entries = npt.NDArray[np.uint64]
"""Entries of two words, in order of the hash: 64 bits of it; 32 more bits of it, and the record's number + 1. With versions,
a third word has the version."""


class KeyScan(NamedTuple):
    """Result of scanning one segment by itself."""

    clean: Entries
    """The newest record of each key below the first dirty offset. `dirty` has those above it."""
    dirty: Entries
    bits: SegmentBits


def scan_segment(plan: CompactionPlan, number: int, files: Files) -> KeyScan:
    """Scan the source of this number; every batch's CRC is checked.

    Raises:
        CorruptSourceError: A batch fails its CRC, or cannot be read.
        SourceChangedError: The segment is not the one that was planned.
        UsageError: This process hashes keys in another way than the one that made the plan.
    """
    if plan.key_hash != KEY_HASH:
        raise UsageError(f"the plan needs keys hashed with {plan.key_hash}, but this worker's kernel uses {KEY_HASH}")
    path = paths.log_path(plan.directory, plan.sources[number].base_offset)
    segment = open_source(plan, number, files)
    try:
        return _Scan(plan, number, segment, path).run()
    except KafkaError as error:
        raise _damage(segment, path, error) from error
    finally:
        segment.log_file.close()


def open_source(plan: CompactionPlan, number: int, files: Files) -> LogSegment:
    """Open the segment with this number. Raises SourceChangedError if its size differs from the planned one."""
    source = plan.sources[number]
    path = paths.log_path(plan.directory, source.base_offset)
    try:
        segment = LogSegment.open(files, plan.directory, source.base_offset, plan.log_config, 0)
    except FileNotFoundError as error:
        raise SourceChangedError(f"{path}: expected a segment of plan {plan.plan_id}, found no file") from error
    if segment.size_bytes != source.size_bytes:
        segment.log_file.close()
        raise SourceChangedError(f"{path}: expected {source.size_bytes} bytes, found {segment.size_bytes}")
    return segment


class _Scan:
    def __init__(self, plan: CompactionPlan, number: int, segment: LogSegment, path: str) -> None:
        self._plan = plan
        self._source = plan.sources[number]
        self._segment = segment
        self._path = path
        self._border = plan.first_dirty_offset
        self._reader = ChunkReader(CHUNK_BYTES)
        self._headers_crc = 0
        self._record_bytes_max = plan.log_config.max_decompressed_message_bytes
        self._versions = plan.log_config.version_source

    def run(self) -> KeyScan:
        position, end = self._position_of_border(), self._segment.size_bytes
        clean, builder = self._map(self._source.base_offset)
        self._feed(builder, 0, position)
        shared = self._take_below_border(clean, builder, position) if position < end else 0
        dirty, builder = self._map(max(self._source.base_offset, self._border))
        self._feed(builder, position, end)
        if self._headers_crc != self._source.headers_crc:
            raise SourceChangedError(
                f"{self._path}: expected batch headers of CRC {self._source.headers_crc:#x}, found {self._headers_crc:#x}"
            )
        before = clean.keys.records - shared
        return KeyScan(
            _entries(clean, 0, self._versions),
            _entries(dirty, before, self._versions),
            self._bits(clean, dirty, shared),
        )

    def _position_of_border(self) -> int:
        """Return the position of the first batch that reaches the dirty part; the segment's end if none does."""
        if self._border <= self._source.base_offset:
            return 0
        position = None if self._border >= self._source.end_offset else self._segment.position_of(self._border)
        return self._segment.size_bytes if position is None else position

    def _map(self, start_offset: int) -> tuple[OffsetMap, MapBuilder]:
        """Make a map that has room for all keys."""
        records = max(1, self._source.record_count) * (1 if self._versions is None else 2)
        offsets = OffsetMap(
            start_offset,
            max(self._source.end_offset, start_offset + 1),
            slots_max=records * 3 // 2 + 1,
            entries_max=records,
            secret=self._plan.secret,
            version_source=self._versions,
        )
        offsets.keys.visible_from = self._plan.log_start_offset
        return offsets, MapBuilder(offsets, start_offset, self._source.aborted, self._reader, self._record_bytes_max)

    def _feed(self, builder: MapBuilder, position: int, end: int) -> None:
        for size_bytes in self._reader.chunks(self._segment, position, end):
            position += self._check_crcs(position, self._reader.view[:size_bytes])
            taken = builder.take(self._segment, size_bytes)
            if not taken:
                raise RuntimeError(f"{self._path}: a map with room for all records became full")

    def _check_crcs(self, position: int, view: memoryview) -> int:
        """Check the whole batches of a chunk that was read at `position`, and return their size in bytes."""
        at = 0
        while len(view) - at >= HEADER_BYTES:
            base_offset, length = LOG_OVERHEAD.unpack_from(view, at)
            end = at + LOG_OVERHEAD_BYTES + length
            if (
                not at + HEADER_BYTES <= end <= len(view)
            ):  # the rest comes with the next chunk, or the kernel rejects it
                break
            crc = int.from_bytes(view[at + CRC_POSITION : at + ATTRIBUTES_POSITION])
            if (computed := crc32c(view[at + ATTRIBUTES_POSITION : end])) != crc:
                raise CorruptSourceError.from_position(
                    self._path,
                    position + at,
                    base_offset,
                    expected=f"a batch with the CRC {crc:#010x} of its header",
                    actual=f"{computed:#010x}",
                )
            self._headers_crc = crc32c(view[at : at + HEADER_BYTES], self._headers_crc)
            at = end
        return at

    def _take_below_border(self, clean: OffsetMap, builder: MapBuilder, position: int) -> int:
        """Add the records below the border of the batch at `position`, if it has some, and return their number."""
        size_bytes = batch_size(self._segment.log_file.read_at(position, LOG_OVERHEAD_BYTES))
        data = memoryview(self._segment.log_file.read_at(position, size_bytes))
        batch = RecordBatch(data)
        if batch.base_offset >= self._border or batch.is_control or builder.transactions.on_data(batch):
            return 0
        payload = unpacked(place_of(self._segment), data, 0, self._record_bytes_max)
        below = [span for span in batch.spans(payload) if span.offset < self._border]
        header = bytearray(data[:HEADER_BYTES])
        header[COUNT_POSITION:HEADER_BYTES] = len(below).to_bytes(4)
        clean.grow(len(below))
        stop = clean.keys.build_block(memoryview(header), 0, memoryview(payload)[: below[-1].end if below else 0])
        if stop != Stop.DONE:
            raise RuntimeError(f"{self._path}: a map with room for all records stopped: {stop!r}")
        return len(below)

    def _bits(self, clean: OffsetMap, dirty: OffsetMap, shared: int) -> SegmentBits:
        before, after = clean.keys.records, dirty.keys.records
        if before == 0:
            dead, tombstones, echoes = _words(dirty.dead, after), _words(dirty.tombstones, after), _NONE
        else:
            dead_before, echoes = self._dead_in_clean(clean)
            dead_after, tombs_after = (
                unpack(_words(bits, after), after)[shared:] for bits in (dirty.dead, dirty.tombstones)
            )
            dead = pack(np.concatenate((dead_before, dead_after)))
            tombs_before = unpack(_words(clean.tombstones, before), before)
            tombstones = pack(np.concatenate((tombs_before, tombs_after)))
        keyless = clean.keys.keyless + dirty.keys.keyless
        return SegmentBits(before - shared + after, before, keyless, dead, tombstones, echoes)

    def _dead_in_clean(self, clean: OffsetMap) -> tuple[npt.NDArray[np.uint8], Numbers]:
        """Return the keyless records below the border, a byte each, and the echoes among the others."""
        count = clean.keys.records
        dead = unpack(_words(clean.dead, count), count)
        if int(dead.sum()) == clean.keys.keyless:
            return dead, _NONE
        newest: dict[bytes, tuple[int, int]] = {}
        keys = list(self._clean_keys())
        for number, (key, version) in enumerate(keys):
            dead[number] = key is None
            if key is not None:
                newest[key] = max(newest.get(key, (version, number)), (version, number))
        pairs = [
            (number, newest[key][1])
            for number, (key, _) in enumerate(keys)
            if key is not None and newest[key][1] != number
        ]
        return dead, np.array(pairs, np.uint32).reshape(-1)

    def _clean_keys(self) -> Iterator[tuple[bytes | None, int]]:
        """Yield each key and version in Python, a hundred times as slow: only for logs that differ from a pass's result."""
        transactions = PassTransactions()
        transactions.add_aborted(self._source.aborted)
        for _, batch in self._segment.batches():
            if batch.base_offset >= self._border:
                return
            if batch.is_control:
                transactions.on_control(batch)
            elif not transactions.on_data(batch):
                if self._versions is None:
                    yield from ((span.key, 0) for span in batch.spans() if span.offset < self._border)
                    continue
                for record in batch.records():
                    if record.offset < self._border:
                        is_visible = record.offset >= self._plan.log_start_offset
                        version = self._versions.version(record.timestamp, record.headers) if is_visible else NO_VERSION
                        yield record.key, version


def entry_words(versions: VersionSource | None) -> int:
    """Return the number of words of an entry."""
    return 2 if versions is None else 3


def _entries(offsets: OffsetMap, before: int, versions: VersionSource | None) -> Entries:
    """Return a map's used slots, with their numbers raised by `before`."""
    if offsets.keys.entries == 0:
        return np.empty((0, entry_words(versions)), np.uint64)
    table = np.frombuffer(offsets.table, np.uint64).reshape(-1, 2)
    is_used = table[:, 1] != 0
    entries: Entries = table[is_used]
    entries[:, 1] += np.uint64(before)
    if offsets.versions is None:
        return entries
    found = np.frombuffer(offsets.versions, np.uint64).reshape(-1, 2)[is_used, 0]
    return np.column_stack((entries, found))


def _words(bits: array[int], count: int) -> Words:
    return np.frombuffer(bits, np.uint64, (count + 63) // 64)


def _damage(segment: LogSegment, path: str, found: KafkaError) -> CorruptSourceError:
    """Find the batch that cannot be read. Speed does not matter here, as the job fails anyway."""
    position, offset = 0, segment.base_offset
    try:
        for position, batch in segment.batches():
            offset = batch.base_offset
            for _ in batch.spans():
                pass
            position, offset = position + batch.size_bytes, batch.next_offset  # where the next one would be
    except KafkaError as error:
        found = error
    return CorruptSourceError.from_position(
        path, position, offset, expected="a batch with the number of records in its header", actual=found.message
    )


_NONE: Numbers = np.empty(0, np.uint32)
