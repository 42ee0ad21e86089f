"""A dry run: what a compaction would take out, told after stage 2. Nothing is written.

What it counts is exact: records that are superseded, and those without a key. What also goes is not in it, for it takes
the rewriting to know: tombstones and markers past their horizon, and aborted data, which has no numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .exchange import Blob
from .plan import CompactionPlan
from .rewrite import dead_bits_of


class GroupPreview(NamedTuple):
    """What would become of a group."""

    group: int
    base_offset: int
    bytes_in: int
    records: int
    """Data records, those of aborted transactions left out."""
    superseded: int
    keyless: int


def preview_groups(plan: CompactionPlan, blobs: Iterable[Blob]) -> Iterator[GroupPreview]:
    """In the place of stage 3, for the groups of these blobs, of each of which all are here, in any order."""
    groups: dict[int, list[Blob]] = defaultdict(list)
    for blob in blobs:
        groups[blob.task].append(blob)
    for group, found in groups.items():
        bits = dead_bits_of(plan, group, found)
        yield GroupPreview(
            group,
            plan.group_base(group),
            sum(plan.sources[source].size_bytes for source in plan.groups[group]),
            bits.numbered,
            sum(word.bit_count() for word in bits.dead) - bits.keyless,
            bits.keyless,
        )
