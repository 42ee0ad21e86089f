"""What `kernel.py` looks like from outside; it is written for Cython, not for type checkers.

Buffers are memoryviews or arrays: `b`, `block` (bytes to read) and `out` (to write) of unsigned bytes; `table` and bitmaps
of unsigned 64-bit words (typecode Q), a bit's number counted from the lowest bit of the first word.

Neither class keeps a buffer beyond a call but those of its constructor and of `set_bits`.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from ..protocol.varints import BytesLike

COMPILED: Final[bool]

class Stop:
    """Why a call came back."""

    DONE: Final = 0
    """All whole batches were taken; what follows is none, or the end."""
    COMPRESSED: Final = 1
    """This batch must be unpacked: give it to `build_block` or `filter_block`."""
    CONTROL: Final = 2
    """A control batch: the caller decides."""
    TRANSACTION: Final = 3
    """A transactional batch at or above `wary_from`: the caller knows whether it was aborted."""
    FULL: Final = 4
    """The map takes nothing more; `latest_offset` is the last record put."""
    GROW: Final = 5
    """The bitmaps have no room for the records of this batch: call `set_bits`, or the filter's `grow`, and come again."""
    FLUSH: Final = 6
    """The output has no room for this batch, or for another index entry: write it, call `flushed` and come again."""
    EMPTIED: Final = 7
    """A batch with a pinned offset lost all its records; they are counted. The caller writes a bare header, or nothing."""
    CORRUPT: Final = 8
    """No batch, or records that cannot be."""
    UNCHANGED: Final = 10
    DROPPED: Final = 11
    REWRITTEN: Final = 12
    """`filter_block` and `stamp` only: what became of the batch."""

def clear(words: memoryview) -> None:
    """Make these 64-bit words 0."""

class KeyMap:
    """Attributes may be set: `latest_offset` for batches that the caller takes, `wary_from`."""

    entries: int
    """Keys in the table."""
    records: int
    """Ordinals given."""
    keyless: int
    """Records without a key; their dead bits are set."""
    latest_offset: int
    """The last offset that is covered; one below `start` at first."""
    wary_from: int
    """Stop at transactional and control batches that end at or above this offset; before it control batches are passed
    over, and transactional ones taken like others."""
    looks_back: bool
    """Only with versions: look the records below `start` up, and put nothing."""
    visible_from: int
    """Records below this offset have the lowest version."""

    def __init__(
        self,
        table: memoryview,
        slots: int,
        entries_max: int,
        start: int,
        secret: bytes,
        records_max: int,
        versions: memoryview | array[int] | None = None,
        header: bytes | None = None,
    ) -> None:
        """
        Args:
            table: Zeros: 2 words for each of the slots, and for more behind them, of which the last stays free.
            entries_max: Full at so many keys, at the next record with a key, known or not.
            start: Records below this offset get ordinals, but are not put.
            secret: 16 bytes.
            records_max: Full before there are more ordinals; below 2**32 - 1.
            versions: Memory for the winners' versions, signed (typecode q), of the table's size; None: the newest record wins.
            header: Name of the header with the version; None: the timestamp is the version.
        """

    def set_bits(self, dead: array[int], tombstones: array[int]) -> None: ...
    def build(self, b: BytesLike, pos: int, stop: int) -> tuple[int, int]:
        """Take the whole batches of b[pos:stop]; returns (position of the first not taken, Stop)."""

    def build_block(self, b: BytesLike, pos: int, block: BytesLike) -> int:
        """Take the batch whose header is at b[pos:] and whose records, unpacked, are `block`; returns a Stop."""

    def newest(self, key: BytesLike) -> int:
        """Return the ordinal of the newest record of a key; -1 if the map has none."""

class RecordFilter:
    """Zones by offset: below `start` a record goes if its key is in the table, up to `latest` by its dead bit, above never.

    If all batches lie from `start` to `latest`, `table` may be 32 zero bytes (4 words, with `slots` = 1): then the
    bitmaps alone decide, whoever made them.
    """

    rebuilt_count: int
    """Numbers in the first array of `output`: start and end of each batch in `out` that needs a CRC."""
    offset_count: int
    """Offset index entries: relative offsets in the second array, positions in the third."""
    time_count: int
    """Time index entries: timestamps in the fourth array, relative offsets in the fifth."""
    producer_count: int
    """Producer ids in the sixth array: of transactional batches passed, since the caller set this to 0."""
    unchanged_from: int
    """See `filter`; otherwise -1."""
    timestamp: int
    """Max timestamp of the batch that was rewritten last."""
    last_offset: int
    """Of the last batch put into the output."""
    max_timestamp: int
    max_timestamp_offset: int
    """Of the segment that is written, so far."""
    wary_from: int
    """Stop at transactional batches that end at or above this offset."""
    ordinal: int
    """Of the next record that has one."""
    records_read: int
    superseded: int
    """Records gone by dead bits or for a key in the table."""
    keyless: int
    """Records below `start` gone for want of a key."""
    expired: int
    """Tombstones gone."""
    aged: int
    """Records with a value that are gone for their age."""
    oldest_kept: int
    """The least timestamp of records with a value that stay; 2**62 if none does, or without a bound of the age."""
    kept_tombstones: int
    """Tombstones that stay."""

    def __init__(
        self,
        dead: Sequence[int],
        tombstones: Sequence[int],
        numbered: int,
        start: int,
        latest: int,
        table: memoryview,
        slots: int,
        secret: bytes,
        now: int,
        new_horizon: int,
        pinned: array[int],
        output: tuple[array[int], array[int], array[int], array[int], array[int], array[int]],
        versions: memoryview | array[int] | None = None,
        held: array[int] | None = None,
        aged_up_to: int = -1,
    ) -> None:
        """
        Args:
            dead, tombstones: Bits by ordinal, and one word more. Numbered are the records, in order, of all batches
                that are not left out by the caller and reach into `start` to `latest`, both inclusive.
            numbered: How many ordinals there are.
            now: Milliseconds; tombstones of batches whose delete horizon is at or before it go.
            new_horizon: The delete horizon of batches that need one.
            pinned: Sorted last offsets of batches to stop at when they lose their records.
            output: Arrays q, i, i, q, i, q to be filled, see the counts; the first two numbers, the next four one for
                each batch of the output, which are as many as they have room for.
        """

    @property
    def is_full(self) -> bool: ...
    def grow(self, count: int) -> None: ...
    def begin_segment(self, base_offset: int, interval: int, offset_room: int, time_room: int) -> None:
        """The output goes to a new segment from now on: `index.interval.bytes`, and how many entries its indexes take."""

    def flushed(self) -> None: ...
    def note(self, last: int, size: int, timestamp: int) -> None:
        """The caller put a batch into the output: its last offset, bytes and max timestamp."""

    def filter(self, b: BytesLike, pos: int, stop: int, out: BytesLike, filled: int) -> tuple[int, int, int]:
        """Take the whole batches of b[pos:stop], adding to out[:filled].

        Returns (position of the first not taken, bytes of `out` now filled, Stop). If all that there is to write are
        the batches b[unchanged_from:position], they are not copied to `out`.
        """

    def filter_block(self, b: BytesLike, pos: int, block: BytesLike, out: BytesLike) -> tuple[int, int]:
        """Take the batch whose header is at b[pos:] and whose records, unpacked, are `block`.

        If it is REWRITTEN, out[:size] is its header, with length and CRC yet to come, and its records, unpacked. It is
        not noted as written. FLUSH: `out` must be as large as `room_for` says.

        Returns (size, Stop).
        """

    def room_for(self, b: BytesLike, pos: int, size: int) -> int:
        """What the batch at b[pos:], whose records take `size` bytes unpacked, may come to when it is rewritten."""

    def stamp(self, b: BytesLike, pos: int, block: BytesLike, out: BytesLike) -> tuple[int, int]:
        """Rewrite such a batch with all its records and the new delete horizon; the same results."""

class Found:
    """What `check_records` and `find_record` stopped at."""

    SOUND: Final = 0
    """Nothing: all records are there, and nothing else."""
    DAMAGED: Final = 1
    """A record that leaves its batch, or is not as long as its fields."""
    MISNUMBERED: Final = 2
    """A record whose offset delta is not its number."""
    LEFT_OVER: Final = 3
    """Bytes behind the last record."""
    KEYLESS: Final = 4
    """A record without a key, where keys are wanted."""
    UNTIMELY: Final = 5
    """A record whose timestamp is out of bounds."""
    SOUGHT: Final = 6
    """The record that was looked for."""

class LogTally:
    """Counts of a log, and of a sample of its keys that becomes half as large each time the table is full.

    The sample has the keys whose hash ends in `sample_bits` zeros. Keys that share 64 bits of the hash count as one.
    """

    keys: int
    """Keys in the sample."""
    sample_bits: int
    """The sample has one of 2**sample_bits keys."""
    batches: int
    records: int
    record_bytes: int
    """Bytes of the batches without their headers, as they are stored."""
    tombstones: int
    tombstone_bytes: int
    """Unpacked."""
    keyless: int
    dirty_records: int
    """Records at or above `start`."""
    dirty_batches: int
    """Batches that begin at or above `start`."""
    dirty_bytes: int
    """Their bytes as they are stored."""
    untimed: int
    """Records of batches without a timestamp."""
    future: int
    """Records of batches with a timestamp after `latest_ms`."""
    late: int
    """Records of batches with a timestamp more than `late_ms` before the newest one so far."""
    end_offset: int
    """The end of the last batch; 0 at first, and may be set."""
    max_timestamp: int
    """The largest since the caller set this; -1 at first."""
    live_keys: int
    """Result of `count_keys`: keys of the sample whose newest record has a value."""
    live_bytes: int
    """Result of `count_keys`: bytes of these newest records, unpacked."""
    known_keys: int
    """Result of `count_keys`: keys of the sample with a record below `start`."""

    def __init__(
        self,
        table: memoryview,
        slots: int,
        keys_max: int,
        start: int,
        secret: bytes,
        latest_ms: int,
        late_ms: int,
        gaps: array[float],
    ) -> None:
        """
        Args:
            table: Zeros: 5 words for each of the slots, and for more behind them, of which the last stays free.
            keys_max: Size of the sample at which it is halved.
            start: The first dirty offset. Only writes from here on are counted by key.
            secret: 16 bytes.
            latest_ms: Batches with a later timestamp, like those without one, are in no bucket.
            gaps: Zeros, which become 488 times three numbers: of gaps, their sum, and clean records at that distance before
                `start`. A gap is the number of dirty records from one of a key to the next, from the begin to its first, or from
                its last to the end (added by `count_keys`). The first 16 rows are of 0 to 15, then eight of each power of two.
        """

    def set_buckets(self, buckets: array[int], begin_ms: int, width_ms: int) -> None:
        """Use these numbers, three for each bucket of time: offsets since the batch before, records, bytes. `width_ms` is positive."""

    def take(self, b: BytesLike, pos: int, stop: int) -> tuple[int, int]:
        """Take the whole batches of b[pos:stop]; returns (position of the first not taken, Stop).

        FLUSH: the buckets do not contain its timestamp. TRANSACTION: a control batch or a transactional one; give the records
        that count to `take_block`. CORRUPT: the batch may have been counted in part.
        """

    def take_block(self, b: BytesLike, pos: int, block: BytesLike) -> int:
        """Take the batch whose header is at b[pos:] and whose records, unpacked, are `block`; returns a Stop."""

    def count_keys(self, out: array[int]) -> None:
        """Count the gaps at the end, and the keys of the sample by their writes: 80 times two signed numbers, keys and writes.

        The first 16 pairs are of 0 to 15 writes, the next ones of 16 to 31, of 32 to 63, and so on.
        """

def check_records(
    b: BytesLike,
    p: int,
    i: int,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    wants_keys: bool,
    top: int,
    frees_the_gil: bool,
) -> tuple[int, int, int, int]:
    """Walk a records block, unpacked, from record number `i` at position `p` on, to the first that is not right.

    Args:
        b: Ends with the block.
        earliest, latest: Bounds for every timestamp but -1, both inclusive.
        top: The max timestamp so far.
        frees_the_gil: For blocks so long that the wait for the interpreter lock afterwards does not count.

    Returns:
        (Found, position, number, max timestamp). Position and number are those of the damaged or misnumbered record, or
        of the one after a keyless or untimely one, where the walk may go on. After an untimely record its timestamp
        stands in the place of the max timestamp.
    """

def record_columns(
    b: BytesLike, starts: memoryview, ends: memoryview, counts: memoryview, last_deltas: memoryview, out: memoryview
) -> bool:
    """Decode the records of many batches, unpacked. Frees the GIL.

    Args:
        starts, ends: Bounds of each batch's records in `b`. These and all other arrays are of signed 64-bit words.
        counts: Number of each batch's records.
        last_deltas: The highest offset delta that each batch may have.
        out: Eight columns, one after the other, of as many words as there are records: timestamp delta, offset delta, position and
            length of the key, the same of the value, position after the number of headers, number of headers. A negative length
            means null.

    Returns:
        Whether all records can be: none leaves its batch, each is as long as its fields, and offset deltas rise from 0 on.
    """

def header_columns(b: BytesLike, places: memoryview, counts: memoryview, out: memoryview) -> bool:
    """Decode the headers of many records, whose places and counts `record_columns` has found. Frees the GIL.

    Args:
        out: Four columns, of as many words as there are headers: position and length of the name, the same of the value.

    Returns:
        Whether all headers can be.
    """

def digests(b: BytesLike, places: memoryview, sizes: memoryview, salt: bytes, out: memoryview) -> None:
    """Compute BLAKE2b-128 of many byte strings in `b`, with a salt of at most 16 bytes: the values of `hashlib`. Frees the GIL.

    Args:
        places, sizes: Signed 64-bit words.
        out: Two unsigned 64-bit words for each, little-endian.
    """

class RecordWalk:
    """`check_records` and `find_record`, of a block that comes in pieces: none is kept, and a record may lie in many."""

    number: int
    """Of the record that it is in."""
    offset_delta: int
    """Of the last record."""
    top: int
    """The max timestamp so far, -1 without one."""
    size_max: int
    """Bytes that a record may declare; to be set before the first piece. One with more is DAMAGED."""
    def __init__(self, count: int, base_timestamp: int, earliest: int, latest: int, wants_keys: bool) -> None: ...
    def seek(self, earliest: int, least_delta: int) -> None:
        """Before the first piece: look for a record, as `find_record`, and check no numbers, keys or bounds."""

    def feed(self, b: BytesLike, p: int) -> tuple[int, int, int]:
        """Walk a piece from position `p` on, to its end or to the first record that is not right. Frees the GIL.

        Returns:
            (Found, position, timestamp). SOUND: give it the next piece, or ask for the `end`. After a keyless or untimely
            record the walk may go on at the position; its number is one below `number`. The timestamp is the untimely one's,
            or that of the record that was SOUGHT.
        """

    def end(self) -> int:
        """SOUND if all records were there; else DAMAGED: the block ends in record `number`."""

def has_longer(b: BytesLike, size_max: int) -> bool:
    """Whether a record of this block, unpacked, declares more than `size_max` bytes, and the block is longer than that too. The
    search ends at damage. Frees the GIL.
    """

def admit(
    b: memoryview,
    crc: int,
    wants_keys: bool,
    earliest: int,
    latest: int,
    next_offset: int,
    leader_epoch: int,
) -> tuple[int, int, int] | None:
    """Whether `b` is one whole batch as clients mostly send them: not compressed, its numbers right, all its records as
    `check_records` wants them, the largest of their timestamps the one that its header names. Then its offset and leader epoch
    are written into it.

    Args:
        b: May be written to. Short: the GIL is held.
        crc: CRC-32C of the bytes behind the batch's own.

    Returns:
        (Last offset delta, max timestamp, producer id); None for what has to be looked at more closely, where nothing is changed.
    """

def pass_over(b: BytesLike, most: int, below: int) -> tuple[int, int]:
    """Go from batch to batch, by their headers, as long as they end at or before byte `most` of `b` and all their offsets are below
    `below`. Short: the GIL is held.

    Returns:
        (Where the last batch passed ends, where the next one does). The second is 0 if its header is not whole, or cannot be one.
    """

def find_record(b: BytesLike, count: int, base_timestamp: int, earliest: int, least_delta: int) -> tuple[int, int, int]:
    """Look in a records block, unpacked, for the first record whose timestamp is at least `earliest` and whose offset delta
    at least `least_delta`. Offset deltas may have gaps, as the cleaner leaves them. Frees the GIL.

    Returns:
        (SOUGHT, its offset delta, its timestamp), or SOUND, DAMAGED or LEFT_OVER, with a number in between that says where,
        if there is none: what comes before it is looked at, and of that lengths and numbers alone.
    """
