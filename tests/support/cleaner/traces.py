"""Traces of writes, and a run of each through the real log and cleaner with a moved clock, record by record.

`advice.simulating` predicts the same numbers from a summary of the trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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


def _trace(
    key: Callable[[random.Random, int], str],
    *,
    batches: int = 1_500,
    every_ms: Callable[[int], int] = lambda _: MINUTE_MS,
    tombstones: float = 0.0,
    is_transactional: bool = False,
) -> list[Write]:
    rng, at_ms, writes = random.Random(5), BEGIN_MS, list[Write]()
    for number in range(batches):
        pairs: list[Pair] = [
            (key(rng, 10 * number + each), None if rng.random() < tombstones else "v" * 80) for each in range(10)
        ]
        writes.append(Write(at_ms, pairs, is_transactional))
        at_ms += every_ms(number)
    return writes


def _uniform(rng: random.Random, _: int) -> str:
    return f"{rng.randrange(1_500):06}"


def _zipf(rng: random.Random, _: int) -> str:
    return f"{min(int(rng.paretovariate(0.8)), 999_999):06}"


def _growing(rng: random.Random, number: int) -> str:
    return f"{number:06}" if rng.random() < 0.15 else f"{rng.randrange(1_000):06}"


TRACES: dict[str, list[Write]] = {
    "uniform": _trace(_uniform),
    "zipf": _trace(_zipf),
    "bursts": _trace(_uniform, every_ms=lambda number: 4 * HOUR_MS if number % 150 == 149 else 2_000),
    "growing keys": _trace(_growing),
    "tombstones": _trace(_uniform, tombstones=0.3),
    "transactions": _trace(_zipf, is_transactional=True, batches=1_000),
}


def run(trace: Sequence[Write], config: LogConfig) -> Prediction:
    """Write a trace into a log and clean it as a broker does; return what the settings cost in fact."""
    return _Run(make_log(now_ms=BEGIN_MS, **config_values(config))).run(trace)


def summarized(trace: Sequence[Write], config: LogConfig) -> Summary:
    """Write a trace into a log that is not cleaned, and measure that."""
    log = make_log(now_ms=BEGIN_MS, **config_values(config))
    for write in trace:
        _append(log, write)
    measuring = LogMeasuring(
        log.files,
        log.directory,
        config,
        clean_below=None,
        log_start_offset=0,
        now_ms=trace[-1].at_ms if trace else BEGIN_MS,
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
        self._sizes: list[tuple[int, int]] = [(0, 0)]
        self._passes = self._read_bytes = self._written_bytes = 0

    def run(self, trace: Sequence[Write]) -> Prediction:
        now_ms = BEGIN_MS
        for write in trace:
            while now_ms < write.at_ms:
                self._round(now_ms)
                now_ms += BACKOFF_MS
            base_offset = _append(self.log, write)
            for offset, (key, value) in enumerate(write.pairs, base_offset):
                self._note(offset, key, value, write.at_ms)
            self._sizes.append((write.at_ms - BEGIN_MS, self.log.size_bytes))
        end_ms = trace[-1].at_ms
        left = [
            [Age(end_ms - since_ms, end_ms - since_ms, 1) for since_ms in kept.values()]
            for kept in (self._superseded, self._tombstones)
        ]
        superseded, tombstones = map(Ages.from_parts, self._ages, left)
        return Prediction.from_run(
            span_ms=end_ms - BEGIN_MS,
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

    def _round(self, now_ms: int) -> None:
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
        self._sizes.append((now_ms - BEGIN_MS, self.log.size_bytes))
