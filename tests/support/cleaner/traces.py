"""Traces of writes, and a run of each through the real log and cleaner with a moved clock, record by record.

`advice.simulating` predicts the same numbers from a summary of the trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.storage.advice.measuring import LogMeasuring
from ottla.storage.advice.prediction import Age, Ages, Prediction
from ottla.storage.advice.summary import Summary
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.logs.log import Log
from ottla.storage.segment.segment import LogSegment
from ottla.storage.steps import to_the_end
from ottla.storage.topics.config import LogConfig
from support.logs.batches import COMMIT, Pair
from support.logs.make_log import (
    SECRET,
    all_batches,
    append,
    append_marker,
    config_values,
    data_records,
    delete_old_segments,
    make_log,
)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
BEGIN_MS = 1_700_000_000_000
BACKOFF_MS = MINUTE_MS


class Write(NamedTuple):
    """One batch of a trace."""

    at_ms: int
    pairs: list[Pair]
    is_transactional: bool = False


class Trace(NamedTuple):
    """A kind of writes. Its first batches do not depend on how many are made."""

    key: Callable[[random.Random, int], str]
    """Makes the key of a record from its number."""
    every_ms: Callable[[int], int] = lambda _: MINUTE_MS
    """Returns the time between a batch and the next."""
    tombstones: float = 0.0
    """Share of the records."""
    is_transactional: bool = False
    value_bytes: Callable[[random.Random], int] = lambda _: 80

    def writes(self, batches: int = 1_500) -> list[Write]:
        """Return the first batches, of ten records each."""
        rng, at_ms, writes = random.Random(5), BEGIN_MS, list[Write]()
        for number in range(batches):
            pairs: list[Pair] = [
                (
                    self.key(rng, 10 * number + each),
                    None if rng.random() < self.tombstones else "v" * self.value_bytes(rng),
                )
                for each in range(10)
            ]
            writes.append(Write(at_ms, pairs, self.is_transactional))
            at_ms += self.every_ms(number)
        return writes


def _uniform(rng: random.Random, _: int) -> str:
    return f"{rng.randrange(1_500):06}"


def _zipf(rng: random.Random, _: int) -> str:
    return f"{min(int(rng.paretovariate(0.8)), 999_999):06}"


def _growing(rng: random.Random, number: int) -> str:
    return f"{number:06}" if rng.random() < 0.15 else f"{rng.randrange(1_000):06}"


def _in_turn(_: random.Random, number: int) -> str:
    return f"group-{number % 120 // 12}-partition-{number % 12}"


def _page(rng: random.Random, number: int) -> str:
    """Return the key of a page of a wiki: mostly a page that was changed lately, sometimes a new one."""
    return f"page-{max(0, 3_000 + number // 20 - int(rng.paretovariate(0.5))):06}"


TRACES = {
    "uniform": Trace(_uniform),
    "zipf": Trace(_zipf),
    "bursts": Trace(_uniform, lambda number: 4 * HOUR_MS if number % 150 == 149 else 2_000),
    "growing keys": Trace(_growing),
    "tombstones": Trace(_uniform, tombstones=0.3),
    "transactions": Trace(_zipf, is_transactional=True),
    "day and night": Trace(_zipf, lambda number: MINUTE_MS // 3 if number // 360 % 2 else 3 * MINUTE_MS),
    "sizes": Trace(_uniform, value_bytes=lambda rng: min(2_000, int(20 * rng.paretovariate(1.0)))),
    "consumer offsets": Trace(_in_turn, lambda _: 5_000, value_bytes=lambda _: 24),
    "wiki": Trace(_page, tombstones=0.01, value_bytes=lambda rng: rng.randrange(60, 400)),
    "_schemas": Trace(lambda _, number: f"subject-{number // 3}", lambda _: 5 * MINUTE_MS, tombstones=0.02),
}


def run(trace: Sequence[Write], config: LogConfig) -> Prediction:
    """Write a trace into a log and clean it as a broker does; return what the settings cost in fact."""
    return _Run(make_log(now_ms=BEGIN_MS, **config_values(config))).run(trace)


def run_after(before: Sequence[Write], trace: Sequence[Write], today: LogConfig, config: LogConfig) -> Prediction:
    """Write `before` and clean it wholly, change the settings, then do as `run` does."""
    one = _Run(make_log(now_ms=BEGIN_MS, **config_values(today)))
    for write in before:
        one.write(write)
    one.log.roll(before[-1].at_ms)
    one.log.config = replace(today, min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=0)
    one.clean(before[-1].at_ms)
    one.log.config = config
    return one.run(trace)


def summarized(trace: Sequence[Write], config: LogConfig) -> Summary:
    """Write a trace into a log that is not cleaned, and measure that."""
    log = make_log(now_ms=BEGIN_MS, **config_values(config))
    for write in trace:
        _append(log, write)
    return _measured(log, trace[-1].at_ms if trace else BEGIN_MS, None)


def summarized_clean(trace: Sequence[Write], config: LogConfig) -> Summary:
    """Write a trace into a log that is cleaned as a broker does it, and measure that."""
    one = _Run(make_log(now_ms=BEGIN_MS, **config_values(config)))
    one.run(trace)
    return _measured(one.log, trace[-1].at_ms, one.first_dirty_offset)


def _measured(log: Log, now_ms: int, clean_below: int | None) -> Summary:
    measuring = LogMeasuring(
        log.files,
        log.directory,
        log.config,
        clean_below=clean_below,
        log_start_offset=log.log_start_offset,
        now_ms=now_ms,
        secret=SECRET,
        sample_keys_max=1 << 14,
    )
    return to_the_end(measuring.steps())


def _append(log: Log, write: Write) -> int:
    if not write.is_transactional:
        return append(log, *write.pairs, timestamp=write.at_ms)
    sequence = log.log_end_offset // (len(write.pairs) + 1) * len(write.pairs)
    base_offset = append(
        log, *write.pairs, timestamp=write.at_ms, producer_id=1, transactional=True, base_sequence=sequence
    )
    append_marker(log, COMMIT, 1, timestamp=write.at_ms)
    return base_offset


class _Run:
    """A log, its cleaner, and what is still to be removed."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._manager = CleanerManager(log.files, {log.topic_partition: log})
        self._cleaner = Cleaner(dedupe_buffer_bytes=1 << 20, load_factor=0.9, io_buffer_bytes=1 << 19)
        self._newest: dict[Pair, int] = {}
        self._superseded: dict[int, int] = {}
        """Offset of a superseded record -> time of the newer one's write."""
        self._tombstones: dict[int, int] = {}
        self._ages: tuple[list[Age], list[Age]] = [], []
        self._begin_ms = BEGIN_MS
        self._sizes: list[tuple[int, int]] = [(0, 0)]
        self._passes = self._read_bytes = self._written_bytes = 0

    @property
    def first_dirty_offset(self) -> int:
        """The end of what the passes have cleaned."""
        return next(iter(self._manager.first_dirty_offsets([self.log])))

    def write(self, write: Write) -> None:
        """Write a batch, and note what it supersedes."""
        base_offset = _append(self.log, write)
        for offset, (key, value) in enumerate(write.pairs, base_offset):
            self._note(offset, key, value, write.at_ms)

    def run(self, trace: Sequence[Write]) -> Prediction:
        """Write a trace, and clean when a pass is due; what was before does not count."""
        begin_ms = now_ms = trace[0].at_ms
        self._begin_ms = begin_ms
        self._ages = [], []
        self._tombstones.clear()
        self._sizes = [(0, self.log.size_bytes)]
        self._passes = self._read_bytes = self._written_bytes = 0
        for write in trace:
            while now_ms < write.at_ms:
                self.clean(now_ms)
                now_ms += BACKOFF_MS
            self.write(write)
            self._sizes.append((write.at_ms - begin_ms, self.log.size_bytes))
        end_ms = trace[-1].at_ms
        left = [
            [Age(end_ms - since_ms, end_ms - since_ms, 1) for since_ms in kept.values()]
            for kept in (self._superseded, self._tombstones)
        ]
        superseded, tombstones = map(Ages.from_parts, self._ages, left)
        return Prediction.from_run(
            span_ms=end_ms - begin_ms,
            sizes=self._sizes,
            passes=self._passes,
            read_bytes=self._read_bytes,
            written_bytes=self._written_bytes,
            busy_ms=0,
            superseded=superseded,
            tombstones=tombstones,
        )

    def _note(self, offset: int, key: object, value: object, at_ms: int) -> None:
        before = self._newest.get(key)  # type: ignore[call-overload]
        if before is not None:
            self._tombstones.pop(before, None)
            self._superseded[before] = at_ms
        self._newest[key] = offset  # type: ignore[index]
        if value is None:
            self._tombstones[offset] = at_ms

    def clean(self, now_ms: int) -> None:
        """Delete, and clean as long as a pass is due."""
        if self.log.config.is_delete and delete_old_segments(self.log, now_ms, now_ms):
            self._note_removed(now_ms)
        while (chosen := to_the_end(self._manager.filthiest(now_ms))) is not None:
            end_offset, stats = self._cleaner.clean(
                chosen.for_worker(), now_ms, secret=SECRET, swap=self._swap, checkpoint=lambda _: None
            )
            self._manager.save_end_offset(chosen, end_offset, stats)
            self._manager.done_cleaning(chosen)
            self._passes += 1
            self._read_bytes += stats.map_bytes_read + stats.bytes_read
            self._written_bytes += stats.bytes_written
            self._note_removed(now_ms)

    def _swap(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        self.log.replace_segments(new, old, 0)

    def _note_removed(self, now_ms: int) -> None:
        left = {record.offset for record in data_records(all_batches(self.log))}
        for waiting, ages in zip((self._superseded, self._tombstones), self._ages, strict=True):
            for offset in [each for each in waiting if each not in left]:
                age_ms = now_ms - waiting.pop(offset)
                ages.append(Age(age_ms, age_ms, 1))
        self._sizes.append((now_ms - self._begin_ms, self.log.size_bytes))
