"""The offset map of one clean pass: which records of the dirty part are the newest of their key.

Filled by `map_builder` in offset order, then sealed and asked by `clean_rules`. Records are numbered by their place in
the dirty part (their *ordinal*), not by offset, so holes in the offsets cost nothing:

    table       key -> ordinal of its newest record so far
    dead bits   one a record, after sealing: 1 = a newer record of its key was seen, or it has no key
    tombstones  one a record: 1 = it has no value

With these bits the dirty part is copied without looking at a key again, and a batch that is wholly dead or wholly
alive without looking at its records at all. Below the dirty part a record is superseded exactly if its key is in
the table, whatever the offsets are.

Memory: at most `max_entries` entries of at most about 200 bytes (dict slot, key, number), whatever the keys are, and
two bits for each record of the dirty part.
"""

from collections.abc import Sequence

from .clean_kernel import MapKey, ScannedKeys

BYTES_PER_SLOT = 200
"""What an entry counts against `log.cleaner.dedupe.buffer.size`: its real cost, so that the option bounds memory."""

_INVERTED = bytes(255 - byte for byte in range(256))


def entries_max(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map of that size takes in one pass.

    Raises:
        ValueError: Fewer than two: no pass would get anywhere.
    """
    entries = int(buffer_bytes // BYTES_PER_SLOT * load_factor)
    if entries <= 1:
        raise ValueError(f"a map of {buffer_bytes} bytes filled to {load_factor} has no room for keys")
    return entries


class RecordBits:
    """One bit a record, by ordinal; all 0 at first."""

    __slots__ = ("_bits",)

    def __init__(self, bits: bytearray | None = None) -> None:
        self._bits = bytearray() if bits is None else bits

    def grow(self, count: int) -> None:
        """Have room for ordinals below `count`."""
        missing = ((count + 7) >> 3) - len(self._bits)
        if missing > 0:
            self._bits += bytes(missing)

    def set(self, ordinal: int) -> None:
        self._bits[ordinal >> 3] |= 1 << (ordinal & 7)

    def window(self, first: int, count: int) -> int:
        """The bits of `count` records from `first` on; the lowest bit is `first`'s."""
        covering = int.from_bytes(self._bits[first >> 3 : (first + count + 7) >> 3], "little")
        return covering >> (first & 7) & ((1 << count) - 1)

    def inverted(self) -> "RecordBits":
        return RecordBits(self._bits.translate(_INVERTED))


class OffsetMap:
    """See the module. `latest_offset` is the last offset whose records the map knows; -1 for none.

    Life: `add`, `put` and `skip_record` in offset order, then `seal`, then the questions.
    """

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        self.latest_offset = -1
        self.record_count = 0
        """Ordinals given so far."""
        self.has_tombstones = False
        self._table: dict[MapKey | None, int] = {}
        self._tombstones = RecordBits()
        self._dead = RecordBits()

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, key: MapKey) -> bool:
        return key in self._table

    @property
    def free_entries(self) -> int:
        """How many records surely fit. 0: the map takes nothing more, not even a key that it has."""
        return self.max_entries - len(self._table)

    @property
    def utilization(self) -> float:
        return len(self._table) / self.max_entries

    def add(self, scanned: ScannedKeys) -> None:
        """Take all records of a batch, of which there are at most `free_entries`."""
        keys = scanned.keys
        first = self.record_count
        self.record_count = end = first + len(keys)
        if scanned.has_keyless:
            self._table.update(
                (key, ordinal) for ordinal, key in zip(range(first, end), keys, strict=True) if key is not None
            )
        else:
            self._table.update(zip(keys, range(first, end), strict=True))
        if scanned.tombstones:
            self.has_tombstones = True
            self._tombstones.grow(end)
            for index in scanned.tombstones:
                self._tombstones.set(first + index)

    def put(self, key: MapKey, *, is_tombstone: bool) -> None:
        """Take one record; there are `free_entries`."""
        self._table[key] = self.record_count
        if is_tombstone:
            self.has_tombstones = True
            self._tombstones.grow(self.record_count + 1)
            self._tombstones.set(self.record_count)
        self.record_count += 1

    def skip_records(self, count: int) -> None:
        """Give ordinals to records that do not go into the map; their dead bits mean nothing."""
        self.record_count += count

    def seal(self) -> None:
        """Nothing more comes: find out who is dead. Costs one step a key, not one a record."""
        live = RecordBits()
        live.grow(self.record_count)
        self._tombstones.grow(self.record_count)
        for ordinal in self._table.values():
            live.set(ordinal)
        self._dead = live.inverted()

    def dead(self, first: int, count: int) -> int:
        """The dead bits of `count` records from ordinal `first` on; the lowest bit is `first`'s."""
        return self._dead.window(first, count)

    def tombstones(self, first: int, count: int) -> int:
        """The tombstone bits of `count` records from ordinal `first` on."""
        return self._tombstones.window(first, count) if self.has_tombstones else 0

    def has_any(self, keys: Sequence[MapKey | None]) -> bool:
        """Whether one of these keys is in the map."""
        return not self._table.keys().isdisjoint(keys)
