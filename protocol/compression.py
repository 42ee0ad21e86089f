"""The five codecs of record batches, with bounded output.

Used by `records` (reading), `batch_builder` (writing) and recompression. Each codec has a module, `codec_gzip` and so on, which
is loaded with its library when the codec is first used: most brokers see none or one of them.

Batches come from untrusted clients: this module trusts no length that it reads, and uses no memory for output beyond
the caller's `max_bytes` and one codec block. Several frames (members) back to back are one stream; each costs a
microsecond or two even if it is empty, so a caller may also bound their number.

Every function raises OSError if a library cannot be loaded.
"""

import errno
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from .errors import CorruptRecordError, ErrorCode
from .varints import BytesLike

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


class CodecModule(Protocol):
    """The functions of a codec's module."""

    def compress(self, data: BytesLike, level: int | None) -> bytes:
        """See `compress` below."""

    def stream(self, level: int | None) -> Stream:
        """Begin a stream."""

    def unpack(self, data: memoryview, max_bytes: int, max_frames: int) -> Iterator[BytesLike]:
        """See `unpack` below."""


class _Uncompressed:
    @staticmethod
    def compress(data: BytesLike, level: int | None) -> bytes:
        return bytes(data)

    @staticmethod
    def stream(level: int | None) -> Stream:
        return bytes, bytes

    @staticmethod
    def unpack(data: memoryview, max_bytes: int, max_frames: int) -> Iterator[BytesLike]:
        if len(data) > max_bytes:
            raise too_large(max_bytes)
        yield data


_LOADED: dict[int, CodecModule] = {Codec.NONE: _Uncompressed}


def is_loaded(codec: int) -> bool:
    """Return whether the codec's library is in memory. To load it takes a millisecond or two, and on a slow disk much longer."""
    return codec in _LOADED


def _module(codec: int) -> CodecModule:
    """Return the module of a codec, loaded if necessary.

    Raises:
        ValueError: No codec has this number.
        OSError: It cannot be loaded now, mostly for lack of memory or descriptors. The next call tries again.
    """
    found = _LOADED.get(codec)
    if found is None:
        name = Codec(codec).name.lower()
        try:
            module: Any = import_module(f".codec_{name}", __package__)
        except (ImportError, OSError) as error:
            # An ImportError would count as the log's fault, and an error of the program's disk as one of the data directory.
            raise OSError(errno.ENOMEM, f"cannot load the codec {name}: {error}") from error
        found = _LOADED[codec] = module
    return found


def compress(codec: int, data: BytesLike, level: int | None = None) -> bytes:
    """Return `data` in the form the Java client writes for that codec.

    Args:
        codec: 0 to 4.
        level: The topic's `compression.<codec>.level`; None is Kafka's default. Snappy has no levels.
    """
    return _module(codec).compress(data, level)


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
            self._pack, self._finish = _module(self._codec).stream(self._level)
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
        CorruptRecordError: The stream is damaged or incomplete, something other than a frame follows it, or no codec has this
            number. Or, with `is_over_limit`, the output would exceed `max_bytes` (MESSAGE_TOO_LARGE), detected before it is in
            memory; or has more than `max_frames` (CORRUPT_MESSAGE), detected when that number has been unpacked.
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
    try:
        module = _module(codec)
    except ValueError:
        raise CorruptRecordError(f"unknown compression codec {codec}") from None
    return module.unpack(memoryview(data), max_bytes, max_frames)


def too_large(max_bytes: int) -> CorruptRecordError:
    return CorruptRecordError(
        f"decompressed batch exceeds {max_bytes} bytes", ErrorCode.MESSAGE_TOO_LARGE, is_over_limit=True
    )


def too_many(max_frames: int) -> CorruptRecordError:
    return CorruptRecordError(f"batch consists of more than {max_frames} compressed frames", is_over_limit=True)
