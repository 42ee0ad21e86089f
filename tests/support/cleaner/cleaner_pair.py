"""A real log and its model, cleaned side by side and compared after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import count
from typing import Any

from ottla.storage.cleaning.cleaner import CleanStats
from ottla.storage.cleaning.cleaner_manager import save_counts
from ottla.storage.disk.files import AbortedError
from support.cleaner.cleaner_compare import (
    assert_indexes_of_its_batches,
    assert_same,
    assert_same_outline,
    assert_same_pass,
    events_of_pass,
)
from support.cleaner.cleaner_model import NO_LIMIT, CleanedLog, ModelBatch, ModelPass, ModelRecord
from support.disk.crash_files import PowerLoss
from support.logs.log_pair import LogPair
from support.logs.make_log import clean, reopen


def records_of(batches: Iterable[ModelBatch], end: int) -> list[ModelRecord]:
    """Return the records of these batches below an offset."""
    return [record for batch in batches for record in batch.records if record.offset < end]


class Pair(LogPair):
    """A real log and its model, under the cleaner; see the module."""

    def __init__(self, *, keeps_range_end: bool = False, **config: Any) -> None:
        super().__init__(**config)
        self.model.keeps_range_end = keeps_range_end
        self.checkpoint: int | None = None
        """The cleaner's checkpoint of this log; None if it was lost."""
        self.met: Counter[str] = Counter()
        """Number of occurrences of each event, so that a test can show that all of them happened."""
        self.last_stats = CleanStats()
        """Statistics of the last completed pass."""

    def lose_power(self, disk: int = 0) -> None:
        super().lose_power(disk)
        # The manager corrects a checkpoint beyond the log's end before anything is appended.
        self.checkpoint = self.model.first_dirty(self.checkpoint)

    def move_checkpoint(self, fraction: float | None = None) -> None:
        """Lose the cleaner's checkpoint, or replace it with an old one."""
        self.checkpoint = None if fraction is None else int((self.checkpoint or 0) * fraction)

    def clean(
        self,
        *,
        seal: bool = False,
        max_entries: int | None = None,
        io_buffer_bytes: int = 1 << 19,
        give_up_after: int | None = None,
        die_after: int | None = None,
    ) -> None:
        """Do a pass, due or not.

        Args:
            seal: Roll first.
            give_up_after: How many checkpoints the pass goes through before it is aborted.
            die_after: How many file operations the pass does before the process is killed, and started again.
        """
        if seal:
            self.roll()
        first_dirty = self.model.first_dirty(self.checkpoint)
        found = self.model.dirtiness(first_dirty, self.now_ms)
        if not self.model.config.is_compact or (found.cleanable_bytes == 0 and not found.is_due):
            return
        self.met["a pass for the age of keys alone"] += found.cleanable_bytes == 0
        upper_offset = self.model.dirtiness(first_dirty, self.now_ms).upper
        values, before, old_segments = self._live(), self.model.batches, list(self.log.segments)
        index_bytes = {
            segment.base_offset: (segment.offset_index.size_bytes, segment.time_index.size_bytes)
            for segment in old_segments
        }
        model_pass = partial(
            CleanedLog.clean,
            first_dirty=first_dirty,
            now=self.now_ms,
            limit=NO_LIMIT if max_entries is None else max_entries,
            index_bytes=index_bytes,
        )
        checkpoints = count()

        def checkpoint(_bytes_moved: int) -> None:
            if next(checkpoints) == give_up_after:
                raise AbortedError

        finished = None
        if die_after is not None:
            self.files.fail_at = len(self.files.operations) + die_after
        try:
            finished = clean(
                self.log,
                first_dirty,
                now_ms=self.now_ms,
                max_entries=max_entries,
                io_buffer_bytes=io_buffer_bytes,
                keeps_range_end=self.model.keeps_range_end,
                checkpoint=checkpoint,
            )
            self.log.counter.aged_up_to_ms = finished[1].aged_up_to_ms
            if finished[0] == upper_offset:
                save_counts(self.log, *finished)
        except AbortedError:
            self.met["a pass given up"] += 1
        except PowerLoss:
            self._assert_same_live_values(values, self._start_again_after(model_pass).end)
            return
        self.files.fail_at = None
        new_segments = [segment for segment in self.log.segments if segment not in old_segments]
        done = model_pass(self.model, groups_max=len(new_segments) if finished is None else None)
        assert_same(self.log, self.model)
        self._assert_same_live_values(values, done.end)
        assert not [name for name in self.files.list(self.log.directory) if name.endswith((".cleaned", ".swap"))]
        for segment in new_segments:
            assert_indexes_of_its_batches(segment)
        self.met.update(events_of_pass(done, before, self.model.batches))
        self.met["a first dirty offset in a segment"] += first_dirty not in index_bytes
        self.met["an aborted transaction kept in the index"] += bool(self.model.aborted)
        if finished is None:
            self.met["a pass given up between two groups"] += done.groups > 0
            return
        self.checkpoint, stats = finished
        self.last_stats = stats
        assert self.checkpoint == done.end
        assert done.end > first_dirty or not found.cleanable_bytes, "a pass gets on"
        assert_same_pass(stats, done, new_segments)
        self._assert_keys_are_unique(first_dirty, done.end)

    def _start_again_after(self, model_pass: Callable[..., ModelPass]) -> ModelPass:
        """Restart after a kill during a pass, and find out how many groups are done. Each is in its old or in its new state.

        Only the last old segments of a group may come back next to the new one, which does no harm.
        """
        self.log = reopen(self.log, clean=False, now_ms=self.now_ms, files=self.files.copy())
        self.leader_epoch += 1
        self.met["a pass killed"] += 1
        for groups in count():
            for segments_back in count():
                model = deepcopy(self.model)
                done = model_pass(model, groups_max=groups)
                if not model.bring_back(done, segments_back):
                    break
                model.recover(self.now_ms, 0)
                if [each.base for each in model.segments] == [each.base_offset for each in self.log.segments]:
                    with suppress(AssertionError):
                        assert_same(self.log, model)
                        self.met["a pass killed between two groups"] += groups > 0
                        self.model = model
                        return done
            assert done.groups == groups, "what is left is no state between two groups"
        raise AssertionError("a pass has no end of groups")

    def _assert_same_live_values(self, before: dict[bytes, ModelRecord], end: int) -> None:
        """Assert that a pass has not changed what a reader of the whole log ends up with, but for aged records.

        A record with a version goes at its time, whatever is beyond the pass. What it superseded there comes back (KIP-280).
        """
        config, after = self.model.config, self._live()
        retention_ms = config.ottla_key_retention_ms
        aged_up_to = -1 if retention_ms < 0 else self.now_ms - retention_ms
        for key in before.keys() | after.keys():
            had, has = before.get(key), after.get(key)
            is_gone = had is None or 0 <= had.timestamp <= aged_up_to
            is_late = config.version_source is not None and has is not None and has.offset >= end
            assert has == had or (is_gone and (has is None or is_late)), (had, has)
            self.met["a record with a low version comes back"] += has != had and is_late

    def _live(self) -> dict[bytes, ModelRecord]:
        """Return the newest record of each key that has a value."""
        records = self.model.newest_committed()
        return {each.key: each for each in records if each.key is not None and each.value is not None}

    def _assert_keys_are_unique(self, start: int, end: int) -> None:
        """Assert that one record is left of each key in the map; this holds whatever the model says."""
        seen: dict[bytes | None, int] = {}
        for batch in self.model.batches:
            for record in batch.records:
                if not batch.is_control and record.offset < end:
                    assert record.offset < start or seen.setdefault(record.key, record.offset) == record.offset

    # Comparing

    def assert_same_outline(self) -> None:
        self.log.survey()
        assert_same_outline(self.log, self.model, self.checkpoint, self.now_ms)
        self._assert_counts_are_true()

    def _assert_counts_are_true(self) -> None:
        """Assert that a scan of the log finds what the counts say, whether they are exact or bounds."""
        counts, start = self.log.counts, self.log.log_start_offset
        batches = [each for each in self.model.batches if not each.is_control]
        records = [record for each in batches for record in each.records if record.offset >= start]
        tombstones = sum(record.value is None for record in records)
        assert counts.records_min <= len(records) <= counts.records_max
        assert counts.tombstones_min <= tombstones <= counts.tombstones_max
        if self.model.config.is_compact:
            live = {key for key, value in self.model.committed_values().items() if value is not None}
            seen = {record.key for record in records}
            assert counts.live_keys_min <= len(live & seen) <= counts.live_keys_max
        clean = self.log.counter.clean
        is_whole = clean is not None and next(iter(self.log.segments)).base_offset == clean.start_offset
        if clean is not None and is_whole and clean.oldest_ms > 0:
            times = [each.timestamp for each in records_of(batches, clean.end_offset) if each.value is not None]
            assert clean.oldest_ms == min((each for each in times if each >= 0), default=2**63 - 1)
            self.met["a known age of the oldest key"] += 1
        self.met["an exact count of records"] += counts.records_min == counts.records_max > 0
        self.met["an exact count of live keys"] += counts.live_keys_min == counts.live_keys_max > 0

    def assert_same(self) -> None:
        assert_same(self.log, self.model)
