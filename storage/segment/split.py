"""Split of a segment whose offsets reach more than 31 bits above its base into segments where all offsets fit.

This broker makes no such segments: appends roll in time, and the cleaner's groups respect the limit. Brokers before Apache
Kafka 2.0 made them when they compacted, and their index entries cannot express such offsets. `logs.recovery` splits those it
finds at start, the cleaner those it will clean; `logs.swap` puts the new segments in place.

    before   0.log  [0 .. 900] [2**31 + 7 ..  2**31 + 90]  [2**33 ..]      offsets from 2**31 on do not fit
    after    0.log  [0 .. 900]     2147483655.log [..]     8589934592.log [..]

Source: KAFKA-6264.
"""

from __future__ import annotations

from ..disk import paths
from .cleaned import discard, set_mtime
from .index_file import RELATIVE_OFFSET_MAX
from .segment import LogSegment


def overflows(segment: LogSegment, end_offset: int) -> bool:
    """Whether a segment has an offset more than 31 bits above its base.

    Args:
        end_offset: Base offset of the next segment, or the log end; in nearly all logs this alone decides.

    Raises:
        CorruptRecordError: The bytes at the end of the segment are not a batch.
    """
    highest = segment.base_offset + RELATIVE_OFFSET_MAX
    return end_offset - 1 > highest and segment.next_offset() - 1 > highest


def split_segment(segment: LogSegment, now_ms: int) -> list[LogSegment]:
    """Copy a segment that overflows to as few new ones as can hold its batches.

    The first new segment keeps the old base offset if its first batch fits. The base of every other one is that of its first
    batch. Batches are unchanged; each transaction index entry goes to the segment with its marker.

    Returns:
        The new segments, synced, in order; their files have the suffix `.cleaned`, for the swap.

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
