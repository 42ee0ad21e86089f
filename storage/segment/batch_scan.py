"""Loops over the batches of a log file, for reading, searching and recovering a segment.

A batch header has the batch's length, so the next batch is found without reading the records. Every function here starts at
the beginning of a batch and continues to the end of the file, in reads of bounded size. `where` names the file in errors.

    position          end = position of the next
       |  61 bytes     |
       [ header | ... ][ header | ... ]
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from ...protocol.checksum import crc32c
from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    OLD_LENGTH_MIN,
    STEP,
    RecordBatch,
)
from .. import kernel
from ..disk import paths
from ..disk.files import File

SCAN_CHUNK_BYTES = 4096
"""Bytes that a search for one batch reads at once: the usual distance of two index entries."""

RECOVERY_CHUNK_BYTES = 1 << 20
"""Bytes that recovery reads at once. A larger batch is checked in pieces, so a corrupt length costs no memory."""

# An old compiled kernel lacks this function; in pure Python the loop of `batch_steps` is faster.
_pass_over = getattr(kernel, "pass_over", None) if kernel.COMPILED else None

# Of a message of format v0 or v1: offset, length of what follows, CRC-32 of what follows that, magic.
_OLD_HEAD = struct.Struct(">qiIb")


class OldFormatError(KafkaError):
    """A log contains whole records of format v0 or v1, which Apache Kafka reads. UNSUPPORTED_FOR_MESSAGE_FORMAT."""

    def __init__(self, where: str, position: int, magic: int) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{where}, byte {position}: record format v{magic} (Apache Kafka before 0.11) is not supported, only v2;"
            " the partition stays unchanged. To keep the records, copy them to another topic with Apache Kafka. To"
            " discard them, delete the topic, or stop the broker and move the partition directory elsewhere",
        )


UNREADABLE = (CorruptRecordError, OldFormatError)
"""Errors that a scan raises for bytes that it cannot read."""


def batch_steps(file: File, position: int, where: str, *, at_once: bool = False) -> Iterator[tuple[int, int, int]]:
    """Yield (position, end, last offset) of each batch: a `batch_walk` with the least possible work.

    Raises:
        OldFormatError: A message of format v0 or v1. Not if `at_once`: then CorruptRecordError is raised for it.
        CorruptRecordError: No batch can begin where the last one ended, or the last one is cut short.
        WouldWaitError: Only if `at_once`: a header is not in memory.
    """
    size_bytes = file.size()
    read_at, unpack_from = file.read_now if at_once else file.read_at, STEP.unpack_from
    while position < size_bytes:
        chunk = read_at(position, SCAN_CHUNK_BYTES)
        chunk_start, at = position, 0
        last_at = len(chunk) - HEADER_BYTES
        if last_at < 0:
            if not at_once:
                refuse_old_format(file, position, where)
            raise _no_header(where, position, len(chunk))
        while at <= last_at:
            base_offset, length, magic, last_offset_delta = unpack_from(chunk, at)
            end = position + LOG_OVERHEAD_BYTES + length
            if magic != MAGIC or not position + HEADER_BYTES <= end <= size_bytes:
                if not at_once:
                    refuse_old_format(file, position, where)
                raise CorruptRecordError(
                    f"{where}, byte {position}: invalid or truncated batch: magic {magic}, length {length}"
                )
            yield position, end, base_offset + last_offset_delta
            position = end
            at = position - chunk_start


def find_batch(
    file: File, position: int, where: str, *, limit: int, below: int = paths.OFFSET_MAX, at_once: bool = False
) -> tuple[int, int] | None:
    """Find the first batch that ends beyond byte `limit`, or has an offset at or above `below`.

    Args:
        position: Start of the first batch to examine.

    Returns:
        (position, end) of the batch; None if the file ends before. Errors as for `batch_steps`.
    """
    size_bytes = file.size()
    most = min(limit, size_bytes)
    read_at = file.read_now if at_once else file.read_at
    while _pass_over is not None and position < size_bytes:
        chunk_start = position
        passed_bytes, end_at = _pass_over(read_at(position, SCAN_CHUNK_BYTES), most - position, below)
        position += passed_bytes
        if end_at and chunk_start + end_at <= size_bytes:
            return position, chunk_start + end_at
        if end_at or not passed_bytes:
            break  # damage, which `batch_steps` reports
    for at, end, last_offset in batch_steps(file, position, where, at_once=at_once):
        if end > limit or last_offset >= below:
            return at, end
    return None


def batch_walk(
    file: File, position: int, where: str, *, chunk_bytes: int, whole_bytes_max: int, at_once: bool = False
) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, batch) of each batch.

    Args:
        chunk_bytes: Bytes to read at once, at least 61. More are read only for a larger batch that must be whole.
        whole_bytes_max: Batches up to this size are whole. Of larger ones only the header is guaranteed.

    Raises:
        OldFormatError, CorruptRecordError, WouldWaitError: As for `batch_steps`.
    """
    size_bytes = file.size()
    wanted_bytes = chunk_bytes
    read_at = file.read_now if at_once else file.read_at
    while position < size_bytes:
        chunk = memoryview(read_at(position, wanted_bytes))
        if len(chunk) < HEADER_BYTES:
            if not at_once:
                refuse_old_format(file, position, where)
            raise _no_header(where, position, len(chunk))
        wanted_bytes = chunk_bytes
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            try:
                batch = RecordBatch(chunk, at)
            except CorruptRecordError as error:
                if not at_once:
                    refuse_old_format(file, position, where)
                raise CorruptRecordError(f"{where}, byte {position}: {error.message}") from None
            if position + batch.size_bytes > size_bytes:
                raise CorruptRecordError(
                    f"{where}, byte {position}: batch of {batch.size_bytes} bytes, but only {size_bytes - position}"
                    " bytes are left"
                )
            if not batch.is_whole and batch.size_bytes <= whole_bytes_max:
                wanted_bytes = max(chunk_bytes, batch.size_bytes)
                break
            yield position, batch
            position += batch.size_bytes
            at += batch.size_bytes


def computed_crc(file: File, position: int, batch: RecordBatch) -> int:
    """Compute the CRC-32C of the batch at `position`; a batch that is not whole is read in pieces."""
    if batch.is_whole:
        return batch.computed_crc()
    crc, at, end = 0, position + ATTRIBUTES_POSITION, position + batch.size_bytes
    while at < end:
        piece = file.read_at(at, min(RECOVERY_CHUNK_BYTES, end - at))
        if not piece:
            break
        crc = crc32c(piece, crc)
        at += len(piece)
    return crc


def refuse_old_format(file: File, position: int, where: str) -> None:
    """Raise OldFormatError if a whole message of format v0 or v1, with a valid CRC, is at `position`."""
    head = file.read_at(position, _OLD_HEAD.size)
    if len(head) < _OLD_HEAD.size:
        return
    _, length, crc, magic = _OLD_HEAD.unpack(head)
    if magic not in (0, 1) or not OLD_LENGTH_MIN <= length <= file.size() - position - LOG_OVERHEAD_BYTES:
        return
    computed, at, end = 0, position + LOG_OVERHEAD_BYTES + 4, position + LOG_OVERHEAD_BYTES + length
    while at < end and (piece := file.read_at(at, min(RECOVERY_CHUNK_BYTES, end - at))):
        computed, at = zlib.crc32(piece, computed), at + len(piece)
    if computed == crc:
        raise OldFormatError(where, position, magic)


def _no_header(where: str, position: int, left_bytes: int) -> CorruptRecordError:
    return CorruptRecordError(f"{where}, byte {position}: incomplete batch header ({left_bytes} bytes)")
