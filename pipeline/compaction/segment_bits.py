"""Bitmaps over a segment's records, one bit per record, and their combination for a group's segments.

Words have 64 bits, the lowest first, as the kernel needs them. Bits after the last record are 0.
"""

from __future__ import annotations

import struct
from array import array
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...storage.disk.files import Buffer

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]

_COUNTS = struct.Struct("=QQQ")


class SegmentBits(NamedTuple):
    """Result of stage 1 for a segment's records by itself.

    Its bytes are the counts, the words of both bitmaps, and the pairs.
    """

    numbered: int
    """Number of records that have numbers."""
    clean: int
    """Number of those below the first dirty offset; they come first."""
    keyless: int
    dead: Words
    """Records without a key, and those superseded by a dirty record of the segment."""
    tombstones: Words
    echoes: Numbers
    """Pairs of numbers (older, newer) of clean records with one key: the older is removed exactly if the newer is, or if the
    newer wins against a dirty one.

    Empty unless something other than a pass has moved the cleaner's checkpoint.
    """

    def to_bytes(self) -> bytes:
        counts = _COUNTS.pack(self.numbered, self.clean, self.keyless)
        return b"".join((counts, self.dead.tobytes(), self.tombstones.tobytes(), self.echoes.tobytes()))

    @classmethod
    def from_bytes(cls, data: Buffer) -> SegmentBits:
        count, clean, keyless = _COUNTS.unpack_from(data)
        words = (count + 63) // 64
        at = _COUNTS.size
        dead = np.frombuffer(data, np.uint64, words, at)
        tombstones = np.frombuffer(data, np.uint64, words, at + 8 * words)
        return cls(count, clean, keyless, dead, tombstones, np.frombuffer(data, np.uint32, -1, at + 16 * words))


class BitTable:
    """A bitmap combined from those of several segments."""

    def __init__(self, count: int) -> None:
        """Make `count` bits, all 0, and one more word, which the kernel needs."""
        self._words = np.zeros(count // 64 + 2, np.uint64)

    def put(self, at: int, words: Words) -> None:
        """Set the bits of `words` from bit `at` on."""
        first, shift = divmod(at, 64)
        end = first + len(words)
        self._words[first:end] |= words << np.uint64(shift)
        if shift:
            self._words[first + 1 : end + 1] |= (words >> np.uint64(64 - shift))[: len(self._words) - first - 1]

    def set(self, numbers: npt.NDArray[np.uint64]) -> None:
        """Set these bits."""
        np.bitwise_or.at(self._words, (numbers >> 6).astype(np.intp), np.uint64(1) << (numbers & np.uint64(63)))

    def are_set(self, numbers: npt.NDArray[np.uint64]) -> Bools:
        """Return which of these bits are set."""
        return (self._words[(numbers >> 6).astype(np.intp)] >> (numbers & np.uint64(63)) & np.uint64(1)).astype(
            np.bool_
        )

    def to_array(self) -> array[int]:
        """Return a copy for the kernel."""
        return array("Q", self._words.tobytes())


def unpack(words: Words, count: int) -> npt.NDArray[np.uint8]:
    """Return the first `count` bits, a byte each."""
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little")


def pack(bits: npt.NDArray[np.uint8]) -> Words:
    """Return the words of these bits; the reverse of `unpack`."""
    packed = np.packbits(bits, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
