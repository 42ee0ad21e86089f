"""Whether a pass over a log without dirty records would still let something go: tombstones and markers at their horizon.

No round of the cleaner asks that, as Apache Kafka's does not: a tombstone goes with the first pass after its horizon, which
takes dirty records to come about. Who forces a pass is not to have a log copied for nothing.
"""

from collections.abc import Callable, Sequence

from ...protocol.records import RecordBatch
from ..segment.segment import LogSegment


def is_any_reached(segments: Sequence[LogSegment], now_ms: int, checkpoint: Callable[[], None] = lambda: None) -> bool:
    """Whether one of these segments has a tombstone, or a marker, whose delete horizon is not ahead. For any thread.

    Args:
        segments: Sealed, and held while this runs.
        checkpoint: Called before every segment; may raise to stop.

    Raises:
        CorruptRecordError: No batch begins where the last one ended, or its records cannot be read.
        OSError: The disk refused.
    """
    for segment in segments:
        checkpoint()
        for position, header in segment.headers():
            horizon_ms = header.delete_horizon_ms
            if horizon_ms is not None and horizon_ms <= now_ms:
                batch = RecordBatch(memoryview(segment.log_file.read_at(position, header.size_bytes)))
                # What else there was in a batch keeps the horizon after its tombstones.
                if batch.is_control or any(record.value is None for record in batch.records()):
                    return True
    return False
