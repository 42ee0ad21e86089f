"""Whether a pass over a log without dirty records would still let something go: tombstones and markers at their horizon.

No round of the cleaner asks that, as Apache Kafka's does not: a tombstone goes with the first pass after its horizon, which
takes dirty records to come about. Who forces a pass is not to have a log copied for nothing.
"""

from collections.abc import Callable, Sequence

from ..segment.segment import LogSegment


def is_any_reached(segments: Sequence[LogSegment], now_ms: int, checkpoint: Callable[[], None] = lambda: None) -> bool:
    """Whether a batch of these segments has a delete horizon that is not ahead. Reads headers; for any thread.

    Args:
        segments: Sealed, and held while this runs.
        checkpoint: Called before every segment; may raise to stop.

    Raises:
        CorruptRecordError: No batch begins where the last one ended.
        OSError: The disk refused.
    """
    for segment in segments:
        checkpoint()
        for _, batch in segment.headers():
            horizon_ms = batch.delete_horizon_ms
            if horizon_ms is not None and horizon_ms <= now_ms:
                return True
    return False
