"""A real log and its model, and all that happens to them apart from cleaning.

Each public method is a step of a history (see `cleaner_history`). A step that makes no sense in the log's state does
nothing, so that any step may be left out of a history and the rest still runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ottla.storage.disk import paths
from ottla.storage.produce.validation import AppendOrigin
from support.cleaner.cleaner_compare import assert_same, batches_of, readable_snapshots
from support.cleaner.cleaner_model import CleanedLog
from support.disk.crash_files import CrashFiles
from support.logs import batches as made
from support.logs.make_log import delete_old_segments, log_with_holes, make_log, reopen
from support.logs.model_log import ABORT, COMMIT, ModelBatch, ModelRecord, ModelSegment

START_MS = 10_000
SEQUENCE_WRAPS_SOON = 2**31 - 4
PairOfBytes = tuple[bytes | None, bytes | None]


class LogPair:
    """A real log and its model; see the module."""

    def __init__(
        self, *, expiration_ms: int = 86_400_000, holes: Sequence[tuple[int, ...]] = (), **config: Any
    ) -> None:
        """Open the log and its model.

        Args:
            holes: Segments that exist from the start: each one's base offset, then those of its batches, which
                have one record each.
        """
        files = CrashFiles()
        files.now_ms = self.now_ms = START_MS
        options = {"now_ms": START_MS, "producer_expiration_ms": expiration_ms, **config}
        segments = [(base, [_batch_at(offset) for offset in offsets]) for base, *offsets in holes]
        self.log = log_with_holes(*segments, files=files, **options) if holes else make_log(files, **options)
        files.sync_all()
        self.model = CleanedLog(self.log.config, now=START_MS, expiration_ms=expiration_ms)
        if holes:
            self.model.segments = [
                ModelSegment(base, START_MS, START_MS, [_model_batch_at(offset) for offset in offsets])
                for base, *offsets in holes
            ]
            self.model.log_start, self.model.log_end = holes[0][0], self.log.log_end_offset
            assert_same(self.log, self.model)
        self.leader_epoch = 0
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {3: SEQUENCE_WRAPS_SOON}
        self.coordinators: set[int] = set()
        """Producers whose sequence numbers are not checked."""

    @property
    def files(self) -> CrashFiles:
        assert isinstance(self.log.files, CrashFiles)
        return self.log.files

    # Steps: writing

    def write(
        self,
        pairs: Sequence[PairOfBytes] = ((b"a", b"1"),),
        *,
        times: int = 1,
        producer: int = -1,
        transactional: bool = False,
        codec: int = 0,
        ages_ms: Sequence[int | None] = (0,),
        headers: tuple[tuple[str, bytes | None], ...] = (),
        from_sequence_0: bool = False,
    ) -> None:
        """Write a batch. Its records are as old as `ages_ms` says, in turn; None is a record without a timestamp.

        Args:
            times: How often the records are repeated, each time with other keys.
            transactional: Ignored while a producer's transaction is open: then it writes inside the transaction.
            from_sequence_0: Begin at sequence 0, as a group coordinator does at each start.
        """
        if times > 1:
            pairs = [(key and key + b"%d" % again, value) for again in range(times) for key, value in pairs]
        if self.model.config.is_compact:
            pairs = [(b"" if key is None else key, value) for key, value in pairs]
        ages = [ages_ms[index % len(ages_ms)] for index in range(len(pairs))]
        timestamps = [-1 if age is None else self.now_ms - age for age in ages]
        fields: dict[str, Any] = {"codec": codec, "headers": headers}
        model_fields = dict(fields)
        if producer >= 0:
            transactional = transactional or producer in self.model.open_txns
            epoch, sequence = self._next_of(producer)
            if from_sequence_0:
                sequence = 0
                self.coordinators.add(producer)
            self.sequences[producer] = (sequence + len(pairs)) & (2**31 - 1)
            fields |= {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
            fields["transactional"] = transactional
            model_fields |= {"producer_id": producer, "epoch": epoch, "sequence": sequence}
            model_fields["transactional"] = transactional
        batch = made.batch(*pairs, timestamp=timestamps, **fields)
        if len(batch) > self.model.config.segment_bytes:
            return
        origin = AppendOrigin.COORDINATOR if producer in self.coordinators else AppendOrigin.CLIENT
        is_full = self._is_index_full()
        info = self.log.append(memoryview(batch), now_ms=self.now_ms, leader_epoch=self.leader_epoch, origin=origin)
        assert (info.base_offset, info.duplicate) == (self.model.log_end, False)
        self.model.append(
            pairs,
            now=self.now_ms,
            timestamps=timestamps,
            leader_epoch=self.leader_epoch,
            size_bytes=len(batch),
            is_index_full=is_full,
            **model_fields,
        )

    def send_again(self, producer: int) -> None:
        """Send the producer's last batch again: the log must recognise it."""
        known = self.model.producers.get(producer)
        if known is None or known.last_data_offset is None or known.epoch != self.epochs.get(producer, 0):
            return
        if producer in self.coordinators:
            return
        records = known.last_data_offset - known.last_base + 1
        batch = made.batch(
            *[(b"a", b"1")] * records,
            producer_id=producer,
            producer_epoch=known.epoch,
            base_sequence=(known.last_sequence - records + 1) & (2**31 - 1),
        )
        if len(batch) > self.model.config.segment_bytes:
            return
        info = self.log.append(memoryview(batch), now_ms=self.now_ms)
        assert (info.duplicate, info.base_offset, info.last_offset) == (True, known.last_base, known.last_data_offset)

    def end_txn(self, producer: int, kind: int = COMMIT, *, bump: bool = False) -> None:
        """Write the marker of an open transaction; with `bump` in the epoch after the data's, as since EndTxn 5."""
        if producer in self.model.open_txns:
            self._write_marker(producer, kind, bump)

    def _write_marker(self, producer: int, kind: int, bump: bool) -> None:
        epoch = self.epochs[producer] = self.epochs.get(producer, 0) + bump
        batch = made.marker(kind, producer_id=producer, producer_epoch=epoch, timestamp=self.now_ms)
        is_full = self._is_index_full()
        self.log.append(
            memoryview(batch), now_ms=self.now_ms, leader_epoch=self.leader_epoch, origin=AppendOrigin.COORDINATOR
        )
        self.model.end_txn(
            producer,
            kind,
            now=self.now_ms,
            epoch=epoch,
            leader_epoch=self.leader_epoch,
            size_bytes=len(batch),
            is_index_full=is_full,
        )

    def lone_marker(self, producer: int, kind: int = COMMIT) -> None:
        """Write a marker to a partition that the transaction has not reached."""
        self._write_marker(producer, kind, False)

    def init_producer(self, producer: int) -> None:
        """Handle InitProducerId: a new epoch; an open transaction is aborted in it, and the producer continues in the next."""
        self.end_txn(producer, ABORT, bump=True)
        self.epochs[producer] = self.epochs.get(producer, 0) + 1

    def _next_of(self, producer: int) -> tuple[int, int]:
        epoch = self.epochs.setdefault(producer, 0)
        known = self.model.producers.get(producer)
        if known is None:  # any sequence number will do
            return epoch, self.sequences.get(producer, 0)
        if known.epoch != epoch or known.last_data_offset is None:
            return epoch, 0
        return epoch, (known.last_sequence + 1) & (2**31 - 1)

    def _is_index_full(self) -> bool:
        active = self.log.segments.active
        return active.offset_index.is_full or active.time_index.is_full

    def roll(self) -> None:
        self.log.roll(self.now_ms)
        self.model.roll(self.now_ms)

    def flush(self) -> None:
        self.log.flush(self.now_ms)

    # Steps: time, configuration, shortening

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.files.now_ms = self.now_ms

    def configure(self, **config: Any) -> None:
        self.log.config = self.model.config = replace(self.model.config, **config)

    def fit_groups(self, count: int, what: str, *, spare: int = 0) -> None:
        """Set the limit of a group to the combined size of the oldest segments, of their logs or of an index."""
        oldest = list(self.log.segments)[:count]
        if what == "log":
            self.configure(segment_bytes=max(120, sum(segment.size_bytes for segment in oldest) + spare))
        else:
            offset_bytes = sum(segment.offset_index.size_bytes for segment in oldest)
            time_bytes = sum(segment.time_index.size_bytes for segment in oldest)
            self.configure(segment_index_bytes=max(24, offset_bytes + spare, time_bytes + spare))

    def delete_records(self, fraction: float) -> None:
        offset = int(self.model.log_end * fraction)
        self.log.advance_log_start(offset)
        self.model.delete_records(offset)

    def retain(self) -> None:
        """Run a round of retention; what it deleted does not come back after a loss of power."""
        delete_old_segments(self.log, self.now_ms, self.now_ms)
        self.files.sync_dir(self.log.directory)
        self.model.delete_old_segments(self.now_ms)

    def forget_idle_producers(self) -> None:
        self.log.producers.expire(self.now_ms)
        self.model.forget_idle_producers(self.now_ms)

    # Steps: stops

    def restart(self) -> None:
        self.log = reopen(self.log, now_ms=self.now_ms)
        self.model.restart(self.now_ms)
        self.leader_epoch += 1

    def kill(self, *, knows_recovery_point: bool = True) -> None:
        """Kill the process and start again; the system survives, so all written data stays."""
        recovery_point = self.log.recovery_point if knows_recovery_point else 0
        self.log = reopen(self.log, clean=False, now_ms=self.now_ms, recovery_point=recovery_point)
        self.model.recover(self.now_ms, recovery_point)
        self.leader_epoch += 1

    def lose_power(self, disk: int = 0) -> None:
        """Lose power: data that was not synced may be lost, more or less of it, depending on the `disk` number."""
        recovery_point = self.log.recovery_point
        *_, files = islice(self.files.after_crash(ordered=True), disk + 1)
        snapshots = readable_snapshots(files, self.log.directory)
        self.log = reopen(self.log, clean=False, now_ms=self.now_ms, recovery_point=recovery_point, files=files)
        self._forget_lost_data(recovery_point)
        self.model.snapshots = snapshots
        self.model.recover(self.now_ms, recovery_point)
        self.leader_epoch += 1

    def _forget_lost_data(self, recovery_point: int) -> None:
        """Remove from the model the unflushed data that the disk does not have."""
        model = self.model
        left = {
            segment.base_offset: {batch.base_offset for batch in batches_of(segment)} for segment in self.log.segments
        }
        for segment in model.segments:
            here = left.get(segment.base, set())
            lost = [batch for batch in segment.batches if batch.base not in here]
            # A log that ends below its start is created again.
            assert all(batch.last >= recovery_point or batch.last < model.log_start for batch in lost)
            segment.batches = [batch for batch in segment.batches if batch.base in here]
        model.segments = [segment for segment in model.segments if segment.base in left] or [
            ModelSegment(model.log_start)
        ]
        for segment in model.segments:
            segment.changed = self.files.mtime_ms(paths.log_path(self.log.directory, segment.base))
        model.log_end = model.batches[-1].last + 1 if model.segments[-1].batches else model.segments[-1].base


def _batch_at(offset: int) -> bytearray:
    return made.batch((_key_at(offset), b"1"), base_offset=offset)


def _model_batch_at(offset: int) -> ModelBatch:
    return ModelBatch(offset, offset, (ModelRecord(offset, _key_at(offset), b"1", 1_000),), 1_000, 1_000)


def _key_at(offset: int) -> bytes:
    return b"abc"[offset % 3 :][:1]
