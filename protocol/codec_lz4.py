"""lz4 (codec 3): lz4 frames; independent blocks of 64 KiB are written, as the Java reader refuses linked ones."""

from collections.abc import Iterator

import lz4.frame

from .compression import PIECE_BYTES, Stream, too_large, too_many
from .errors import CorruptRecordError
from .varints import BytesLike

_KAFKA_DEFAULT_LEVEL = 9  # Kafka's default level selects the fast compressor, its neighbours the slow one
_FAST = 0
_SLOW_MIN, _SLOW_MAX = 3, 12  # range of the C library; Kafka's is 1 to 17
_FIRST_STEP_BYTES = 64 * 1024  # output asked for at once; the library allocates that much for each call


def _level(level: int | None) -> int:
    if level is None or level == _KAFKA_DEFAULT_LEVEL:
        return _FAST
    return min(max(level, _SLOW_MIN), _SLOW_MAX)


def compress(data: BytesLike, level: int | None) -> bytes:
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def stream(level: int | None) -> Stream:
    packer = lz4.frame.LZ4FrameCompressor(
        compression_level=_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
    )
    head = packer.begin()

    def pack(data: BytesLike) -> bytes:
        nonlocal head
        packed: bytes = head + packer.compress(data)
        head = b""
        return packed

    return pack, packer.flush


def unpack(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[bytes]:
    room, frames_left = max_bytes, max_frames
    # The library's own class around such a context takes 50 % longer for a small batch. A context cannot be used again: after
    # an incomplete frame the library keeps the expected length.
    context = lz4.frame.create_decompression_context()
    step_bytes = _FIRST_STEP_BYTES
    while True:
        try:
            part, taken, is_end = lz4.frame.decompress_chunk(context, data, max_length=min(room + 1, step_bytes))
        except (RuntimeError, ValueError) as error:
            raise CorruptRecordError(f"damaged lz4 frame: {error}") from None
        room -= len(part)
        if room < 0:
            raise too_large(max_bytes)
        if part:
            yield part
        if is_end and taken == len(data):
            return
        step_bytes = PIECE_BYTES
        data = data[taken:]
        if is_end:
            frames_left -= 1
            if frames_left <= 0:
                raise too_many(max_frames)
            context = lz4.frame.create_decompression_context()
        elif not part and not taken:
            raise CorruptRecordError("truncated lz4 frame")
