"""Headers of many batches at once: all whole batches in a piece of a log file, as columns.

A loop in Python only hops from length to length; every other field of all headers is one NumPy gather, by the layout of
`protocol.records`. Bytes that cannot be a batch, or fail the CRC, are a `Damage` with the place and the expected value.

    piece    [header|…][header|…][header|…][hea      starts  0, 190, 372      ends  190, 372, 561
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from ...protocol.records import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    HEADER_FIELDS,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from ...storage.disk.paths import OFFSET_MAX
from ..errors import CorruptSourceError

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

HEADER = np.dtype([(name, ">" + (kind.upper() if name == "attributes" else kind)) for name, kind in HEADER_FIELDS])
"""A row of `protocol.records.HEADER_FIELDS`, with attributes as bits: no number that may be negative."""

_HEADER_AT = np.arange(HEADER_BYTES)
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Damage(NamedTuple):
    """A problem at one place of a log file. Its text is one complete line."""

    file: str
    position: int
    """Position in the file at which the batch begins."""
    offset: int
    """The batch's base offset, if its bytes are plausible; -1 if there are too few of them."""
    expected: str
    actual: str
    size_bytes: int
    """Number of bytes to skip if the damage is tolerated: the batch, or everything up to the next known one."""
    record_count: int
    """Number of records that the batch announces; 0 if no header can be read."""

    def __str__(self) -> str:
        return str(self.error())

    def error(self) -> CorruptSourceError:
        """Return the error that FAILFAST raises."""
        return CorruptSourceError.from_position(
            self.file, self.position, self.offset, expected=self.expected, actual=self.actual
        )


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """Consecutive whole batches, or a selection of them. One row per batch."""

    file: str
    position: int
    """Position of `data` in the file."""
    data: memoryview
    starts: Int64s
    """Positions in `data`, not in the file."""
    ends: Int64s
    headers: NDArray[Any]
    """Rows of HEADER."""

    def __len__(self) -> int:
        return len(self.starts)

    def column(self, name: str) -> Int64s:
        """Return one header field of every batch."""
        values: Int64s = self.headers[name].astype(np.int64)
        return values

    @property
    def base_offsets(self) -> Int64s:
        return self.column("base_offset")

    @property
    def last_offsets(self) -> Int64s:
        return self.column("base_offset") + self.column("last_offset_delta")

    def only(self, chosen: Bools) -> BatchWindow:
        """Return the batches that a mask with one entry per row selects."""
        if chosen.all():
            return self
        return BatchWindow(
            self.file, self.position, self.data, self.starts[chosen], self.ends[chosen], self.headers[chosen]
        )

    def damage(self, row: int, expected: str, actual: str) -> Damage:
        """Return damage of the batch in this row."""
        start, header = int(self.starts[row]), self.headers[row]
        return Damage(
            self.file,
            self.position + start,
            int(header["base_offset"]),
            expected,
            actual,
            int(self.ends[row]) - start,
            max(0, int(header["record_count"])),
        )


def window_of(data: memoryview, *, file: str = "", position: int = 0) -> BatchWindow:
    """Return the whole batches at the beginning of `data`, up to the first place that has none or a truncated one.

    CRCs and the batches' contents are not checked.

    Args:
        file, position: File and position of `data`, for messages.
    """
    edges, at, size_bytes = [0], 0, len(data)
    overhead_at = LOG_OVERHEAD.unpack_from
    while at + HEADER_BYTES <= size_bytes:
        _, length = overhead_at(data, at)
        end = at + LOG_OVERHEAD_BYTES + length
        if length < _LENGTH_MIN or end > size_bytes:
            break
        edges.append(end)
        at = end
    places = np.array(edges, np.int64)
    headers = _headers(data, places[:-1])
    strange = np.flatnonzero(headers["magic"] != MAGIC)
    count = int(strange[0]) if strange.size else len(headers)
    return BatchWindow(file, position, data, places[:count], places[1 : count + 1], headers[:count])


def no_batch(data: memoryview, left_bytes: int, *, file: str, position: int) -> Damage | None:
    """Return why no batch begins at the start of `data`; None if one may. `left_bytes` is the rest of the file."""
    if left_bytes < HEADER_BYTES or len(data) < HEADER_BYTES:
        return Damage(
            file, position, -1, f"a batch header of {HEADER_BYTES} bytes", f"{left_bytes} bytes", left_bytes, 0
        )
    offset, length = LOG_OVERHEAD.unpack_from(data)
    magic, size_bytes = data[MAGIC_POSITION], LOG_OVERHEAD_BYTES + length
    if magic != MAGIC:
        return Damage(file, position, offset, f"a batch of magic {MAGIC}", f"magic {magic}", left_bytes, 0)
    if not HEADER_BYTES <= size_bytes <= left_bytes:
        expected = f"a batch of {HEADER_BYTES} to {left_bytes} bytes"
        return Damage(file, position, offset, expected, f"{size_bytes} bytes", left_bytes, 0)
    return None


def header_damage(window: BatchWindow, last_offset: int, end_offset: int = OFFSET_MAX) -> list[Damage]:
    """Return what is wrong with headers and CRCs, at most one damage per batch, in order.

    Args:
        last_offset: That of the batch before the window. A batch must begin above the one before it.
        end_offset: Start of the next segment. No batch may reach it.
    """
    starts, ends, headers, data = window.starts, window.ends, window.headers, window.data
    stored, computed = headers["crc"], _crcs(data, starts, ends)
    found = {
        row: window.damage(row, f"CRC-32C {int(stored[row]):#010x}", f"{int(computed[row]):#010x}")
        for row in np.flatnonzero(computed != stored).tolist()
    }
    for row in np.flatnonzero((headers["last_offset_delta"] < 0) | (headers["record_count"] < 0)).tolist():
        actual = f"last offset delta {headers['last_offset_delta'][row]}, {headers['record_count'][row]} records"
        found.setdefault(row, window.damage(row, "counts that are not negative", actual))
    for row in np.flatnonzero(window.last_offsets >= end_offset).tolist():
        found.setdefault(row, window.damage(row, f"offsets below {end_offset}", f"{window.last_offsets[row]}"))
    sound = np.setdiff1d(np.arange(len(window)), list(found))
    base_offsets, last_offsets = window.base_offsets[sound], window.last_offsets[sound]
    # After a base offset that is far too high, all others would look too low, so each is compared only with its neighbour.
    before = np.concatenate(([last_offset], last_offsets))[:-1]
    for place in np.flatnonzero(base_offsets <= before):
        row = int(sound[place])
        found[row] = window.damage(row, f"a base offset above {before[place]}", f"{base_offsets[place]}")
    return [found[row] for row in sorted(found)]


def without(window: BatchWindow, damages: list[Damage]) -> BatchWindow:
    """Return the batches of a window without damage."""
    if not damages:
        return window
    places = np.array([damage.position - window.position for damage in damages], np.int64)
    return window.only(~np.isin(window.starts, places))


def _headers(data: memoryview, starts: Int64s) -> NDArray[Any]:
    if not starts.size:
        return np.empty(0, HEADER)
    rows: NDArray[Any] = np.frombuffer(data, np.uint8)[starts[:, None] + _HEADER_AT].view(HEADER)
    return rows.reshape(-1)


def _crcs(data: memoryview, starts: Int64s, ends: Int64s) -> NDArray[np.uint32]:
    covered = starts + ATTRIBUTES_POSITION
    return np.array([crc32c(data[a:b]) for a, b in zip(covered.tolist(), ends.tolist(), strict=True)], np.uint32)
