"""Entries of one section of the catalog: a mapping in the order of its keys that is never changed, only replaced.

A section may have 200 000 entries, of which usually one changes. Copying or sorting all of them is one C call, which blocks all
other threads for tens of milliseconds. So the entries are in chunks, and a change replaces only the chunks that it affects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from typing import Any, TypeAlias

CHUNK = 128
"""Largest number of entries in a chunk. The file's text is cached by chunk, and an entry may have 64 KiB."""

SORTED_AT_ONCE = 4_096
"""Number of keys that one call sorts, in a millisecond."""

Facts = Mapping[str, Any]
"""One entry: JSON values by name."""

Chunk: TypeAlias = Mapping[str, Facts]


class Entries(Mapping[str, Facts]):
    """A section's entries in `chunks`; no chunk is empty, and each is in order."""

    __slots__ = ("_count", "_firsts", "chunks")

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.chunks = tuple(chunks)
        self._firsts = [next(iter(chunk)) for chunk in self.chunks]
        self._count = sum(map(len, self.chunks))

    @classmethod
    def from_mapping(cls, entries: Mapping[str, Facts]) -> Entries:
        """Return these entries as an `Entries`."""
        if isinstance(entries, Entries):
            return entries
        return cls(_cut(((key, entries[key]) for key in _in_order(entries)), len(entries)))

    def __getitem__(self, key: str) -> Facts:
        if not self.chunks:
            raise KeyError(key)
        return self.chunks[self._chunk_of(key)][key]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.chunks)

    def __len__(self) -> int:
        return self._count

    def with_changes(self, changes: Mapping[str, Facts | None]) -> Entries:
        """Return a copy with these entries set, and without those that are None here."""
        present: Sequence[Chunk] = self.chunks or ({},)
        made: dict[int, list[Chunk]] = {}
        for number, keys in groupby(_in_order(changes), self._chunk_of):
            chunk, mine = present[number], {key: changes[key] for key in keys}
            made[number] = list(_cut(_merged(chunk, mine), len(chunk) + len(mine)))
        chunks = chain.from_iterable(made.get(number, (chunk,)) for number, chunk in enumerate(present))
        return Entries(_without_small_ones(chunks))

    def _chunk_of(self, key: str) -> int:
        return max(0, bisect_right(self._firsts, key) - 1)


def _in_order(keys: Iterable[str]) -> Iterator[str]:
    left, runs = iter(keys), list[list[str]]()
    while run := sorted(islice(left, SORTED_AT_ONCE)):
        runs.append(run)
    return merge(*runs)


def _merged(chunk: Chunk, changes: Mapping[str, Facts | None]) -> Iterator[tuple[str, Facts]]:
    """Merge changes into a chunk; both are in order."""
    for key in merge(chunk, (key for key in changes if key not in chunk)):
        facts = changes[key] if key in changes else chunk[key]
        if facts is not None:
            yield key, facts


def _cut(pairs: Iterator[tuple[str, Facts]], most: int) -> Iterator[Chunk]:
    """Divide at most `most` pairs into chunks. If they need several, each is only half full, with room for more."""
    size = CHUNK if most <= CHUNK else CHUNK // 2
    while chunk := dict(islice(pairs, size)):
        yield chunk


def _without_small_ones(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Merge neighbouring chunks with few entries, or none, after removals."""
    last: Chunk = {}
    for chunk in chunks:
        if last and len(last) + len(chunk) > CHUNK // 2:
            yield last
            last = chunk
        else:
            last = {**last, **chunk} if last else chunk
    if last:
        yield last
