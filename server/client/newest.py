"""Newest record of each key, read from a partition twice: first the offsets, then the records. Values are never kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .key_offsets import KeyOffsets
from .values import Record


class _Keyed(Protocol):
    """A record of a log or of the client."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


def note(newest: KeyOffsets, record: _Keyed) -> None:
    """Take in the next record of a partition. Records without a key are ignored."""
    if record.key is None:
        return
    if record.value is None:
        newest.delete(record.key)
    else:
        newest.set(record.key, record.offset)


def newest_records(read: Callable[[], Iterable[Record]], *, key_prefix: bytes = b"") -> Iterator[Record]:
    """Yield the newest record of each key in the order of offsets, without deleted keys.

    A record that a clean pass removes between the two readings is left out.

    Args:
        read: Reads the records of one partition; called twice.
        key_prefix: Only keys that begin with it.
    """
    newest = KeyOffsets()
    for record in read():
        if record.key is not None and record.key.startswith(key_prefix):
            note(newest, record)
    for record in read():
        if record.key is not None and newest.get(record.key) == record.offset:
            yield record
