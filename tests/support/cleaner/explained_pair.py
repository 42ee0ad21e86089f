"""A log and its model. The log explains itself after every step, and predicts every pass.

What it says is compared with a copy of the model, which is moved ahead in time, rolled, or given other configs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

from ottla.storage.cleaning.clean_stats import CleanStats, DryPass
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import (
    BoundBy,
    LogToClean,
    find_bound_in_pieces,
    measure,
    measure_forced_in_pieces,
)
from ottla.storage.cleaning.dry_run import dry_run, forced_in_pieces
from ottla.storage.cleaning.eligibility import Eligibility, assess_in_pieces
from ottla.storage.cleaning.key_history import KeyHistory, KeySearch
from ottla.storage.cleaning.outlook import RemedyAction, RemedyPlan
from ottla.storage.filter.offset_map import BYTES_PER_SLOT
from ottla.storage.logs.log import Log
from ottla.storage.steps import Steps, to_the_end
from support.cleaner.cleaner_compare import batches_of
from support.cleaner.cleaner_model import ABORT, CleanedLog
from support.cleaner.cleaner_pair import Pair
from support.logs.make_log import SECRET

FOR_EVER_MS = 10**15
MARKER_BYTES = 78
LISTED_MAX = 40


class ExplainedPair(Pair):
    """A log that explains itself, and its model; see the module."""

    def assert_same_outline(self) -> None:
        super().assert_same_outline()
        self.assert_explained()

    # Why, and when

    def assert_explained(self) -> None:
        """Assert that the explanation of the log's present state is true."""
        operations = len(self.files.operations)
        found = to_the_end(assess_in_pieces(self.log, self.checkpoint, self.now_ms))
        assert len(self.files.operations) == operations, "nothing is written by who only asks"
        first_dirty = self.model.first_dirty(self.checkpoint)
        is_due = self.model.config.is_compact and self.model.dirtiness(first_dirty, self.now_ms).is_due
        assert found.eligible == is_due
        assert (found.waits_for is None) == is_due
        self.met[f"waits for {found.waits_for or 'nothing'}"] += 1
        if is_due:
            assert found.eligible_at_ms is None and found.ways == ()
        elif self.model.config.is_compact:
            self._assert_time(self.model, found.eligible_at_ms, first_dirty)
            self.met["only time is missing"] += found.eligible_at_ms is not None
        for way in found.ways:
            self._assert_way(way, first_dirty)
        self._assert_roll(found)

    def _assert_time(self, model: CleanedLog, at_ms: int | None, first_dirty: int, *, exactly: bool = True) -> None:
        """Assert that this is the first moment at which the model is due."""
        if at_ms is None:
            assert not model.dirtiness(first_dirty, self.now_ms).is_due
            assert not model.dirtiness(first_dirty, FOR_EVER_MS).is_due
            return
        assert at_ms >= self.now_ms
        assert model.dirtiness(first_dirty, at_ms).is_due
        if exactly and at_ms > self.now_ms:
            assert not model.dirtiness(first_dirty, at_ms - 1).is_due

    def _assert_way(self, way: RemedyPlan, first_dirty: int) -> None:
        model = deepcopy(self.model)
        if RemedyAction.COMPACT_POLICY in way.moves:
            model.config = replace(model.config, cleanup_policy=("compact",))
        if RemedyAction.NO_MIN_LAG in way.moves:
            model.config = replace(model.config, min_compaction_lag_ms=0)
        if RemedyAction.LOWER_RATIO in way.moves:
            assert way.min_cleanable_dirty_ratio is not None
            assert way.min_cleanable_dirty_ratio < model.config.min_cleanable_dirty_ratio
            model.config = replace(model.config, min_cleanable_dirty_ratio=way.min_cleanable_dirty_ratio)
        if RemedyAction.ROLL in way.moves:
            model.roll(self.now_ms)  # before the markers, which are young
        if RemedyAction.END_TRANSACTIONS in way.moves:
            for producer in tuple(model.open_txns):
                model.end_txn(
                    producer,
                    ABORT,
                    now=self.now_ms,
                    epoch=model.producers[producer].epoch,
                    leader_epoch=self.leader_epoch,
                    size_bytes=MARKER_BYTES,
                    is_index_full=False,
                )
        # Markers may fill a segment of a few hundred bytes, and so be more than was needed.
        exactly = RemedyAction.END_TRANSACTIONS not in way.moves and RemedyAction.LOWER_RATIO not in way.moves
        self._assert_time(model, way.eligible_at_ms or self.now_ms, first_dirty, exactly=exactly)
        self.met[f"a way: {', '.join(way.moves)}"] += 1

    def _assert_roll(self, found: Eligibility) -> None:
        """Write records with that timestamp, and with the one before, to copies of the model, and compare."""
        active = self.model.segments[-1]
        assert (found.rolls_after_bytes is None) == (not active.batches)
        if found.rolls_after_bytes is None or found.rolls_from_ms is None or found.rolls_by_clock:
            return
        size_bytes = min(found.rolls_after_bytes, 100)
        if size_bytes < 0:
            return
        log_append_time = self.model.config.message_timestamp_type == "LogAppendTime"
        for timestamp, rolls in ((found.rolls_from_ms, True), (found.rolls_from_ms - 1, False)):
            model = deepcopy(self.model)
            model.append(
                [(b"a", b"1")],
                now=timestamp if log_append_time else self.now_ms,
                timestamps=[timestamp],
                leader_epoch=self.leader_epoch,
                size_bytes=size_bytes,
                is_index_full=False,
            )
            assert (len(model.segments) > len(self.model.segments)) == rolls
        self.met["a roll told"] += 1

    # What the next pass does

    def clean(self, *, seal: bool = False, max_entries: int | None = None, **options: Any) -> None:
        if seal:
            told = self._forced(forced_in_pieces)
            self.roll()
            then = self._forced(measure_forced_in_pieces)
            assert (told is None) == (then is None)
            if told is not None and then is not None:
                assert (told.end_offset, told.removals) == (then.end_offset, then.removals)
                assert told.stats.removed == then.stats.removed
                self.met["a dry run of a forced pass"] += 1
        first_dirty = self.model.first_dirty(self.checkpoint)
        found = self.model.dirtiness(first_dirty, self.now_ms)
        if not self.model.config.is_compact or not (found.cleanable_bytes or found.is_due):
            return
        io_buffer_bytes = options.get("io_buffer_bytes", 1 << 19)
        told = self._dry(measure(self.log, first_dirty, self.now_ms), max_entries, io_buffer_bytes)
        histories = self._histories(first_dirty)
        before = {record.offset for batch in self.model.batches for record in batch.records}
        passes = self.met["a pass"]
        super().clean(max_entries=max_entries, **options)
        if self.met["a pass"] == passes or "give_up_after" in options or "die_after" in options:
            return
        after = {record.offset for batch in self.model.batches for record in batch.records}
        removed = sorted(before - after)
        assert [each.offset for each in told.removals] == removed[:LISTED_MAX]
        assert told.are_all_listed == (len(removed) <= LISTED_MAX)
        assert told.end_offset == self.checkpoint
        assert _counts(told.stats) == _counts(self.last_stats)
        for segment in told.groups:
            real = next(each for each in self.log.segments if each.base_offset == segment.base_offset)
            assert real.size_bytes == segment.bytes_after
        self.met["a dry run"] += 1
        if max_entries is None:
            for history in histories:
                self._assert_history(history, set(removed))

    def _forced(self, measured: Callable[[Log, int, int], Steps[LogToClean]]) -> DryPass | None:
        first_dirty = self.model.first_dirty(self.checkpoint)
        to_clean = to_the_end(measured(self.log, first_dirty, self.now_ms))
        return self._dry(to_clean, None, 1 << 19) if to_clean.cleanable_bytes else None

    def _dry(self, to_clean: LogToClean, max_entries: int | None, io_buffer_bytes: int) -> DryPass:
        operations = len(self.files.operations)
        slots = 1 << 20 if max_entries is None else max(2, max_entries)
        cleaner = Cleaner(
            dedupe_buffer_bytes=slots * BYTES_PER_SLOT,
            load_factor=1.0,
            io_buffer_bytes=io_buffer_bytes,
            keeps_range_end=self.model.keeps_range_end,
        )
        if max_entries is not None:
            cleaner.max_entries = max_entries
        found = [
            dry_run(
                cleaner,
                to_clean.for_worker(),
                self.now_ms,
                secret=SECRET,
                checkpoint=lambda _: None,
                records_max=records_max,
            )
            for records_max in (0, LISTED_MAX)
        ]
        assert len(self.files.operations) == operations, "a dry run writes nothing"
        assert _counts(found[0].stats) == _counts(found[1].stats)
        assert found[0].groups == found[1].groups
        reasons = Counter(each.reason for each in found[1].removals)
        if found[1].are_all_listed:
            assert reasons == {name: count for name, count in asdict(found[1].stats.removed).items() if count}
        return found[1]

    def _histories(self, first_dirty: int) -> list[KeyHistory]:
        bound = to_the_end(find_bound_in_pieces(self.log, first_dirty, self.now_ms))
        upper = measure(self.log, first_dirty, self.now_ms).upper_offset
        keys = {
            record.key for segment in self.log.segments for batch in batches_of(segment) for record in batch.records()
        }
        return [self._search(key, first_dirty, upper, bound.by) for key in sorted(each for each in keys if each)[:8]]

    def _search(self, key: bytes, first_dirty: int, upper: int, by: BoundBy) -> KeyHistory:
        search = KeySearch(
            self.log,
            key,
            self.now_ms,
            first_dirty_offset=first_dirty,
            upper_offset=upper,
            bound_by=by,
            records_max=1_000,
        )
        return to_the_end(search.steps())

    def _assert_history(self, history: KeyHistory, removed: set[int]) -> None:
        assert history.record_count == len(history.records)
        for each in history.records:
            assert (each.goes is not None) == (each.offset in removed), (history.key, each)
            assert (each.goes is None) != (each.stays is None)
            self.met[f"a record that {f'goes: {each.goes}' if each.goes else f'stays: {each.stays}'}"] += 1


def _counts(stats: CleanStats) -> dict[str, object]:
    """Return the figures of a pass, without its durations."""
    return {name: value for name, value in asdict(stats).items() if not name.endswith("seconds")}
