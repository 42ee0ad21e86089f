"""Newest record of each key, read from a partition twice: first the offsets, then the records. Values are never kept.

On a topic with `ottla.compaction.strategy`, the record with the highest version counts as the newest one, as in a clean pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.versions import BY_OFFSET, STRATEGY, STRATEGY_HEADER, VersionSource, version_source
from .key_offsets import KeyOffsets
from .values import Config, Record


class _Keyed(Protocol):
    """A record of a log or of the client."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


UNREADABLE = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a client that may read the records of a topic, but not its options, or of a broker that is too old to tell them."""


def versions_in(configs: Iterable[Config]) -> VersionSource | None:
    """Return where a topic with these options has its versions; None: the last record of a key is its newest."""
    values = {each.name: each.value or "" for each in configs}
    return version_source(values.get(STRATEGY, BY_OFFSET), values.get(STRATEGY_HEADER, ""))


def versions_unknown(topic: str, error: KafkaError) -> str:
    """Return the warning for an error of UNREADABLE."""
    return (
        f"options of topic {topic} cannot be read ({error.code.name}), so {STRATEGY} is not known: the last record of a key counts"
        " as its newest"
    )


def note(newest: KeyOffsets, record: _Keyed, timestamp_ms: int) -> None:
    """Take in the next record of a partition. Records without a key are ignored."""
    key = record.key
    if key is None:
        return
    version = 0 if newest.source is None else newest.source.version(timestamp_ms, record.headers)
    if record.value is None:
        newest.delete(key, version)
    else:
        newest.set(key, record.offset, version)


def newest_records(
    read: Callable[[], Iterable[Record]], *, versions: VersionSource | None = None, key_prefix: bytes = b""
) -> Iterator[Record]:
    """Yield the newest record of each key in the order of offsets, without deleted keys.

    A record that a clean pass removes between the two readings is left out.

    Args:
        read: Reads the records of one partition; called twice.
        versions: Of `versions_in`.
        key_prefix: Only keys that begin with it.
    """
    newest = KeyOffsets(versions)
    for record in read():
        if record.key is not None and record.key.startswith(key_prefix):
            note(newest, record, record.timestamp_ms)
    for record in read():
        if record.key is not None and newest.get(record.key) == record.offset:
            yield record
