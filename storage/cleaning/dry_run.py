"""Dry run of a pass: the pass itself, with new segments that are only counted.

Nothing is written, synced or renamed. The figures are those of a pass that would run now, and the log is read as often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from ..disk import paths
from ..disk.files import AbortedError, Files
from ..disk.size_only import SizeOnlyFiles
from ..filter.clean_rules import BatchFilter
from ..filter.dead_bits import DeadBits
from ..filter.listed_filter import ListedFilter
from ..filter.removed import Removal
from ..logs.log import Log
from ..produce.producer_state import LastRecord
from ..segment.segment import LogSegment
from ..steps import Steps
from .clean_stats import CleanStats, DryPass
from .cleaner import Checkpoint, Cleaner, CleanPass
from .dirtiness import LogToClean, dirtiness_in_pieces, find_bound_in_pieces
from .outlook import HypotheticalLog
from .progress import PassProgress


def forced_in_pieces(log: Log, dirty_from: int, now_ms: int) -> Steps[LogToClean]:
    """Measure what a forced pass would clean after its roll, which adds the present active segment.

    Equals `measure_forced_in_pieces` of a log that has rolled, which this one has not. The last segment may be a frozen
    view of the active one, unaffected by appends.
    """
    supposed, active = HypotheticalLog(log, is_rolled=True), log.segments.active
    as_it_is = _as_it_is(active, dirty_from)
    bound = yield from find_bound_in_pieces(supposed, dirty_from, now_ms, young_too=True)
    found = yield from dirtiness_in_pieces(supposed, dirty_from, now_ms, bound)
    segments = found.segments
    if segments and segments[-1] is active:
        segments = [*segments[:-1], as_it_is]
    return LogToClean(
        log=log,
        first_dirty_offset=found.first_dirty_offset,
        upper_offset=found.upper_offset,
        segments=segments,
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        max_lag_overdue_ms=found.max_lag_overdue_ms,
        key_overdue_ms=found.key_overdue_ms,
    )


def dry_run(
    cleaner: Cleaner,
    to_clean: LogToClean,
    now_ms: int,
    *,
    secret: bytes,
    checkpoint: Checkpoint,
    records_max: int,
) -> DryPass:
    """Run a pass without writing; for a worker thread. The log must not be cleaned, truncated or deleted during the call.

    Args:
        to_clean: The result of `for_worker`.
        secret, checkpoint: As for `Cleaner.clean`.
        records_max: Maximum number of listed removals; 0: none, which is faster.

    Raises:
        As `Cleaner.clean`.
    """
    progress = PassProgress()
    found = _DryPass(
        to_clean,
        now_ms,
        cleaner.new_map(to_clean, secret),
        kept_end_offset=cleaner.kept_end_offset(to_clean),
        chunk_bytes=cleaner.chunk_bytes,
        swap=_nothing,
        checkpoint=checkpoint,
        on_map_built=_nothing,
        progress=progress,
    )
    found.records_max = records_max
    end_offset, stats = to_clean.first_dirty_offset, CleanStats()
    try:
        end_offset, stats = found.run()
    except AbortedError:
        if not found.segments_to_split:
            raise
    return DryPass(
        first_dirty_offset=to_clean.first_dirty_offset,
        upper_offset=to_clean.upper_offset,
        end_offset=end_offset,
        stats=stats,
        groups=tuple(progress.done),
        removals=tuple(found.listed()),
        are_all_listed=len(found.listed()) == stats.removed.total,
        segments_to_split=found.segments_to_split,
    )


class _DryPass(CleanPass):
    records_max = 0
    segments_to_split = 0
    _rules: BatchFilter | None = None

    def listed(self) -> Sequence[Removal]:
        return self._rules.listed if isinstance(self._rules, ListedFilter) else ()

    def _prepare(self) -> None:
        if found := self._overflowing():
            self.segments_to_split = len(found)
            raise AbortedError

    def _new_rules(self, bits: DeadBits, last_records: Mapping[int, LastRecord]) -> BatchFilter:
        if not self.records_max:
            return super()._new_rules(bits, last_records)
        self._rules = ListedFilter(
            bits,
            records_max=self.records_max,
            last_records=last_records,
            now_ms=self._now_ms,
            kept_end_offset=self._kept_end_offset,
            delete_retention_ms=self._config.delete_retention_ms,
            record_bytes_max=self._config.max_decompressed_message_bytes,
            chunk_bytes=self._chunk_bytes,
            aged_up_to_ms=self._config.aged_up_to_ms(self._now_ms),
            on_written=self._on_written,
        )
        return self._rules

    def _clean_group(self, group: Sequence[LogSegment], rules: BatchFilter) -> int:
        cleaned = LogSegment.create(
            cast(Files, SizeOnlyFiles()),
            self._log.directory,
            group[0].base_offset,
            self._config,
            self._now_ms,
            suffix=paths.CLEANED,
        )
        self._copy(group, cleaned, rules)
        return cleaned.size_bytes


def _as_it_is(active: LogSegment, dirty_from: int) -> LogSegment:
    """Return the part of a segment that a pass reads, with its present end, since appends to the segment continue."""
    position = active.floor_position(dirty_from)
    frozen = SimpleNamespace(
        base_offset=active.base_offset,
        size_bytes=active.size_bytes,
        log_file=active.log_file,
        offset_index=SimpleNamespace(size_bytes=active.offset_index.size_bytes),
        time_index=SimpleNamespace(size_bytes=active.time_index.size_bytes),
        floor_position=lambda _: position,
        next_offset=active.next_offset,
    )
    return cast(LogSegment, frozen)


def _nothing(*_: object) -> None: ...
