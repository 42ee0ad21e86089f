"""Audit of each key over all segments: one row per key and range, merged by hash, then judged.

    a range's records      a row for each of its keys: the newest offset, whether that one is still there, …
                           (sent ROWS_AT_ONCE at a time, so a key of a large range may have several)
    exchange               rows by bucket of the key's hash (BLAKE2b, 128 bits: collisions cannot be constructed)
    a bucket's rows        merged to one row per key, and judged

Memory: 49 bytes a row; merging takes about 250 bytes for each row that is merged.

A key keeps its promise if its newest record exists, or was a tombstone that could be removed, and if the compacted part has
no older record of it.

If records have versions (`topics.versions`), the record with the highest version is the newest one. In the compacted part records
go for the highest version of that part, and a row has 33 bytes more. All passes over the log must have had the same strategy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...storage.disk.paths import OFFSET_MAX
from ...storage.topics.versions import NO_VERSION
from ..records.batch_window import Bools, Int64s
from ..records.key_hashes import HASH, by_key, hashed

NONE_BELOW, NONE_ABOVE = -1, OFFSET_MAX

KEY_ROW = np.dtype(
    [
        *HASH,
        ("last", "i8"),  # the newest offset, in the originals or the result
        ("last_ok", "u1"),  # it is in the result, or a tombstone that may be removed
        ("last_clean", "i8"),  # the newest offset of the compacted part; -1 without one
        ("first_left", "i8"),  # the oldest offset of the compacted part that is in the result; OFFSET_MAX if none is
        (
            "first_lost",
            "i8",
        ),  # the oldest removed offset that only a dirty record may supersede; OFFSET_MAX without one
    ]
)
VERSIONED_ROW = np.dtype(
    [
        *KEY_ROW.descr,  # with versions, 2 in `last_ok` means that the newest record is in the result
        ("version", "i8"),  # that of the newest record
        ("winner", "i8"),  # these three for the newest record of the compacted part; -1 without one
        ("winner_ok", "u1"),
        ("winner_version", "i8"),
        ("final_left", "i8"),  # the last offset of the compacted part that is in the result; -1 if none is
    ]
)
KeyRows = NDArray[np.void]
NO_KEYS: KeyRows = np.empty(0, KEY_ROW)

ROWS_AT_ONCE = 1 << 19
"""Number of a range's rows that are collected before a merge; they are sent if the merge leaves many."""

LOST_NEWEST = "a key's newest record is kept"
LOST_CLEAN = "a record goes only for a newer one of the dirty part"
LEFT = "a superseded record is gone from the compacted part"


class Verdict(NamedTuple):
    """A broken promise."""

    rule: str
    offset: int
    other: int
    """Offset of the key's newest record."""


class KeyTable:
    """Rows of one range."""

    def __init__(
        self, *, clean_end: int, dirty_from: int, has_versions: bool = False, rows_at_once: int = ROWS_AT_ONCE
    ) -> None:
        """
        Args:
            clean_end: Offset below which the log is compacted.
            dirty_from: Records below it are removed only for one at or above it.
            has_versions: Whether records have versions.
        """
        self._kind = row_kind(has_versions)
        self._clean_end = clean_end
        self._dirty_from = dirty_from
        self._rows_at_once = rows_at_once
        self._parts: list[KeyRows] = []
        self._count = 0

    def add(self, keys: pa.Array, offsets: Int64s, left: Bools, excused: Bools, versions: Int64s | None = None) -> None:
        """Add records with their keys, in order of the offset.

        Args:
            left: Whether each is in the result.
            excused: Whether each is a tombstone that may have been removed.
        """
        if not len(offsets):
            return
        encoded = keys.dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False)
        rows = hashed(encoded.dictionary, self._kind)
        clean = offsets < self._clean_end
        # The last of several assignments to one place counts: forward for the newest, backward for the oldest.
        if versions is None:
            rows["last"][code] = offsets
            rows["last_ok"][code] = left | excused
        else:
            order = np.argsort(versions, kind="stable")
            values = offsets, np.where(left, 2, excused.astype(np.int64)), versions
            rows["winner"], rows["winner_ok"], rows["winner_version"] = NONE_BELOW, 0, NO_VERSION
            for names, sorted_rows in ((_NEWEST, order), (_WINNER, order[clean[order]])):
                for name, each in zip(names, values, strict=True):
                    rows[name][code[sorted_rows]] = each[sorted_rows]
            rows["final_left"] = NONE_BELOW
            rows["final_left"][code[clean & left]] = offsets[clean & left]
        rows["last_clean"], rows["first_left"], rows["first_lost"] = NONE_BELOW, NONE_ABOVE, NONE_ABOVE
        rows["last_clean"][code[clean]] = offsets[clean]
        for name, chosen in (
            ("first_left", clean & left),
            ("first_lost", ~left & ~excused & (offsets < self._dirty_from)),
        ):
            rows[name][code[chosen][::-1]] = offsets[chosen][::-1]
        self._parts.append(rows)
        self._count += len(rows)

    def overflow(self) -> KeyRows:
        """Return all rows, as `remaining_rows`, if there are too many. Few keys with many records are kept."""
        if self._count < self._rows_at_once:
            return NO_KEYS
        merged = self.remaining_rows()
        if len(merged) > self._rows_at_once // 2:
            return merged
        self._parts, self._count = [merged], len(merged)
        return NO_KEYS

    def remaining_rows(self) -> KeyRows:
        """Return the rows that were added and not returned yet: one per key, in order of the hash."""
        parts, self._parts, self._count = self._parts, [], 0
        return merge(parts)


def row_kind(has_versions: bool) -> np.dtype[np.void]:
    """Return the type of the rows."""
    return VERSIONED_ROW if has_versions else KEY_ROW


def merge(parts: Iterable[KeyRows]) -> KeyRows:
    """Return one row for each key of the parts."""
    found = list(parts)
    rows = np.concatenate(found) if found else NO_KEYS
    if not len(rows):
        return rows
    order, starts = by_key(rows)
    merged = rows[order[starts]]
    if "version" in (rows.dtype.names or ()):
        key_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
        for offset, is_ok, version in (_NEWEST, _WINNER):
            by_rank = np.lexsort((rows[offset][order], rows[version][order], key_of))
            newest = rows[order[by_rank][np.append(starts[1:], len(rows)) - 1]]
            for name in (offset, is_ok, version):
                merged[name] = newest[name]
        _combine(merged, rows, order, starts, (*_BEST, ("final_left", np.maximum)))
        return merged
    last = rows["last"][order]
    merged["last"] = np.maximum.reduceat(last, starts)
    is_last = last == np.repeat(merged["last"], np.diff(starts, append=len(rows)))
    merged["last_ok"] = np.maximum.reduceat(rows["last_ok"][order] * is_last, starts)
    _combine(merged, rows, order, starts, _BEST)
    return merged


_NEWEST, _WINNER = ("last", "last_ok", "version"), ("winner", "winner_ok", "winner_version")
"""The fields of a record: its offset, whether it is there, its version."""
_BEST = (("last_clean", np.maximum), ("first_left", np.minimum), ("first_lost", np.minimum))


def _combine(
    merged: KeyRows, rows: KeyRows, order: Int64s, starts: Int64s, best_of: Iterable[tuple[str, np.ufunc]]
) -> None:
    for name, best in best_of:
        merged[name] = best.reduceat(rows[name][order], starts)


def from_bytes(data: bytes | memoryview, has_versions: bool = False) -> KeyRows:
    return np.frombuffer(data, row_kind(has_versions))


def judge(rows: KeyRows, *, dirty_from: int, at_most: int) -> tuple[int, list[Verdict]]:
    """Return the number of broken promises, and the first of them by offset.

    Args:
        rows: One per key.
        dirty_from: As in `KeyTable`.
    """
    supersedes = rows["last_clean"] >= dirty_from
    left = [(LEFT, supersedes & (rows["first_left"] < rows["last_clean"]), "first_left")]
    if "version" in (rows.dtype.names or ()):
        supersedes_left, newest = supersedes & (rows["winner_ok"] == 2), rows["winner"]
        is_before = supersedes_left & (rows["first_left"] < newest)
        left = [
            (LEFT, is_before, "first_left"),
            (LEFT, supersedes_left & ~is_before & (rows["final_left"] > newest), "final_left"),
        ]
    found = (
        (LOST_NEWEST, rows["last_ok"] == 0, "last"),
        *left,
        (LOST_CLEAN, ~supersedes & (rows["first_lost"] < NONE_ABOVE), "first_lost"),
    )
    count, verdicts = 0, list[Verdict]()
    for rule, broken, place in found:
        chosen = rows[broken]
        count += len(chosen)
        for row in chosen[np.argsort(chosen[place])[:at_most]]:
            verdicts.append(Verdict(rule, int(row[place]), int(row["last"])))
    return count, sorted(verdicts, key=lambda each: each.offset)[:at_most]
