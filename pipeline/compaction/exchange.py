"""Exchange between the stages of a compaction, and stage 2: which records are superseded by records of other segments.

    stage 1, a task a segment     dead bits inside the segment, and an entry of 16 bytes for the newest record of each key
    exchange                      one blob for each segment and coarse bucket of hashes; see `records.fine_buckets`
    stage 2, a task a bucket      of each key's entries all but the last die: blobs of record numbers or bits, one a segment;
                                  with versions all but the highest, and clean winners over dirty entries are listed
    exchange                      to the tasks that rewrite a group of segments each (`rewrite`)

A segment's own bits are sent with one of the buckets.

Memory of stage 2: about 90 bytes for each entry of one fine bucket, 190 MB at `BUCKET_BYTES`. A coarse bucket with several fine
ones also uses Spark's local disks: 20 bytes for each entry, and 8 for each superseded one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...storage.disk.files import Buffer, Files
from ..records.fine_buckets import Buckets, Parted, buckets_for
from .key_scan import Entries, entry_words, scan_segment
from .plan import CompactionPlan
from .segment_bits import BitTable, Bools, Numbers, pack

CLEAN_KEYS, DIRTY_KEYS, BITS, SUPERSEDED, SUPERSEDED_BITS, WINNERS = range(6)
"""Kinds of blobs. In order of (source, kind), entries are in the order of the log, and all dirty ones follow the clean ones.
Superseded records are listed by number, or in a bitmap if that is shorter. WINNERS are clean records that win against dirty ones.
"""

BUCKET_BYTES = 32 << 20
"""Approximate size of a fine bucket's entries if every record has a key of its own."""

Tags = npt.NDArray[np.uint32]
"""Tags of entries: twice the number of the segment, plus the kind. Sorted by tag, entries are in the order of the log."""


class Blob(NamedTuple):
    """One row of an exchange."""

    task: int
    """Coarse bucket before stage 2, group after it."""
    source: int
    """Number of the segment in the plan."""
    kind: int
    data: Buffer


def buckets_of(plan: CompactionPlan, at_once: int = 1) -> Buckets:
    """Return the number of buckets for a cluster that runs `at_once` tasks at a time.

    The result's bytes do not depend on it.
    """
    entry_bytes = 8 * entry_words(plan.log_config.version_source)
    return buckets_for(plan.record_count * entry_bytes, len(plan.sources), BUCKET_BYTES, at_once)


def scan_source(plan: CompactionPlan, number: int, files: Files, *, buckets: int) -> Iterator[Blob]:
    """Run stage 1 for the source with this number, with this many coarse buckets. Errors as of `scan_segment`."""
    scan = scan_segment(plan, number, files)
    yield Blob(number % buckets, number, BITS, scan.bits.to_bytes())
    for kind, entries in ((CLEAN_KEYS, scan.clean), (DIRTY_KEYS, scan.dirty)):
        # Entries are in order of the hash, and so are buckets.
        bucket_of = (entries[:, 0] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
        cuts = np.searchsorted(bucket_of, np.arange(buckets + 1, dtype=np.uint64))
        for bucket in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
            yield Blob(bucket, number, kind, _data_of(entries[cuts[bucket] : cuts[bucket + 1]]))


def merge_buckets(plan: CompactionPlan, blobs: Iterable[Blob], buckets: Buckets | None = None) -> Iterator[Blob]:
    """Run stage 2 for the coarse buckets of these blobs. All blobs of each bucket must be given, in any order.

    Args:
        buckets: The number with which the blobs were made; None if no bucket is divided into fine ones.
    """
    group_of, words = plan.group_of_source, entry_words(plan.log_config.version_source)
    whole: dict[int, list[Blob]] = defaultdict(list)
    parted: dict[int, Parted] = {}
    for blob in blobs:
        if blob.kind == BITS:
            yield blob._replace(task=group_of[blob.source])
        elif buckets is None or buckets.fine == 1:
            whole[blob.task].append(blob)
        else:
            entries = _entries_of(blob, words)
            put_by = parted.setdefault(blob.task, Parted(buckets.fine, BUCKET_BYTES))
            put_by.add(buckets.bucket_numbers(entries[:, 0]) % np.uint64(buckets.fine), (entries, _tags([blob], words)))
    while whole:
        for tag, numbers in superseded(whole.popitem()[1], words):
            yield _result(group_of, tag, numbers)
    while parted:
        for tag, numbers in _superseded_parts(parted.popitem()[1], buckets.fine if buckets else 1):
            yield _result(group_of, tag, numbers)


def _result(group_of: Sequence[int], tag: int, numbers: Numbers) -> Blob:
    source, is_winner = divmod(tag, 2)
    return Blob(group_of[source], source, *((WINNERS, _data_of(numbers)) if is_winner else _packed(numbers)))


def superseded(blobs: list[Blob], words: int = 2) -> Iterator[tuple[int, Numbers]]:
    """Yield (tag, numbers) of the superseded records of each source, and of winners; see `_fallen`.

    Args:
        blobs: Those of one bucket.
        words: Words of an entry.
    """
    blobs = sorted(blobs, key=lambda blob: (blob.source, blob.kind))
    entries = np.concatenate([_entries_of(blob, words) for blob in blobs])
    yield from _by_source(*_fallen(entries, _tags(blobs, words)))


def _superseded_parts(parted: Parted, fine: int) -> Iterator[tuple[int, Numbers]]:
    """Yield the same for the fine buckets of a coarse one, each source once."""
    found = Parted(fine, BUCKET_BYTES)
    for entries, tags in parted.each():
        order = np.argsort(tags, kind="stable")
        tags, numbers = _fallen(entries[order], tags[order])
        found.add(tags % np.uint32(fine), (tags, numbers))
    for tags, numbers in found.each():
        order = np.argsort(tags, kind="stable")
        yield from _by_source(tags[order], numbers[order])


def _entries_of(blob: Blob, words: int) -> Entries:
    return np.frombuffer(blob.data, np.uint64).reshape(-1, words)


def _tags(blobs: Sequence[Blob], words: int) -> Tags:
    tags = np.array([2 * blob.source + blob.kind for blob in blobs], np.uint32)
    return np.repeat(tags, [len(blob.data) // (8 * words) for blob in blobs])


def _fallen(entries: Entries, tags: Tags) -> tuple[Tags, Numbers]:
    """Return tags and numbers of the superseded entries: all but the last of a key, if the last is dirty.

    With versions, all but the highest of a key that has a dirty entry; and those clean entries that are the highest of such keys.
    A tag is twice the number of the source, plus one for the latter.

    Args:
        entries, tags: In order of the log.
    """
    numbers = entries[:, 1].astype(np.uint32) - np.uint32(1)
    if entries.shape[1] > 2:
        fallen, winners = _by_version(entries, tags)
        found = np.concatenate((tags[fallen] & ~np.uint32(1), tags[winners] | np.uint32(1)))
        order = np.argsort(found, kind="stable")
        return found[order], np.concatenate((numbers[fallen], numbers[winners]))[order]
    is_dirty = tags & np.uint32(1) == DIRTY_KEYS
    first_dirty = int(np.argmax(is_dirty)) if is_dirty.any() else len(tags)
    order, is_last = _in_order_of_keys(entries)
    ends = np.flatnonzero(is_last)
    falls = np.repeat(order[ends] >= first_dirty, np.diff(ends, prepend=-1)) & ~is_last
    has_fallen = np.zeros(len(entries), np.bool_)
    has_fallen[order[falls]] = True
    return tags[has_fallen] & ~np.uint32(1), numbers[has_fallen]


def _by_version(entries: Entries, tags: Tags) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of the superseded entries, and those of clean ones that win against a dirty one; both ascending."""
    is_dirty = tags & np.uint32(1) == DIRTY_KEYS
    order, is_last = _in_order_of_keys(entries)
    key_of: npt.NDArray[np.int64] = np.cumsum(is_last) - is_last
    order = order[np.lexsort((order, entries[order, 2].view(np.int64), key_of))]
    starts = np.flatnonzero(np.append(len(order) > 0, is_last[:-1]))
    has_dirty = np.logical_or.reduceat(is_dirty[order], starts) if len(order) else is_last
    falls = has_dirty[key_of] & ~is_last
    wins = has_dirty[key_of] & is_last & ~is_dirty[order]
    return np.sort(order[falls]), np.sort(order[wins])


def _by_source(tags: Tags, numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield the numbers of each tag, whose entries must be adjacent."""
    if len(tags):
        starts = np.flatnonzero(np.append(True, tags[1:] != tags[:-1]))
        yield from zip(tags[starts].tolist(), np.split(numbers, starts[1:]), strict=True)


def set_superseded(blob: Blob, dead: BitTable, start: int) -> None:
    """Set the bits of the records of a blob of stage 2. Its source's records begin at bit `start`."""
    if blob.kind == SUPERSEDED_BITS:
        dead.put(start, np.frombuffer(blob.data, np.uint64))
    else:
        dead.set(np.frombuffer(blob.data, np.uint32).astype(np.uint64) + np.uint64(start))


def _in_order_of_keys(entries: Entries) -> tuple[npt.NDArray[np.int64], Bools]:
    """Return the rows in order of their keys, those of a key in their own order, and which of them are the last of a key.

    Each row is sorted by one number: the row's own number, and as many bits of the hash as fit next to it. Blobs are already
    sorted, so this is a merge.
    """
    count = len(entries)
    hashes, tails = entries[:, 0], entries[:, 1] >> np.uint64(32)
    lowest, highest = int(hashes.min()), int(hashes.max())
    unused_bits, row_bits = 64 - (highest - lowest).bit_length(), count.bit_length()
    rows = np.uint64((1 << row_bits) - 1)
    keys = (hashes - np.uint64(lowest) << np.uint64(min(63, unused_bits))) & ~rows | np.arange(count, dtype=np.uint64)
    keys.sort(kind="stable")
    order = (keys & rows).astype(np.int64)
    keys >>= np.uint64(row_bits)
    goes_on = keys[1:] == keys[:-1]
    one, next_one = order[:-1][goes_on], order[1:][goes_on]
    if np.any((hashes[one] != hashes[next_one]) | (tails[one] != tails[next_one])):  # more of the hash tells them apart
        order = np.lexsort((tails, hashes))
        goes_on = (hashes[order[1:]] == hashes[order[:-1]]) & (tails[order[1:]] == tails[order[:-1]])
    return order, np.append(~goes_on, True)


def _packed(numbers: Numbers) -> tuple[int, Buffer]:
    """Return numbers of records as the shorter of two kinds of data."""
    words = int(numbers.max()) // 64 + 1
    if numbers.nbytes <= 8 * words:
        return SUPERSEDED, _data_of(numbers)
    bits = np.zeros(64 * words, np.uint8)
    bits[numbers] = 1
    return SUPERSEDED_BITS, _data_of(pack(bits))


def _data_of(values: npt.NDArray[Any]) -> memoryview:
    return values.data.cast("B")
