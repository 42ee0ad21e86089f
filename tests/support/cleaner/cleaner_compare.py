"""The comparison of a real log with its model: everything that must be equal, and what a pass came across."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ottla.protocol.records import RecordBatch, batches
from ottla.storage.cleaning.cleaner import CleanStats
from ottla.storage.cleaning.dirtiness import first_dirty_offset, measure
from ottla.storage.disk import paths
from ottla.storage.disk.files import DamagedFileError
from ottla.storage.logs.log import Log
from ottla.storage.produce import producer_snapshots
from ottla.storage.produce.producer_state import ProducerState
from ottla.storage.produce.txn_markers import read_marker
from ottla.storage.segment.segment import LogSegment
from support.cleaner.cleaner_model import CleanedLog, ModelPass
from support.disk.crash_files import CrashFiles
from support.logs.model_log import EMPTIED, ModelBatch, ModelProducer, ModelRecord, ModelSegment


def assert_same_outline(log: Log, model: CleanedLog, checkpoint: int | None, now_ms: int) -> None:
    """Compare what is cheap enough to compare after every step: offsets, segments, how dirty the log is."""
    assert (log.log_start_offset, log.log_end_offset) == (model.log_start, model.log_end)
    assert log.last_stable_offset == model.last_stable_offset
    assert [segment.base_offset for segment in log.segments] == [segment.base for segment in model.segments]
    first_dirty, _ = first_dirty_offset(log, checkpoint)
    assert first_dirty == model.first_dirty(checkpoint)
    clean = log.counter.clean
    is_whole = clean is not None and next(iter(log.segments)).base_offset == clean.start_offset
    model.known_oldest = (clean.end_offset, clean.oldest_ms) if clean is not None and is_whole else None
    model.aged_up_to = log.counter.aged_up_to_ms
    measured, expected = measure(log, first_dirty, now_ms), model.dirtiness(first_dirty, now_ms)
    assert measured.upper_offset == expected.upper
    assert (measured.clean_bytes, measured.cleanable_bytes) == (expected.clean_bytes, expected.cleanable_bytes)
    assert measured.max_lag_overdue_ms == expected.overdue_ms
    assert measured.key_overdue_ms == expected.key_overdue_ms
    assert measured.is_due == expected.is_due


def assert_same(log: Log, model: CleanedLog) -> None:
    """Compare every batch, every aborted transaction and every producer. Afterwards the model uses the real sizes."""
    assert log.log_end_offset == model.log_end
    assert [segment.base_offset for segment in log.segments] == [segment.base for segment in model.segments]
    for real, expected in zip(log.segments, model.segments, strict=True):
        found = batches_of(real)
        assert [as_model(batch) for batch in found] == expected.batches
        assert all(batch.is_crc_valid() for batch in found)
        expected.batches = [
            replace(each, size_bytes=batch.size_bytes) for each, batch in zip(expected.batches, found, strict=True)
        ]
        assert log.files.mtime_ms(real.file_paths()[0]) == expected.changed
        expected.first_write = _batches_of_first_write(real, expected)
        assert [tuple(txn) for txn in real.txn_index.entries()] == [tuple(txn) for txn in expected.aborted]
        position = 0
        for batch in found:
            assert real.position_of(batch.last_offset) == position
            position += batch.size_bytes
    assert {state.producer_id: producer_as_model(state) for state in log.producers} == model.producers


def assert_same_pass(stats: CleanStats, done: ModelPass, new_segments: Sequence[LogSegment]) -> None:
    counts = {name: getattr(stats.removed, name) for name in stats.removed.__dataclass_fields__}
    assert counts == {name: done.removed[name] for name in counts}
    assert stats.records_read == done.records_read
    assert stats.records_written == stats.records_read - stats.removed.total
    assert stats.bytes_read == done.bytes_read
    assert stats.bytes_written == sum(segment.size_bytes for segment in new_segments)
    assert (stats.segments_before, stats.segments_after) == (done.segments, done.groups)
    assert stats.map_entry_count == done.keys


def assert_indexes_of_its_batches(segment: LogSegment) -> None:
    """Assert an entry for each batch that follows more than `index.interval.bytes` of data without an entry."""
    config = segment.config
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest, position, since = (-1, segment.base_offset), 0, 0

    def note_time() -> None:
        if largest[0] > (times[-1][0] if times else -1):
            times.append(largest)

    for batch in batches_of(segment):
        if batch.max_timestamp > largest[0]:
            largest = batch.max_timestamp, batch.last_offset
        has_room = len(offsets) < config.segment_index_bytes // 8 and len(times) < config.segment_index_bytes // 12 - 1
        if since > config.index_interval_bytes and has_room:
            offsets.append((batch.last_offset, position))
            note_time()
            since = 0
        since += batch.size_bytes
        position += batch.size_bytes
    note_time()
    assert segment.offset_index.entries() == offsets
    assert segment.time_index.entries() == times


def batches_of(segment: LogSegment) -> list[RecordBatch]:
    return list(batches(segment.log_file.read_at(0, segment.size_bytes)))


def as_model(found: RecordBatch) -> ModelBatch:
    """Return a real batch as the model's batch, read as a client reads it."""
    marker = None
    if found.is_control:
        marker = record.kind if (record := read_marker(found)) is not None else EMPTIED
    return ModelBatch(
        base=found.base_offset,
        last=found.last_offset,
        records=tuple(
            ModelRecord(
                record.offset,
                b"marker" if found.is_control else record.key,
                b"coordinator" if found.is_control else record.value,
                record.timestamp,
                tuple(record.headers),
            )
            for record in found.records()
        ),
        base_timestamp=found.base_timestamp,
        max_timestamp=found.max_timestamp,
        producer_id=found.producer_id,
        epoch=found.producer_epoch,
        sequence=found.base_sequence,
        transactional=found.is_transactional,
        marker=marker,
        horizon=found.delete_horizon_ms,
        codec=found.codec,
        log_append_time=found.is_log_append_time,
        leader_epoch=found.partition_leader_epoch,
        size_bytes=found.size_bytes,
    )


def producer_as_model(state: ProducerState) -> ModelProducer:
    return ModelProducer(
        epoch=state.producer_epoch,
        last_data_offset=state.last_data_offset,
        last_sequence=state.last_sequence,
        last_base=state.batches[-1].base_offset if state.batches else -1,
        timestamp=state.last_timestamp,
        txn_first=state.current_txn_first_offset,
        coordinator_epoch=state.coordinator_epoch,
    )


def readable_snapshots(files: CrashFiles, directory: str) -> dict[int, dict[int, ModelProducer]]:
    """Return the producer snapshots on a disk, by offset; damaged ones are left out."""
    found = {}
    for path, data in files.snapshot().items():
        name = paths.parse_segment_name(path.removeprefix(f"{directory}/"))
        if name is not None and name.kind == paths.SNAPSHOT and not name.suffix:
            try:
                states = producer_snapshots.decode(data)
            except DamagedFileError:
                continue
            found[name.base_offset] = {state.producer_id: producer_as_model(state) for state in states}
    return found


def _batches_of_first_write(real: LogSegment, expected: ModelSegment) -> int:
    """Return how many batches were written in one write at the segment's start, as its first timestamp shows."""
    for count in range(1, len(expected.batches) + 1):
        if max(batch.max_timestamp for batch in expected.batches[:count]) == real.first_batch_timestamp_ms:
            return count
    assert not expected.batches
    return 1


def events_of_pass(done: ModelPass, before: Sequence[ModelBatch], after: Sequence[ModelBatch]) -> Iterable[str]:
    """Return the events of a pass, so that a test can show that its histories cover all of them."""
    old = {batch.base: batch for batch in before}
    rewritten = [(old[batch.base], batch) for batch in after if batch != old[batch.base]]
    happened = {
        "a pass": True,
        "a full map": done.end < done.upper,
        "a map that ends in a batch": any(batch.base < done.end <= batch.last for batch in before),
        "segments joined": done.groups < done.segments,
        "a batch that is not touched": len(rewritten) < len(before),
        "a batch emptied": any(not new.records for _, new in rewritten),
        "a batch dropped": len(after) < len(before),
        "a horizon set": any(new.horizon is not None and had.horizon is None for had, new in rewritten),
        "a horizon kept": any(new.horizon is not None and had.horizon is not None for had, new in rewritten),
        "a marker rewritten": any(new.is_control and new.records for _, new in rewritten),
        "a lower largest timestamp": any(new.max_timestamp < had.max_timestamp for had, new in rewritten),
        "another base timestamp": any(
            new.records and new.horizon is None and new.base_timestamp != had.base_timestamp for had, new in rewritten
        ),
        "a compressed batch rewritten": any(new.codec for _, new in rewritten),
        **{f"removed: {reason}": True for reason in done.removed},
    }
    return [what for what, is_met in happened.items() if is_met]
