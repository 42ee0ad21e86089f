"""A topic whose log has gaps, the same at both brokers."""

from __future__ import annotations

import time

from ottla.protocol.batch_builder import build_batch

from .asking import Side
from .logs import BEGAN_MS
from .sayings import Ranges
from .steps import Place
from .world import COMPACTED

BATCHES, RECORDS, KEYS = 12, 8, 5
PATIENCE_S, PAUSE_S = 60.0, 0.5


def compacted_topic(sides: tuple[Side, ...]) -> None:
    """Fill it and wait until both have cleaned it, to the same batches."""
    place = Place(COMPACTED, 0)
    for side in sides:
        configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.001", "segment_ms": "100"}
        side.logs.create(COMPACTED, 1, **configs)
        for number in range(BATCHES):
            keys = [(number * number + at * (1 + number % 3)) % (KEYS * 3) for at in range(RECORDS)]
            time_ms = BEGAN_MS - 1_000 * (BATCHES - number)
            side.logs.append(
                place,
                bytes(build_batch([(at, time_ms, b"k%d" % key, bytes(20), ()) for at, key in enumerate(keys)])),
            )
    end_s = time.monotonic() + PATIENCE_S
    left = BATCHES * RECORDS // 2
    while time.monotonic() < end_s:
        ours, theirs = (side.logs.batches(place) for side in sides)
        if ours == theirs and sum(batch.records for batch in ours) <= left:
            return
        time.sleep(PAUSE_S)
    raise RuntimeError(f"{COMPACTED} was not cleaned alike: {theirs} became {ours}")


def gaps(side: Side) -> Ranges:
    """Return the offsets that are in no batch of the compacted log, up to its last batch."""
    found, at = [], 0
    for batch in side.logs.batches(Place(COMPACTED, 0)):
        if at < batch.base_offset:
            found.append((at, batch.base_offset - 1))
        at = batch.last_offset + 1
    return found
