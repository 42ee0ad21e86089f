"""Scope of `verify`: the segments to judge, their originals, and what is promised of them.

alone      a log by itself
against    a log and a copy of its directory from before any number of passes
plan       what one plan has staged or installed, and the segments that it was made for
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.paths import OFFSET_MAX, TopicPartition
from ...storage.topics.config import LogConfig
from ..compaction.plan import CompactionPlan
from ..compaction.staging import group_directory, originals_directory
from ..errors import CorruptSourceError, ExitCode, PipelineError, UsageError
from ..stores.store import Store
from .findings import Finding
from .log_view import SegmentRef, WindowCursor, segments_in
from .promises import JudgedRange, Promises
from .range_audit import RangeResult
from .txn_audit import Rows, fold


class TxnSource(NamedTuple):
    """A segment whose transactional batches must be read."""

    segment: SegmentRef
    is_judged: bool
    """Whether it belongs to the judged log, not only to the originals."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One partition's part of a run."""

    tp: TopicPartition
    ranges: tuple[JudgedRange, ...]
    txn_sources: tuple[TxnSource, ...]
    promises: Promises
    """Promises without transactions; see `with_transactions`."""

    def with_transactions(self, rows: Sequence[Rows]) -> Promises:
        """Return the promises with the transactions from the rows of all `txn_sources`, in their order."""
        own = [found for source, found in zip(self.txn_sources, rows, strict=True) if source.is_judged]
        return replace(self.promises, transactions=fold(rows), own_transactions=fold(own))

    def as_a_whole(self, promises: Promises, results: Sequence[RangeResult]) -> list[Finding]:
        """Return the findings that need the results of all ranges."""
        found = []
        last = self.ranges[-1].segment
        end_offset = max((result.end_offset for result in results), default=0)
        if end_offset < promises.before_end and not promises.is_exact and promises.before_end > last.base_offset:
            expected = f"the log to end at {promises.before_end} or later"
            found.append(
                Finding(
                    "a log ends where it ended", last.log_path, None, end_offset, expected, f"its end at {end_offset}"
                )
            )
        for span in promises.own_transactions.unmarked:
            # A missing marker that no pass could have removed was never written, or a power loss truncated the log. DeleteRecords
            # may hide an open transaction.
            if promises.log_start_offset < span.end_offset < promises.clean_end and not promises.is_exact:
                of = next(each.segment for each in self.ranges if span.first_offset < each.segment.end_offset)
                expected = f"a marker of producer {span.producer_id} behind it"
                rule = "data of a transaction has its marker"
                found.append(Finding(rule, of.log_path, None, span.first_offset, expected, "none"))
        return found


def scope_alone(store: Store, tp: TopicPartition, now_ms: int, overrides: Mapping[str, str] | None = None) -> Scope:
    """Return the scope of a log by itself. Raises UsageError or CorruptSourceError as `Store`."""
    after = _segments(store, tp)
    config = store.config_of(tp.topic, overrides)
    return Scope(
        tp=tp,
        ranges=tuple(JudgedRange(segment, segment.base_offset) for segment in after),
        txn_sources=tuple(TxnSource(segment, True) for segment in after),
        promises=_promises(store, tp, config, now_ms, log_start_offset=_log_start(store, tp)),
    )


def scope_against(
    store: Store, originals: Store, tp: TopicPartition, now_ms: int, overrides: Mapping[str, str] | None = None
) -> Scope:
    """Return the scope of a log and an earlier copy.

    Raises:
        UsageError: The copy does not have the log.
        PipelineError: UNVERIFIED. Only the copy has it.
    """
    before = _segments(originals, tp)
    if not store.files.is_dir(store.directory_of(tp)):
        raise PipelineError(
            f"{store.directory_of(tp)}: expected a log, as in {originals.data_dir}, found none", ExitCode.UNVERIFIED
        )
    after = _segments(store, tp)
    config = store.config_of(tp.topic, overrides)
    log_start_offset = max(_log_start(store, tp), _log_start(originals, tp), before[0].base_offset)
    if config.is_delete:
        log_start_offset = max(log_start_offset, after[0].base_offset)  # retention deletes whole segments
    ranges = []
    bases, ends = [each.base_offset for each in before], [each.end_offset for each in before]
    for number, segment in enumerate(after):
        from_offset = segment.base_offset if number else min(segment.base_offset, before[0].base_offset)
        own = before[bisect_right(ends, from_offset) : bisect_left(bases, segment.end_offset)]
        ranges.append(JudgedRange(segment, from_offset, tuple(own)))
    promises = _promises(store, tp, config, now_ms, log_start_offset=log_start_offset)
    return Scope(
        tp=tp,
        ranges=tuple(ranges),
        txn_sources=(*(TxnSource(each, True) for each in after), *(TxnSource(each, False) for each in before)),
        promises=replace(promises, before_end=_end_of(originals, tp)),
    )


def scope_of_plan(plan: CompactionPlan, files: Files) -> Scope:
    """Return the scope of a plan's result, staged or installed.

    Raises:
        UsageError: Some groups are neither, or the originals were deleted.
    """
    ranges = []
    for group, numbers in enumerate(plan.groups):
        sources = [plan.sources[number] for number in numbers]
        base, end = sources[0].base_offset, sources[-1].end_offset
        before = tuple(
            SegmentRef(_directory_of_original(plan, each.base_offset, files), each.base_offset, each.end_offset)
            for each in sources
        )
        staged = group_directory(plan, group)
        is_staged = files.exists(paths.log_path(staged, base))
        if not is_staged and any(each.directory == plan.directory for each in before):
            which = f"group {group} of plan {plan.plan_id}"
            raise UsageError(f"{which} is not staged, or its originals were deleted: nothing to compare")
        ranges.append(JudgedRange(SegmentRef(staged if is_staged else plan.directory, base, end), base, before))
    tail = [each for each in segments_in(files, plan.directory) if each.base_offset >= plan.upper_offset]
    txn_sources = [TxnSource(each.segment, True) for each in ranges]
    txn_sources += [TxnSource(each, True) for each in tail]
    txn_sources += [TxnSource(each, False) for of in ranges for each in of.before]
    begin = min((source.base_offset for source in plan.sources), default=0)
    pinned = {last.last_data_offset for last in plan.last_records.values() if last.last_data_offset is not None}
    return Scope(
        tp=plan.topic_partition,
        ranges=tuple(ranges),
        txn_sources=tuple(txn_sources),
        promises=Promises(
            clean_end=plan.upper_offset,
            # A pass removes and keeps records below the log's start as anywhere else. But their versions do not count.
            log_start_offset=begin,
            keys_from=begin if plan.log_config.version_source is None else max(begin, plan.log_start_offset),
            now_ms=plan.now_ms,
            delete_retention_ms=plan.log_config.delete_retention_ms,
            before_end=plan.upper_offset,
            dirty_from=plan.first_dirty_offset,
            is_exact=True,
            pinned=frozenset(pinned | {plan.high_watermark - 1}),
            version_source=plan.log_config.version_source,
            aged_up_to_ms=plan.log_config.aged_up_to_ms(plan.now_ms),
        ),
    )


def _segments(store: Store, tp: TopicPartition) -> list[SegmentRef]:
    directory = store.directory_of(tp)
    if not store.files.is_dir(directory):
        raise UsageError(f"{store.data_dir} has no log of {tp}")
    return segments_in(store.files, directory)


def _promises(store: Store, tp: TopicPartition, config: LogConfig, now_ms: int, *, log_start_offset: int) -> Promises:
    checkpoint = store.checkpoint(paths.CLEANER_CHECKPOINT).get(tp, 0) if config.is_compact else 0
    return Promises(
        clean_end=checkpoint,
        log_start_offset=log_start_offset,
        keys_from=log_start_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        version_source=config.version_source,
        aged_up_to_ms=config.aged_up_to_ms(now_ms),
    )


def _log_start(store: Store, tp: TopicPartition) -> int:
    return store.checkpoint(paths.LOG_START_CHECKPOINT).get(tp, 0)


def _end_of(store: Store, tp: TopicPartition) -> int:
    """Return the offset after the last whole batch."""
    last = segments_in(store.files, store.directory_of(tp))[-1]
    end = last.base_offset
    damages: list[Finding] = []
    for window in WindowCursor(store.files, [last], damages.append, checks_crc=False):
        end = int(window.last_offsets.max()) + 1
    for damage in damages:
        raise CorruptSourceError.from_position(
            damage.file, damage.position, damage.offset, expected=damage.expected, actual=damage.actual
        )
    return min(end, OFFSET_MAX)


def _directory_of_original(plan: CompactionPlan, base_offset: int, files: Files) -> str:
    kept = originals_directory(plan)
    return kept if files.exists(paths.log_path(kept, base_offset)) else plan.directory
