"""Second half of a clean pass for one group of segments: what stays of them is written to one new segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from .batch_chunks import ChunkReader
from .clean_rules import BatchFilter


def copy_group(
    group: Sequence[LogSegment],
    cleaned: LogSegment,
    rules: BatchFilter,
    *,
    reader: ChunkReader,
    aborted_in: Callable[[LogSegment], Iterable[AbortedTxn]],
    checkpoint: Callable[[int], None] = lambda _: None,
) -> int:
    """Fill `cleaned`, which was just created, and seal it; nothing is synced.

    Args:
        group: Neighbouring segments, in order; `rules` has taken all groups before them, or has the transaction state that
            these left.
        aborted_in: Returns the aborted transactions that overlap a segment.
        checkpoint: Called before every chunk with the bytes read since; may raise to stop.

    Returns:
        The bytes read.

    Raises:
        CorruptRecordError: A batch or record cannot be read. After this, and whatever `checkpoint` raises, `cleaned` is
            incomplete and still open.
        OSError: The disk refused.
    """
    rules.begin(cleaned)
    bytes_read = 0
    for segment in group:
        rules.begin_source(aborted_in(segment))
        for size_bytes in reader.chunks(segment, 0):
            checkpoint(size_bytes)
            taken_bytes = rules.take(segment, reader.view, size_bytes)
            bytes_read += taken_bytes
            reader.advance(taken_bytes)
        rules.finish_source(segment.base_offset)
    checkpoint(0)
    cleaned.on_roll()
    return bytes_read
