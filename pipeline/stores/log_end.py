"""Where the whole batches of a segment end, and whether what follows can be what an unfinished write leaves."""

from __future__ import annotations

from contextlib import suppress

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...storage.disk.paths import OFFSET_MAX
from ...storage.segment.batch_scan import batch_steps
from ...storage.segment.segment import LogSegment


def whole_batches(segment: LogSegment) -> tuple[int, int]:
    """Where the whole batches of a segment end, and their last offset; one below the base offset if there is none."""
    position = 0
    with suppress(CorruptRecordError):
        position = segment.floor_position(OFFSET_MAX)
    for start in dict.fromkeys((position, 0)):  # an index entry that points to no batch is not believed
        end, last_offset = start, segment.base_offset - 1
        with suppress(CorruptRecordError):
            for _, end, last_offset in batch_steps(segment.log_file, start, ""):  # noqa: B007 - the last one counts
                pass
        if end > start:
            return end, last_offset
    return 0, segment.base_offset - 1


def may_be_torn(segment: LogSegment, position: int) -> bool:
    """Whether the bytes from `position` on can be what an unfinished write leaves, or a file that was made larger."""
    head = segment.log_file.read_at(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return True
    if not any(head):
        return True
    try:
        return RecordBatch(head).size_bytes > segment.size_bytes - position
    except CorruptRecordError:
        return False
