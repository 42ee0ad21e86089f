"""Map from keys to offsets in about 40 bytes for each key, besides the key itself: a third of what a dict needs.

With versions, which take 8 bytes more, the highest version of a key stays. So a deleted key stays as well, with its version.

Entries are in arrays, in the order of their first record:

    keys     k1k2k3…       all keys, one after the other
    ends     2 4 6 …       where each key ends
    offsets  17 -1 19 …    -1: the key was deleted
    versions 5 2 7 …       only with versions
    slots    . 1 . 0 2 …   open addressing by Python's hash of the key, at most half full
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ...storage.topics.versions import VersionSource

_SLOTS_MIN = 16
_DELETED = -1


class KeyOffsets:
    """The offset of one record of each key."""

    def __init__(self, source: VersionSource | None = None) -> None:
        """
        Args:
            source: Where records have their versions; None: the last record of a key stays.
        """
        self.source = source
        self._live = 0
        self._versions = None if source is None else array("q")
        self._keys, self._ends, self._offsets = bytearray(), array("q"), array("q")
        self._slots = array("i", [-1]) * _SLOTS_MIN

    def __len__(self) -> int:
        return self._live

    @property
    def needed(self) -> int:
        """Number of keys that `drop_deleted` keeps."""
        return self._live if self._versions is None else len(self._ends)

    @property
    def key_bytes(self) -> int:
        """Bytes of all keys in memory. Some of them may be deleted; see `drop_deleted`."""
        return len(self._keys)

    def copy(self) -> KeyOffsets:
        """Return a copy, which later changes do not change."""
        made = KeyOffsets(self.source)
        made._versions = None if self._versions is None else self._versions[:]
        made._live, made._keys, made._ends = self._live, self._keys[:], self._ends[:]
        made._offsets, made._slots = self._offsets[:], self._slots[:]
        return made

    def __iter__(self) -> Iterator[bytes]:
        """Yield each key, as `items`."""
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield each key and its offset, as of the first step; the map may change between two steps."""
        keys, ends, offsets = bytes(self._keys), self._ends[:], self._offsets[:]
        begin = 0
        for end, offset in zip(ends, offsets, strict=True):
            if offset != _DELETED:
                yield keys[begin:end], offset
            begin = end

    def get(self, key: bytes) -> int | None:
        """Return the offset of a key; None if it has none."""
        entry = self._slots[self._slot(key)]
        return None if entry < 0 or self._offsets[entry] == _DELETED else self._offsets[entry]

    def set(self, key: bytes, offset: int, version: int = 0) -> None:
        """Set the offset of a key, unless the key has a higher version."""
        slot = self._slot(key)
        entry = self._slots[slot]
        versions = self._versions
        if entry >= 0:
            if versions is not None:
                if version < versions[entry]:
                    return
                versions[entry] = version
            self._live += (offset != _DELETED) - (self._offsets[entry] != _DELETED)
            self._offsets[entry] = offset
            return
        self._slots[slot] = len(self._ends)
        self._keys += key
        self._ends.append(len(self._keys))
        self._offsets.append(offset)
        self._live += offset != _DELETED
        if versions is not None:
            versions.append(version)
        if 2 * len(self._ends) > len(self._slots):
            self.drop_deleted()

    def delete(self, key: bytes, version: int = 0) -> None:
        """Delete a key, unless it has a higher version."""
        if self._versions is not None or self.get(key) is not None:
            self.set(key, _DELETED, version)

    def delete_below(self, offset: int) -> None:
        """Delete the keys whose offsets are below `offset`."""
        for entry, each in enumerate(self._offsets):
            if _DELETED < each < offset:
                self._offsets[entry] = _DELETED
                self._live -= 1

    def _slot(self, key: bytes) -> int:
        """Return the slot of a key, or the free one where it belongs."""
        slots, ends, keys = self._slots, self._ends, self._keys
        mask = len(slots) - 1
        slot = hash(key) & mask
        while (entry := slots[slot]) >= 0:
            if keys[ends[entry - 1] if entry else 0 : ends[entry]] == key:
                break
            slot = (slot + 1) & mask
        return slot

    def drop_deleted(self) -> None:
        """Drop the deleted keys, unless they have versions, and make room for as many keys again."""
        if self._versions is None:
            keys, ends, offsets = bytearray(), array("q"), array("q")
            for key, offset in self.items():
                keys += key
                ends.append(len(keys))
                offsets.append(offset)
            self._keys, self._ends, self._offsets = keys, ends, offsets
        size = _SLOTS_MIN
        while size < 4 * len(self._ends):
            size *= 2
        self._slots = slots = array("i", [-1]) * size
        begin = 0
        for entry, end in enumerate(self._ends):
            slots[self._slot(bytes(self._keys[begin:end]))] = entry
            begin = end
