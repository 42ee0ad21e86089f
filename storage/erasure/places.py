"""Result of a search for keys: each place that still has a record of one, why, and what the search cannot see.

The JSON form of a report is that of its fields (`to_json`), and `from_json` reads it. `VERSION` rises when a field changes its
meaning or goes; a new field does not raise it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

VERSION = 1
KEYS_MAX = 10_000
"""Maximum number of keys that a broker, or `ottla erase`, searches for at a time."""
PLACES_MAX = 10_000
"""Maximum number of places in a report. The records in all others are counted."""
KEY_BYTES_MAX = 32 << 20
"""Maximum size of the keys of these places together, as each names its key."""
FILES_MAX = 100_000
"""Maximum number of files and of keys that a report lists. The rest are counted."""


class Why(StrEnum):
    """Reason why a record is still in a file."""

    LIVE = "live"
    """The record is the newest of its key, and has a value."""
    NOT_COMPACTED = "not_compacted"
    NOT_CLEANED_YET = "not_cleaned_yet"
    """The next clean pass removes it."""
    ABORTED = "aborted"
    """Its transaction was aborted: the next clean pass removes it."""
    ACTIVE_SEGMENT = "active_segment"
    OPEN_TRANSACTION = "open_transaction"
    MIN_COMPACTION_LAG = "min_compaction_lag"
    TOMBSTONE_RETENTION = "tombstone_retention"
    """The record is the tombstone of its key, and its delete horizon has not been reached."""
    SUPERSEDED_IN_CLEAN_PART = "superseded_in_clean_part"
    """A pass reads newer records only in the dirty part, and has none of this key there."""
    VERSIONED = "versioned"
    """Versions decide which record of its key stays, see `topics.versions`."""
    BELOW_LOG_START = "below_log_start"
    DELETED_FILE = "deleted_file"
    CLEANED_FILE = "cleaned_file"
    SWAP_FILE = "swap_file"
    DELETED_PARTITION = "deleted_partition"
    FUTURE_PARTITION = "future_partition"
    STRAY_PARTITION = "stray_partition"
    NEXT_CONTENT = "next_content"
    """The directory waits for an exchange of the whole content, e.g. a restore."""
    STAGED = "staged"
    """A compaction outside the broker has left the file next to the data directory."""
    SNAPSHOT = "snapshot"
    READ_BY_CONSUMERS = "read_by_consumers"
    """A consumer gets the record, and the files were not searched."""


class Contents(StrEnum):
    """Kind of a file, by what its format can hold."""

    RECORDS = "records"
    """Record batches: each was unpacked and searched."""
    NO_KEYS = "no_keys"
    """Numbers only: offsets, positions, timestamps, producer IDs."""


class Verdict(StrEnum):
    """Result of the search in one word."""

    GONE = "gone"
    """No record of the keys was found."""
    TOMBSTONES = "tombstones"
    """No value was found. Tombstones still have the keys themselves."""
    HELD = "held"
    """A value was found."""
    UNPROVEN = "unproven"
    """No value was found, but something could not be read."""


class KeyEncoding(StrEnum):
    """Encoding of a key in a report."""

    TEXT = "text"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Records of one key in one file that stay for the same reason."""

    path: str
    """Path of the file; for records that only a consumer has read, the partition."""
    topic: str
    partition: int
    key: str
    key_encoding: KeyEncoding
    """`text` if the key is valid UTF-8, else `base64`."""
    values: int
    """Number of records with a value."""
    tombstones: int
    first_offset: int
    last_offset: int
    newest_timestamp_ms: int
    """Largest timestamp of these records; -1: none."""
    why: Why
    not_before_ms: int | None
    """Time before which the broker does not remove them, in ms since 1970; None if unknown, or none."""
    at_the_latest_ms: int | None
    """Time at which the broker has removed them, if it runs; None: depends on more than time, see `explanation`."""
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTotal:
    """All records of one key that were found."""

    key: str
    key_encoding: KeyEncoding
    values: int
    tombstones: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedFile:
    """A file that was searched, or whose format cannot hold a key."""

    path: str
    contents: Contents
    size_bytes: int
    batches: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A file or directory that could not be searched, or only in part."""

    path: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """Result of a search."""

    version: int
    topic: str
    now_ms: int
    """Time of the search by the broker's clock, or of this machine without a broker, in ms since 1970."""
    sources: tuple[str, ...]
    """Data directories and snapshots that were searched, or the brokers that were read."""
    verdict: Verdict
    keys: tuple[KeyTotal, ...]
    places: tuple[Place, ...]
    are_all_listed: bool
    """Whether `places`, `keys` and `files` are complete; the numbers below always are."""
    values_found: int
    tombstones_found: int
    files: tuple[SearchedFile, ...]
    files_searched: int
    bytes_searched: int
    records_searched: int
    unread: tuple[Unread, ...]
    not_seen: tuple[str, ...]
    """Sentences on what the search cannot see."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> KeyReport:
        """Return a report from JSON values, of this or a newer release of the same version.

        Raises:
            ValueError, KeyError, TypeError: The values are not a report.
        """
        fields = {name: found[name] for name in cls.__dataclass_fields__}
        for name, kind in _PARTS.items():
            fields[name] = tuple(_part(kind, each) for each in fields[name])
        fields["verdict"] = Verdict(fields["verdict"])
        for name in ("sources", "not_seen"):
            fields[name] = tuple(fields[name])
        return cls(**fields)


_PARTS: Mapping[str, type] = {"keys": KeyTotal, "places": Place, "files": SearchedFile, "unread": Unread}
_ENUMS: Mapping[str, type[StrEnum]] = {"key_encoding": KeyEncoding, "why": Why, "contents": Contents}


def _part(kind: Any, found: Mapping[str, Any]) -> Any:
    values = {name: found[name] for name in kind.__dataclass_fields__}
    return kind(**{name: _ENUMS[name](each) if name in _ENUMS else each for name, each in values.items()})


def key_text(key: bytes) -> tuple[str, KeyEncoding]:
    """Return a key as text, and the encoding."""
    try:
        return key.decode(), KeyEncoding.TEXT
    except UnicodeDecodeError:
        return base64.b64encode(key).decode(), KeyEncoding.BASE64


def key_bytes(text: str, encoding: str) -> bytes:
    """Return the key of a text of `key_text`."""
    return base64.b64decode(text) if encoding == KeyEncoding.BASE64 else text.encode()


def verdict_of(values: int, tombstones: int, unread: int) -> Verdict:
    """Return the verdict on these numbers of records, and of files that could not be read."""
    if values:
        return Verdict.HELD
    if unread:
        return Verdict.UNPROVEN
    return Verdict.TOMBSTONES if tombstones else Verdict.GONE
