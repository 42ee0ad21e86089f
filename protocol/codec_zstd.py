"""zstd (codec 4): zstd frames, with or without a stated content size.

    frame = header | block* | checksum u32, if bit 2 of byte 4 says so
    block = u24 little endian: last (bit 0) | type (bits 1-2) | size (21 bits), then size bytes (1 byte for a run)

The library can bound its output only if the frame has its size. For a frame that does not (librdkafka writes such),
the blocks are counted first: each unpacks to at most 128 KiB. The walk also finds out whether a frame is complete, and
where the next one starts, which the library does not report.
"""

import struct
import threading
from collections.abc import Iterator

import zstandard

from .compression import PIECE_BYTES, Stream, too_large, too_many
from .errors import CorruptRecordError
from .varints import BytesLike

_DEFAULT_LEVEL = 3
_BLOCK_BYTES_MAX = 128 * 1024
_RAW, _RUN, _COMPRESSED = 0, 1, 2
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_U32_LE = struct.Struct("<I")


_DEFAULT_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(_DEFAULT_LEVEL)
"""Parameters of a stream, as in the Java client: those that the library chooses for a small block compress less well."""


_SIZED_FOR_BYTES = 8 << 20
"""Largest source size for which working memory is chosen. For an unknown size, level 22 takes 700 MiB, each reader 128 MiB."""


class _Contexts(threading.local):
    """A thread's own working memory, which threads must not share. Making it takes as long as compressing a small batch.

    That of the default level stays below 4 MB; other levels may take a hundred times as much, and are not kept.
    """

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(compression_params=_DEFAULT_PARAMETERS)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(data: BytesLike, level: int | None) -> bytes:
    if level is None or level == _DEFAULT_LEVEL:
        return _contexts.compressor.compress(data)
    return _compressor(level, len(data)).compress(data)


def stream(level: int | None) -> Stream:
    packer = _compressor(_DEFAULT_LEVEL if level is None else level, _SIZED_FOR_BYTES).compressobj()
    return packer.compress, packer.flush


def _compressor(level: int, source_bytes: int) -> zstandard.ZstdCompressor:
    sized_for_bytes = min(max(source_bytes, 1), _SIZED_FOR_BYTES)  # 0 means unknown
    parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=sized_for_bytes)
    return zstandard.ZstdCompressor(compression_params=parameters)


def unpack(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    whole = None
    try:  # nearly always: one frame that has its size, and nothing after it
        if 0 < zstandard.frame_content_size(data) <= min(max_bytes, PIECE_BYTES):
            whole = _contexts.decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # the code below finds out what it is
    if whole is not None:
        yield whole
        return
    room, blocks_left = max_bytes, max_frames
    at = 0
    try:
        while at != len(data) or not len(data):
            frame_end, part_bytes_max, blocks = _walk_frame(data, at, blocks_left)
            blocks_left -= blocks
            if blocks_left < 0:
                raise too_many(max_frames)
            if part_bytes_max is not None:
                for part in _unpack_frame(data[at:frame_end], part_bytes_max, room, max_bytes):
                    room -= len(part)
                    yield part
            at = frame_end
    except (zstandard.ZstdError, struct.error, IndexError) as error:
        raise CorruptRecordError(f"damaged zstd stream: {error}") from None


def _unpack_frame(frame: memoryview, part_bytes_max: int, room: int, max_bytes: int) -> Iterator[bytes]:
    stated_bytes = zstandard.get_frame_parameters(frame).content_size
    if stated_bytes == 0:
        return  # the library cannot distinguish a size of 0 from no size
    if stated_bytes != zstandard.CONTENTSIZE_UNKNOWN and stated_bytes > room:
        raise too_large(max_bytes)
    if part_bytes_max <= min(room, PIECE_BYTES):
        # 0 would mean: not given.
        yield _contexts.decompressor.decompress(frame, max_output_size=max(part_bytes_max, 1))
        return
    with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
        while part := reader.read(min(room + 1, PIECE_BYTES)):
            room -= len(part)
            if room < 0:
                raise too_large(max_bytes)
            yield part


def _walk_frame(data: memoryview, at: int, blocks_max: int) -> tuple[int, int | None, int]:
    """Walk over the blocks of the frame at `at`.

    Returns:
        (End of the frame, bound of its unpacked size or None for a skippable frame, number of blocks, at least 1). If the
        blocks are more than `blocks_max`, the end is not known.
    """
    (magic,) = _U32_LE.unpack_from(data, at)
    if magic in _SKIPPABLE:
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
        bytes_max += _BLOCK_BYTES_MAX if kind == _COMPRESSED else size
        at += 3 + (1 if kind == _RUN else size)
        blocks += 1
    if has_checksum:
        at += 4
    if at > len(data):
        raise CorruptRecordError("truncated zstd stream")
    return at, bytes_max, blocks
