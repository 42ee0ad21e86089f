"""A plain model of a clean pass: the reference for the real cleaner.

`test_cleaner_model` runs random histories through both and compares every batch. The model follows the rules of Apache
Kafka 4.4.0's cleaner, whose outcomes `test_cleaner_scenarios` lists. It holds whole logs in lists and searches them
every time, so nothing here is fast, and nothing depends on how the real cleaner works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from support.logs.model_log import (
    ABORT,
    COMMIT,
    EMPTIED,
    OFFSETS_MAX,
    ModelBatch,
    ModelLog,
    ModelRecord,
    ModelSegment,
    ModelTxn,
    emptied,
)

__all__ = ["ABORT", "COMMIT", "EMPTIED", "NO_LIMIT", "CleanedLog", "ModelBatch", "ModelPass", "ModelRecord", "ModelTxn"]

NO_LIMIT = 10**9


class Transactions:
    """Knowledge about transactions during a walk over batches in order."""

    def __init__(self) -> None:
        self.pending: list[ModelTxn] = []
        self.aborting: dict[int, tuple[ModelTxn, bool]] = {}
        self.committing: set[int] = set()

    def announce(self, txns: Iterable[ModelTxn]) -> None:
        self.pending = sorted([*self.pending, *txns], key=lambda txn: txn.first)

    def is_aborted(self, batch: ModelBatch) -> bool:
        self._begin_up_to(batch.last)
        if not batch.transactional:
            return False
        if batch.producer_id in self.aborting:
            self.aborting[batch.producer_id] = (self.aborting[batch.producer_id][0], True)
            return True
        self.committing.add(batch.producer_id)
        return False

    def is_unneeded(self, batch: ModelBatch) -> tuple[bool, ModelTxn | None]:
        """Return whether a marker has no data left; if it ends an aborted transaction with data, also that transaction."""
        self._begin_up_to(batch.last)
        if not batch.records:
            return True, None
        if batch.marker == ABORT:
            txn, has_data = self.aborting.pop(batch.producer_id, (None, False))
            if has_data:
                return False, txn
        # Aborted data below the log start that was not replayed is in no list of aborted transactions. It keeps its ABORT:
        # a start that does replay the data would find the transaction open for ever. (Apache Kafka deletes the marker.)
        had_data = batch.producer_id in self.committing
        self.committing.discard(batch.producer_id)
        return not had_data, None

    def _begin_up_to(self, offset: int) -> None:
        while self.pending and self.pending[0].first <= offset:
            txn = self.pending.pop(0)
            self.aborting.setdefault(txn.producer_id, (txn, False))


@dataclass(frozen=True)
class Dirtiness:
    """The scheduler's figures for a log."""

    upper: int
    """Base of the first segment that a pass must not touch."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    is_due: bool
    key_overdue_ms: int = 0


@dataclass
class ModelPass:
    """The result of a pass."""

    end: int
    """The next first dirty offset."""
    upper: int
    """The end that the pass aimed at."""
    keys: int
    """Number of keys in the map."""
    records_read: int = 0
    bytes_read: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    """Removed records, by the names of `RemovedRecords`."""
    groups: int = 0
    segments: int = 0
    last_group: list[ModelSegment] = field(default_factory=list)
    """The segments that the last group was made from."""


class CleanedLog(ModelLog):
    """A log that can be cleaned."""

    keeps_range_end = False
    """Whether the last batch of each cleaned range stays, as up to Apache Kafka 4.3; else the one at the high watermark."""

    known_oldest: tuple[int, int] | None = None
    """Knowledge of the real log from its last pass: (its end, the least timestamp of a record that may go for its age)."""
    aged_up_to = 0
    """The largest timestamp of records that the last pass has removed for their age."""

    def first_dirty(self, checkpoint: int | None) -> int:
        if checkpoint is None or not self.log_start <= checkpoint <= self.log_end:
            return self.log_start
        return checkpoint

    def dirtiness(self, first_dirty: int, now: int) -> Dirtiness:
        config, active = self.config, self.segments[-1].base
        bound = min(self.last_stable_offset, active)
        if config.min_compaction_lag_ms > 0:
            young = [
                each.base
                for each in self.segments_from(first_dirty, bound)
                if each.largest_timestamp > now - config.min_compaction_lag_ms
            ]
            bound = min([bound, *young])
        bound = min(max(first_dirty, bound), active)
        upper = max(each.base for each in self.segments if each.base <= bound)
        clean_bytes = sum(each.size_bytes for each in self.segments if each.base < first_dirty)
        cleanable_bytes = sum(each.size_bytes for each in self.segments_from(min(first_dirty, upper), upper))
        firsts = [each.first_timestamp for each in self.segments_from(first_dirty, active)]
        oldest = min((each for each in firsts if each > 0), default=now)
        overdue_ms = max(0, now - config.max_compaction_lag_ms - oldest)
        ratio = cleanable_bytes / (clean_bytes + cleanable_bytes) if cleanable_bytes else 0.0
        is_due = (overdue_ms > 0 and cleanable_bytes > 0) or ratio > config.min_cleanable_dirty_ratio
        key_overdue_ms = self.key_overdue_ms(first_dirty, upper, now)
        return Dirtiness(upper, clean_bytes, cleanable_bytes, overdue_ms, is_due or key_overdue_ms > 0, key_overdue_ms)

    def key_overdue_ms(self, first_dirty: int, upper: int, now: int) -> int:
        """Return for how long a pass has been due for the age of a record."""
        retention_ms = self.config.ottla_key_retention_ms
        if retention_ms < 0 or self.segments[0].base >= upper:
            return 0
        clean = [each.first_timestamp for each in self.segments if each.base < first_dirty]
        oldest = [each for each in clean if each > self.aged_up_to]
        if self.known_oldest is not None and self.known_oldest[0] >= first_dirty and self.known_oldest[1] > 0:
            oldest = [self.known_oldest[1]]
        dirty = [each.first_timestamp for each in self.segments_from(first_dirty, upper)]
        oldest += [each for each in dirty if each > 0]
        return max(0, now - retention_ms - retention_ms // 16 - min(oldest, default=2**63))

    def clean(
        self,
        first_dirty: int,
        *,
        now: int,
        limit: int = NO_LIMIT,
        index_bytes: Mapping[int, tuple[int, int]] | None = None,
        groups_max: int | None = None,
    ) -> ModelPass:
        """Do one pass; call it only if something is dirty.

        Args:
            limit: The number of keys that the map can hold.
            index_bytes: Base offset -> bytes of the offset and of the time index, for grouping; without it each
                segment is a group.
            groups_max: How many groups are finished before the pass is aborted.
        """
        upper = self.dirtiness(first_dirty, now).upper
        # The markers that end transactions which they know as open may be deleted now.
        self.snapshots = {
            at: known
            for at, known in self.snapshots.items()
            if at >= upper or all(producer.txn_first is None for producer in known.values())
        }
        if self.config.version_source is not None:
            limit = max(1, limit // 2)  # an entry takes twice the memory
        newest, latest = self.build_map(first_dirty, upper, limit)
        held = self.look_back(newest, first_dirty, latest)
        return self.rewrite(newest, latest, upper, held=held, now=now, index_bytes=index_bytes, groups_max=groups_max)

    def rank(self, record: ModelRecord) -> tuple[int, int]:
        """Return the sort key by which the newest record of a key is found."""
        strategy, name = self.config.ottla_compaction_strategy, self.config.ottla_compaction_strategy_header
        if strategy == "offset":
            return 0, record.offset
        if strategy == "timestamp":
            return record.timestamp, record.offset
        values = [value for header, value in record.headers if header == name]
        if not values or values[-1] is None or len(values[-1]) != 8:
            return -(2**63), record.offset
        return int.from_bytes(values[-1], "big", signed=True), record.offset

    def committed_values(self) -> dict[bytes | None, bytes | None]:
        return {each.key: each.value for each in self.newest_committed()}

    def newest_committed(self) -> list[ModelRecord]:
        """Return the newest committed record of each key."""
        return list({each.key: each for each in sorted(self.committed_records(), key=self.rank)}.values())

    def look_back(self, newest: dict[bytes, int], start: int, latest: int) -> set[int]:
        """Let the records below `start` compete with those in the map, if the strategy is not `offset`.

        Returns the offsets of records that stay for this pass even if they are tombstones past their horizon: all that may
        supersede a later record.
        """
        if self.config.ottla_compaction_strategy == "offset":
            return set()
        transactions = Transactions()
        self._announce(transactions, self.segments[0].base, latest + 1)
        reached: dict[bytes, list[ModelRecord]] = {key: [] for key in newest}
        held: set[int] = set()
        for batch in self.batches:
            if batch.is_control:
                transactions.is_unneeded(batch)
            elif batch.base <= latest and not transactions.is_aborted(batch):
                for record in batch.records:
                    if self.log_start <= record.offset <= latest and record.key in reached:
                        reached[record.key].append(record)
                held |= {record.offset for record in batch.records if start <= record.offset}
        for key, records in reached.items():
            newest[key] = max(records, key=self.rank).offset
        return held | set(newest.values())

    def build_map(self, start: int, end: int, limit: int = NO_LIMIT) -> tuple[dict[bytes, int], int]:
        """Return the newest offset of every key from `start` up to `end`, and the last offset that this covers."""
        newest: dict[bytes, int] = {}
        latest = -1
        transactions = Transactions()
        dirty = self.segments_from(start, end)
        if not dirty:
            return {}, start - 1
        self._announce(transactions, dirty[0].base, end)
        for segment, next_base in zip(dirty, [*(each.base for each in dirty[1:]), end], strict=True):
            for batch in segment.batches:
                if batch.is_control:
                    transactions.is_unneeded(batch)
                elif not transactions.is_aborted(batch):
                    for record in batch.records:
                        if record.key is not None and record.offset >= start:
                            if len(newest) >= limit:
                                return newest, latest
                            newest[record.key] = latest = record.offset
                if batch.last >= start:
                    latest = batch.last
            latest = next_base - 1
        return newest, latest

    def _announce(self, transactions: Transactions, from_base: int, upper: int) -> None:
        transactions.announce(
            txn
            for segment in self.segments
            if segment.base >= from_base
            for txn in segment.aborted
            if txn.first < upper and txn.last >= from_base
        )

    def _groups(
        self, segments: list[ModelSegment], upper: int, index_bytes: Mapping[int, tuple[int, int]] | None
    ) -> list[list[ModelSegment]]:
        """Group neighbouring segments that fit into one segment as they are."""
        if index_bytes is None:
            return [[segment] for segment in segments]
        groups: list[list[ModelSegment]] = []
        for segment, next_base in zip(segments, [*(each.base for each in segments[1:]), upper], strict=bool(segments)):
            joined = [*groups[-1], segment] if groups else [segment]
            if (
                groups
                and sum(each.size_bytes for each in joined) <= self.config.segment_bytes
                and sum(index_bytes[each.base][0] for each in joined) <= self.config.segment_index_bytes
                and sum(index_bytes[each.base][1] for each in joined) <= self.config.segment_index_bytes
                and (not segment.batches or next_base - 1 - joined[0].base <= OFFSETS_MAX)
            ):
                groups[-1] = joined
            else:
                groups.append([segment])
        return groups

    def rewrite(
        self,
        newest: Mapping[bytes, int],
        latest: int,
        upper: int,
        *,
        held: Collection[int] = (),
        now: int,
        index_bytes: Mapping[int, tuple[int, int]] | None = None,
        groups_max: int | None = None,
    ) -> ModelPass:
        """Do the second half of a pass: copy the records that stay, group by group."""
        done = ModelPass(latest + 1, upper, len(newest))
        transactions = Transactions()
        segments = [each for each in self.segments[:-1] if each.base <= min(latest, upper - 1)]
        ends = {
            each.base: min(following.base, upper) for each, following in zip(segments, self.segments[1:], strict=False)
        }
        for group in self._groups(segments, upper, index_bytes)[:groups_max]:
            cleaned = ModelSegment(group[0].base, changed=group[-1].changed, created=now)
            for segment in group:
                self._announce(transactions, segment.base, ends[segment.base])
                for batch in segment.batches:
                    kept = self._clean_batch(batch, cleaned, transactions, newest, latest, upper, held, now, done)
                    if kept is not None:
                        cleaned.batches.append(kept)
                done.bytes_read += segment.size_bytes
                done.segments += 1
            done.groups += 1
            done.last_group = group
            self._swap(cleaned, group)
        return done

    def _swap(self, cleaned: ModelSegment, group: list[ModelSegment]) -> None:
        bases = {segment.base for segment in group}
        others = [segment for segment in self.segments if segment.base not in bases]
        self.segments = sorted([cleaned, *others], key=lambda segment: segment.base)
        for base in bases - {cleaned.base}:
            self.snapshots.pop(base, None)

    def bring_back(self, done: ModelPass, count: int) -> bool:
        """Restore the last `count` segments of the last group next to the new one, as after a kill during the swap.

        Returns False if that is impossible: a start removes segments that begin where the new one has offsets.
        """
        if count >= len(done.last_group):
            return count == 0
        old = done.last_group[len(done.last_group) - count :]
        cleaned = next(each for each in self.segments if each.base == done.last_group[0].base)
        end = cleaned.batches[-1].last + 1 if cleaned.batches else cleaned.base + 1
        self.segments = sorted([*self.segments, *old], key=lambda segment: segment.base)
        return all(segment.base >= end for segment in old)

    def _clean_batch(
        self,
        batch: ModelBatch,
        cleaned: ModelSegment,
        transactions: Transactions,
        newest: Mapping[bytes, int],
        latest: int,
        upper: int,
        held: Collection[int],
        now: int,
        done: ModelPass,
    ) -> ModelBatch | None:
        done.records_read += len(batch.records)
        retention_ms = self.config.ottla_key_retention_ms
        aged_up_to = -1 if retention_ms < 0 else now - retention_ms
        if batch.is_control:
            is_unneeded, txn = transactions.is_unneeded(batch)
            if txn is not None:
                cleaned.aborted.append(txn)
            is_over = is_unneeded and batch.horizon is not None and batch.horizon <= now
            whys = ["markers" if is_over else "" for _ in batch.records]
        else:
            is_unneeded = transactions.is_aborted(batch)
            whys = [
                "aborted" if is_unneeded else _why_removed(record, batch, newest, latest, held, now, aged_up_to)
                for record in batch.records
            ]
        done.removed.update(why for why in whys if why)
        kept = [record for record, why in zip(batch.records, whys, strict=True) if not why]
        if not kept:
            kept_end = upper if self.keeps_range_end else self.log_end
            return emptied(batch) if self._is_last_of_producer(batch) or batch.last + 1 == kept_end else None
        horizon = batch.horizon
        if horizon is None and (is_unneeded if batch.is_control else any(record.value is None for record in kept)):
            horizon = min(now + self.config.delete_retention_ms, 2**63 - 1)
        if len(kept) == len(batch.records) and horizon == batch.horizon:
            return batch
        return replace(
            batch,
            records=tuple(kept),
            base_timestamp=kept[0].timestamp if horizon is None else horizon,
            max_timestamp=max(record.timestamp for record in kept),
            horizon=horizon,
        )

    def _is_last_of_producer(self, batch: ModelBatch) -> bool:
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset is not None:
            return batch.last == producer.last_data_offset
        return batch.is_control and batch.epoch == producer.epoch


def _why_removed(
    record: ModelRecord,
    batch: ModelBatch,
    newest: Mapping[bytes, int],
    latest: int,
    held: Collection[int],
    now: int,
    aged_up_to: int,
) -> str:
    """Return the reason, by its name in `RemovedRecords`; "" for a record that stays."""
    if record.offset > latest:
        return ""
    if record.key is None:
        return "keyless"
    if record.offset != newest.get(record.key, record.offset):
        return "superseded"
    if record.value is not None:
        return "aged" if 0 <= record.timestamp <= aged_up_to and record.offset not in held else ""
    is_expired = record.offset not in held and batch.horizon is not None and batch.horizon <= now
    return "tombstones" if is_expired else ""
