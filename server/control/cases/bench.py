"""Bench on which the log of a case is made: storage's log and cleaner, in a partition directory that is not visible yet.

Runs in a worker thread. Every step takes its time as an argument, so a pass in the past has a past `now_ms`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ....protocol.batch_builder import RecordParts, build_batch
from ....protocol.compression import Codec
from ....storage.cleaning.cleaner import Cleaner
from ....storage.cleaning.dirtiness import measure
from ....storage.disk import paths
from ....storage.filter.offset_map import SECRET_BYTES
from ....storage.logs.log import Log
from ....storage.logs.log_parts import LogPlace
from ....storage.logs.recovery import load_log
from ....storage.produce.txn_markers import build_marker
from ....storage.produce.validation import AppendOrigin
from ....storage.topics.config import LogConfig

Row = tuple[str, str | None] | tuple[str, str | None, int]
"""Key, value, and the timestamp in milliseconds after the time of the batch."""

MAP_BYTES, IO_BYTES = 64 << 10, 64 << 10


class CaseProducer:
    """A producer that numbers its batches; optionally transactional."""

    def __init__(self, producer_id: int, *, transactional: bool) -> None:
        self.producer_id = producer_id
        self.transactional = transactional
        self.next_sequence = 0


class Bench:
    """A log during its creation. `rows` of a batch are its records in order; a batch has the next offsets."""

    def __init__(self, place: LogPlace, config: LogConfig, producer_ids: Sequence[int], rng: random.Random) -> None:
        self._place = place
        self._config = config
        self._producer_ids = list(producer_ids)
        self._rng = rng
        self._log: Log | None = None

    def producer(self, *, transactional: bool = False) -> CaseProducer:
        """Return a producer with an ID that no other producer has."""
        return CaseProducer(self._producer_ids.pop(0), transactional=transactional)

    def batch(self, time_ms: int, *rows: Row, by: CaseProducer | None = None, codec: Codec = Codec.NONE) -> None:
        """Append one batch in the form in which a producer sends it."""
        made = build_batch(
            [_parts(offset, time_ms, row) for offset, row in enumerate(rows)],
            codec=codec,
            producer_id=-1 if by is None else by.producer_id,
            producer_epoch=-1 if by is None else 0,
            base_sequence=-1 if by is None else by.next_sequence,
            transactional=by is not None and by.transactional,
        )
        self._open(time_ms).append(memoryview(made), now_ms=time_ms)
        if by is not None:
            by.next_sequence += len(rows)

    def end(self, time_ms: int, by: CaseProducer, *, commit: bool) -> None:
        """Write the marker that ends the producer's transaction."""
        made = build_marker(
            producer_id=by.producer_id, producer_epoch=0, coordinator_epoch=0, commit=commit, now_ms=time_ms
        )
        self._open(time_ms).append(memoryview(made), now_ms=time_ms, origin=AppendOrigin.COORDINATOR)

    def roll(self, time_ms: int) -> None:
        """Seal the active segment."""
        self._open(time_ms).roll(time_ms)

    def clean(self, now_ms: int) -> None:
        """Run one pass over all sealed segments, like a pass of the broker at that time."""
        log = self._open(now_ms)
        cleaner = Cleaner(dedupe_buffer_bytes=MAP_BYTES, load_factor=0.9, io_buffer_bytes=IO_BYTES)
        cleaner.clean(
            measure(log, log.log_start_offset, now_ms).for_worker(),
            now_ms,
            secret=self._rng.randbytes(SECRET_BYTES),
            swap=lambda new, old: log.replace_segments(new, old, 0),
            checkpoint=lambda _: None,
        )

    def segment_at(self, base_offset: int, time_ms: int, *rows: Row) -> None:
        """Add a segment that begins at this offset, with one batch or empty: the remainder of a longer log after passes.

        For logs that consist only of such segments.
        """
        assert self._log is None
        file = self._place.files.open(paths.log_path(self._place.directory, base_offset), create=True)
        try:
            if rows:
                file.append(build_batch([_parts(base_offset + at, time_ms, row) for at, row in enumerate(rows)]))
        finally:
            file.close()

    def close(self, now_ms: int) -> None:
        """Bring the log into the state after a clean stop. Its files are closed afterwards, even after an error."""
        if self._log is not None:
            try:
                self._log.close(now_ms)
                for path in self._log.deleted_files.take_due(2**63):
                    self._place.files.remove(path)
            finally:
                self._log.release_files()

    def _open(self, now_ms: int) -> Log:
        if self._log is None:
            self._log = load_log(self._place, self._config, now_ms=now_ms, rng=self._rng)
        return self._log


def _parts(offset: int, time_ms: int, row: Row) -> RecordParts:
    key, value, *after_ms = row
    return offset, time_ms + sum(after_ms), key.encode(), None if value is None else value.encode(), ()
