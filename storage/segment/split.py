"""Segments whose offsets reach more than 31 bits above their base, cut into segments where they all fit.

No log of ours has one: appends roll in time, and the cleaner's groups keep to the limit. Brokers before Apache Kafka 2.0
made them when they compacted, and their index entries cannot say where such offsets are. `logs.recovery` splits what it
finds at start, the cleaner what it is to clean; `logs.swap` puts the new segments in place.

    before   0.log  [0 .. 900] [2**31 + 7 ..  2**31 + 90]  [2**33 ..]      700 and all behind it do not fit
    after    0.log  [0 .. 900]     2147483655.log [..]     8589934592.log [..]

Source: KAFKA-6264.
"""

from __future__ import annotations

from ..disk import paths
from .cleaned import discard, set_mtime
from .index_file import RELATIVE_OFFSET_MAX
from .segment import LogSegment


def overflows(segment: LogSegment, end_offset: int) -> bool:
    """Whether a segment has an offset that does not fit.

    Args:
        end_offset: Where the next segment begins, or the log ends; in nearly all logs that answers the question.

    Raises:
        CorruptRecordError: The end of the segment is no batch.
    """
    highest = segment.base_offset + RELATIVE_OFFSET_MAX
    return end_offset - 1 > highest and segment.next_offset() - 1 > highest


def split_segment(segment: LogSegment, now_ms: int) -> list[LogSegment]:
    """Copy a segment that overflows to as few new ones as hold all its batches.

    The first keeps the old one's base offset, unless not even the first batch fits that; then, and for the others, the
    base is that of the first batch. Batches stay as they are; the transaction index is dealt out with the markers.

    Returns:
        The new segments, synced, in order; their files carry `.cleaned`, to be swapped in.

    Raises:
        CorruptRecordError, DamagedFileError: The segment cannot be read.
        OSError: The disk refused. After any error no `.cleaned` file is left, if the disk allows that.
    """
    files, new = segment.files, list[LogSegment]()
    aborted = segment.txn_index.entries()
    try:
        for _, batch in segment.batches():
            base_offset = new[-1].base_offset if new else segment.base_offset
            if batch.last_offset - base_offset > RELATIVE_OFFSET_MAX:
                base_offset = batch.base_offset
            if not new or base_offset != new[-1].base_offset:
                new.append(
                    LogSegment.create(files, segment.directory, base_offset, segment.config, now_ms, paths.CLEANED)
                )
            new[-1].append(
                batch.view,
                last_offset=batch.last_offset,
                max_timestamp_ms=batch.max_timestamp,
                max_timestamp_offset=batch.last_offset,
            )
            while aborted and aborted[0].last_offset <= batch.last_offset:
                new[-1].txn_index.append(aborted.pop(0))
        for each in new:
            each.on_roll()
            each.flush()
            set_mtime(each, files.mtime_ms(segment.file_paths()[0]))
    except BaseException:
        discard(files, segment.directory, new)
        raise
    return new
