"""Records of many batches at once, as columns of numbers.

The compiled kernel decodes them; where it is not compiled it is interpreted, seventy times slower.

The columns hold positions and lengths of keys and values, not bytes (`arrow` gathers those). Decoding and errors are those
of `RecordBatch.records`. In addition, offsets must rise within their batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...protocol.compression import MAX_DECOMPRESSED_BATCH_BYTES, decompress
from ...protocol.errors import CorruptRecordError
from ...protocol.records import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_BIT, RecordBatch
from ...storage import kernel
from .batch_window import BatchWindow, Bools, Damage, Int64s

GROUP_BYTES = 32 << 20
"""Size of unpacked records that are decoded together. A single batch may be larger."""

_RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas and three more lengths: each takes at least a byte."""


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """Headers of records, one row a header, in order. Positions and lengths as in RecordColumns."""

    counts: Int64s
    """Number of headers of each record; one row a record."""
    name_at: Int64s
    name_length: Int64s
    value_at: Int64s
    value_length: Int64s


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records of some batches, one row a record, in log order.

    Positions count from the beginning of `data` and never fall; a length of -1 means null.
    """

    window: BatchWindow
    data: NDArray[np.uint8]
    batch: Int64s
    """The row of the record's batch in `window`."""
    offset_delta: Int64s
    offset: Int64s
    timestamp_ms: Int64s
    key_at: Int64s
    key_length: Int64s
    value_at: Int64s
    value_length: Int64s
    headers: HeaderColumns

    def __len__(self) -> int:
        return len(self.offset)


def decode(window: BatchWindow) -> Iterator[RecordColumns]:
    """Decode all records of a window, about GROUP_BYTES of them at a time.

    Raises:
        CorruptRecordError: A batch cannot be decoded; `record_damage` finds it. Groups before it were yielded.
    """
    codecs = window.headers["attributes"] & CODEC_MASK
    bounds = zip((window.starts + HEADER_BYTES).tolist(), window.ends.tolist(), strict=True)
    if not codecs.any():
        data = np.frombuffer(window.data, np.uint8)
        yield from _groups_in_place(window, data)
        return
    counts = window.headers["record_count"].tolist()
    parts: list[memoryview] = []
    first, size_bytes = 0, 0
    for row, (codec, (start, end), count) in enumerate(zip(codecs.tolist(), bounds, counts, strict=True)):
        block = window.data[start:end]
        # The cleaner may keep the codec bits of a batch that it has emptied, and codecs cannot unpack an empty block.
        part = decompress(codec, block, max_bytes=MAX_DECOMPRESSED_BATCH_BYTES) if count or block else block
        parts.append(part)
        size_bytes += len(part)
        if size_bytes >= GROUP_BYTES:
            yield _decode_parts(window, first, parts)
            parts, first, size_bytes = [], row + 1, 0
    if parts:
        yield _decode_parts(window, first, parts)


def record_damage(window: BatchWindow) -> list[Damage]:
    """Find the batches of a window that cannot be decoded, and why: one by one, with the messages of `RecordBatch.records`."""
    found = []
    for row in range(len(window)):
        try:
            batch = RecordBatch(window.data, int(window.starts[row]))
            last = -1
            for record in batch.records(max_bytes=MAX_DECOMPRESSED_BATCH_BYTES):
                delta = record.offset - batch.base_offset
                if not last < delta <= batch.last_offset_delta:
                    raise CorruptRecordError(
                        f"offset delta {delta} after {last}, the batch's last is {batch.last_offset_delta}"
                    )
                last = delta
        except CorruptRecordError as error:
            expected = f"{window.headers['record_count'][row]} records that can be read"
            found.append(window.damage(row, expected, error.message))
    return found


def _groups_in_place(window: BatchWindow, data: NDArray[np.uint8]) -> Iterator[RecordColumns]:
    sizes = np.cumsum(window.ends - window.starts)
    group_of = sizes // GROUP_BYTES
    edges = [0, *(np.flatnonzero(np.diff(group_of)) + 1).tolist(), len(window)]
    for first, stop in pairwise(edges):
        if first < stop:
            yield _decode_group(window, first, data, window.starts[first:stop] + HEADER_BYTES, window.ends[first:stop])


def _decode_parts(window: BatchWindow, first: int, parts: list[memoryview]) -> RecordColumns:
    data = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1]))
    return _decode_group(window, first, data, starts, ends)


def _decode_group(
    window: BatchWindow, first: int, data: NDArray[np.uint8], starts: Int64s, ends: Int64s
) -> RecordColumns:
    """Decode the batches from `first` on, whose unpacked records are at `starts` to `ends` in `data`."""
    headers = window.headers[first : first + len(starts)]
    counts = headers["record_count"].astype(np.int64)
    if ((counts < 0) | (counts * _RECORD_BYTES_MIN > ends - starts)).any():
        raise CorruptRecordError("more records are announced than there is room for")
    total = int(counts.sum())
    out = np.empty((8, total), np.int64)
    bounds = (starts.data, ends.data, counts.data, headers["last_offset_delta"].astype(np.int64).data)
    if not kernel.record_columns(data.data, *bounds, out.reshape(-1).data):
        raise CorruptRecordError("a batch whose records cannot be read")
    timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, headers_at, header_counts = out
    batch = np.repeat(np.arange(len(counts)), counts)
    timestamp_ms = headers["base_timestamp"].astype(np.int64)[batch] + timestamp_delta
    append_time = (headers["attributes"] & LOG_APPEND_TIME_BIT != 0)[batch]
    if append_time.any():
        timestamp_ms = np.where(append_time, headers["max_timestamp"].astype(np.int64)[batch], timestamp_ms)
    return RecordColumns(
        window=window,
        data=data,
        batch=batch + first,
        offset_delta=offset_delta,
        offset=headers["base_offset"].astype(np.int64)[batch] + offset_delta,
        timestamp_ms=timestamp_ms,
        key_at=key_at,
        key_length=key_length,
        value_at=value_at,
        value_length=value_length,
        headers=_record_headers(data, headers_at, header_counts),
    )


def _record_headers(data: NDArray[np.uint8], places: Int64s, counts: Int64s) -> HeaderColumns:
    out = np.empty((4, int(counts.sum())), np.int64)
    if not kernel.header_columns(data.data, places.data, counts.data, out.reshape(-1).data):
        raise CorruptRecordError("a record whose headers cannot be read")
    return HeaderColumns(counts, *out)


def rows_of(columns: RecordColumns, chosen: Bools) -> RecordColumns:
    """Return the records that a mask with one entry per row selects."""
    if chosen.all():
        return columns
    headers = columns.headers
    kept = np.repeat(chosen, headers.counts)
    headers = HeaderColumns(
        headers.counts[chosen],
        headers.name_at[kept],
        headers.name_length[kept],
        headers.value_at[kept],
        headers.value_length[kept],
    )
    return RecordColumns(
        columns.window,
        columns.data,
        columns.batch[chosen],
        columns.offset_delta[chosen],
        columns.offset[chosen],
        columns.timestamp_ms[chosen],
        columns.key_at[chosen],
        columns.key_length[chosen],
        columns.value_at[chosen],
        columns.value_length[chosen],
        headers,
    )
