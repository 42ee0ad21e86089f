"""Iteration over the records of many batches at once, and decoding of many variable-length integers at once.

Each record begins with its length, so a loop over one batch can only hop from record to record. But all batches of a
window can hop together: step `i` reads the length of the `i`-th record of every batch in one NumPy operation. A window
of few batches has too few lanes for that, and a plain loop hops through it.

    lanes   batch 0  |r0|r1  |r2|        steps  0      1      2
            batch 1  |r0    |r1|r2|             r0 r0  r1 r1  r2 r2
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...protocol.errors import CorruptRecordError
from ...protocol.varints import read_varint
from .batch_window import Int64s

LANES_MIN = 64
"""With fewer batches than this a step of all lanes together costs more than a plain loop over their records."""

VARINT_BYTES_MAX, VARLONG_BYTES_MAX = 5, 10
_BLANK = np.empty(0, np.int64)
_OF_ONE_BYTE: Int64s = np.array([byte >> 1 ^ -(byte & 1) for byte in range(0x80)], np.int64)


def check(holds: bool | np.bool_, what: str) -> None:
    """Raise CorruptRecordError with this text unless the condition holds."""
    if not holds:
        raise CorruptRecordError(what)


def hop(data: NDArray[np.uint8], starts: Int64s, ends: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return where the fields of each record begin, after its length, and where the record ends.

    Args:
        starts, ends: Bounds of each batch's records in `data`; `counts` are their numbers.

    Raises:
        CorruptRecordError: Lengths are impossible.
        IndexError: A record leaves the data.
    """
    total = int(counts.sum())
    if total == 0:
        body_at = record_end = _BLANK
        check((starts == ends).all(), "bytes in a batch without records")
    elif total >= LANES_MIN * int(counts.max()):
        body_at, record_end = _hop_together(data, starts, ends, counts, total)
    else:
        body_at, record_end = _hop_alone(data, starts, ends, counts)
    check((body_at <= record_end).all(), "a record of negative length")
    return body_at, record_end


def _hop_together(
    data: NDArray[np.uint8], starts: Int64s, ends: Int64s, counts: Int64s, total: int
) -> tuple[Int64s, Int64s]:
    body_at, record_end = np.empty(total, np.int64), np.empty(total, np.int64)
    # The batches with the most records first: those still hopping are always the first ones.
    order = np.argsort(-counts, kind="stable")
    rows = (np.cumsum(counts) - counts)[order]
    at = starts[order]
    hopping = np.searchsorted(-counts[order], -np.arange(int(counts.max())), side="left")
    for step, lanes in enumerate(hopping.tolist()):
        length, after = varints(data, at[:lanes], VARINT_BYTES_MAX)
        places = rows[:lanes] + step
        body_at[places] = after
        after += length
        record_end[places] = after
        at[:lanes] = after
    check((at == ends[order]).all(), "records do not end where their batch does")
    return body_at, record_end


def _hop_alone(data: NDArray[np.uint8], starts: Int64s, ends: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    body_at: list[int] = []
    record_end: list[int] = []
    for start, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
        block, at = data[start:end].tobytes(), 0  # indexing bytes is faster than indexing a view
        for _ in range(count):
            byte = block[at]
            length, at = (byte >> 1 ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(block, at)
            body_at.append(start + at)
            at += length
            record_end.append(start + at)
        check(start + at == end, "records do not end where their batch does")
    return np.array(body_at, np.int64), np.array(record_end, np.int64)


def varints(data: NDArray[np.uint8], at: Int64s, byte_count_max: int) -> tuple[Int64s, Int64s]:
    """Decode `read_varint` (at most 5 bytes) or `read_varlong` (10) at many places: the values, and the positions after them.

    Raises:
        IndexError: A place is after the end of the data.
    """
    byte = data[at]
    after = at + 1
    is_longer = byte >= 0x80
    if not is_longer.any():
        return _OF_ONE_BYTE[byte], after
    raw = (byte & 0x7F).astype(np.uint64)
    # Most record lengths of one log have the same size in bytes, and whole columns are faster than selections of rows.
    where: slice | Int64s = slice(None) if is_longer.all() else np.flatnonzero(is_longer)
    shift = 7
    while True:
        check(shift < 7 * byte_count_max, f"a variable-length integer of more than {byte_count_max} bytes")
        byte = data[after[where]]
        raw[where] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[where] += 1
        shift += 7
        is_longer = byte >= 0x80
        if not is_longer.any():
            break
        if not is_longer.all():
            where = np.flatnonzero(is_longer) if isinstance(where, slice) else where[is_longer]
    if byte_count_max == VARINT_BYTES_MAX and shift == 7 * byte_count_max:
        raw &= np.uint64(0xFFFF_FFFF)  # bits beyond the width are dropped
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), after
