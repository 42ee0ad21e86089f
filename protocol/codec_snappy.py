"""snappy (codec 2): raw snappy, or the xerial framing of snappy-java; the latter is written, as by the Java client.

82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | i32 version 1 | i32 oldest reader 1 | (i32 length | raw snappy)*
"""

import struct
from collections.abc import Iterator

import cramjam

from .compression import Stream, too_large, too_many
from .errors import CorruptRecordError
from .varints import BytesLike

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32 * 1024
_I32 = struct.Struct(">i")


def compress(data: BytesLike, level: int | None) -> bytes:
    return _XERIAL_HEADER + _blocks(data)


def stream(level: int | None) -> Stream:
    head = _XERIAL_HEADER

    def pack(data: BytesLike) -> bytes:
        nonlocal head
        packed, head = head + _blocks(data), b""
        return packed

    return pack, bytes


def _blocks(data: BytesLike) -> bytes:
    out = bytearray()
    view = memoryview(data)
    for at in range(0, len(view), _BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[at : at + _BLOCK_BYTES]))
        out += _I32.pack(len(block))
        out += block
    return bytes(out)


def unpack(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[memoryview]:
    if data[:8] != _XERIAL_MAGIC:
        yield _unpack_block(data, max_bytes, max_bytes)
        return
    room, at, frames_left = max_bytes, len(_XERIAL_HEADER), max_frames
    while at != len(data):
        if not frames_left:
            raise too_many(max_frames)
        frames_left -= 1
        if at + 4 > len(data):
            raise CorruptRecordError("truncated block length in snappy stream")
        (length,) = _I32.unpack_from(data, at)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise CorruptRecordError(f"snappy block of {length} bytes, but only {len(data) - at} bytes are left")
        part = _unpack_block(data[at : at + length], room, max_bytes)
        room -= len(part)
        yield part
        at += length


def _unpack_block(block: memoryview, room: int, max_bytes: int) -> memoryview:
    # The block begins with its unpacked length, which the library allocates. So the length is checked first.
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise too_large(max_bytes)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"damaged snappy block: {error}") from None
