"""The five codecs of record batches, with bounded output.

Used by `records` (reading), `batch_builder` (writing) and recompression. Codec numbers on the wire:

    0 none
    1 gzip    RFC 1952 members; a zlib header is read too
    2 snappy  raw snappy, or the xerial framing of snappy-java; the latter is written, as by the Java client

                  82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | i32 version 1 | i32 oldest reader 1 | (i32 length | raw snappy)*

    3 lz4     lz4 frames; independent blocks of 64 KiB are written, as the Java reader refuses linked ones
    4 zstd    zstd frames, with or without a stated content size

Batches come from untrusted clients: this module trusts no length that it reads, and uses no memory for output beyond
the caller's `max_bytes` and one codec block. Several frames (members) back to back are one stream; each costs a
microsecond or two even if it is empty, so a caller may also bound their number.
"""

import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TypeAlias

import cramjam
import lz4.frame
import zstandard

from .errors import CorruptRecordError, ErrorCode
from .varints import BytesLike

try:  # the gzip-fast extra: same format, 3-4 times faster to read and 12-17 times to write
    from isal import isal_zlib
except ImportError:
    isal_zlib = None

MAX_DECOMPRESSED_BATCH_BYTES = 128 * 1024 * 1024
"""Largest unpacked size of one batch. Clients bound a batch before they compress it (16 KiB in Java,
1 MB in librdkafka, by default), so this stops only decompression bombs."""


PIECE_BYTES = 1 << 20
"""Largest piece that `unpack` yields, except a snappy block, which cannot be divided."""


class Codec(IntEnum):
    """Codec numbers of the batch attributes, bits 0-2."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = {"uncompressed": Codec.NONE, "none": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}
"""Kafka's names: topics say `uncompressed`, clients and tools say `none`."""


Stream: TypeAlias = tuple[Callable[[BytesLike], bytes], Callable[[], bytes]]
"""(compress the next bytes, finish) of a stream."""


class UnpackLimitError(CorruptRecordError):
    """A batch would unpack to more bytes, or has more frames, than the caller allows.

    The code for too many bytes is MESSAGE_TOO_LARGE, after which producers split the batch. After CORRUPT_MESSAGE they would
    send the same batch again.
    """


def compress(codec: int, data: BytesLike, level: int | None = None) -> bytes:
    """Return `data` in the form the Java client writes for that codec.

    Args:
        codec: 0 to 4.
        level: The topic's `compression.<codec>.level`; None is Kafka's default. Snappy has no levels.
    """
    return _COMPRESS[codec](data, level)


class Packer:
    """Compresses data in pieces. For one piece the result is that of `compress`; of several, only the output is kept."""

    def __init__(self, codec: int, level: int | None, max_bytes: int) -> None:
        """
        Args:
            max_bytes: Largest output. Beyond it `is_too_large` is True, and nothing more is compressed.
        """
        self._codec, self._level, self._max_bytes = codec, level, max_bytes
        self._first: BytesLike | None = None
        self._pack: Callable[[BytesLike], bytes] | None = None
        self._finish: Callable[[], bytes]
        self._packed: list[bytes] = []
        self._packed_bytes = 0
        self.size_bytes = 0
        """Size of the input so far."""
        self.is_too_large = False

    def add(self, piece: BytesLike) -> None:
        """Add the next bytes, which must stay unchanged until the next call."""
        self.size_bytes += len(piece)
        if self._first is None and self._pack is None:
            self._first = piece
            return
        if self._pack is None:
            self._pack, self._finish = _STREAMS[self._codec](self._level)
            assert self._first is not None
            self._put(self._pack(self._first))
            self._first = None
        if not self.is_too_large:
            self._put(self._pack(piece))

    def finish(self) -> BytesLike:
        """Finish, and return the compressed data; invalid if it `is_too_large`."""
        if self._pack is None:
            self._put(compress(self._codec, b"" if self._first is None else self._first, self._level))
        elif not self.is_too_large:
            self._put(self._finish())
        return b"".join(self._packed)

    def _put(self, packed: bytes) -> None:
        self._packed.append(packed)
        self._packed_bytes += len(packed)
        if self._packed_bytes > self._max_bytes:
            self.is_too_large = True
            self._packed.clear()


def decompress(
    codec: int, data: BytesLike, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES, max_frames: int = sys.maxsize
) -> memoryview:
    """Unpack the records block of one batch.

    Args:
        max_frames: Largest number of frames: gzip members, snappy blocks, lz4 frames, blocks of zstd frames.

    Returns:
        The unpacked bytes; for codec 0 a view of `data` itself.

    Raises:
        UnpackLimitError: The output would exceed `max_bytes` (MESSAGE_TOO_LARGE), detected before it is in memory; or more than
            `max_frames` (CORRUPT_MESSAGE), detected when that number has been unpacked.
        CorruptRecordError: The stream is damaged or incomplete, something other than a frame follows it,
            or no codec has this number.
    """
    pieces = unpack(codec, data, max_bytes=max_bytes, max_frames=max_frames)
    first = next(pieces, b"")
    second = next(pieces, None)
    if second is None:
        return memoryview(first)
    whole = bytearray(first)
    whole += second
    del first, second
    for piece in pieces:
        whole += piece  # grows in place; joining all parts at the end would take twice the memory
    return memoryview(whole)


def unpack(
    codec: int, data: BytesLike, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES, max_frames: int = sys.maxsize
) -> Iterator[BytesLike]:
    """Unpack like `decompress`, in pieces of at most `PIECE_BYTES`, for callers that keep none; a snappy block is one piece.

    Errors are raised between pieces. Data that fits into one piece is one piece. Of a zstd frame the library keeps its window
    in memory, which may be the whole frame.
    """
    pieces = _UNPACK.get(codec)
    if pieces is None:
        raise CorruptRecordError(f"unknown compression codec {codec}")
    return pieces(memoryview(data), max_bytes, max_frames)


def _too_large(max_bytes: int) -> UnpackLimitError:
    return UnpackLimitError(f"decompressed batch exceeds {max_bytes} bytes", ErrorCode.MESSAGE_TOO_LARGE)


def _too_many(max_frames: int) -> UnpackLimitError:
    return UnpackLimitError(f"batch consists of more than {max_frames} compressed frames")


# --- none -------------------------------------------------------------------------------------------------------


def _keep(data: BytesLike, level: int | None) -> bytes:
    return bytes(data)


def _uncompressed(level: int | None) -> Stream:
    return bytes, bytes


def _view(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[memoryview]:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    yield data


# --- gzip -------------------------------------------------------------------------------------------------------

_GZIP_HEADER = 16 + zlib.MAX_WBITS
_GZIP_OR_ZLIB_HEADER = 32 + zlib.MAX_WBITS
_GZIP_STEP_BYTES = 1024
# In each call the library joins its output, and copies the input that it has not used, while no other thread runs.
_GZIP_STEP_BYTES_MAX = 64 * 1024


def _compress_gzip(data: BytesLike, level: int | None) -> bytes:
    pack, finish = _gzip_stream(level)
    return pack(data) + finish()


def _gzip_stream(level: int | None) -> Stream:
    if level is None or level == zlib.Z_DEFAULT_COMPRESSION:
        library = isal_zlib or zlib  # only the default level: isal's four levels have other meanings
        level = library.Z_DEFAULT_COMPRESSION
    else:
        library = zlib
    stream = library.compressobj(level, zlib.DEFLATED, _GZIP_HEADER)
    return stream.compress, stream.flush


def _unpack_gzip(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    library = isal_zlib or zlib
    room = max_bytes
    at, end = 0, len(data)
    step_bytes = _GZIP_STEP_BYTES_MAX  # nearly always only one member
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
                step_bytes = min(2 * step_bytes, _GZIP_STEP_BYTES_MAX)
            # One byte more than allowed distinguishes "full" from "too large".
            part_bytes = min(room + 1, PIECE_BYTES)
            try:
                part = member.decompress(shown, part_bytes)
            except (zlib.error, library.error) as error:
                raise CorruptRecordError(f"damaged gzip stream: {error}") from None
            left, may_hold_more = member.unconsumed_tail, len(part) == part_bytes
            room -= len(part)
            if room < 0:
                raise _too_large(max_bytes)
            if part:
                yield part
        at -= len(member.unused_data)
        if at == end:
            return
        # A member copies the bytes after it. So the next ones, which may be many, first get only little input.
        step_bytes = _GZIP_STEP_BYTES
    raise _too_many(max_frames)


# --- snappy -----------------------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_I32 = struct.Struct(">i")


def _compress_snappy(data: BytesLike, level: int | None) -> bytes:
    return _XERIAL_HEADER + _snappy_blocks(data)


def _snappy_stream(level: int | None) -> Stream:
    head = _XERIAL_HEADER

    def pack(data: BytesLike) -> bytes:
        nonlocal head
        packed, head = head + _snappy_blocks(data), b""
        return packed

    return pack, bytes


def _snappy_blocks(data: BytesLike) -> bytes:
    out = bytearray()
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += _I32.pack(len(block))
        out += block
    return bytes(out)


def _unpack_snappy(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[memoryview]:
    if data[:8] != _XERIAL_MAGIC:
        yield _decompress_snappy_block(data, max_bytes, max_bytes)
        return
    room, at, frames_left = max_bytes, len(_XERIAL_HEADER), max_frames
    while at != len(data):
        if not frames_left:
            raise _too_many(max_frames)
        frames_left -= 1
        if at + 4 > len(data):
            raise CorruptRecordError("truncated block length in snappy stream")
        (length,) = _I32.unpack_from(data, at)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise CorruptRecordError(f"snappy block of {length} bytes, but only {len(data) - at} bytes are left")
        part = _decompress_snappy_block(data[at : at + length], room, max_bytes)
        room -= len(part)
        yield part
        at += length


def _decompress_snappy_block(block: memoryview, room: int, max_bytes: int) -> memoryview:
    # The block begins with its unpacked length, which the library allocates. So the length is checked first.
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(max_bytes)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"damaged snappy block: {error}") from None


# --- lz4 --------------------------------------------------------------------------------------------------------

_LZ4_KAFKA_DEFAULT_LEVEL = 9  # Kafka's default level selects the fast compressor, its neighbours the slow one
_LZ4_FAST = 0
_LZ4_SLOW_MIN, _LZ4_SLOW_MAX = 3, 12  # range of the C library; Kafka's is 1 to 17
_LZ4_FIRST_STEP_BYTES = 64 * 1024  # output asked for at once; the library allocates that much for each call


def _lz4_level(level: int | None) -> int:
    if level is None or level == _LZ4_KAFKA_DEFAULT_LEVEL:
        return _LZ4_FAST
    return min(max(level, _LZ4_SLOW_MIN), _LZ4_SLOW_MAX)


def _compress_lz4(data: BytesLike, level: int | None) -> bytes:
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=_lz4_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _lz4_stream(level: int | None) -> Stream:
    stream = lz4.frame.LZ4FrameCompressor(
        compression_level=_lz4_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
    )
    head = stream.begin()

    def pack(data: BytesLike) -> bytes:
        nonlocal head
        packed: bytes = head + stream.compress(data)
        head = b""
        return packed

    return pack, stream.flush


def _unpack_lz4(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    room, frames_left = max_bytes, max_frames
    # The library's own class around such a context takes 50 % longer for a small batch. A context cannot be used again: after
    # an incomplete frame the library keeps the expected length.
    context = lz4.frame.create_decompression_context()
    step_bytes = _LZ4_FIRST_STEP_BYTES
    while True:
        try:
            part, taken, is_end = lz4.frame.decompress_chunk(context, data, max_length=min(room + 1, step_bytes))
        except (RuntimeError, ValueError) as error:
            raise CorruptRecordError(f"damaged lz4 frame: {error}") from None
        room -= len(part)
        if room < 0:
            raise _too_large(max_bytes)
        if part:
            yield part
        if is_end and taken == len(data):
            return
        step_bytes = PIECE_BYTES
        data = data[taken:]
        if is_end:
            frames_left -= 1
            if frames_left <= 0:
                raise _too_many(max_frames)
            context = lz4.frame.create_decompression_context()
        elif not part and not taken:
            raise CorruptRecordError("truncated lz4 frame")


# --- zstd -------------------------------------------------------------------------------------------------------
#
#   frame = header | block* | checksum u32, if bit 2 of byte 4 says so
#   block = u24 little endian: last (bit 0) | type (bits 1-2) | size (21 bits), then size bytes (1 byte for a run)
#
# The library can bound its output only if the frame has its size. For a frame that does not (librdkafka writes such),
# the blocks are counted first: each unpacks to at most 128 KiB. The walk also finds out whether a frame is complete, and
# where the next one starts, which the library does not report.

_ZSTD_DEFAULT_LEVEL = 3
_ZSTD_BLOCK_BYTES_MAX = 128 * 1024
_ZSTD_RAW, _ZSTD_RUN, _ZSTD_COMPRESSED = 0, 1, 2
_ZSTD_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_U32_LE = struct.Struct("<I")


_ZSTD_DEFAULT_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(_ZSTD_DEFAULT_LEVEL)
"""Parameters of a stream, as in the Java client: those that the library chooses for a small block compress less well."""


_ZSTD_SIZED_FOR_BYTES = 8 << 20
"""Largest source size for which working memory is chosen. For an unknown size, level 22 takes 700 MiB, each reader 128 MiB."""


class _ZstdContexts(threading.local):
    """A thread's own working memory, which threads must not share. Making it takes as long as compressing a small batch.

    That of the default level stays below 4 MB; other levels may take a hundred times as much, and are not kept.
    """

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(compression_params=_ZSTD_DEFAULT_PARAMETERS)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _ZstdContexts()


def _compress_zstd(data: BytesLike, level: int | None) -> bytes:
    if level is None or level == _ZSTD_DEFAULT_LEVEL:
        return _zstd.compressor.compress(data)
    return _zstd_compressor(level, len(data)).compress(data)


def _zstd_stream(level: int | None) -> Stream:
    stream = _zstd_compressor(_ZSTD_DEFAULT_LEVEL if level is None else level, _ZSTD_SIZED_FOR_BYTES).compressobj()
    return stream.compress, stream.flush


def _zstd_compressor(level: int, source_bytes: int) -> zstandard.ZstdCompressor:
    sized_for_bytes = min(max(source_bytes, 1), _ZSTD_SIZED_FOR_BYTES)  # 0 means unknown
    parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=sized_for_bytes)
    return zstandard.ZstdCompressor(compression_params=parameters)


def _unpack_zstd(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    whole = None
    try:  # nearly always: one frame that has its size, and nothing after it
        if 0 < zstandard.frame_content_size(data) <= min(max_bytes, PIECE_BYTES):
            whole = _zstd.decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # the code below finds out what it is
    if whole is not None:
        yield whole
        return
    room, blocks_left = max_bytes, max_frames
    at = 0
    try:
        while at != len(data) or not len(data):
            frame_end, part_bytes_max, blocks = _walk_zstd_frame(data, at, blocks_left)
            blocks_left -= blocks
            if blocks_left < 0:
                raise _too_many(max_frames)
            if part_bytes_max is not None:
                for part in _unpack_zstd_frame(data[at:frame_end], part_bytes_max, room, max_bytes):
                    room -= len(part)
                    yield part
            at = frame_end
    except (zstandard.ZstdError, struct.error, IndexError) as error:
        raise CorruptRecordError(f"damaged zstd stream: {error}") from None


def _unpack_zstd_frame(frame: memoryview, part_bytes_max: int, room: int, max_bytes: int) -> Iterator[bytes]:
    stated_bytes = zstandard.get_frame_parameters(frame).content_size
    if stated_bytes == 0:
        return  # the library cannot distinguish a size of 0 from no size
    if stated_bytes != zstandard.CONTENTSIZE_UNKNOWN and stated_bytes > room:
        raise _too_large(max_bytes)
    if part_bytes_max <= min(room, PIECE_BYTES):
        # 0 would mean: not given.
        yield _zstd.decompressor.decompress(frame, max_output_size=max(part_bytes_max, 1))
        return
    with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
        while part := reader.read(min(room + 1, PIECE_BYTES)):
            room -= len(part)
            if room < 0:
                raise _too_large(max_bytes)
            yield part


def _walk_zstd_frame(data: memoryview, at: int, blocks_max: int) -> tuple[int, int | None, int]:
    """Walk over the blocks of the frame at `at`.

    Returns:
        (End of the frame, bound of its unpacked size or None for a skippable frame, number of blocks, at least 1). If the
        blocks are more than `blocks_max`, the end is not known.
    """
    (magic,) = _U32_LE.unpack_from(data, at)
    if magic in _ZSTD_SKIPPABLE:
        (size,) = _U32_LE.unpack_from(data, at + 4)
        if size > len(data) - at - 8:
            raise CorruptRecordError("truncated zstd stream")
        return at + 8 + size, None, 1
    header_bytes = zstandard.frame_header_size(data[at:])
    has_checksum = data[at + 4] & 0x04
    bytes_max = blocks = 0
    at += header_bytes
    last = 0
    while not last and blocks <= blocks_max:
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        bytes_max += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == _ZSTD_RUN else size)
        blocks += 1
    if has_checksum:
        at += 4
    if at > len(data):
        raise CorruptRecordError("truncated zstd stream")
    return at, bytes_max, blocks


_COMPRESS: dict[int, Callable[[BytesLike, int | None], bytes]] = {
    Codec.NONE: _keep,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_STREAMS: dict[int, Callable[[int | None], Stream]] = {
    Codec.NONE: _uncompressed,
    Codec.GZIP: _gzip_stream,
    Codec.SNAPPY: _snappy_stream,
    Codec.LZ4: _lz4_stream,
    Codec.ZSTD: _zstd_stream,
}
_UNPACK: dict[int, Callable[[memoryview, int, int], Iterator[BytesLike]]] = {
    Codec.NONE: _view,
    Codec.GZIP: _unpack_gzip,
    Codec.SNAPPY: _unpack_snappy,
    Codec.LZ4: _unpack_lz4,
    Codec.ZSTD: _unpack_zstd,
}
