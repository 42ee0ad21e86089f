"""Facts about a segment's batches that a plan needs: read from their headers only, for each segment by itself.

Transactions cannot be judged segment by segment: the cleaner's state at a segment's start depends on everything before it. So
a survey carries the batches that affect it, headers of transactional batches and whole control batches, and the
driver folds them in order with the cleaner's own `PassTransactions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.filter.transaction_state import CarriedTransactions, PassTransactions
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError


class Survey(NamedTuple):
    """Summary of one segment's batches."""

    headers_crc: int
    """CRC-32C of all headers, concatenated."""
    record_count: int
    next_offset: int
    """Offset after its last batch."""
    transactional: bytes
    """Headers of transactional data batches and whole control batches, in order."""


Surveying = Callable[[Files, str, Sequence[int]], Sequence[Survey]]
"""Function that reads the headers of a directory's segments, by their base offsets: `survey_segments`, or an equivalent job."""


def survey_segment(files: Files, directory: str, base_offset: int) -> Survey:
    """Read the headers of a sealed segment.

    Raises:
        CorruptSourceError: The segment has bytes that are not a batch, or offsets that do not rise.
    """
    segment = LogSegment.open(files, directory, base_offset, _ANY_CONFIG, 0)
    path = paths.log_path(directory, base_offset)
    crc = record_count = end = 0
    next_offset = base_offset
    transactional = bytearray()
    try:
        for position, batch in segment.headers():
            end = position + batch.size_bytes
            if batch.base_offset < next_offset or batch.last_offset_delta < 0 or batch.record_count < 0:
                raise CorruptSourceError.from_position(
                    path,
                    position,
                    batch.base_offset,
                    expected=f"offsets from {next_offset} on and counts from 0 on",
                    actual=f"offsets {batch.base_offset} to {batch.last_offset}, {batch.record_count} records",
                )
            header = batch.view[:HEADER_BYTES]
            crc = crc32c(header, crc)
            record_count += batch.record_count
            next_offset = batch.next_offset
            if batch.is_control:
                transactional += segment.log_file.read_at(position, batch.size_bytes)
            elif batch.is_transactional:
                transactional += header
    except CorruptRecordError as error:
        raise CorruptSourceError.from_position(
            path, end, next_offset, expected="whole batches to the end of a sealed segment", actual=error.message
        ) from error
    finally:
        segment.log_file.close()
    return Survey(crc, record_count, next_offset, bytes(transactional))


def survey_segments(files: Files, directory: str, base_offsets: Sequence[int]) -> list[Survey]:
    """Survey one segment after the other; errors as of `survey_segment`."""
    return [survey_segment(files, directory, base_offset) for base_offset in base_offsets]


def fold_transactions(
    directory: str, found: Iterable[tuple[int, Survey, Sequence[AbortedTxn]]]
) -> Iterator[CarriedTransactions]:
    """Yield the cleaner's state of transactions at the start of each segment.

    Args:
        found: Base offset, survey and overlapping aborted transactions of each segment, in order.

    Raises:
        CorruptSourceError: A marker cannot be read.
    """
    state = PassTransactions()
    for base_offset, survey, aborted in found:
        yield state.carry()
        state.add_aborted(aborted)
        try:
            for batch in _batches(survey.transactional):
                if batch.is_control:
                    state.on_control(batch)
                else:
                    state.on_data(batch)
        except CorruptRecordError as error:
            path = paths.log_path(directory, base_offset)
            raise CorruptSourceError(f"{path}: {error.message}") from error


def _batches(transactional: bytes) -> Iterator[RecordBatch]:
    view, at = memoryview(transactional), 0
    while at < len(view):
        batch = RecordBatch(view, at)
        yield batch
        at += batch.size_bytes if batch.is_control else HEADER_BYTES


_ANY_CONFIG = LogConfig()
