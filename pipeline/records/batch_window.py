"""Many batches at once: the headers of all whole batches in a piece of a log file, as columns.

A loop in Python only hops from length to length; every other field of all headers is one NumPy gather, by the layout of
`protocol.records`. What cannot be a batch, or fails its CRC, is a `Damage` that says where it is and
what was expected there.

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
    """What is wrong at one place of a log file. As text it is one line that needs no other to be understood."""

    file: str
    position: int
    """Byte in the file where the batch begins."""
    offset: int
    """The batch's base offset, as far as its bytes can be believed; -1 where there are too few of them."""
    expected: str
    actual: str
    size_bytes: int
    """What is passed over if the damage is tolerated: the batch, or all up to the next known one."""
    record_count: int
    """How many records the batch announces; 0 where no header can be read."""

    def __str__(self) -> str:
        return str(self.error())

    def error(self) -> CorruptSourceError:
        """What FAILFAST raises."""
        return CorruptSourceError.at(self.file, self.position, self.offset, expected=self.expected, actual=self.actual)


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """Whole batches that lie back to back, or what is left of them after a choice. One row a batch."""

    file: str
    position: int
    """Where `data` begins in the file."""
    data: memoryview
    starts: Int64s
    """Positions in `data`, not in the file."""
    ends: Int64s
    headers: NDArray[Any]
    """Rows of HEADER."""

    def __len__(self) -> int:
        return len(self.starts)

    def column(self, name: str) -> Int64s:
        """One header field of every batch."""
        values: Int64s = self.headers[name].astype(np.int64)
        return values

    @property
    def base_offsets(self) -> Int64s:
        return self.column("base_offset")

    @property
    def last_offsets(self) -> Int64s:
        return self.column("base_offset") + self.column("last_offset_delta")

    def only(self, chosen: Bools) -> BatchWindow:
        """The batches that a mask of as many rows chooses."""
        if chosen.all():
            return self
        return BatchWindow(
            self.file, self.position, self.data, self.starts[chosen], self.ends[chosen], self.headers[chosen]
        )

    def damage(self, row: int, expected: str, actual: str) -> Damage:
        """Something is wrong with the batch in this row."""
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
    """The whole batches at the beginning of `data`, up to the first place where none begins or one is cut short.

    CRCs and what the batches hold are not looked at.

    Args:
        file, position: Where `data` was read, for messages.
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
    """Why no batch begins at the beginning of `data`; None if one may, `left_bytes` being all there is of the file."""
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
    """What is wrong with headers and CRCs, at most one damage a batch, in order.

    Args:
        last_offset: Of the batch before the window; a batch must begin above the one before it.
        end_offset: Where the next segment begins; no batch may reach it.
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
    # A base offset far too high would make all that follow look too low, so each is compared with its neighbour only.
    before = np.concatenate(([last_offset], last_offsets))[:-1]
    for place in np.flatnonzero(base_offsets <= before):
        row = int(sound[place])
        found[row] = window.damage(row, f"a base offset above {before[place]}", f"{base_offsets[place]}")
    return [found[row] for row in sorted(found)]


def without(window: BatchWindow, damages: list[Damage]) -> BatchWindow:
    """The batches of a window at whose places nothing was found wrong."""
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
