"""gzip (codec 1): RFC 1952 members; a zlib header is read too."""

import zlib
from collections.abc import Iterator

from .compression import PIECE_BYTES, Stream, too_large, too_many
from .errors import CorruptRecordError
from .varints import BytesLike

try:  # the gzip-fast extra: same format, 3-4 times faster to read and 12-17 times to write
    from isal import isal_zlib
except ImportError:
    isal_zlib = None


_GZIP_HEADER = 16 + zlib.MAX_WBITS
_GZIP_OR_ZLIB_HEADER = 32 + zlib.MAX_WBITS
_STEP_BYTES = 1024
# In each call the library joins its output, and copies the input that it has not used, while no other thread runs.
_STEP_BYTES_MAX = 64 * 1024


def compress(data: BytesLike, level: int | None) -> bytes:
    pack, finish = stream(level)
    return pack(data) + finish()


def stream(level: int | None) -> Stream:
    if level is None or level == zlib.Z_DEFAULT_COMPRESSION:
        library = isal_zlib or zlib  # only the default level: isal's four levels have other meanings
        level = library.Z_DEFAULT_COMPRESSION
    else:
        library = zlib
    packer = library.compressobj(level, zlib.DEFLATED, _GZIP_HEADER)
    return packer.compress, packer.flush


def unpack(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    library = isal_zlib or zlib
    room = max_bytes
    at, end = 0, len(data)
    step_bytes = _STEP_BYTES_MAX  # nearly always only one member
    for _ in range(max_frames):
        member = library.decompressobj(_GZIP_OR_ZLIB_HEADER)
        left, may_hold_more = b"", False
        while not member.eof:
            shown: BytesLike = left
            if not left and not may_hold_more:
                if at >= end:
                    raise CorruptRecordError("truncated gzip stream")
                shown = data[at : at + step_bytes]
                at += len(shown)
                step_bytes = min(2 * step_bytes, _STEP_BYTES_MAX)
            # One byte more than allowed distinguishes "full" from "too large".
            part_bytes = min(room + 1, PIECE_BYTES)
            try:
                part = member.decompress(shown, part_bytes)
            except (zlib.error, library.error) as error:
                raise CorruptRecordError(f"damaged gzip stream: {error}") from None
            left, may_hold_more = member.unconsumed_tail, len(part) == part_bytes
            room -= len(part)
            if room < 0:
                raise too_large(max_bytes)
            if part:
                yield part
        at -= len(member.unused_data)
        if at == end:
            return
        # A member copies the bytes after it. So the next ones, which may be many, first get only little input.
        step_bytes = _STEP_BYTES
    raise too_many(max_frames)
