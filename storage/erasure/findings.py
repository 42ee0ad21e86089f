"""Collection of what a search finds, within bounds: places, totals, files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..disk.paths import TopicPartition
from .key_matches import Match
from .places import (
    FILES_MAX,
    KEY_BYTES_MAX,
    PLACES_MAX,
    VERSION,
    Contents,
    KeyReport,
    KeyTotal,
    Place,
    SearchedFile,
    Unread,
    Why,
    key_text,
    verdict_of,
)


@dataclass(frozen=True, slots=True)
class Fate:
    """Why records stay, and when they go."""

    why: Why
    explanation: str
    not_before_ms: int | None = None
    at_the_latest_ms: int | None = None


@dataclass(slots=True)
class Tally:
    """Records of one key in one file with one fate."""

    values: int = 0
    tombstones: int = 0
    first_offset: int = -1
    last_offset: int = -1
    newest_timestamp_ms: int = -1

    def add(self, match: Match) -> None:
        self.values += match.has_value
        self.tombstones += not match.has_value
        self.first_offset = match.offset if self.first_offset < 0 else min(self.first_offset, match.offset)
        self.last_offset = max(self.last_offset, match.offset)
        self.newest_timestamp_ms = max(self.newest_timestamp_ms, match.timestamp_ms)


class Findings:
    """Result of a search in progress."""

    def __init__(self, keys: Collection[bytes]) -> None:
        self.values = 0
        self.tombstones = 0
        self._totals = {key: [0, 0] for key in keys}
        self._places: list[Place] = []
        self._key_bytes = 0
        """Bytes of the keys of all places."""
        self._files: list[SearchedFile] = []
        self._file_count = self._bytes = self._records = 0
        self._unread: list[Unread] = []
        self._are_all_listed = True

    @property
    def is_anything_searched(self) -> bool:
        """Whether any file was searched."""
        return self._file_count > 0

    @property
    def unread_paths(self) -> frozenset[str]:
        """Paths of all that could not be searched."""
        return frozenset(each.path for each in self._unread)

    def add(self, path: str, of: TopicPartition, key: bytes, fate: Fate, tally: Tally) -> None:
        """Add records of a key."""
        self.values += tally.values
        self.tombstones += tally.tombstones
        total = self._totals[key]
        total[0] += tally.values
        total[1] += tally.tombstones
        self._key_bytes += len(key)
        if len(self._places) >= PLACES_MAX or self._key_bytes > KEY_BYTES_MAX:
            self._are_all_listed = False
            return
        text, encoding = key_text(key)
        self._places.append(
            Place(
                path=path,
                topic=of.topic,
                partition=of.partition,
                key=text,
                key_encoding=encoding,
                values=tally.values,
                tombstones=tally.tombstones,
                first_offset=tally.first_offset,
                last_offset=tally.last_offset,
                newest_timestamp_ms=tally.newest_timestamp_ms,
                why=fate.why,
                not_before_ms=fate.not_before_ms,
                at_the_latest_ms=fate.at_the_latest_ms,
                explanation=fate.explanation,
            )
        )

    def add_unlisted(self, match: Match) -> None:
        """Count a record of a key, in a place that is not listed."""
        self.values += match.has_value
        self.tombstones += not match.has_value
        self._totals[match.key][not match.has_value] += 1
        self._are_all_listed = False

    def add_file(self, path: str, contents: Contents, size_bytes: int, batches: int = 0, records: int = 0) -> None:
        """Add a file that was searched, or need not be."""
        self._add_file(
            SearchedFile(path=path, contents=contents, size_bytes=size_bytes, batches=batches, records=records)
        )

    def _add_file(self, found: SearchedFile) -> None:
        self._file_count += 1
        self._bytes += found.size_bytes if found.contents is Contents.RECORDS else 0
        self._records += found.records
        if len(self._files) >= FILES_MAX:
            self._are_all_listed = False
            return
        self._files.append(found)

    def add_unread(self, path: str, problem: str) -> None:
        """Add something that could not be searched."""
        if len(self._unread) < PLACES_MAX:
            self._unread.append(Unread(path=path, problem=problem))

    def merge(self, other: Findings) -> None:
        """Add all that another search for the same keys has found."""
        self.values += other.values
        self.tombstones += other.tombstones
        for key, (values, tombstones) in other._totals.items():
            total = self._totals[key]
            total[0] += values
            total[1] += tombstones
        room = PLACES_MAX - len(self._places) if self._key_bytes + other._key_bytes <= KEY_BYTES_MAX else 0
        self._key_bytes += other._key_bytes
        self._are_all_listed &= other._are_all_listed and len(other._places) <= room
        self._places += other._places[:room]
        self._file_count += other._file_count - len(other._files)
        self._bytes += other._bytes - sum(each.size_bytes for each in other._files if each.contents is Contents.RECORDS)
        self._records += other._records - sum(each.records for each in other._files)
        for each in other._files:
            self._add_file(each)
        for unread in other._unread:
            self.add_unread(unread.path, unread.problem)

    def report(self, topic: str, now_ms: int, sources: Iterable[str], not_seen: Iterable[str]) -> KeyReport:
        """Return the report."""
        totals = sorted(self._totals.items())
        return KeyReport(
            version=VERSION,
            topic=topic,
            now_ms=now_ms,
            sources=tuple(sources),
            verdict=verdict_of(self.values, self.tombstones, len(self._unread)),
            keys=tuple(
                KeyTotal(key=text, key_encoding=encoding, values=values, tombstones=tombstones)
                for key, (values, tombstones) in totals[:FILES_MAX]
                for text, encoding in (key_text(key),)
            ),
            places=tuple(self._places),
            are_all_listed=self._are_all_listed and len(totals) <= FILES_MAX,
            values_found=self.values,
            tombstones_found=self.tombstones,
            files=tuple(self._files),
            files_searched=self._file_count,
            bytes_searched=self._bytes,
            records_searched=self._records,
            unread=tuple(self._unread),
            not_seen=tuple(not_seen),
        )
