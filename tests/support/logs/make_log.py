"""Logs in memory, and clean passes over them, for tests that start from records."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ottla.protocol.records import Record, RecordBatch, batches
from ottla.storage.cleaning.cleaner import Cleaner, CleanStats
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.filter.offset_map import BYTES_PER_SLOT
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.produce.producers import PRODUCER_ID_EXPIRATION_MS_DEFAULT
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.config import TOPIC_OPTIONS, LogConfig
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, Pair, batch, marker

TP = TopicPartition("t", 0)
SECRET = bytes(range(16))
DAY_MS = 86_400_000


def make_log(
    files: Files | None = None,
    *,
    tp: TopicPartition = TP,
    data_dir: str = "/data",
    now_ms: int = 0,
    clean_shutdown: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT,
    **config: Any,
) -> Log:
    """Open the log of `tp`, a new one unless `files` has it; by default it is compacted."""
    files = CrashFiles() if files is None else files
    directory = f"{data_dir}/{tp}"
    files.make_dir(directory)
    return load_log(
        LogPlace(files, directory, tp),
        LogConfig(**{"cleanup_policy": ("compact",)} | config),
        ShutdownState(clean_shutdown, recovery_point, log_start_offset),
        now_ms=now_ms,
        producer_expiration_ms=producer_expiration_ms,
        rng=random.Random(0),
    )


def reopen(
    log: Log, *, clean: bool = True, now_ms: int = 0, recovery_point: int = 0, files: Files | None = None
) -> Log:
    """Stop and start: return the log as a new process finds it.

    Args:
        recovery_point: The value in the checkpoint; after a clean stop it does not matter.
        files: The disk that a power loss has left.
    """
    if clean:
        log.close(now_ms)
    return make_log(
        files or log.files,
        tp=log.topic_partition,
        data_dir=log.directory.rpartition("/")[0],
        now_ms=now_ms,
        clean_shutdown=clean,
        recovery_point=recovery_point,
        log_start_offset=log.log_start_offset,
        producer_expiration_ms=log.producers.expiration_ms,
        **config_values(log.config),
    )


def config_values(config: LogConfig) -> dict[str, Any]:
    """Return all options of a log, as `make_log` accepts them."""
    return {option.attribute: getattr(config, option.attribute) for option in TOPIC_OPTIONS.values()}


def remove_deleted(log: Log, elapsed_ms: int) -> None:
    """Remove the files whose `file.delete.delay.ms` has passed, as the broker's job does."""
    for path in log.deleted_files.take_due(elapsed_ms):
        log.files.remove(path)


def delete_old_segments(log: Log, now_ms: int, elapsed_ms: int) -> int:
    """Run retention of a log in one thread; return the number of deleted segments."""
    deleted = 0
    while (deletion := log.begin_deletion(now_ms)) is not None:
        try:
            deletion.rename_files()
        except OSError as error:
            raise log.fail(error) from error
        finally:
            log.end_deletion(deletion, elapsed_ms)
        deleted += len(deletion.renamed)
        if not deletion.has_more:
            break
    return deleted


def flush_sealed(log: Log, elapsed_ms: int) -> None:
    """Make the sealed segments durable, in one thread."""
    if (flush := log.begin_flush_of_sealed()) is not None:
        try:
            flush.sync()
        except OSError as error:
            raise log.fail(error) from error
        log.end_flush(flush, elapsed_ms)


def delete_all(manager: LogManager, topic_partitions: Iterable[TopicPartition], elapsed_ms: int) -> None:
    """Delete these partitions, in one thread."""
    pending_deletion = manager.begin_delete(topic_partitions)
    try:
        pending_deletion.rename_dirs()
    finally:
        manager.end_delete(pending_deletion, elapsed_ms)


def cut_off(log: Log, offset: int) -> None:
    """Remove from the files what reaches `offset`, from the end on, as Apache Kafka's followers do. `log` does not follow."""
    for segment in reversed(list(log.segments)):
        if segment.base_offset > offset:
            segment.rename_deleted(log_first=True)
        elif (position := segment.position_of(offset)) is not None:
            segment.log_file.truncate(position)


def append(log: Log, *pairs: Pair, now_ms: int | None = None, roll: bool = False, **batch_fields: Any) -> int:
    """Append one batch, as `support.logs.batches.batch` makes it, then roll if requested; return its base offset."""
    made = batch(*pairs, **batch_fields)
    if now_ms is None:
        now_ms = RecordBatch(made).max_timestamp
    info = log.append(memoryview(made), now_ms=now_ms)
    if roll:
        log.roll(now_ms)
    return info.base_offset


def append_marker(log: Log, kind: int, producer_id: int, *, producer_epoch: int = 0, timestamp: int = 1_000) -> int:
    """End a producer's transaction; `kind` is ABORT or COMMIT. Return the marker's offset."""
    made = marker(kind, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=timestamp)
    return log.append(memoryview(made), now_ms=timestamp, origin=AppendOrigin.COORDINATOR).base_offset


class Producer:
    """A producer that numbers its records, idempotent or transactional, over one log."""

    def __init__(self, log: Log, producer_id: int, *, transactional: bool = False, now_ms: int = 1_000) -> None:
        self.log = log
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.now_ms = now_ms
        self._transactional = transactional

    def batch(self, *pairs: Pair) -> bytearray:
        """Return the next batch as the producer would send it; it does not count as sent."""
        return batch(
            *pairs,
            timestamp=self.now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self._transactional,
        )

    def write(self, *keys: str | Pair) -> int:
        """Append one batch; a bare key's value is the key. Return the base offset."""
        made = self.batch(*[(key, key) if isinstance(key, str) else key for key in keys])
        self.sequence += len(keys)
        return self.log.append(memoryview(made), now_ms=self.now_ms).base_offset

    def commit(self) -> int:
        """Commit the transaction; return the marker's offset."""
        return append_marker(self.log, COMMIT, self.producer_id, producer_epoch=self.epoch, timestamp=self.now_ms)

    def abort(self) -> int:
        """Abort the transaction; return the marker's offset."""
        return append_marker(self.log, ABORT, self.producer_id, producer_epoch=self.epoch, timestamp=self.now_ms)


def log_with_holes(*segments: tuple[int, list[bytearray]], files: Files | None = None, **config: Any) -> Log:
    """Return a log of given segments, as (base offset, batches); offsets may have gaps of any width."""
    files = CrashFiles() if files is None else files
    directory = f"/data/{TP}"
    files.make_dir(directory)
    for base_offset, found in segments:
        file = files.open(paths.log_path(directory, base_offset), create=True)
        for each in found:
            file.append(each)
        file.close()
    return make_log(files, **config)


def clean(
    log: Log,
    first_dirty_offset: int = 0,
    *,
    now_ms: int = 2_000,
    max_entries: int | None = None,
    upper_offset: int | None = None,
    io_buffer_bytes: int = 1 << 19,
    keeps_range_end: bool = False,
    erased_keys: frozenset[bytes] = frozenset(),
    checkpoint: Callable[[int], None] = lambda _: None,
) -> tuple[int, CleanStats]:
    """Run one pass from `first_dirty_offset` on, due or not; return the next first dirty offset and the statistics.

    Args:
        max_entries: Size of the map in keys; by default more than the log can have.
        upper_offset: A segment's base at which the pass ends, if below the bounds that the log itself sets.
        keeps_range_end: As of `Cleaner`.
        erased_keys: As of `LogToClean`.
    """
    # With a limit the map's table is as small as possible: as many slots as keys.
    slots = 1 << 20 if max_entries is None else max(2, max_entries)
    cleaner = Cleaner(
        dedupe_buffer_bytes=slots * BYTES_PER_SLOT,
        load_factor=1.0,
        io_buffer_bytes=io_buffer_bytes,
        keeps_range_end=keeps_range_end,
    )
    if max_entries is not None:
        cleaner.max_entries = max_entries
    to_clean = replace(measure(log, first_dirty_offset, now_ms), erased_keys=erased_keys)
    if upper_offset is not None:
        segments = [segment for segment in to_clean.segments if segment.base_offset < upper_offset]
        to_clean = replace(to_clean, segments=segments, upper_offset=upper_offset)

    def swap(new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        log.prepare_swap(new, old)
        log.commit_swap(new, old, now_ms)

    return cleaner.clean(to_clean.for_worker(), now_ms, secret=SECRET, swap=swap, checkpoint=checkpoint)


def all_batches(log: Log) -> list[RecordBatch]:
    """Return every batch of the log, in order."""
    return [found for segment in log.segments for found in batches(segment.log_file.read_at(0, segment.size_bytes))]


def data_records(found: Iterable[RecordBatch]) -> list[Record]:
    """Return the records of those batches, without markers."""
    return [record for each in found if not each.is_control for record in each.records()]


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of every data record of the log."""
    return [(record.offset, record.key, record.value) for record in data_records(all_batches(log))]


def latest_values(log: Log) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key, as a reader of the whole log sees it; None after a tombstone."""
    return {key: value for _, key, value in contents(log)}
