"""A compacted partition's history on a disk that may lose power, and what must hold whenever it is opened again.

`CompactedLife` goes through passes, appends, retention; `Broker.check` compares the state of a disk with everything
that was ever appended. What must hold, however the power was lost:

- what was flushed is there, and a process that was only killed loses nothing at all; no offset is given twice;
- a reader from any offset on ends up with the newest value of every key: none is lost, no removed value is back;
- a read_committed reader never sees a record of an aborted transaction;
- a producer's last batch, sent again, is answered with the offsets of the first time;
- every index agrees with the log, and no file of a half-done swap is left;
- below the cleaner's checkpoint every key occurs at most once, and the next pass leaves a log that means the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from ottla.protocol.records import RecordBatch, batches
from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.logs.replay import update_producers
from ottla.storage.produce.txn_markers import ABORT_MARKER, read_marker
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.topics.config import LogConfig
from support.cleaner.choosing import filthiest
from support.disk.crash_files import CrashFiles
from support.logs.batches import Pair, batch, marker
from support.logs.make_log import all_batches, clean

TP = TopicPartition("t", 0)
DATA_DIR = "/d"
TOPIC_ID = bytes(range(1, 17))
Values = dict[bytes | None, bytes | None]
Row = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""


class Owed(NamedTuple):
    """Records that a disk owes: all below `flushed`, none at or above `appended`; the log starts no later than `log_start`."""

    flushed: int
    appended: int
    log_start: int


@dataclass
class Broker:
    """One process on the disk, which it opens as after a crash."""

    files: CrashFiles
    config: LogConfig
    now_ms: int
    manager: LogManager = field(init=False)

    def __post_init__(self) -> None:
        self.manager = LogManager(self.files, [DATA_DIR], rng=random.Random(0))
        self.manager.load(self.now_ms, self.now_ms, config_for=lambda _: self.config)
        self.cleaning = CleanerManager(self.files, self.manager.logs)

    @property
    def log(self) -> Log:
        return self.manager.logs[TP]

    def clean(self, between: Callable[[], object] = lambda: None, max_entries: int | None = None) -> None:
        """Run the pass that is due, as the server does.

        Args:
            between: Called once, during the pass.
            max_entries: Size of the map.
        """
        chosen = filthiest(self.cleaning, self.now_ms)
        for data_dir in self.cleaning.dirs_to_correct:
            self.cleaning.write_corrections(data_dir)
        if chosen is None:
            return
        waiting = [between]

        def checkpoint(bytes_moved: int) -> None:
            if bytes_moved and waiting:
                waiting.pop()()

        try:
            end_offset, _ = clean(
                self.log, chosen.first_dirty_offset, now_ms=self.now_ms, max_entries=max_entries, checkpoint=checkpoint
            )
            self.cleaning.save_end_offset(chosen, end_offset)
        finally:
            self.cleaning.done_cleaning(chosen)

    def remove_deleted_files(self) -> None:
        """Remove files as the housekeeper does after `file.delete.delay.ms`, with an occasional sync, as log rolls cause."""
        for number, remove in enumerate(self.manager.due_deletions(self.manager.data_dirs[0], 10**15), start=1):
            remove()
            if number % 6 == 0:
                self.files.sync_dir(self.log.directory)

    def key(self) -> Hashable:
        """Return the state that is in memory and not on the disk."""
        log = self.log
        segments = tuple(
            (each.base_offset, each.size_bytes, tuple(each.txn_index.entries()), tuple(each.offset_index.entries()))
            for each in log.segments
        )
        producers = tuple(
            (each.producer_id, each.producer_epoch, each.current_txn_first_offset, tuple(each.batches))
            for each in log.producers
        )
        return segments, producers, log.log_start_offset, log.log_end_offset, log.recovery_point


def records_of(found: RecordBatch) -> tuple[Row, ...]:
    return _records_of(bytes(found.view))


@lru_cache(maxsize=1 << 12)
def _records_of(data: bytes) -> tuple[Row, ...]:
    """Return the records of a batch. Cached: a test has some twenty batches, each of which is read a thousand times."""
    return tuple((each.offset, each.key, each.value) for each in RecordBatch(data).records())


class History:
    """Every batch that was appended, and the meaning of the log from one offset to another."""

    def __init__(self, found: Iterable[RecordBatch] = ()) -> None:
        self.batches = list(found)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def values(self, start: int, end: int) -> Values:
        """Return the value of each key at `end`, for a read_committed reader from `start` on."""
        found: Values = {}
        aborted = self._aborted(end)
        for each in self._below(end):
            if not each.is_control and each.base_offset not in aborted:
                found.update((key, value) for offset, key, value in records_of(each) if offset >= start)
        return {key: value for key, value in found.items() if value is not None}

    def after_loss(self, log: Log, flushed: int) -> History:
        """Return what is left if batches from `flushed` on may be lost, those of an earlier segment before those of a later."""
        there = {each.base_offset for each in all_batches(log)}
        return History(each for each in self.batches if each.base_offset < flushed or each.base_offset in there)

    def last_stable_offset(self, end: int) -> int:
        open_since: dict[int, int] = {}
        for each in self._below(end):
            if each.is_control:
                open_since.pop(each.producer_id, None)
            elif each.is_transactional:
                open_since.setdefault(each.producer_id, each.base_offset)
        return min(open_since.values(), default=end)

    def last_batches(self, end: int) -> list[RecordBatch]:
        """Return each producer's last batch of records below `end`."""
        return list(
            {each.producer_id: each for each in self._below(end) if each.has_producer and not each.is_control}.values()
        )

    def committed_records(self, end: int) -> set[Row]:
        aborted = self._aborted(end)
        return {
            record
            for each in self._below(end)
            if not each.is_control and each.base_offset not in aborted
            for record in records_of(each)
        }

    def _below(self, end: int) -> list[RecordBatch]:
        return [each for each in self.batches if each.base_offset < end]

    def _aborted(self, end: int) -> set[int]:
        """Return the base offsets of the batches whose transaction was aborted."""
        undecided: dict[int, list[int]] = {}
        aborted: set[int] = set()
        for each in self._below(end):
            if each.is_control:
                mine = undecided.pop(each.producer_id, [])
                found = read_marker(each)
                if found is not None and found.kind == ABORT_MARKER:
                    aborted.update(mine)
            elif each.is_transactional:
                undecided.setdefault(each.producer_id, []).append(each.base_offset)
        return aborted


def read_committed(log: Log, start: int) -> list[Row]:
    """Return the records that a consumer reads from `start` on, fetching and skipping as Kafka's clients do."""
    end = log.last_stable_offset
    found = []
    offset = start
    while offset < end:
        fetched = log.read(offset, max_bytes=400, up_to=end)
        data = fetched.read()
        if not data:
            break
        waiting = sorted(log.overlapping_aborted(offset, end, fetched), key=lambda txn: txn.first_offset)
        aborting: set[int] = set()
        for each in batches(data):
            while waiting and waiting[0].first_offset <= each.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            if each.is_control:
                kind = read_marker(each)
                if kind is not None and kind.kind == ABORT_MARKER:
                    aborting.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in aborting):
                found += [record for record in records_of(each) if record[0] >= offset]
            assert each.next_offset > offset
            offset = each.next_offset
    return found


def view(records: list[Row]) -> Values:
    values = {key: value for _, key, value in records}
    return {key: value for key, value in values.items() if value is not None}


def check_sound(log: Log) -> None:
    """Check that the log does not contradict itself."""
    end = -1
    for segment in log.segments:
        assert segment.base_offset >= end, "segments overlap"
        end = segment.base_offset
        data = segment.log_file.read_at(0, segment.size_bytes)
        at = 0
        for found in batches(data):
            assert found.is_crc_valid() and found.base_offset >= end
            end = found.next_offset
            assert segment.position_of(found.last_offset) == at
            at += found.size_bytes
        assert segment.next_offset() == max(end, segment.base_offset)
        assert segment.max_timestamp_ms == max((each.max_timestamp for each in batches(data)), default=-1)
    assert end == log.log_end_offset


def check_no_leftovers(files: CrashFiles, log: Log) -> None:
    bases = {segment.base_offset for segment in log.segments}
    for name in files.list(log.directory):
        stem, _, kind = name.partition(".")
        if stem.isdecimal() and kind != "snapshot":
            assert kind in ("log", "index", "timeindex", "txnindex") and int(stem) in bases, f"{name} is left"


def check_meaning(log: Log, history: History) -> None:
    """Check that readers from any offset end up with what was appended."""
    end = history.last_stable_offset(log.log_end_offset)
    assert log.last_stable_offset == max(end, log.log_start_offset)
    committed = history.committed_records(log.log_end_offset)
    starts = {log.log_start_offset} | {each.base_offset for each in history.batches}
    for start in sorted(starts):
        if log.log_start_offset <= start <= end:
            records = read_committed(log, start)
            assert committed.issuperset(records), "a record that was aborted, or never appended"
            assert view(records) == history.values(start, end), f"what a reader from {start} on ends up with"


def check_producers(log: Log, history: History) -> None:
    for last in history.last_batches(log.log_end_offset):
        if last.base_offset >= log.log_start_offset:
            found = log.producers.check(last, AppendOrigin.CLIENT)
            assert found is not None, f"the last batch of producer {last.producer_id} is taken for a new one"
            assert (found.base_offset, found.last_offset) == (last.base_offset, last.last_offset)


def check_cleaned(log: Log, up_to: int) -> None:
    """Check that each key occurs at most once below the cleaner's checkpoint."""
    assert up_to <= log.log_end_offset
    keys = [
        record.key
        for each in all_batches(log)
        if not each.is_control
        for record in each.records()
        if log.log_start_offset <= record.offset < up_to
    ]
    assert len(keys) == len(set(keys)), f"the checkpoint {up_to} is beyond what is clean"


def check(broker: Broker, owed: Owed, history: History) -> None:
    """Raise AssertionError if an opened disk is not as it must be. Changes the disk."""
    log = broker.log
    assert owed.flushed <= log.log_end_offset <= owed.appended, "records are lost or made up"
    assert log.log_start_offset <= owed.log_start, "more is gone than was to go"
    assert log.producers.end_offset == log.log_end_offset
    check_sound(log)
    check_no_leftovers(broker.files, log)
    history = history.after_loss(log, owed.flushed)
    check_meaning(log, history)
    check_producers(log, history)
    check_cleaned(log, OffsetCheckpoint(broker.files, f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}").read().get(TP, 0))
    broker.clean()
    check_sound(log)
    check_meaning(log, history)
    check_producers(log, history)
    end = log.log_end_offset
    appended = log.append(memoryview(batch(("next", "1"))), now_ms=broker.now_ms)
    assert appended.base_offset == end, "the next record's offset"


@dataclass
class CompactedLife:
    """The history of a compacted partition; see the module. Call it with a disk; then `history` and `owed` are filled."""

    config: LogConfig
    now_ms: int
    steps: Callable[[CompactedLife], None]
    history: History = field(default_factory=History)

    def __call__(self, files: CrashFiles) -> None:
        self.broker: Broker | None = None
        self._acknowledged = self._appended = self.history.end
        self.broker = Broker(files, self.config, self.now_ms)
        self.steps(self)

    @property
    def log(self) -> Log:
        assert self.broker is not None
        return self.broker.log

    def owed(self, is_killed: bool) -> Owed:
        if self.broker is None or TP not in self.broker.manager.logs:
            return Owed(self._appended, self._appended, 0)  # the disk of the beginning, synced
        flushed = self._acknowledged if is_killed else self.log.recovery_point
        return Owed(flushed, self._appended, self.log.log_start_offset)

    def append(self, *pairs: Pair, roll: bool = False, timestamp: int = 1_000, **fields: object) -> None:
        """Append a batch; a producer's sequence number advances by itself."""
        producer_id = fields.get("producer_id")
        if isinstance(producer_id, int):
            state = self.log.producers.get(producer_id)
            fields["base_sequence"] = 0 if state is None else state.last_sequence + 1
        made = batch(*pairs, timestamp=timestamp, **fields)  # type: ignore[arg-type]
        self._append(made, AppendOrigin.CLIENT)
        if roll:
            self.log.roll(timestamp)

    def end_transaction(self, kind: int, producer_id: int, *, roll: bool = False) -> None:
        self._append(marker(kind, producer_id=producer_id), AppendOrigin.COORDINATOR)
        if roll:
            self.log.roll(1_000)

    def _append(self, made: bytearray, origin: AppendOrigin) -> None:
        # A loss during the write may leave it whole, so it counts as appended from the beginning.
        expected = bytearray(made)
        expected[:8] = self.log.log_end_offset.to_bytes(8, "big")
        self.history.batches.append(RecordBatch(bytes(expected)))
        self._appended = self.history.end
        self.log.append(memoryview(made), now_ms=1_000, origin=origin)
        self._acknowledged = self.log.log_end_offset

    def append_beyond(self, offset: int, made: bytearray) -> None:
        """Put a batch at `offset` into the active segment, as old brokers did, which did not roll so that offsets fit."""
        made[:8] = offset.to_bytes(8, "big")
        found = RecordBatch(bytes(made))
        self.history.batches.append(found)
        self._appended = self._acknowledged = self.history.end
        segment = self.log.segments.active
        segment.log_file.append(made)
        if (aborted := update_producers(self.log.producers, found)) is not None:
            segment.txn_index.append(aborted)
        self.log.log_end_offset = self.history.end

    def flush(self) -> None:
        """Make all appends durable, and write that to the checkpoint."""
        assert self.broker is not None
        self.log.flush(self.now_ms)
        self.broker.manager.checkpoint_recovery_points()

    def reconfigure(self, **changes: object) -> None:
        self.log.config = replace(self.log.config, **changes)  # type: ignore[arg-type]
