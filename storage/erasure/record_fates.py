"""Fates of the records of one log: why each record of the keys is still there, and when it goes.

A record's fate follows from the next newer record of its key, from its transaction, and from the range of the next clean pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ...protocol.records import RecordBatch
from ..cleaning.dirtiness import BoundBy, oldest_dirty_ms_in_pieces
from ..cleaning.key_history import TransactionOutcome
from ..disk.paths import TopicPartition
from ..steps import to_the_end
from ..topics.config import LogConfig
from ..topics.options import MAX_LONG
from .findings import Fate, Findings, Tally
from .key_matches import Match
from .log_survey import LogSurvey
from .places import PLACES_MAX, Why

_BOUNDS = {
    BoundBy.ACTIVE_SEGMENT: (
        Why.ACTIVE_SEGMENT,
        "the segment is active, and no clean pass covers it: it rolls by segment.ms or segment.bytes, on Ottla also by `ottla roll`",
    ),
    BoundBy.OPEN_TRANSACTION: (
        Why.OPEN_TRANSACTION,
        "a clean pass ends before the first open transaction: its producer must commit or abort, or its timeout pass",
    ),
    BoundBy.MIN_COMPACTION_LAG: (
        Why.MIN_COMPACTION_LAG,
        "a clean pass ends before the first segment with records younger than min.compaction.lag.ms",
    ),
}


def versioned(strategy: str, at_the_latest_ms: int | None = None) -> Fate:
    """Return the fate of a record in a topic with versions."""
    return Fate(
        Why.VERSIONED,
        f"the topic has ottla.compaction.strategy={strategy}: a clean pass removes it once a record of its key with a higher version"
        " exists, and a tombstone also after its delete horizon",
        at_the_latest_ms=at_the_latest_ms,
    )


def not_compacted(policy: str, at_the_latest_ms: int | None = None) -> Fate:
    """Return the fate of a record in a topic whose policy does not include `compact`."""
    return Fate(
        Why.NOT_COMPACTED,
        f"the topic has cleanup.policy={policy or 'none'}: no pass removes single records; the segment goes by retention.ms or"
        " retention.bytes, after it has rolled",
        at_the_latest_ms=at_the_latest_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Knowledge about a log besides its files."""

    config: LogConfig
    clean_below: int | None = None
    """Offset up to which it is clean; None if unknown."""
    log_start_offset: int = 0


class _Zone(NamedTuple):
    """Position of the next newer record: None if the key has no newer one."""

    newer: str | None
    outcome: TransactionOutcome
    horizon_ms: int | None
    is_beyond: bool
    """Whether the record itself is beyond the range of the next pass."""
    is_below_start: bool


_CLEAN, _DIRTY, _BEYOND = "clean", "dirty", "beyond"


@dataclass(slots=True)
class _Newest:
    """Newest decided record of a key so far."""

    path: str
    match: Match
    horizon_ms: int | None


@dataclass(slots=True)
class _Key:
    """State of one key in one log."""

    newest: _Newest | None = None
    zones: set[str] = field(default_factory=set)
    """Zones in which decided records of the key were seen."""


class RecordFates:
    """Fates of the records of one log, taken in the order of offsets."""

    def __init__(
        self,
        survey: LogSurvey,
        state: LogState,
        now_ms: int,
        of: TopicPartition,
        found: Findings,
    ) -> None:
        self._survey = survey
        self._config = state.config
        self._now_ms = now_ms
        self._of = of
        self._found = found
        start, clean_below = survey.log_start_offset, state.clean_below
        is_usable = clean_below is not None and start <= clean_below <= survey.log_end_offset
        self._dirty_from = clean_below if clean_below is not None and is_usable else start
        self._bound, self._dirtiness = survey.measure(self._dirty_from, now_ms)
        self._by_path = {each.path: each for each in survey.surveyed}
        self._keys: dict[bytes, _Key] = {}
        self._tallies: dict[tuple[str, bytes, _Zone], Tally] = {}

    def take(self, path: str, batch: RecordBatch, found: list[Match]) -> None:
        """Take the records of the keys in the next batch."""
        if not found:
            return
        outcome, horizon_ms = self._survey.outcome(batch), batch.delete_horizon_ms
        for match in found:
            if outcome in (TransactionOutcome.ABORTED, TransactionOutcome.OPEN):
                self._tally(path, match, None, outcome, None)
                continue
            key = self._keys.setdefault(match.key, _Key())
            zone = self._zone(match.offset)
            key.zones.add(zone)
            if key.newest is not None:
                self._superseded(key.newest, zone)
            key.newest = _Newest(path, match, horizon_ms)

    def finish(self) -> None:
        """Put the places into the findings."""
        for key in self._keys.values():
            if key.newest is not None:
                horizon_ms = None if key.newest.match.has_value else key.newest.horizon_ms
                self._tally(key.newest.path, key.newest.match, None, TransactionOutcome.NONE, horizon_ms)
        for (path, name, zone), tally in self._tallies.items():
            self._found.add(path, self._of, name, self._fate(path, name, zone, is_value=tally.values > 0), tally)

    def _zone(self, offset: int) -> str:
        if offset >= self._dirtiness.upper_offset:
            return _BEYOND
        return _DIRTY if offset >= self._dirty_from else _CLEAN

    def _superseded(self, older: _Newest, newer: str) -> None:
        # Of a tombstone it matters whether its horizon has been reached: then it goes, wherever the newer record is.
        is_expired = not older.match.has_value and older.horizon_ms is not None and older.horizon_ms <= self._now_ms
        self._tally(older.path, older.match, newer, TransactionOutcome.NONE, older.horizon_ms if is_expired else None)

    def _tally(
        self, path: str, match: Match, newer: str | None, outcome: TransactionOutcome, horizon_ms: int | None
    ) -> None:
        zone = _Zone(
            newer,
            outcome,
            horizon_ms,
            match.offset >= self._dirtiness.upper_offset,
            match.offset < self._survey.log_start_offset,
        )
        place = path, match.key, zone
        if place in self._tallies or len(self._tallies) < PLACES_MAX:
            self._tallies.setdefault(place, Tally()).add(match)
        else:
            self._found.add_unlisted(match)

    def _fate(self, path: str, name: bytes, zone: _Zone, *, is_value: bool) -> Fate:
        if zone.is_below_start:
            return Fate(
                Why.BELOW_LOG_START,
                "below the log start offset, so no consumer gets it; it goes with its segment, once all of that is below,"
                " or in the next clean pass",
            )
        if zone.outcome is TransactionOutcome.OPEN:
            return Fate(*_BOUNDS[BoundBy.OPEN_TRANSACTION])
        if not self._config.is_compact:
            return not_compacted(",".join(self._config.cleanup_policy), self._retained_until_ms(path))
        if self._config.version_source is not None and zone.outcome is not TransactionOutcome.ABORTED:
            return versioned(self._config.ottla_compaction_strategy, self._retained_until_ms(path))
        is_newest = zone.newer is None and zone.outcome is TransactionOutcome.NONE
        if is_newest and is_value:
            return self._live(path)
        if zone.is_beyond:
            return self._bounded()
        if zone.outcome is TransactionOutcome.ABORTED:
            return self._next_pass(Why.ABORTED, "its transaction was aborted")
        if is_newest or zone.horizon_ms is not None:
            return self._tombstone(zone.horizon_ms)
        zones = self._keys[name].zones
        if zone.newer == _DIRTY or (zone.newer == _CLEAN and _DIRTY in zones):
            return self._next_pass(Why.NOT_CLEANED_YET, "a newer record of its key exists")
        if zone.newer == _BEYOND or _BEYOND in zones:
            return self._bounded()
        return Fate(
            Why.SUPERSEDED_IN_CLEAN_PART,
            "a newer record of its key exists, but a pass looks for newer records only above the cleaner's checkpoint: write the"
            " tombstone again",
        )

    def _live(self, path: str) -> Fate:
        retention_ms = self._config.ottla_key_retention_ms
        aged = "" if retention_ms < 0 else f", or it has the age of ottla.key.retention.ms={retention_ms}"
        return Fate(
            Why.LIVE,
            f"the newest value of its key: no clean pass removes it before a tombstone is written{aged}",
            at_the_latest_ms=self._retained_until_ms(path),
        )

    def _tombstone(self, horizon_ms: int | None) -> Fate:
        if horizon_ms is None:
            return Fate(
                Why.TOMBSTONE_RETENTION,
                "a tombstone, which has the key only: the next clean pass sets its delete horizon,"
                f" delete.retention.ms={self._config.delete_retention_ms} later, and the first pass after that removes it",
            )
        if horizon_ms <= self._now_ms:
            return Fate(
                Why.NOT_CLEANED_YET,
                "a tombstone, which has the key only: its delete horizon has passed, and the next clean pass removes it",
                not_before_ms=horizon_ms,
            )
        return Fate(
            Why.TOMBSTONE_RETENTION,
            "a tombstone, which has the key only: the first clean pass at or after its delete horizon removes it",
            not_before_ms=horizon_ms,
        )

    def _bounded(self) -> Fate:
        why, explanation = _BOUNDS[self._bound.by]
        if why is not Why.MIN_COMPACTION_LAG:
            return Fate(why, explanation)
        young = self._survey.segments.floor(
            self._bound.offset
        )  # the range may end within it, where the dirty part begins
        assert young is not None
        not_before_ms = young.largest_timestamp_ms + self._config.min_compaction_lag_ms
        return Fate(why, explanation, not_before_ms=min(not_before_ms, MAX_LONG))

    def _next_pass(self, why: Why, reason: str) -> Fate:
        config, found = self._config, self._dirtiness
        if found.is_due_under(config):
            return Fate(why, f"{reason}: the next round of the cleaner removes it")
        latest_ms, oldest_ms = None, self._oldest_dirty_ms
        if oldest_ms is not None and config.max_compaction_lag_ms < MAX_LONG - oldest_ms:
            latest_ms = oldest_ms + config.max_compaction_lag_ms
        return Fate(
            why,
            f"{reason}: the next clean pass removes it; one starts when the dirty ratio, now {found.dirty_ratio:.3f}, is above"
            f" min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio:g}, at the latest after max.compaction.lag.ms,"
            " on Ottla also by `ottla compact --force`",
            at_the_latest_ms=latest_ms,
        )

    @cached_property
    def _oldest_dirty_ms(self) -> int | None:
        """Timestamp of the oldest dirty record; None if nothing is dirty."""
        return to_the_end(oldest_dirty_ms_in_pieces(self._survey, self._dirty_from))

    def _retained_until_ms(self, path: str) -> int | None:
        """Return when retention deletes a segment by its age; None if it does not, or if the segment must roll first."""
        config, segment = self._config, self._by_path[path]
        if not config.is_delete or config.retention_ms < 0 or segment is self._survey.surveyed[-1]:
            return None
        return min(segment.largest_timestamp_ms + config.retention_ms, MAX_LONG)
