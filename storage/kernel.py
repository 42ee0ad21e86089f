# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Inner loops over records: they read every record of a dirty log and of a produced batch; no other module reads its bytes.

Compiled by Cython (when the package is built, if a C compiler is found) it runs without the GIL at millions of records a
second. Interpreted it produces the same bytes, seventy times slower. It is written in Cython's pure-Python mode: annotations
are C types when compiled and nothing otherwise, and `& M64` keeps Python's integers as wide as C's. `kernel.pyi` has the types
for other modules.

    KeyMap         first half of a pass    batches of the dirty part -> table, dead bits, tombstone bits
    RecordFilter   second half             batches of all segments   -> batches to write, index entries
    check_records  before an append        one produced batch        -> whether its records match its header
    admit          the same, most batches  one small, plain batch    -> a check of it all; its offsets, written into it
    pass_over      Fetch                   headers of batches        -> position of the first batch that is sought
    find_record    ListOffsets             one batch                 -> its first record from a timestamp and an offset on
    RecordWalk     both, in pieces         one compressed batch      -> the same as `check_records` and `find_record`
    record_columns Spark's tasks           records of many batches   -> the place and length of each field
    digests        the same                keys                      -> 128 bits of BLAKE2b each
    LogTally       advice                  batches of a whole log    -> records by time, keys by how often they are written

The table contains, in slots of 16 bytes, 96 bits of a keyed hash of each key and the *ordinal* of its newest record: the
record's number in the dirty part, so that gaps in the offsets cost nothing.

    slot    fingerprint, 64 bits | fingerprint, 32 more | ordinal + 1, 32 bits    (second word 0: free)

Slots are in order of the fingerprint, near the position that its first bits give, so a search for an absent key ends at the
first larger one. The clients that wrote the keys could not know the secret of the hash, so two keys share 96 bits only by
chance: for n keys with a probability of less than n * n / 2**97.

A put that finds its key has the number of the superseded record, and sets that record's dead bit. With these bits the second
half needs no key of the dirty part: a batch whose records are all dead or all alive is neither decoded nor decompressed. Below
the dirty part a record is superseded if, and only if, its key is in the table.

If records have versions (`topics.versions`), the highest version of a key wins, and the offset decides between equal ones. A
second array then has, at the position of each slot, the version and the offset of the winner. The first half also reads the
clean part, and looks its keys up: a record there may win against the dirty part. Of the clean records whose keys are in the
table, only winners stay. They stay even if they are tombstones past their horizon, and so do tombstones that are held: a pass
that ends between two segments must not leave a record without the tombstone that supersedes it.

Both classes take whole batches until one needs the rest of the cleaner, and return the reason (`Stop`). They trust no byte
that they read. Where an access has no bounds check, a comment gives the reason.
"""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from types import SimpleNamespace

try:
    import cython
except ImportError:
    from . import uncompiled as cython

COMPILED = cython.compiled

i64 = cython.typedef(cython.longlong)
u64 = cython.typedef(cython.ulonglong)
u8 = cython.typedef(cython.uchar)

# Without a declaration, numbers of more than 31 bits would be Python objects in compiled code.
ONE = cython.declare(u64, 1)
LOW = cython.declare(u64, 0xFFFFFFFF)
M64 = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)
SIGN = cython.declare(u64, 0x8000000000000000)
SIP0 = cython.declare(u64, 0x736F6D6570736575)
SIP1 = cython.declare(u64, 0x646F72616E646F6D ^ 0xEE)
SIP2 = cython.declare(u64, 0x6C7967656E657261)
SIP3 = cython.declare(u64, 0x7465646279746573)
BLAKE0 = cython.declare(u64, 0x6A09E667F3BCC908)
BLAKE1 = cython.declare(u64, 0xBB67AE8584CAA73B)
BLAKE2 = cython.declare(u64, 0x3C6EF372FE94F82B)
BLAKE3 = cython.declare(u64, 0xA54FF53A5F1D36F1)
BLAKE4 = cython.declare(u64, 0x510E527FADE682D1)
BLAKE5 = cython.declare(u64, 0x9B05688C2B3E6C1F)
BLAKE6 = cython.declare(u64, 0x1F83D9ABFB41BD6B)
BLAKE7 = cython.declare(u64, 0x5BE0CD19137E2179)
ODD_BITS = cython.declare(u64, 0x5555555555555555)
ODD_PAIRS = cython.declare(u64, 0x3333333333333333)
LOW_NIBBLES = cython.declare(u64, 0x0F0F0F0F0F0F0F0F)
EACH_BYTE = cython.declare(u64, 0x0101010101010101)

# The message words of each round of BLAKE2b: ten orders (RFC 7693, section 2.7), of which the first two come again.
_ORDERS = (
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
)  # fmt: skip
BLAKE_ORDER = bytes(int(each, 16) for row in (*_ORDERS, *_ORDERS[:2]) for each in row)

IS_LITTLE = cython.declare(cython.bint, sys.byteorder == "little")

# The batch header (`protocol.records` has a drawing of it).
HEADER = cython.declare(i64, 61)
OVERHEAD = cython.declare(i64, 12)
LENGTH = cython.declare(i64, 8)
LEADER_EPOCH = cython.declare(i64, 12)
MAGIC = cython.declare(i64, 16)
CRC = cython.declare(i64, 17)
ATTRIBUTES = cython.declare(i64, 22)  # the low byte; the high one has no bits yet
LAST_DELTA = cython.declare(i64, 23)
BASE_TIMESTAMP = cython.declare(i64, 27)
MAX_TIMESTAMP = cython.declare(i64, 35)
PRODUCER_ID = cython.declare(i64, 43)
BASE_SEQUENCE = cython.declare(i64, 53)
COUNT = cython.declare(i64, 57)
CODEC_MASK = cython.declare(i64, 0x07)
LOG_APPEND_TIME = cython.declare(i64, 0x08)
TRANSACTIONAL = cython.declare(i64, 0x10)
CONTROL_BATCH = cython.declare(i64, 0x20)
DELETE_HORIZON = cython.declare(i64, 0x40)

RECORD_MIN = cython.declare(i64, 7)  # six one-byte fields and their length
GROWTH_MAX = cython.declare(i64, 16)  # a record's new timestamp delta and length, at their longest
ENTRY_MAX = cython.declare(i64, 0x7FFFFFFF)  # largest relative offset and position of an index entry
OFFSET_LIMIT = cython.declare(i64, 1 << 62)
BLOCK = cython.declare(i64, 64)
VERSION_BYTES = cython.declare(i64, 8)
TALLY_ROWS = cython.declare(i64, 80)
GAP_ROWS = cython.declare(i64, 488)

# Reasons why a call returned.
DONE = cython.declare(cython.int, 0)
COMPRESSED = cython.declare(cython.int, 1)
CONTROL = cython.declare(cython.int, 2)
TRANSACTION = cython.declare(cython.int, 3)
FULL = cython.declare(cython.int, 4)
GROW = cython.declare(cython.int, 5)
FLUSH = cython.declare(cython.int, 6)
EMPTIED = cython.declare(cython.int, 7)
CORRUPT = cython.declare(cython.int, 8)
# Results for a batch.
UNCHANGED = cython.declare(cython.int, 10)
DROPPED = cython.declare(cython.int, 11)
REWRITTEN = cython.declare(cython.int, 12)


# Results of `check_records` and `find_record`.
SOUND = cython.declare(cython.int, 0)
DAMAGED = cython.declare(cython.int, 1)
MISNUMBERED = cython.declare(cython.int, 2)
LEFT_OVER = cython.declare(cython.int, 3)
KEYLESS = cython.declare(cython.int, 4)
UNTIMELY = cython.declare(cython.int, 5)
SOUGHT = cython.declare(cython.int, 6)

# The same for Python code, which cannot access declared numbers.
Found = SimpleNamespace(
    SOUND=SOUND,
    DAMAGED=DAMAGED,
    MISNUMBERED=MISNUMBERED,
    LEFT_OVER=LEFT_OVER,
    KEYLESS=KEYLESS,
    UNTIMELY=UNTIMELY,
    SOUGHT=SOUGHT,
)
Stop = SimpleNamespace(
    DONE=DONE,
    COMPRESSED=COMPRESSED,
    CONTROL=CONTROL,
    TRANSACTION=TRANSACTION,
    FULL=FULL,
    GROW=GROW,
    FLUSH=FLUSH,
    EMPTIED=EMPTIED,
    CORRUPT=CORRUPT,
    UNCHANGED=UNCHANGED,
    DROPPED=DROPPED,
    REWRITTEN=REWRITTEN,
)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def signed(x: u64) -> i64:
    """Return the low 64 bits as a signed number."""
    if cython.compiled:
        return cython.cast(i64, x)
    x &= M64
    return x - M64 - 1 if x & SIGN else x


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def bit_count(x: u64) -> i64:
    x -= x >> 1 & ODD_BITS
    x = (x & ODD_PAIRS) + (x >> 2 & ODD_PAIRS)
    x = (x + (x >> 4)) & LOW_NIBBLES
    return cython.cast(i64, (x * EACH_BYTE & M64) >> 56)


# Unchecked accesses: the callers have checked that the eight (or four) bytes are inside.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)
def little64(b: cython.const[u8][::1], p: i64) -> u64:
    """Read eight bytes, little endian; compiled code only. By a pointer, as no compiler merges eight loads into one."""
    if IS_LITTLE:
        return cython.cast(cython.pointer(cython.const[u64]), cython.address(b[p]))[0]
    return (
        cython.cast(u64, b[p])
        | cython.cast(u64, b[p + 1]) << 8
        | cython.cast(u64, b[p + 2]) << 16
        | cython.cast(u64, b[p + 3]) << 24
        | cython.cast(u64, b[p + 4]) << 32
        | cython.cast(u64, b[p + 5]) << 40
        | cython.cast(u64, b[p + 6]) << 48
        | cython.cast(u64, b[p + 7]) << 56
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)
def big32(b: cython.const[u8][::1], p: i64) -> i64:
    x: u64 = (
        cython.cast(u64, b[p]) << 24
        | cython.cast(u64, b[p + 1]) << 16
        | cython.cast(u64, b[p + 2]) << 8
        | cython.cast(u64, b[p + 3])
    )
    return signed(x | (M64 ^ LOW)) if x >> 31 else signed(x)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def big64(b: cython.const[u8][::1], p: i64) -> i64:
    return signed(cython.cast(u64, big32(b, p)) << 32 | cython.cast(u64, big32(b, p + 4)) & LOW)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1)
def put_big(b: u8[::1], p: i64, x: i64, size: i64) -> cython.int:
    """Write the low `size` bytes of x."""
    i: i64
    for i in range(size):
        b[p + i] = x >> 8 * (size - 1 - i) & 255
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1)
def put_varint(b: u8[::1], p: i64, x: i64) -> i64:
    """Write x in as few bytes as it takes; returns the position after it."""
    z: u64 = (cython.cast(u64, x) << 1 ^ cython.cast(u64, x >> 63)) & M64
    while z > 127:
        b[p] = z & 127 | 128
        z >>= 7
        p += 1
    b[p] = z
    return p + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varint_size(x: i64) -> i64:
    z: u64 = (cython.cast(u64, x) << 1 ^ cython.cast(u64, x >> 63)) & M64
    n: i64 = 1
    while z > 127:
        z >>= 7
        n += 1
    return n


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # p < end <= len(b)
def long_varint(b: cython.const[u8][::1], p: i64, end: i64, size_max: i64) -> tuple[i64, i64]:
    z: u64 = 0
    c: u64
    n: i64 = 0
    while p < end and n < size_max:
        c = b[p]
        p += 1
        z |= (c & 127) << 7 * n & M64
        n += 1
        if c < 128:
            if size_max == 5:  # as in all readers, bits beyond the width are dropped
                z &= LOW
            return signed(z >> 1 ^ (0 - (z & 1)) & M64), p
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # 0 <= p < end <= len(b)
def zigzag(b: cython.const[u8][::1], p: i64, end: i64, size_max: i64) -> tuple[i64, i64]:
    """Read a varint of at most `size_max` bytes below `end`; returns (value, position after it), position -1 if invalid."""
    c: i64
    d: i64
    if p < end:
        c = b[p]
        if c < 128:
            return c >> 1 ^ -(c & 1), p + 1
        if p + 1 < end:
            d = b[p + 1]
            if d < 128:
                c = c & 127 | d << 7
                return c >> 1 ^ -(c & 1), p + 2
    return long_varint(b, p, end, size_max)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varint(b: cython.const[u8][::1], p: i64, end: i64) -> tuple[i64, i64]:
    """Read a number of 32 bits, as `zigzag`."""
    return zigzag(b, p, end, 5)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varlong(b: cython.const[u8][::1], p: i64, end: i64) -> tuple[i64, i64]:
    """Read a number of 64 bits, as `zigzag`."""
    return zigzag(b, p, end, 10)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # all bounds are checked before the loop
def copy(out: u8[::1], o: i64, b: cython.const[u8][::1], start: i64, stop: i64) -> i64:
    """Copy b[start:stop] to out[o:], or nothing if that is not inside both; returns the position after it."""
    i: i64
    n: i64 = stop - start
    if start < 0 or n <= 0 or stop > len(b) or o < 0 or n > len(out) - o:
        return o
    if cython.compiled:
        for i in range(n):
            out[o + i] = b[start + i]
    else:
        out[o : o + n] = b[start:stop]
    return o + n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def rotl(x: u64, n: cython.int) -> u64:
    return x << n | x >> (64 - n)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def sip_round(v0: u64, v1: u64, v2: u64, v3: u64) -> tuple[u64, u64, u64, u64]:
    v0 += v1
    v1 = rotl(v1, 13) ^ v0
    v0 = rotl(v0, 32)
    v2 += v3
    v3 = rotl(v3, 16) ^ v2
    v0 += v3
    v3 = rotl(v3, 21) ^ v0
    v2 += v1
    v1 = rotl(v1, 17) ^ v2
    v2 = rotl(v2, 32)
    return v0, v1, v2, v3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # reads only b[p:p + n], and, where that is checked, up to eight bytes from its last part on
def siphash(k0: u64, k1: u64, b: cython.const[u8][::1], p: i64, n: i64) -> tuple[u64, u64]:
    """Compute SipHash-1-3-128 of b[p:p + n], which is inside b. Compiled code only: see `fingerprint`."""
    v0: u64 = k0 ^ SIP0
    v1: u64 = k1 ^ SIP1
    v2: u64 = k0 ^ SIP2
    v3: u64 = k1 ^ SIP3
    w: u64
    high: u64
    i: i64
    stop: i64 = p + (n & ~7)
    rest: i64 = n & 7
    while p < stop:
        w = little64(b, p)
        p += 8
        v3 ^= w
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= w
    w = cython.cast(u64, n & 255) << 56
    if rest != 0:
        if p + 8 <= len(b):
            w |= little64(b, p) & (ONE << 8 * rest) - 1
        else:
            for i in range(rest):
                w |= cython.cast(u64, b[p + i]) << 8 * i
    v3 ^= w
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0 ^= w
    v2 ^= 0xEE
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    high = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return high, v0 ^ v1 ^ v2 ^ v3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(
    False
)  # starts at a slot below `slots`; the last slot, after all of them, is always free and ends the search
def find(table: cython.const[u64][::1], slots: u64, high: u64, low: u64) -> i64:
    """Find the slot of this fingerprint (position of its first word), or the place for it; low has 32 bits."""
    i: i64 = cython.cast(i64, (high >> 32) * slots >> 32) << 1
    while table[i + 1] != 0 and (table[i] < high or (table[i] == high and table[i + 1] >> 32 != low)):
        i += 2
    return i


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # from a position of `find`; the callers make sure that two slots after it are free
def insert(table: u64[::1], at: i64, head: u64, tail: u64) -> i64:
    """Insert a slot, moving the slots from there up to the next free one, whose position it returns."""
    word: u64
    while table[at + 1] != 0:
        word = table[at]
        table[at] = head
        head = word
        word = table[at + 1]
        table[at + 1] = tail
        tail = word
        at += 2
    table[at] = head
    table[at + 1] = tail
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # a position from `find`
def is_at(table: cython.const[u64][::1], at: i64, high: u64, low: u64) -> cython.bint:
    """Whether the slot at a position from `find` has this fingerprint."""
    return table[at + 1] != 0 and table[at] == high and table[at + 1] >> 32 == low


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=True)
def window(bits: cython.const[u64][::1], i: i64) -> u64:
    """Return 64 bits from bit i on; the bitmap has one word more than its bits need."""
    x: u64 = bits[i >> 6] >> (i & 63)
    if i & 63:
        x |= bits[(i >> 6) + 1] << (64 - (i & 63)) & M64
    return x


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def batch_size(b: cython.const[u8][::1], pos: i64, stop: i64) -> i64:
    """Return the size of the batch at `pos`; 0 if it is not whole below `stop`, -1 if its header is invalid."""
    size: i64
    base: i64
    if stop - pos < HEADER:
        return 0
    size = big32(b, pos + LENGTH) + OVERHEAD
    base = big64(b, pos)
    if b[pos + MAGIC] != 2 or size < HEADER or base < 0 or base > OFFSET_LIMIT:
        return -1
    if big32(b, pos + LAST_DELTA) < 0 or big32(b, pos + COUNT) < 0:
        return -1
    return size if size <= stop - pos else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def rotr(x: u64, n: cython.int) -> u64:
    return x >> n | x << 64 - n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def blake_mix(a: u64, b: u64, c: u64, d: u64, x: u64, y: u64) -> tuple[u64, u64, u64, u64]:
    """Compute the function G of RFC 7693, section 3.1."""
    a += b + x
    d = rotr(d ^ a, 32)
    c += d
    b = rotr(b ^ c, 24)
    a += b + y
    d = rotr(d ^ a, 16)
    c += d
    b = rotr(b ^ c, 63)
    return a, b, c, d


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # b[p:p + n] is inside b; `m` has 16 words, `order` 192 numbers below 16
def blake(
    b: cython.const[u8][::1], p: i64, n: i64, salt0: u64, salt1: u64, m: u64[::1], order: cython.const[u8][::1]
) -> tuple[u64, u64]:
    """Compute BLAKE2b-128 of b[p:p + n] with a salt, as RFC 7693 and `hashlib` do. Compiled code only: see `digests`."""
    h0: u64 = BLAKE0 ^ 0x01010010  # a digest of 16 bytes, no key, no tree
    h1: u64 = BLAKE1
    h2: u64 = BLAKE2
    h3: u64 = BLAKE3
    h4: u64 = BLAKE4 ^ salt0
    h5: u64 = BLAKE5 ^ salt1
    h6: u64 = BLAKE6
    h7: u64 = BLAKE7
    taken: i64 = 0
    left: i64
    i: i64
    j: i64
    while True:
        for i in range(16):
            left = n - taken - 8 * i
            m[i] = 0
            if left >= 8:
                m[i] = little64(b, p + taken + 8 * i)
            elif left > 0:
                for j in range(left):
                    m[i] |= cython.cast(u64, b[p + taken + 8 * i + j]) << 8 * j
        taken = min(n, taken + 128)
        v0: u64 = h0
        v1: u64 = h1
        v2: u64 = h2
        v3: u64 = h3
        v4: u64 = h4
        v5: u64 = h5
        v6: u64 = h6
        v7: u64 = h7
        v8: u64 = BLAKE0
        v9: u64 = BLAKE1
        v10: u64 = BLAKE2
        v11: u64 = BLAKE3
        v12: u64 = BLAKE4 ^ cython.cast(u64, taken)
        v13: u64 = BLAKE5
        v14: u64 = BLAKE6 ^ M64 if taken == n else BLAKE6
        v15: u64 = BLAKE7
        for i in range(0, 192, 16):
            v0, v4, v8, v12 = blake_mix(v0, v4, v8, v12, m[order[i]], m[order[i + 1]])
            v1, v5, v9, v13 = blake_mix(v1, v5, v9, v13, m[order[i + 2]], m[order[i + 3]])
            v2, v6, v10, v14 = blake_mix(v2, v6, v10, v14, m[order[i + 4]], m[order[i + 5]])
            v3, v7, v11, v15 = blake_mix(v3, v7, v11, v15, m[order[i + 6]], m[order[i + 7]])
            v0, v5, v10, v15 = blake_mix(v0, v5, v10, v15, m[order[i + 8]], m[order[i + 9]])
            v1, v6, v11, v12 = blake_mix(v1, v6, v11, v12, m[order[i + 10]], m[order[i + 11]])
            v2, v7, v8, v13 = blake_mix(v2, v7, v8, v13, m[order[i + 12]], m[order[i + 13]])
            v3, v4, v9, v14 = blake_mix(v3, v4, v9, v14, m[order[i + 14]], m[order[i + 15]])
        h0 ^= v0 ^ v8
        h1 ^= v1 ^ v9
        h2 ^= v2 ^ v10
        h3 ^= v3 ^ v11
        h4 ^= v4 ^ v12
        h5 ^= v5 ^ v13
        h6 ^= v6 ^ v14
        h7 ^= v7 ^ v15
        if taken == n:
            return h0, h1


def digests(
    b: cython.const[u8][::1], places: cython.const[i64][::1], sizes: cython.const[i64][::1], salt: bytes, out: u64[::1]
):
    row: i64
    if len(places) != len(sizes) or len(out) != 2 * len(places):
        raise IndexError("arrays of different lengths")
    for row in range(len(places)):
        if places[row] < 0 or sizes[row] < 0 or places[row] > len(b) or sizes[row] > len(b) - places[row]:
            raise IndexError("bytes outside the buffer")
    if not cython.compiled:
        for row in range(len(places)):
            found = blake2b(b[places[row] : places[row] + sizes[row]], digest_size=16, salt=salt).digest()
            out[2 * row] = int.from_bytes(found[:8], "little")
            out[2 * row + 1] = int.from_bytes(found[8:], "little")
        return
    padded = salt.ljust(16, b"\0")
    salt0: u64 = int.from_bytes(padded[:8], "little")
    salt1: u64 = int.from_bytes(padded[8:], "little")
    m: u64[::1] = array("Q", bytes(128))
    order: cython.const[u8][::1] = BLAKE_ORDER
    with cython.nogil:
        for row in range(len(places)):
            out[2 * row], out[2 * row + 1] = blake(b, places[row], sizes[row], salt0, salt1, m, order)


def fingerprint(secret: bytes, b: memoryview, p: int, size: int) -> tuple[int, int]:
    """Compute a keyed hash in interpreted code, where `siphash` would take fifty times as long. Other values, same quality."""
    digest = blake2b(b[p : p + size], digest_size=16, key=secret).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # a name and a value are inside b[p:end] before they are read
def header_version(b: cython.const[u8][::1], p: i64, end: i64, name: cython.const[u8][::1]) -> tuple[i64, i64]:
    """Return the version in the last header of this name, and the position after the headers; -1 if they are invalid.

    A record without such a header, or with one that has not eight bytes, has the lowest version (KIP-280).
    """
    version: i64 = signed(SIGN)
    size: i64
    count: i64
    i: i64
    is_named: cython.bint
    count, p = varint(b, p, end)
    if p < 0 or count < 0:
        return 0, -1
    while count > 0:
        count -= 1
        size, p = varint(b, p, end)
        if p < 0 or size < 0 or size > end - p:
            return 0, -1
        is_named = size == len(name)
        if is_named:
            for i in range(size):
                if b[p + i] != name[i]:
                    is_named = False
        p += size
        size, p = varint(b, p, end)
        if p < 0 or size > end - p:
            return 0, -1
        if is_named:
            version = big64(b, p) if size == VERSION_BYTES else signed(SIGN)
        if size > 0:
            p += size
    return version, p


def clear(words: u64[::1]):
    """Set all words to 0."""
    i: i64
    if cython.compiled:
        with cython.nogil:
            for i in range(len(words)):
                words[i] = 0
    else:
        words[:] = memoryview(bytes(8 * len(words))).cast("Q")


@cython.final
@cython.cclass
class KeyMap:
    """Map from key fingerprints to the ordinal of the newest record, and bitmaps of the older ones."""

    table: u64[::1]
    slots: u64
    last: i64  # position of the slot that stays free
    top: i64  # position of the highest slot in use or of the last home, whichever is higher
    secret: bytes
    k0: u64
    k1: u64
    dead: u64[::1]
    tombstones: u64[::1]
    room: i64  # ordinals that both bitmaps have bits for
    high: u64[::1]  # for a block of records: fingerprints, and the slots' second words
    low: u64[::1]
    start: i64
    touched: u64
    entries_max: i64
    records_max: i64
    versions: i64[::1]  # parallel to the table: version and offset of each slot's winner
    is_versioned: cython.bint
    header: cython.const[u8][::1]
    by_header: cython.bint
    entries = cython.declare(i64, visibility="public")
    records = cython.declare(i64, visibility="public")
    keyless = cython.declare(i64, visibility="public")
    latest_offset = cython.declare(i64, visibility="public")
    wary_from = cython.declare(i64, visibility="public")
    looks_back = cython.declare(cython.bint, visibility="public")
    visible_from = cython.declare(i64, visibility="public")

    def __init__(
        self,
        table,
        slots: i64,
        entries_max: i64,
        start: i64,
        secret: bytes,
        records_max: i64,
        versions=None,
        header=None,
    ):
        self.table = table
        self.is_versioned = versions is not None
        self.versions = array("q") if versions is None else versions
        if self.is_versioned and len(self.versions) != len(self.table):
            raise ValueError("the versions need the size of the table")
        self.by_header = header is not None
        self.header = header or b""
        self.looks_back = False
        self.visible_from = 0
        self.last = len(self.table) - 2
        if slots < 1 or slots > 0xFFFFFFFF or 2 * slots > self.last or self.table[self.last + 1] != 0:
            raise ValueError("the table needs a free slot behind its slots")
        self.slots = slots
        self.top = 2 * slots - 2
        self.secret = secret
        self.k0 = int.from_bytes(secret[:8], "little")
        self.k1 = int.from_bytes(secret[8:16], "little")
        self.start = start
        self.entries_max = entries_max
        self.records_max = records_max
        self.latest_offset = start - 1
        self.entries = self.records = self.keyless = self.room = 0
        self.wary_from = OFFSET_LIMIT
        self.high = array("Q", bytes(8 * 64))
        self.low = array("Q", bytes(8 * 64))

    def set_bits(self, dead, tombstones):
        """Use these bitmaps, which have the content of the previous ones."""
        self.dead = dead
        self.tombstones = tombstones
        self.room = (min(len(self.dead), len(self.tombstones)) - 1) * 64

    def build(self, b: cython.const[u8][::1], pos: i64, stop: i64):
        """Take whole batches of b[pos:stop]; returns (position, Stop)."""
        size: i64
        last: i64
        attributes: i64
        is_wanted: cython.bint
        status: cython.int = DONE
        if pos < 0 or stop > len(b):
            raise IndexError("a chunk ends where its buffer does")
        with cython.nogil:
            while True:
                size = batch_size(b, pos, stop)
                if size <= 0:
                    if size < 0:
                        status = CORRUPT
                    break
                last = big64(b, pos) + big32(b, pos + LAST_DELTA)
                attributes = b[pos + ATTRIBUTES]
                if attributes & (TRANSACTIONAL | CONTROL_BATCH) and last >= self.wary_from:
                    status = CONTROL if attributes & CONTROL_BATCH else TRANSACTION
                    break
                if self.looks_back:
                    is_wanted = not attributes & CONTROL_BATCH and big64(b, pos) < self.start
                else:
                    is_wanted = last >= self.start
                if is_wanted:
                    if attributes & CONTROL_BATCH:
                        self.latest_offset = last
                    elif attributes & CODEC_MASK and big32(b, pos + COUNT) > 0:
                        status = COMPRESSED
                        break
                    else:
                        if self.is_versioned:
                            status = self.take_versions(b, pos, b, pos + HEADER, pos + size)
                        else:
                            status = self.take(b, pos, b, pos + HEADER, pos + size)
                        if status != DONE:
                            break
                pos += size
        return pos, status

    def build_block(self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1]):
        """Take one batch, whose header is at `pos` and whose records, unpacked, are `block`; returns a Stop."""
        status: cython.int = CORRUPT
        if pos < 0 or len(b) - pos < HEADER:
            raise IndexError("a header ends where its buffer does")
        with cython.nogil:
            if batch_size(b, pos, pos + HEADER) >= 0:
                if self.is_versioned:
                    status = self.take_versions(b, pos, block, 0, len(block))
                else:
                    status = self.take(b, pos, block, 0, len(block))
        return status

    def newest(self, key: cython.const[u8][::1]):
        """Return the ordinal of the newest record of a key; -1 if the map has none."""
        at: i64
        head: u64
        tail: u64
        if cython.compiled:
            head, tail = siphash(self.k0, self.k1, key, 0, len(key))
        else:
            head, tail = fingerprint(self.secret, key, 0, len(key))
        at = find(self.table, self.slots, head, tail >> 32)
        if is_at(self.table, at, head, tail >> 32):
            return cython.cast(i64, self.table[at + 1] & LOW) - 1
        return -1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def take(self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1], p: i64, end: i64) -> cython.int:
        """Put the records block[p:end] of the batch whose header is at `pos`."""
        table: u64[::1] = self.table
        dead: u64[::1] = self.dead
        high: u64[::1] = self.high
        low: u64[::1] = self.low
        start: i64 = self.start
        slots: u64 = self.slots
        k0: u64 = self.k0
        k1: u64 = self.k1
        base: i64 = big64(b, pos)
        last: i64 = base + big32(b, pos + LAST_DELTA)
        count: i64 = big32(b, pos + COUNT)
        first: i64 = self.records
        entries: i64 = self.entries
        keyless: i64 = 0
        width: i64
        i: i64 = 0
        j: i64
        n: i64
        at: i64
        size: i64
        record_end: i64
        delta: i64
        _skipped: i64
        head: u64
        tail: u64
        word: u64
        touched: u64 = 0
        top: i64 = self.top
        if count > (end - p) // RECORD_MIN:
            return CORRUPT
        if first + count > self.records_max:
            return FULL
        if first + count > self.room:
            return GROW
        # One by one if the map may become full: each put fills a slot, at most one above the highest in use.
        width = BLOCK if entries + count <= self.entries_max and top + 2 * count < self.last else 1
        while i < count:
            n = 0
            while i < count and n < width:
                size, at = varint(block, p, end)
                if at < 0 or size < 1 or size > end - at:
                    return CORRUPT
                record_end = at + size
                _skipped, at = varlong(block, at + 1, record_end)
                if at < 0:
                    return CORRUPT
                delta, at = varint(block, at, record_end)
                if at < 0:
                    return CORRUPT
                size, at = varint(block, at, record_end)
                if at < 0 or at >= record_end or size >= record_end - at:  # the value's length comes after the key
                    return CORRUPT
                if base + delta >= start:
                    if size < 0:
                        dead[(first + i) >> 6] |= ONE << ((first + i) & 63)
                        keyless += 1
                    else:
                        if cython.compiled:
                            head, tail = siphash(k0, k1, block, at, size)
                        else:
                            head, tail = fingerprint(self.secret, block, at, size)
                        high[n] = head
                        low[n] = tail & (M64 ^ LOW) | cython.cast(u64, first + i + 1)
                        n += 1
                        at += size
                    if block[at] & 1:  # the sign of a zig-zag varint is its lowest bit: no value
                        self.tombstones[(first + i) >> 6] |= ONE << ((first + i) & 63)
                p = record_end
                i += 1
            for j in range(n):  # touch each place, so that the cache misses overlap
                touched ^= table[cython.cast(i64, (high[j] >> 32) * slots >> 32) << 1]
            for j in range(n):
                if width == 1 and (entries >= self.entries_max or top + 2 >= self.last):
                    # If no record of the batch was put, it is beyond the map, and its records have no numbers.
                    if self.latest_offset >= base:
                        self.records = first + count
                    return FULL
                head = high[j]
                tail = low[j]
                at = find(table, slots, head, tail >> 32)
                if is_at(table, at, head, tail >> 32):
                    word = (table[at + 1] & LOW) - 1
                    dead[word >> 6] |= ONE << (word & 63)
                    table[at + 1] = tail
                else:
                    at = insert(table, at, head, tail)
                    top = max(top, at)
                    entries += 1
                if width == 1:
                    self.latest_offset = min(base + delta, last)
                    self.keyless += keyless
                    keyless = 0
            self.entries = entries
            self.top = top
            self.touched = touched
        if p != end:
            return CORRUPT
        self.keyless += keyless
        self.records = first + count
        self.latest_offset = last
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def take_versions(
        self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1], p: i64, end: i64
    ) -> cython.int:
        """Do the work of `take` for records with versions: put each, or look it up if it is below the dirty part."""
        table: u64[::1] = self.table
        versions: i64[::1] = self.versions
        looks_back: cython.bint = self.looks_back
        base: i64 = big64(b, pos)
        last: i64 = base + big32(b, pos + LAST_DELTA)
        count: i64 = big32(b, pos + COUNT)
        base_timestamp: i64 = big64(b, pos + BASE_TIMESTAMP)
        is_append_time: cython.bint = b[pos + ATTRIBUTES] & LOG_APPEND_TIME != 0
        first: i64 = self.records
        keyless: i64 = 0
        i: i64
        at: i64
        key: i64
        size: i64
        value_size: i64
        record_end: i64
        delta: i64
        offset: i64
        version: i64
        free: i64
        head: u64
        tail: u64
        word: u64
        if count > (end - p) // RECORD_MIN:
            return CORRUPT
        if not looks_back:
            if first + count > self.records_max:
                return FULL
            if first + count > self.room:
                return GROW
        for i in range(count):
            size, at = varint(block, p, end)
            if at < 0 or size < 1 or size > end - at:
                return CORRUPT
            record_end = at + size
            version, at = varlong(block, at + 1, record_end)
            if at < 0:
                return CORRUPT
            delta, at = varint(block, at, record_end)
            if at < 0 or delta < 0:
                return CORRUPT
            size, key = varint(block, at, record_end)
            if key < 0 or key >= record_end or size >= record_end - key:
                return CORRUPT
            value_size, at = varint(block, key + size if size > 0 else key, record_end)
            if at < 0 or value_size > record_end - at:
                return CORRUPT
            if value_size > 0:
                at += value_size
            p = record_end
            if is_append_time:
                version = big64(b, pos + MAX_TIMESTAMP)
            else:
                version = signed(cython.cast(u64, base_timestamp) + cython.cast(u64, version))
            if self.by_header:
                version, at = header_version(block, at, record_end, self.header)
                if at != record_end:
                    return CORRUPT
            offset = base + delta
            if offset < self.visible_from:
                version = signed(SIGN)
            if looks_back:
                if size < 0 or offset >= self.start:
                    continue
            elif offset < self.start:
                continue
            else:
                if value_size < 0:
                    self.tombstones[(first + i) >> 6] |= ONE << ((first + i) & 63)
                if size < 0:
                    self.dead[(first + i) >> 6] |= ONE << ((first + i) & 63)
                    keyless += 1
                    continue
                if self.entries >= self.entries_max or self.top + 2 >= self.last:
                    if self.latest_offset >= base:
                        self.records = first + count
                    return FULL
            if cython.compiled:
                head, tail = siphash(self.k0, self.k1, block, key, size)
            else:
                head, tail = fingerprint(self.secret, block, key, size)
            at = find(table, self.slots, head, tail >> 32)
            if is_at(table, at, head, tail >> 32):
                word = (table[at + 1] & LOW) - 1
                if looks_back:
                    # Of equal versions the one in the dirty part wins, having the higher offset.
                    if version > versions[at] or (version == versions[at] and versions[at + 1] < self.start):
                        self.dead[word >> 6] |= ONE << (word & 63)
                        versions[at] = version
                        versions[at + 1] = offset
                    continue
                if version < versions[at]:
                    self.dead[(first + i) >> 6] |= ONE << ((first + i) & 63)
                else:
                    self.dead[word >> 6] |= ONE << (word & 63)
                    table[at + 1] = tail & (M64 ^ LOW) | cython.cast(u64, first + i + 1)
                    versions[at] = version
                    versions[at + 1] = offset
            elif looks_back:
                continue
            else:
                free = insert(table, at, head, tail & (M64 ^ LOW) | cython.cast(u64, first + i + 1))
                self.top = max(self.top, free)
                while free > at:
                    versions[free] = versions[free - 2]
                    versions[free + 1] = versions[free - 1]
                    free -= 2
                versions[at] = version
                versions[at + 1] = offset
                self.entries += 1
            self.latest_offset = min(offset, last)
            self.keyless += keyless
            keyless = 0
        if p != end:
            return CORRUPT
        if not looks_back:
            self.keyless += keyless
            self.records = first + count
            self.latest_offset = last
        return DONE


@cython.final
@cython.cclass
class RecordFilter:
    """Filter from the batches of the cleaned segments to the batches to write, with their index entries."""

    start: i64
    latest: i64
    now: i64
    new_horizon: i64
    aged_before: u64
    table: cython.const[u64][::1]
    versions: cython.const[i64][::1]  # those of the map
    is_versioned: cython.bint
    slots: u64
    secret: bytes
    k0: u64
    k1: u64
    dead: cython.const[u64][::1]
    tombstones: cython.const[u64][::1]
    held: cython.const[u64][::1]  # tombstones that stay, even past their horizon
    has_held: cython.bint
    numbered: i64  # ordinals given by the first half
    pinned: cython.const[i64][::1]
    pin: i64
    # Of a block of records
    high: u64[::1]
    low: u64[::1]
    touched: u64
    # Of the current batch
    verdict: u64[::1]  # a bit per record: 1 = dropped
    gone_superseded: i64
    gone_keyless: i64
    gone_expired: i64
    gone_aged: i64
    oldest: i64  # timestamp of the oldest record with a value that stays; see `oldest_kept`
    staying_tombstones: i64
    end: i64  # end of the rewritten batch in `out`
    # Of the segment that is written
    base_offset: i64
    interval: i64
    offset_room: i64
    time_room: i64
    position: i64
    unindexed: i64
    indexed_timestamp: i64
    # Of the output since the last flush
    batches: i64
    rebuilt: i64[::1]
    offsets: cython.int[::1]
    positions: cython.int[::1]
    timestamps: i64[::1]
    timestamp_offsets: cython.int[::1]
    producers: i64[::1]
    rebuilt_count = cython.declare(i64, visibility="public")
    offset_count = cython.declare(i64, visibility="public")
    time_count = cython.declare(i64, visibility="public")
    producer_count = cython.declare(i64, visibility="public")
    unchanged_from = cython.declare(i64, visibility="public")
    timestamp = cython.declare(i64, visibility="public")
    last_offset = cython.declare(i64, visibility="public")
    max_timestamp = cython.declare(i64, visibility="public")
    max_timestamp_offset = cython.declare(i64, visibility="public")
    # Of the pass
    wary_from = cython.declare(i64, visibility="public")
    ordinal = cython.declare(i64, visibility="public")
    records_read = cython.declare(i64, visibility="public")
    superseded = cython.declare(i64, visibility="public")
    keyless = cython.declare(i64, visibility="public")
    expired = cython.declare(i64, visibility="public")
    aged = cython.declare(i64, visibility="public")
    oldest_kept = cython.declare(i64, visibility="public")
    kept_tombstones = cython.declare(i64, visibility="public")

    def __init__(
        self,
        dead,
        tombstones,
        numbered: i64,
        start: i64,
        latest: i64,
        table,
        slots: i64,
        secret: bytes,
        now: i64,
        new_horizon: i64,
        pinned,
        output,
        versions=None,
        held=None,
        aged_up_to: i64 = -1,
    ):
        self.dead = dead
        self.tombstones = tombstones
        if numbered < 0 or (min(len(self.dead), len(self.tombstones)) - 1) * 64 < numbered:
            raise ValueError("the bitmaps need a word more than bits for all ordinals")
        self.numbered = numbered
        self.start = start
        self.latest = latest
        self.table = table
        self.is_versioned = versions is not None
        self.versions = array("q") if versions is None else versions
        if self.is_versioned and len(self.versions) != len(self.table):
            raise ValueError("the versions need the size of the table")
        self.has_held = held is not None
        self.held = array("Q", [0]) if held is None else held
        if self.has_held and len(self.held) < len(self.dead):
            raise ValueError("the bitmaps need the same size")
        if slots < 1 or 2 * slots + 2 > len(self.table) or self.table[len(self.table) - 1] != 0:
            raise ValueError("the table needs a free slot behind its slots")
        self.slots = slots
        self.secret = secret
        self.k0 = int.from_bytes(secret[:8], "little")
        self.k1 = int.from_bytes(secret[8:16], "little")
        self.now = now
        self.new_horizon = new_horizon
        self.aged_before = aged_up_to + 1
        self.aged = 0
        self.oldest_kept = OFFSET_LIMIT
        self.pinned = pinned
        self.rebuilt, self.offsets, self.positions, self.timestamps, self.timestamp_offsets, self.producers = output
        self.high = array("Q", bytes(8 * 64))
        self.low = array("Q", bytes(8 * 64))
        self.pin = self.ordinal = self.records_read = self.superseded = self.keyless = self.expired = 0
        self.kept_tombstones = 0
        self.wary_from = OFFSET_LIMIT
        self.producer_count = 0
        self.grow(64 * 1024)
        self.begin_segment(0, 0, 0, 0)

    def grow(self, count: i64):
        """Make room for a batch of `count` records."""
        self.verdict = array("Q", bytes(8 * ((count + 63) // 64)))

    def begin_segment(self, base_offset: i64, interval: i64, offset_room: i64, time_room: i64):
        """Begin the output to a new segment with this base offset."""
        self.base_offset = base_offset
        self.interval = interval
        self.offset_room = offset_room
        self.time_room = time_room
        self.position = self.unindexed = 0
        self.max_timestamp = self.indexed_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.last_offset = base_offset - 1
        self.flushed()

    @property
    def is_full(self) -> bool:
        """Whether the output must be written before another batch."""
        return 2 * self.batches + 2 > len(self.rebuilt)

    def flushed(self):
        """Note that the output was written."""
        self.batches = self.rebuilt_count = self.offset_count = self.time_count = 0

    def note(self, last: i64, size: i64, timestamp: i64):
        """Note that the caller has put a batch into the output."""
        self.follow(last, size, timestamp)

    def filter(self, b: cython.const[u8][::1], pos: i64, stop: i64, out: u8[::1], filled: i64):
        """Take whole batches of b[pos:stop]; returns (position, filled bytes of `out`, Stop)."""
        o: i64 = filled
        run: i64 = pos
        size: i64
        last: i64
        attributes: i64
        producer: i64
        status: cython.int = DONE
        outcome: cython.int
        if pos < 0 or stop > len(b) or filled < 0 or filled > len(out):
            raise IndexError("a chunk ends where its buffer does")
        self.unchanged_from = -1
        with cython.nogil:
            while True:
                size = batch_size(b, pos, stop)
                if size <= 0:
                    if size < 0:
                        status = CORRUPT
                    break
                last = big64(b, pos) + big32(b, pos + LAST_DELTA)
                attributes = b[pos + ATTRIBUTES]
                if attributes & CONTROL_BATCH:
                    status = CONTROL
                    break
                if attributes & TRANSACTIONAL:
                    producer = big64(b, pos + PRODUCER_ID)
                    if last >= self.wary_from or self.producer_count >= len(self.producers):
                        status = TRANSACTION
                        break
                    if self.producer_count == 0 or self.producers[self.producer_count - 1] != producer:
                        self.producers[self.producer_count] = producer
                        self.producer_count += 1
                if size > len(out) - o - (pos - run) or 2 * self.batches + 2 > len(self.rebuilt):
                    status = FLUSH
                    break
                outcome = self.take(b, pos, b, pos + HEADER, pos + size, out, o + pos - run, False)
                if outcome == UNCHANGED:
                    self.follow(last, size, big64(b, pos + MAX_TIMESTAMP))
                elif outcome in (DROPPED, REWRITTEN):
                    o = copy(out, o, b, run, pos)
                    run = pos + size
                    if outcome == REWRITTEN:
                        self.rebuilt[self.rebuilt_count] = o
                        self.rebuilt[self.rebuilt_count + 1] = self.end
                        self.rebuilt_count += 2
                        self.follow(last, self.end - o, self.timestamp)
                        o = self.end
                else:
                    status = outcome
                    break
                pos += size
            if o == 0 and status == DONE and run < pos:
                self.unchanged_from = run
            else:
                o = copy(out, o, b, run, pos)
        return pos, o, status

    def filter_block(self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1], out: u8[::1]):
        """Take one batch, whose header is at `pos` and whose records, unpacked, are `block`.

        Returns (filled bytes of `out`, Stop).
        """
        outcome: cython.int = CORRUPT
        if pos < 0 or len(b) - pos < HEADER:
            raise IndexError("a header ends where its buffer does")
        self.end = 0
        with cython.nogil:
            if batch_size(b, pos, pos + HEADER) >= 0:
                outcome = self.take(b, pos, block, 0, len(block), out, 0, True)
        return self.end, outcome

    def room_for(self, b: cython.const[u8][::1], pos: i64, size: i64):
        """Return the largest size of the batch at `pos` after a rewrite; its records are `size` bytes unpacked."""
        if pos < 0 or len(b) - pos < HEADER:
            raise IndexError("a header ends where its buffer does")
        return HEADER + size + GROWTH_MAX * max(0, min(big32(b, pos + COUNT), size // RECORD_MIN))

    def stamp(self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1], out: u8[::1]):
        """Rewrite a batch, given as to `filter_block`, with all its records and the delete horizon of this pass."""
        i: i64
        count: i64
        outcome: cython.int
        if pos < 0 or len(b) - pos < HEADER:
            raise IndexError("a header ends where its buffer does")
        count = big32(b, pos + COUNT)
        self.end = 0
        if batch_size(b, pos, pos + HEADER) < 0 or count > len(block) // RECORD_MIN:
            outcome = CORRUPT
        elif count > 64 * len(self.verdict):
            outcome = GROW
        elif HEADER + len(block) + GROWTH_MAX * count > len(out):
            outcome = FLUSH
        else:
            for i in range((count + 63) >> 6):
                self.verdict[i] = 0
            outcome = self.rewrite(b, pos, block, 0, len(block), out, 0, True)
        return self.end, outcome

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def take(
        self,
        b: cython.const[u8][::1],
        pos: i64,
        block: cython.const[u8][::1],
        p: i64,
        end: i64,
        out: u8[::1],
        o: i64,
        is_open: cython.bint,
    ) -> cython.int:
        """Decide about the batch whose header is at `pos`, and rewrite it to out[o:] if necessary.

        The object's lasting state changes only if a decision is returned.
        """
        base: i64 = big64(b, pos)
        last: i64 = base + big32(b, pos + LAST_DELTA)
        count: i64 = big32(b, pos + COUNT)
        attributes: i64 = b[pos + ATTRIBUTES]
        gone: i64
        has_horizon: cython.bint = attributes & DELETE_HORIZON != 0
        is_expired: cython.bint = has_horizon and big64(b, pos + BASE_TIMESTAMP) <= self.now
        is_packed: cython.bint = attributes & CODEC_MASK != 0 and count > 0 and not is_open
        has_ages: cython.bint = self.aged_before > 0
        outcome: cython.int
        if not is_packed and count > (end - p) // RECORD_MIN:
            return CORRUPT
        if self.start <= base and last <= self.latest and not has_ages:
            if count > self.numbered - self.ordinal:
                return CORRUPT
            if count > 64 * len(self.verdict):
                return GROW
            self.judge_by_number(count, is_expired)
        elif is_packed:
            return COMPRESSED
        elif count > 64 * len(self.verdict):
            return GROW
        else:
            if attributes & LOG_APPEND_TIME:
                outcome = self.judge_singly(block, p, end, count, base, is_expired, big64(b, pos + MAX_TIMESTAMP), 0)
            else:
                outcome = self.judge_singly(block, p, end, count, base, is_expired, big64(b, pos + BASE_TIMESTAMP), -1)
            if outcome != DONE:
                return outcome
        gone = self.gone_superseded + self.gone_keyless + self.gone_expired + self.gone_aged
        if gone == count:
            while self.pin < len(self.pinned) and self.pinned[self.pin] < last:
                self.pin += 1
            outcome = EMPTIED if self.pin < len(self.pinned) and self.pinned[self.pin] == last else DROPPED
        elif gone == 0 and (has_horizon or self.staying_tombstones == 0):
            outcome = UNCHANGED
        elif is_packed:
            return COMPRESSED
        elif HEADER + end - p + GROWTH_MAX * count > len(out) - o:
            return FLUSH
        else:
            outcome = self.rewrite(b, pos, block, p, end, out, o, self.staying_tombstones > 0)
            if outcome != REWRITTEN:
                return outcome
        if self.start <= last and base <= self.latest:
            self.ordinal += count
        self.records_read += count
        self.superseded += self.gone_superseded
        self.keyless += self.gone_keyless
        self.expired += self.gone_expired
        self.aged += self.gone_aged
        if has_ages:
            self.oldest_kept = min(self.oldest_kept, self.oldest)
        self.kept_tombstones += self.staying_tombstones
        return outcome

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def judge_by_number(self, count: i64, is_expired: cython.bint) -> cython.int:
        """Decide which of the next `count` numbered records are dropped."""
        i: i64 = 0
        gone: i64 = 0
        expired: i64 = 0
        dead: u64
        tombstones: u64
        held: u64
        staying: i64 = 0
        while i < count:
            dead = window(self.dead, self.ordinal + i)
            tombstones = window(self.tombstones, self.ordinal + i) & (M64 ^ dead)
            if count - i < 64:
                dead &= (ONE << (count - i)) - 1
                tombstones &= (ONE << (count - i)) - 1
            gone += bit_count(dead)
            if tombstones:
                if is_expired:
                    if self.has_held:
                        held = tombstones & window(self.held, self.ordinal + i)
                        staying += bit_count(held)
                        tombstones ^= held
                    expired += bit_count(tombstones)
                    dead |= tombstones
                else:
                    staying += bit_count(tombstones)
            self.verdict[i >> 6] = dead
            i += 64
        self.gone_superseded = gone
        self.gone_keyless = self.gone_aged = 0
        self.gone_expired = expired
        self.staying_tombstones = staying
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def judge_singly(
        self,
        block: cython.const[u8][::1],
        p: i64,
        end: i64,
        count: i64,
        base: i64,
        is_expired: cython.bint,
        timestamp: i64,
        delta_mask: i64,
    ) -> cython.int:
        """Decide which records are dropped, for a batch that is not, or only partly, in the mapped part, or has ages.

        `delta_mask` is 0 if all records have the time `timestamp`, and -1 if that is only the base of their own.
        """
        table: cython.const[u64][::1] = self.table
        high: u64[::1] = self.high
        low: u64[::1] = self.low
        superseded: i64 = 0
        keyless: i64 = 0
        expired: i64 = 0
        gone_aged: i64 = 0
        staying: i64 = 0
        i: i64 = 0
        j: i64
        n: i64
        at: i64
        size: i64
        start: i64 = p
        record_end: i64
        time_delta: i64
        delta: i64
        aged_before: u64 = self.aged_before
        aged: u64
        head: u64
        tail: u64
        dead: u64
        asked: u64
        tombstones: u64
        expirable: u64
        bit: u64
        touched: u64 = 0
        while i < count:
            n = min(BLOCK, count - i)
            dead = asked = tombstones = expirable = aged = 0
            for j in range(n):
                bit = ONE << j
                size, at = varint(block, p, end)
                if at < 0 or size < 1 or size > end - at:
                    return CORRUPT
                record_end = at + size
                time_delta, at = varlong(block, at + 1, record_end)
                if at < 0:
                    return CORRUPT
                # Without ages the bound is 0. A record without a timestamp has the largest one here.
                if (cython.cast(u64, timestamp) + cython.cast(u64, time_delta & delta_mask)) & M64 < aged_before:
                    aged |= bit
                delta, at = varint(block, at, record_end)
                if at < 0:
                    return CORRUPT
                size, at = varint(block, at, record_end)
                if at < 0 or at >= record_end or size >= record_end - at:
                    return CORRUPT
                if base + delta <= self.latest:
                    expirable |= bit
                    if base + delta >= self.start:
                        # The first half has not numbered this record: the offsets contradict the batch's header.
                        if self.ordinal + i + j >= self.numbered:
                            return CORRUPT
                        if self.has_held and window(self.held, self.ordinal + i + j) & 1:
                            expirable &= M64 ^ bit
                        if window(self.dead, self.ordinal + i + j) & 1:
                            dead |= bit
                            superseded += 1
                    elif size < 0:
                        dead |= bit
                        keyless += 1
                    else:
                        if cython.compiled:
                            head, tail = siphash(self.k0, self.k1, block, at, size)
                        else:
                            head, tail = fingerprint(self.secret, block, at, size)
                        high[j] = head
                        low[j] = tail & (M64 ^ LOW) | cython.cast(u64, delta) & LOW
                        asked |= bit
                if size > 0:
                    at += size
                if block[at] & 1:
                    tombstones |= bit
                p = record_end
            if asked:
                for j in range(n):
                    touched ^= table[cython.cast(i64, (high[j] >> 32) * self.slots >> 32) << 1]
            for j in range(n):
                bit = ONE << j
                if asked & bit:
                    at = find(table, self.slots, high[j], low[j] >> 32)
                    if is_at(table, at, high[j], low[j] >> 32):
                        if self.is_versioned and self.versions[at + 1] == base + cython.cast(i64, low[j] & LOW):
                            expirable &= M64 ^ bit  # it wins against a record of the dirty part
                        else:
                            dead |= bit
                            superseded += 1
            if aged:
                aged &= expirable & (M64 ^ (dead | tombstones))
                gone_aged += bit_count(aged)
            tombstones &= M64 ^ dead
            dead |= aged
            if is_expired:
                expired += bit_count(tombstones & expirable)
                dead |= tombstones & expirable
                tombstones &= M64 ^ expirable
            if tombstones:
                staying += bit_count(tombstones)
            self.verdict[i >> 6] = dead
            i += n
        self.touched = touched
        if p != end:
            return CORRUPT
        self.gone_superseded = superseded
        self.gone_keyless = keyless
        self.gone_expired = expired
        self.gone_aged = gone_aged
        self.staying_tombstones = staying
        if aged_before > 0:
            self.note_oldest(block, start, end, count, timestamp, delta_mask)
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def note_oldest(
        self, block: cython.const[u8][::1], p: i64, end: i64, count: i64, timestamp: i64, delta_mask: i64
    ) -> cython.int:
        """Note the least timestamp of the batch's records that have a value and stay. `judge_singly` has read them before."""
        i: i64
        at: i64
        size: i64
        record_end: i64
        time_delta: i64
        _delta: i64
        oldest: i64 = OFFSET_LIMIT
        for i in range(count):
            size, at = varint(block, p, end)
            record_end = at + size
            time_delta, at = varlong(block, at + 1, record_end)
            _delta, at = varint(block, at, record_end)
            size, at = varint(block, at, record_end)
            if size > 0:
                at += size
            time_delta = signed(cython.cast(u64, timestamp) + cython.cast(u64, time_delta & delta_mask))
            if not self.verdict[i >> 6] >> (i & 63) & 1 and not block[at] & 1 and 0 <= time_delta < oldest:
                oldest = time_delta
            p = record_end
        self.oldest = oldest
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def rewrite(
        self,
        b: cython.const[u8][::1],
        pos: i64,
        block: cython.const[u8][::1],
        p: i64,
        end: i64,
        out: u8[::1],
        o: i64,
        wants_horizon: cython.bint,
    ) -> cython.int:
        """Write the batch at `pos`, with the records of block[p:end] that stay, to out[o:], which has room for it.

        The base timestamp becomes that of the first record that stays, unless it is a delete horizon; the records' deltas
        are changed accordingly.
        """
        verdict: u64[::1] = self.verdict
        count: i64 = big32(b, pos + COUNT)
        attributes: i64 = b[pos + ATTRIBUTES]
        base_timestamp: i64 = big64(b, pos + BASE_TIMESTAMP)
        max_timestamp: i64 = big64(b, pos + MAX_TIMESTAMP)
        is_append_time: cython.bint = attributes & LOG_APPEND_TIME != 0
        has_base: cython.bint = True
        shifts: cython.bint
        new_base: i64 = base_timestamp
        top: i64 = signed(SIGN)
        kept: i64 = 0
        run: i64 = p
        at: i64 = o + HEADER
        i: i64
        q: i64
        size: i64
        delta: i64
        timestamp: i64
        record_end: i64
        word: u64 = 0
        if not attributes & DELETE_HORIZON:
            if wants_horizon:
                attributes |= DELETE_HORIZON
                new_base = self.new_horizon
            else:
                has_base = False
        shifts = is_append_time or new_base != base_timestamp
        for i in range(count):
            if i & 63 == 0:
                word = verdict[i >> 6]
            size, q = varint(block, p, end)
            if q < 0 or size < 1 or size > end - q:
                return CORRUPT
            record_end = q + size
            if word & 1:
                at = copy(out, at, block, run, p)
                run = record_end
            else:
                kept += 1
                delta, q = varlong(block, q + 1, record_end)
                if q < 0:
                    return CORRUPT
                if is_append_time:
                    timestamp = max_timestamp
                else:
                    timestamp = signed(cython.cast(u64, base_timestamp) + cython.cast(u64, delta))
                if not has_base:
                    has_base = True
                    new_base = timestamp
                    shifts = is_append_time or new_base != base_timestamp
                top = max(top, timestamp)
                if shifts:
                    delta = signed(cython.cast(u64, timestamp) - cython.cast(u64, new_base))
                    at = put_varint(out, at, 1 + varint_size(delta) + record_end - q)
                    out[at] = 0  # attributes: none are defined
                    at = put_varint(out, at + 1, delta)
                    at = copy(out, at, block, q, record_end)
                    run = record_end
            word >>= 1
            p = record_end
        at = copy(out, at, block, run, p)
        if p != end:
            return CORRUPT
        if is_append_time:
            top = max_timestamp
        copy(out, o, b, pos, pos + HEADER)
        put_big(out, o + LENGTH, at - o - OVERHEAD, 4)
        out[o + ATTRIBUTES] = attributes
        put_big(out, o + BASE_TIMESTAMP, new_base, 8)
        put_big(out, o + MAX_TIMESTAMP, top, 8)
        put_big(out, o + COUNT, kept, 4)
        self.end = at
        self.timestamp = top
        return REWRITTEN

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def follow(self, last: i64, size: i64, timestamp: i64) -> cython.int:
        """Note a batch of `size` bytes for the segment, with an index entry if one is due, by the rule of recovery."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last
        if (
            self.unindexed > self.interval
            and self.offset_room > 0
            and self.time_room > 0
            and last - self.base_offset <= ENTRY_MAX
            and self.position <= ENTRY_MAX
        ):
            self.offsets[self.offset_count] = last - self.base_offset
            self.positions[self.offset_count] = self.position
            self.offset_count += 1
            self.offset_room -= 1
            if self.max_timestamp > self.indexed_timestamp:
                self.timestamps[self.time_count] = self.max_timestamp
                self.timestamp_offsets[self.time_count] = self.max_timestamp_offset - self.base_offset
                self.time_count += 1
                self.time_room -= 1
                self.indexed_timestamp = self.max_timestamp
            self.unindexed = 0
        self.unindexed += size
        self.position += size
        self.last_offset = last
        self.batches += 1
        return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def after_field(b: cython.const[u8][::1], p: i64, end: i64) -> i64:
    """Return the position after a length and as many bytes (none if it is negative); -1 if they go beyond `end`."""
    size: i64
    size, p = varint(b, p, end)
    if p < 0 or size > end - p:
        return -1
    return p + size if size > 0 else p


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_headers(b: cython.const[u8][::1], p: i64, end: i64) -> i64:
    """Return the position after the headers of a record; -1 if they go beyond `end`, or are invalid."""
    size: i64
    count: i64
    count, p = varint(b, p, end)
    if p < 0 or count < 0:
        return -1
    while count > 0:
        count -= 1
        size, p = varint(b, p, end)
        if p < 0 or size < 0 or size > end - p:
            return -1
        p = after_field(b, p + size, end)
        if p < 0:
            return -1
    return p


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def walk(
    b: cython.const[u8][::1],
    p: i64,
    i: i64,
    count: i64,
    base_timestamp: i64,
    earliest: i64,
    latest: i64,
    wants_keys: cython.bint,
    top: i64,
) -> tuple[cython.int, i64, i64, i64]:
    """Check the records of a block; returns (result, position, record number, max timestamp)."""
    end: i64 = len(b)
    at: i64
    size: i64
    delta: i64
    number: i64
    timestamp: i64
    record_end: i64
    while i < count:
        size, at = varint(b, p, end)
        if at < 0 or size < 1 or size > end - at:
            return DAMAGED, p, i, top
        record_end = at + size
        delta, at = varlong(b, at + 1, record_end)
        if at < 0:
            return DAMAGED, p, i, top
        number, at = varint(b, at, record_end)
        if at < 0:
            return DAMAGED, p, i, top
        size, at = varint(b, at, record_end)
        if at < 0 or size > record_end - at:
            return DAMAGED, p, i, top
        at = after_field(b, at + size if size > 0 else at, record_end)
        if at < 0:
            return DAMAGED, p, i, top
        if after_headers(b, at, record_end) != record_end:
            return DAMAGED, p, i, top
        if number != i:
            return MISNUMBERED, p, i, top
        p = record_end
        i += 1
        if wants_keys and size < 0:
            return KEYLESS, p, i, top
        timestamp = signed(cython.cast(u64, base_timestamp) + cython.cast(u64, delta))
        if timestamp != -1 and (timestamp < earliest or timestamp > latest):
            return UNTIMELY, p, i, timestamp
        top = max(top, timestamp)
    return SOUND if p == end else LEFT_OVER, p, i, top


def check_records(
    b: cython.const[u8][::1],
    p: i64,
    i: i64,
    count: i64,
    base_timestamp: i64,
    earliest: i64,
    latest: i64,
    wants_keys: cython.bint,
    top: i64,
    frees_the_gil: cython.bint,
):
    found: cython.int
    if p < 0 or p > len(b):
        raise IndexError("no record begins here")
    if frees_the_gil:
        with cython.nogil:
            found, p, i, top = walk(b, p, i, count, base_timestamp, earliest, latest, wants_keys, top)
    else:
        found, p, i, top = walk(b, p, i, count, base_timestamp, earliest, latest, wants_keys, top)
    return found, p, i, top


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # `record_columns` has checked the bounds and sizes that it passes
def fill_columns(
    b: cython.const[u8][::1],
    starts: cython.const[i64][::1],
    ends: cython.const[i64][::1],
    counts: cython.const[i64][::1],
    last_deltas: cython.const[i64][::1],
    out: i64[::1],
    total: i64,
) -> cython.bint:
    batch: i64
    row: i64 = 0
    stop: i64
    p: i64
    at: i64
    end: i64
    record_end: i64
    size: i64
    delta: i64
    number: i64
    headers: i64
    last: i64
    for batch in range(len(starts)):
        p = starts[batch]
        end = ends[batch]
        stop = row + counts[batch]
        last = -1
        while row < stop:
            size, at = varint(b, p, end)
            if at < 0 or size < 1 or size > end - at:
                return False
            record_end = at + size
            delta, at = varlong(b, at + 1, record_end)
            if at < 0:
                return False
            number, at = varint(b, at, record_end)
            if at < 0 or number <= last or number > last_deltas[batch]:
                return False
            out[row] = delta
            out[total + row] = last = number
            size, at = varint(b, at, record_end)
            if at < 0 or size > record_end - at:
                return False
            out[2 * total + row] = at
            out[3 * total + row] = size
            size, at = varint(b, at + size if size > 0 else at, record_end)
            if at < 0 or size > record_end - at:
                return False
            out[4 * total + row] = at
            out[5 * total + row] = size
            if size > 0:
                at += size
            if after_headers(b, at, record_end) != record_end:
                return False
            headers, at = varint(b, at, record_end)
            out[6 * total + row] = at
            out[7 * total + row] = headers
            p = record_end
            row += 1
        if p != end:
            return False
    return True


def record_columns(
    b: cython.const[u8][::1],
    starts: cython.const[i64][::1],
    ends: cython.const[i64][::1],
    counts: cython.const[i64][::1],
    last_deltas: cython.const[i64][::1],
    out: i64[::1],
):
    batch: i64
    total: i64 = 0
    found: cython.bint
    if not len(starts) == len(ends) == len(counts) == len(last_deltas):
        raise IndexError("arrays of different lengths")
    for batch in range(len(starts)):
        if starts[batch] < 0 or ends[batch] < starts[batch] or ends[batch] > len(b):
            raise IndexError("a batch outside the buffer")
        if counts[batch] < 0 or counts[batch] > (ends[batch] - starts[batch]) // RECORD_MIN:
            return False
        total += counts[batch]
    if len(out) != 8 * total:
        raise IndexError("the output has another size")
    with cython.nogil:
        found = fill_columns(b, starts, ends, counts, last_deltas, out, total)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.boundscheck(False)  # `header_columns` has checked the sizes; varint looks at nothing beyond `end`
def fill_headers(
    b: cython.const[u8][::1],
    places: cython.const[i64][::1],
    counts: cython.const[i64][::1],
    out: i64[::1],
    total: i64,
) -> cython.bint:
    record: i64
    row: i64 = 0
    stop: i64
    at: i64
    size: i64
    end: i64 = len(b)
    for record in range(len(places)):
        at = places[record]
        stop = row + counts[record]
        while row < stop:
            size, at = varint(b, at, end)
            if at < 0 or size < 0 or size > end - at:
                return False
            out[row] = at
            out[total + row] = size
            size, at = varint(b, at + size, end)
            if at < 0 or size > end - at:
                return False
            out[2 * total + row] = at
            out[3 * total + row] = size
            if size > 0:
                at += size
            row += 1
    return True


def header_columns(
    b: cython.const[u8][::1], places: cython.const[i64][::1], counts: cython.const[i64][::1], out: i64[::1]
):
    record: i64
    total: i64 = 0
    found: cython.bint
    if len(places) != len(counts):
        raise IndexError("arrays of different lengths")
    for record in range(len(places)):
        if places[record] < 0 or counts[record] < 0 or counts[record] > len(b):
            raise IndexError("no headers begin here")
        total += counts[record]
    if len(out) != 4 * total:
        raise IndexError("the output has another size")
    with cython.nogil:
        found = fill_headers(b, places, counts, out, total)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(-1)
def gap_row(gap: i64) -> i64:
    """Return the row of a gap: below 16 the gap itself, then one of eight for each power of two."""
    power: i64 = 4
    if gap < 16:
        return gap
    while gap >> power > 1:
        power += 1
    return 16 + ((power - 4) << 3) + ((gap >> (power - 3)) & 7)


@cython.final
@cython.cclass
class LogTally:
    """Counts of a log's records by time, and how often the keys of a sample were written."""

    # Slots of five words, in order of the first: fingerprint (0: free), writes, size of the newest record and whether it has
    # no value, end of the hash and whether the clean part has the key, number of the last dirty record (0: none).
    table: u64[::1]
    slots: u64
    last: i64  # position of the slot that stays free
    keys_max: i64
    mask: u64
    secret: bytes
    k0: u64
    k1: u64
    start: i64
    buckets: i64[::1]
    begin_ms: i64
    width_ms: i64
    latest_ms: i64
    newest_ms: i64  # the largest timestamp so far that is not of the future
    late_ms: i64
    gaps: cython.double[::1]
    keys = cython.declare(i64, visibility="public")
    sample_bits = cython.declare(i64, visibility="public")
    batches = cython.declare(i64, visibility="public")
    records = cython.declare(i64, visibility="public")
    record_bytes = cython.declare(i64, visibility="public")
    tombstones = cython.declare(i64, visibility="public")
    tombstone_bytes = cython.declare(i64, visibility="public")
    keyless = cython.declare(i64, visibility="public")
    dirty_records = cython.declare(i64, visibility="public")
    dirty_batches = cython.declare(i64, visibility="public")
    dirty_bytes = cython.declare(i64, visibility="public")
    untimed = cython.declare(i64, visibility="public")
    future = cython.declare(i64, visibility="public")
    late = cython.declare(i64, visibility="public")
    end_offset = cython.declare(i64, visibility="public")
    max_timestamp = cython.declare(i64, visibility="public")
    live_keys = cython.declare(i64, visibility="public")
    live_bytes = cython.declare(i64, visibility="public")
    known_keys = cython.declare(i64, visibility="public")

    def __init__(self, table, slots: i64, keys_max: i64, start: i64, secret: bytes, latest_ms: i64, late_ms: i64, gaps):
        self.table = table
        self.last = len(self.table) - 5
        if slots < 1 or slots > 0xFFFFFFFF or 5 * slots > self.last or keys_max < 1 or self.table[self.last] != 0:
            raise ValueError("the table needs a free slot behind its slots")
        self.gaps = gaps
        if self.last % 5 or len(self.gaps) != 3 * GAP_ROWS:
            raise ValueError("the table or the gaps have another size")
        self.slots = slots
        self.keys_max = keys_max
        self.start = start
        self.secret = secret
        self.k0 = int.from_bytes(secret[:8], "little")
        self.k1 = int.from_bytes(secret[8:16], "little")
        self.mask = 0
        self.keys = self.sample_bits = self.batches = self.records = self.record_bytes = self.tombstones = 0
        self.tombstone_bytes = self.keyless = self.dirty_records = self.end_offset = 0
        self.dirty_batches = self.dirty_bytes = 0
        self.live_keys = self.live_bytes = self.known_keys = self.untimed = self.future = self.late = 0
        self.latest_ms = latest_ms
        self.late_ms = late_ms
        self.newest_ms = -1
        self.max_timestamp = -1
        self.set_buckets(array("q"), 0, 1)

    def set_buckets(self, buckets, begin_ms: i64, width_ms: i64):
        self.buckets = buckets
        self.begin_ms = begin_ms
        self.width_ms = width_ms

    def take(self, b: cython.const[u8][::1], pos: i64, stop: i64):
        """Take whole batches of b[pos:stop]; returns (position, Stop)."""
        size: i64
        status: cython.int = DONE
        if pos < 0 or stop > len(b):
            raise IndexError("a chunk ends where its buffer does")
        with cython.nogil:
            while True:
                size = batch_size(b, pos, stop)
                if size <= 0:
                    if size < 0:
                        status = CORRUPT
                    break
                if b[pos + ATTRIBUTES] & (TRANSACTIONAL | CONTROL_BATCH):
                    status = TRANSACTION
                    break
                if b[pos + ATTRIBUTES] & CODEC_MASK and big32(b, pos + COUNT) > 0:
                    status = COMPRESSED
                    break
                status = self.take_batch(b, pos, b, pos + HEADER, pos + size)
                if status != DONE:
                    break
                pos += size
        return pos, status

    def take_block(self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1]):
        """Take one batch, whose header is at `pos` and whose records, unpacked, are `block`; returns a Stop."""
        status: cython.int = CORRUPT
        if pos < 0 or len(b) - pos < HEADER:
            raise IndexError("a header ends where its buffer does")
        with cython.nogil:
            if batch_size(b, pos, pos + HEADER) >= 0:
                status = self.take_batch(b, pos, block, 0, len(block))
        return status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def take_batch(
        self, b: cython.const[u8][::1], pos: i64, block: cython.const[u8][::1], p: i64, end: i64
    ) -> cython.int:
        base: i64 = big64(b, pos)
        last: i64 = base + big32(b, pos + LAST_DELTA)
        count: i64 = big32(b, pos + COUNT)
        timestamp: i64 = big64(b, pos + MAX_TIMESTAMP)
        bucket: i64 = -1
        _i: i64
        at: i64
        size: i64
        delta: i64
        _skipped: i64
        record_end: i64
        head: u64
        tail: u64
        if count > (end - p) // RECORD_MIN:
            return CORRUPT
        if 0 <= timestamp <= self.latest_ms and count > 0:
            if timestamp < self.begin_ms or (timestamp - self.begin_ms) // self.width_ms >= len(self.buckets) // 3:
                return FLUSH
            bucket = 3 * ((timestamp - self.begin_ms) // self.width_ms)
        for _i in range(count):
            size, at = varint(block, p, end)
            if at < 0 or size < 1 or size > end - at:
                return CORRUPT
            record_end = at + size
            _skipped, at = varlong(block, at + 1, record_end)
            if at < 0:
                return CORRUPT
            delta, at = varint(block, at, record_end)
            if at < 0:
                return CORRUPT
            size, at = varint(block, at, record_end)
            if at < 0 or at >= record_end or size >= record_end - at:  # the value's length comes after the key
                return CORRUPT
            if size < 0:
                self.keyless += 1
                size = 0
            else:
                if cython.compiled:
                    head, tail = siphash(self.k0, self.k1, block, at, size)
                else:
                    head, tail = fingerprint(self.secret, block, at, size)
                if base + delta < self.start:
                    self.gaps[3 * gap_row(self.start - base - delta) + 2] += 1
                if tail & self.mask == 0:
                    self.put(head, tail, (record_end - p) << 1 | block[at + size] & 1, base + delta >= self.start)
            if block[at + size] & 1:
                self.tombstones += 1
                self.tombstone_bytes += record_end - p
            if base + delta >= self.start:
                self.dirty_records += 1
            p = record_end
        if p != end:
            return CORRUPT
        size = big32(b, pos + LENGTH) + OVERHEAD
        self.batches += 1
        self.records += count
        self.record_bytes += size - HEADER
        if base >= self.start:
            self.dirty_batches += 1
            self.dirty_bytes += size
        self.max_timestamp = max(self.max_timestamp, timestamp)
        if timestamp < 0:
            self.untimed += count
        elif timestamp > self.latest_ms:
            self.future += count
        elif timestamp < self.newest_ms - self.late_ms:
            self.late += count
        else:
            self.newest_ms = max(self.newest_ms, timestamp)
        if bucket >= 0:
            self.buckets[bucket] += max(0, last + 1 - self.end_offset)
            self.buckets[bucket + 1] += count
            self.buckets[bucket + 2] += size
        self.end_offset = max(self.end_offset, last + 1)
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def put(self, head: u64, tail: u64, newest: i64, is_dirty: cython.bint) -> cython.int:
        """Count a write of a key of the sample."""
        at: i64
        free: i64
        if head == 0:
            head = 1
        while True:
            at = cython.cast(i64, (head >> 32) * self.slots >> 32) * 5
            while self.table[at] != 0 and self.table[at] < head:
                at += 5
            if self.table[at] == head:
                break
            free = at
            while self.table[free] != 0:
                free += 5
            if self.keys < self.keys_max and free < self.last:
                while free > at:
                    self.table[free] = self.table[free - 5]
                    self.table[free + 1] = self.table[free - 4]
                    self.table[free + 2] = self.table[free - 3]
                    self.table[free + 3] = self.table[free - 2]
                    self.table[free + 4] = self.table[free - 1]
                    free -= 5
                self.table[at] = head
                self.table[at + 1] = 0
                self.table[at + 3] = (tail & LOW) << 1
                self.table[at + 4] = 0
                self.keys += 1
                break
            if self.sample_bits == 32:
                return 0
            self.halve()
            if tail & self.mask != 0:
                return 0
        self.table[at + 2] = cython.cast(u64, newest)
        if is_dirty:
            self.table[at + 1] += 1
            self.add_gap(self.dirty_records + 1 - cython.cast(i64, self.table[at + 4]))
            self.table[at + 4] = cython.cast(u64, self.dirty_records + 1)
        else:
            self.table[at + 3] |= 1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def add_gap(self, gap: i64) -> cython.int:
        """Count a gap for all the keys that one of the sample stands for."""
        row: i64 = gap_row(gap)
        weight: cython.double = cython.cast(i64, 1) << self.sample_bits
        self.gaps[3 * row] += weight
        self.gaps[3 * row + 1] += weight * gap
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def halve(self) -> cython.int:
        """Keep half of the sample. No slot moves up, as those that stay are in the same order."""
        at: i64
        to: i64
        free: i64 = 0
        word: u64
        self.sample_bits += 1
        self.mask = (self.mask << 1 | 1) & LOW
        self.keys = 0
        for at in range(0, self.last, 5):
            word = self.table[at]
            if word == 0:
                continue
            self.table[at] = 0
            if self.table[at + 3] >> 1 & self.mask == 0:
                to = max(free, cython.cast(i64, (word >> 32) * self.slots >> 32) * 5)
                self.table[to] = word
                self.table[to + 1] = self.table[at + 1]
                self.table[to + 2] = self.table[at + 2]
                self.table[to + 3] = self.table[at + 3]
                self.table[to + 4] = self.table[at + 4]
                free = to + 5
                self.keys += 1
        return 0

    def count_keys(self, out: i64[::1]):
        """Count the keys of the sample by their writes, and the gaps after their last ones. Called once."""
        at: i64
        row: i64
        word: u64
        if len(out) != 2 * TALLY_ROWS:
            raise IndexError("the output has another size")
        self.live_keys = self.live_bytes = self.known_keys = 0
        for row in range(len(out)):
            out[row] = 0
        for at in range(0, self.last, 5):
            if self.table[at] == 0:
                continue
            if self.table[at + 4] != 0:
                self.add_gap(self.dirty_records + 1 - cython.cast(i64, self.table[at + 4]))
            word = self.table[at + 1]
            row = cython.cast(i64, word)
            if word > 15:
                row = 16
                while word > 31:
                    word >>= 1
                    row += 1
            out[2 * row] += 1
            out[2 * row + 1] += cython.cast(i64, self.table[at + 1])
            self.known_keys += cython.cast(i64, self.table[at + 3] & 1)
            if self.table[at + 2] & 1 == 0:
                self.live_keys += 1
                self.live_bytes += cython.cast(i64, self.table[at + 2] >> 1)


# Position of a `RecordWalk` in a record.
AT_LENGTH = cython.declare(cython.int, 0)
AT_TIMESTAMP = cython.declare(cython.int, 1)
AT_NUMBER = cython.declare(cython.int, 2)
AT_KEY = cython.declare(cython.int, 3)
AT_VALUE = cython.declare(cython.int, 4)
AT_HEADERS = cython.declare(cython.int, 5)
AT_HEADER_KEY = cython.declare(cython.int, 6)
AT_HEADER_VALUE = cython.declare(cython.int, 7)


@cython.cclass
class RecordWalk:
    """Does the work of `check_records` and `find_record` for a block in pieces; keeps none. A record may span many pieces."""

    count: i64
    base_timestamp: i64
    earliest: i64
    latest: i64
    wants_keys: cython.bint
    stage: cython.int
    skip: i64  # bytes of a field to skip
    left: i64  # remaining bytes of the record
    z: u64  # bits so far of the number that is being read
    n: i64
    delta: i64
    key_size: i64
    headers: i64
    seeks: cython.bint
    least_delta: i64
    number = cython.declare(i64, visibility="public")
    size_max = cython.declare(i64, visibility="public")
    top = cython.declare(i64, visibility="public")
    offset_delta = cython.declare(i64, visibility="public")

    def __init__(self, count: i64, base_timestamp: i64, earliest: i64, latest: i64, wants_keys: cython.bint):
        self.count = count
        self.base_timestamp = base_timestamp
        self.earliest = earliest
        self.latest = latest
        self.wants_keys = wants_keys
        self.stage = AT_LENGTH
        self.skip = self.left = self.n = self.delta = self.offset_delta = self.key_size = self.headers = 0
        self.z = 0
        self.number = 0
        self.top = -1
        self.size_max = ENTRY_MAX
        self.seeks = False
        self.least_delta = 0

    def seek(self, earliest: i64, least_delta: i64):
        self.seeks = True
        self.earliest = earliest
        self.least_delta = least_delta

    def feed(self, b: cython.const[u8][::1], p: i64):
        found: cython.int
        timestamp: i64
        if p < 0 or p > len(b):
            raise IndexError("the next piece does not continue there")
        with cython.nogil:
            found, p, timestamp = self.walk_on(b, p)
        return found, p, timestamp

    def end(self):
        if self.stage == AT_LENGTH and self.n == 0 and self.number == self.count:
            return SOUND
        return DAMAGED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.boundscheck(False)  # 0 <= p < end = len(b)
    def walk_on(self, b: cython.const[u8][::1], p: i64) -> tuple[cython.int, i64, i64]:
        end: i64 = len(b)
        c: u64
        value: i64
        size_max: i64
        timestamp: i64
        while True:
            if self.skip > 0:
                value = min(self.skip, end - p)
                self.skip -= value
                p += value
            if self.stage == AT_HEADER_KEY and self.headers == 0 and self.skip == 0 and self.n == 0:
                # End of the record.
                if self.left != 0:
                    return DAMAGED, p, 0
                if self.offset_delta != self.number and not self.seeks:
                    return MISNUMBERED, p, 0
                self.number += 1
                self.stage = AT_LENGTH
                timestamp = signed(cython.cast(u64, self.base_timestamp) + cython.cast(u64, self.delta))
                if self.seeks:
                    if timestamp >= self.earliest and self.offset_delta >= self.least_delta:
                        return SOUGHT, p, timestamp
                    continue
                if self.wants_keys and self.key_size < 0:
                    return KEYLESS, p, 0
                if timestamp != -1 and (timestamp < self.earliest or timestamp > self.latest):
                    return UNTIMELY, p, timestamp
                self.top = max(self.top, timestamp)
            if p >= end:
                return SOUND, p, 0
            if self.stage == AT_LENGTH and self.number == self.count:
                return LEFT_OVER, p, 0
            # Next byte of a number.
            if self.stage != AT_LENGTH:
                if self.left == 0:
                    return DAMAGED, p, 0
                self.left -= 1
            c = b[p]
            p += 1
            self.z |= (c & 127) << 7 * self.n & M64
            self.n += 1
            size_max = 10 if self.stage == AT_TIMESTAMP else 5
            if c > 127:
                if self.n == size_max:
                    return DAMAGED, p, 0
                continue
            if size_max == 5:
                self.z &= LOW
            value = signed(self.z >> 1 ^ (0 - (self.z & 1)) & M64)
            self.z = 0
            self.n = 0
            if self.stage == AT_LENGTH:
                if value < 1 or value > self.size_max:
                    return DAMAGED, p, 0
                self.left = value - 1
                self.skip = 1  # the attributes
                self.stage = AT_TIMESTAMP
            elif self.stage == AT_TIMESTAMP:
                self.delta = value
                self.stage = AT_NUMBER
            elif self.stage == AT_NUMBER:
                self.offset_delta = value
                self.stage = AT_KEY
            elif self.stage == AT_HEADERS:
                if value < 0:
                    return DAMAGED, p, 0
                self.headers = value
                self.stage = AT_HEADER_KEY
            else:
                if value > self.left or (value < 0 and self.stage == AT_HEADER_KEY):
                    return DAMAGED, p, 0
                if value > 0:
                    self.left -= value
                    self.skip = value
                if self.stage == AT_KEY:
                    self.key_size = value
                    self.stage = AT_VALUE
                elif self.stage == AT_VALUE:
                    self.stage = AT_HEADERS
                elif self.stage == AT_HEADER_KEY:
                    self.stage = AT_HEADER_VALUE
                else:
                    self.headers -= 1
                    self.stage = AT_HEADER_KEY


def has_longer(b: cython.const[u8][::1], size_max: i64):
    p: i64 = 0
    size: i64 = 0
    end: i64 = len(b)
    if end > size_max:
        with cython.nogil:
            while 0 <= p < end and 0 <= size <= size_max:
                size, p = varint(b, p, end)
                if p >= 0:
                    p += max(size, 0)
    return size > size_max


def admit(
    b: u8[::1],
    crc: i64,
    wants_keys: cython.bint,
    earliest: i64,
    latest: i64,
    next_offset: i64,
    leader_epoch: i64,
):
    end: i64 = len(b)
    if end <= HEADER or big32(b, LENGTH) != end - OVERHEAD or b[MAGIC] != 2 or big64(b, 0) != 0:
        return None
    count: i64 = big32(b, COUNT)
    if count <= 0 or big32(b, LAST_DELTA) != count - 1 or big32(b, CRC) & LOW != crc:
        return None
    if b[ATTRIBUTES - 1] or b[ATTRIBUTES] & ~TRANSACTIONAL & 255:
        return None
    producer_id: i64 = big64(b, PRODUCER_ID)
    if producer_id != -1 and big32(b, BASE_SEQUENCE) < 0:
        return None
    found: cython.int
    top: i64
    _at: i64
    _number: i64
    found, _at, _number, top = walk(b, HEADER, 0, count, big64(b, BASE_TIMESTAMP), earliest, latest, wants_keys, -1)
    if found != SOUND or top != big64(b, MAX_TIMESTAMP):
        return None
    put_big(b, 0, next_offset, 8)
    put_big(b, LEADER_EPOCH, leader_epoch, 4)
    return count - 1, top, producer_id


def pass_over(b: cython.const[u8][::1], most: i64, below: i64):
    end: i64 = len(b)
    at: i64 = 0
    size: i64
    base: i64
    while at + HEADER <= end:
        size = big32(b, at + LENGTH) + OVERHEAD
        base = big64(b, at)
        if b[at + MAGIC] != 2 or size < HEADER or base < 0 or base > OFFSET_LIMIT:
            break
        if size > most - at or base + big32(b, at + LAST_DELTA) >= below:
            return at, at + size
        at += size
    return at, 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def seek(
    b: cython.const[u8][::1], count: i64, base_timestamp: i64, earliest: i64, least_delta: i64
) -> tuple[cython.int, i64, i64]:
    """Search a block for a record; returns (result, offset delta, timestamp)."""
    p: i64 = 0
    i: i64 = 0
    end: i64 = len(b)
    at: i64
    size: i64
    delta: i64
    number: i64
    timestamp: i64
    record_end: i64
    while i < count:
        size, at = varint(b, p, end)
        if at < 0 or size < 1 or size > end - at:
            return DAMAGED, i, 0
        record_end = at + size
        delta, at = varlong(b, at + 1, record_end)
        if at < 0:
            return DAMAGED, i, 0
        number, at = varint(b, at, record_end)
        if at < 0:
            return DAMAGED, i, 0
        timestamp = signed(cython.cast(u64, base_timestamp) + cython.cast(u64, delta))
        if timestamp >= earliest and number >= least_delta:
            return SOUGHT, number, timestamp
        p = record_end
        i += 1
    return SOUND if p == end else LEFT_OVER, i, 0


def find_record(b: cython.const[u8][::1], count: i64, base_timestamp: i64, earliest: i64, least_delta: i64):
    found: cython.int
    number: i64
    timestamp: i64
    with cython.nogil:
        found, number, timestamp = seek(b, count, base_timestamp, earliest, least_delta)
    return found, number, timestamp
