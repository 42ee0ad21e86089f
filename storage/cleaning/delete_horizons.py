"""Check whether a pass over a log without dirty records would still remove tombstones or markers at their delete horizon.

The cleaner's rounds do not check this, as in Apache Kafka: a tombstone is removed by the first pass after its horizon, and only
dirty records cause one. A forced pass checks it, so that no log is copied for nothing.
"""

from collections.abc import Callable, Sequence

from ...protocol.records import RecordBatch
from ..segment.segment import LogSegment


def is_any_reached(segments: Sequence[LogSegment], now_ms: int, checkpoint: Callable[[], None] = lambda: None) -> bool:
    """Whether one of these segments has a tombstone or a marker whose delete horizon has been reached. In any thread.

    Args:
        segments: Sealed segments, which must not be replaced or deleted during the call.
        checkpoint: Called before every segment; may raise to stop.

    Raises:
        CorruptRecordError: The bytes after some batch are not a batch, or its records cannot be read.
        OSError: The disk refused.
    """
    for segment in segments:
        checkpoint()
        for position, header in segment.headers():
            horizon_ms = header.delete_horizon_ms
            if horizon_ms is not None and horizon_ms <= now_ms:
                batch = RecordBatch(memoryview(segment.log_file.read_at(position, header.size_bytes)))
                # The other records of a batch keep its horizon after its tombstones have been removed.
                if batch.is_control or any(record.value is None for record in batch.records()):
                    return True
    return False
