"""What goes between the stages of a compaction, and stage 2: which records are superseded by records of other segments.

    stage 1, a task a segment     dead bits inside the segment, and an entry of 16 bytes for the newest record of each key
    exchange                      one blob for each segment and bucket of hashes: rows are few, however many the keys
    stage 2, a task a bucket      of each key's entries all but the last die: blobs of record numbers or bits, one a segment
    exchange                      to the tasks that rewrite a group of segments each (`rewrite`)

A segment's own bits ride along, with one of the buckets.

Memory of stage 2: about 90 bytes for each entry of one bucket, 190 MB at `BUCKET_BYTES`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...storage.disk.files import Buffer, Files
from ...storage.filter.offset_map import BYTES_PER_SLOT
from .key_scan import Entries, scan_segment
from .plan import CompactionPlan
from .segment_bits import BitTable, Bools, Numbers, pack

CLEAN_KEYS, DIRTY_KEYS, BITS, SUPERSEDED, SUPERSEDED_BITS = range(5)
"""Kinds of blobs. In order of (source, kind) entries are in the order of the log, and all dirty ones behind the clean.
What is superseded are numbers of records, or a bitmap over them where that is shorter."""

BUCKET_BYTES = 32 << 20
"""A bucket's entries, about, where every record has a key of its own."""


class Blob(NamedTuple):
    """One row of an exchange."""

    task: int
    """Before stage 2 the bucket, after it the group."""
    source: int
    """The segment's number in the plan."""
    kind: int
    data: Buffer


def bucket_count(plan: CompactionPlan, at_least: int = 1) -> int:
    """How many buckets keep each to about `BUCKET_BYTES`. The result's bytes do not depend on it."""
    return max(at_least, -(-plan.record_count * BYTES_PER_SLOT // BUCKET_BYTES))


def scan_source(plan: CompactionPlan, number: int, files: Files, *, buckets: int) -> Iterator[Blob]:
    """Stage 1 for the source of this number. Errors as of `scan_segment`."""
    scan = scan_segment(plan, number, files)
    yield Blob(number % buckets, number, BITS, scan.bits.to_bytes())
    for kind, entries in ((CLEAN_KEYS, scan.clean), (DIRTY_KEYS, scan.dirty)):
        # Entries are in order of the hash, and so are buckets.
        bucket_of = (entries[:, 0] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
        cuts = np.searchsorted(bucket_of, np.arange(buckets + 1, dtype=np.uint64))
        for bucket in range(buckets):
            if cuts[bucket] < cuts[bucket + 1]:
                yield Blob(bucket, number, kind, _data_of(entries[cuts[bucket] : cuts[bucket + 1]]))


def merge_buckets(plan: CompactionPlan, blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Stage 2 for the buckets of these blobs, of each of which all are here, in any order."""
    group_of = plan.group_of_source
    buckets: dict[int, list[Blob]] = defaultdict(list)
    for blob in blobs:
        if blob.kind == BITS:
            yield blob._replace(task=group_of[blob.source])
        else:
            buckets[blob.task].append(blob)
    while buckets:
        _, found = buckets.popitem()
        for source, numbers in superseded(found):
            yield Blob(group_of[source], source, *_packed(numbers))


def superseded(blobs: list[Blob]) -> Iterator[tuple[int, Numbers]]:
    """(source, numbers of its records that are superseded by those of other blobs) of one bucket's entries.

    Of the entries of a key all but the last are superseded, if the last is dirty.
    """
    blobs = sorted(blobs, key=lambda blob: (blob.source, blob.kind))
    parts: list[Entries] = [np.frombuffer(blob.data, np.uint64).reshape(-1, 2) for blob in blobs]
    starts = np.cumsum([0, *map(len, parts)])
    first_dirty = next((number for number, blob in enumerate(blobs) if blob.kind == DIRTY_KEYS), len(blobs))
    entries: Entries = np.concatenate(parts)
    order, is_last = _in_order_of_keys(entries)
    ends = np.flatnonzero(is_last)
    falls = np.repeat(order[ends] >= starts[first_dirty], np.diff(ends, prepend=-1)) & ~is_last
    has_fallen = np.zeros(len(entries), np.bool_)
    has_fallen[order[falls]] = True
    fallen_numbers: dict[int, list[Numbers]] = defaultdict(list)
    for blob, part, start in zip(blobs, parts, starts, strict=False):  # one start more: the end
        if len(fallen := part[has_fallen[start : start + len(part)], 1]):
            fallen_numbers[blob.source].append(fallen.astype(np.uint32) - np.uint32(1))
    for source, numbers in fallen_numbers.items():
        yield source, np.concatenate(numbers)


def set_superseded(blob: Blob, dead: BitTable, start: int) -> None:
    """Set the bits of what a blob of stage 2 says is superseded; its source's records begin at bit `start`."""
    if blob.kind == SUPERSEDED_BITS:
        dead.put(start, np.frombuffer(blob.data, np.uint64))
    else:
        dead.set(np.frombuffer(blob.data, np.uint32).astype(np.uint64) + np.uint64(start))


def _in_order_of_keys(entries: Entries) -> tuple[npt.NDArray[np.int64], Bools]:
    """The rows in order of their keys, those of a key in their own order; and which of these are the last of a key.

    What is sorted is one number a row: as much of the hash as has room beside the row's own number. Blobs are in order
    already, so this is a merge.
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
    """Numbers of records as the shorter of two kinds of data."""
    words = int(numbers.max()) // 64 + 1
    if numbers.nbytes <= 8 * words:
        return SUPERSEDED, _data_of(numbers)
    bits = np.zeros(64 * words, np.uint8)
    bits[numbers] = 1
    return SUPERSEDED_BITS, _data_of(pack(bits))


def _data_of(values: npt.NDArray[Any]) -> memoryview:
    return values.data.cast("B")
