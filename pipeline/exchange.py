"""What goes between the stages of a compaction, and stage 2: which records are superseded by records of other segments.

    stage 1, a task a segment     dead bits inside the segment, and an entry of 16 bytes for the newest record of each key
    exchange                      one blob for each segment and bucket of hashes: rows are few, however many the keys
    stage 2, a task a bucket      of each key's entries all but the last die: blobs of record numbers, one a segment
    exchange                      to the tasks that rewrite a group of segments each (`rewrite`)

A segment's own bits ride along, with one of the buckets.

Memory of stage 2: about 90 bytes for each entry of one bucket, 190 MB at `BUCKET_BYTES`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..storage.files import Files
from ..storage.offset_map import BYTES_PER_SLOT
from .key_scan import Entries, scan_segment
from .plan import CompactionPlan

CLEAN_KEYS, DIRTY_KEYS, BITS, SUPERSEDED = range(4)
"""Kinds of blobs. In order of (source, kind) entries are in the order of the log, and all dirty ones behind the clean."""

BUCKET_BYTES = 32 << 20
"""A bucket's entries, about, where every record has a key of its own."""


class Blob(NamedTuple):
    """One row of an exchange."""

    task: int
    """Before stage 2 the bucket, after it the group."""
    source: int
    """The segment's number in the plan."""
    kind: int
    data: bytes


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
                yield Blob(bucket, number, kind, entries[cuts[bucket] : cuts[bucket + 1]].tobytes())


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
            yield Blob(group_of[source], source, SUPERSEDED, numbers.tobytes())


def superseded(blobs: list[Blob]) -> Iterator[tuple[int, npt.NDArray[np.uint32]]]:
    """(source, numbers of its records that are superseded by those of other blobs) of one bucket's entries.

    Of the entries of a key all but the last are superseded, if the last is dirty.
    """
    blobs = sorted(blobs, key=lambda blob: (blob.source, blob.kind))
    found = [np.frombuffer(blob.data, np.uint64).reshape(-1, 2) for blob in blobs]
    blob_of = np.repeat(np.arange(len(blobs), dtype=np.uint32), [len(entries) for entries in found])
    entries: Entries = np.concatenate(found)
    order = np.argsort(entries[:, 0], kind="stable")  # a merge: each blob is in order already
    high, tail = entries[order, 0], entries[order, 1]
    if np.any((high[1:] == high[:-1]) & (tail[1:] >> np.uint64(32) != tail[:-1] >> np.uint64(32))):
        order = np.lexsort((blob_of, entries[:, 1] >> np.uint64(32), entries[:, 0]))
        high, tail = entries[order, 0], entries[order, 1]
    low = tail >> np.uint64(32)
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    ends = np.flatnonzero(is_last)
    is_dirty = np.array([blob.kind == DIRTY_KEYS for blob in blobs])
    falls = np.repeat(is_dirty[blob_of[order[ends]]], np.diff(ends, prepend=-1)) & ~is_last
    fallen = order[falls]
    numbers = ((entries[fallen, 1] & np.uint64(0xFFFFFFFF)) - np.uint64(1)).astype(np.uint32)
    source_of = np.array([blob.source for blob in blobs])[blob_of[fallen]]
    by_source = np.lexsort((numbers, source_of))
    sources, starts = np.unique(source_of[by_source], return_index=True)
    for source, part in zip(sources, np.split(numbers[by_source], starts[1:]), strict=False):  # no source, one part
        yield int(source), part
