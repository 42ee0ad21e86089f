"""Survivors and gaps as SVG: a column for each part of the range, as high as it is full; where nothing is left, nothing stands."""

from __future__ import annotations

from collections.abc import Iterator

from . import svg
from .legend import contents_sentence, counted
from .log_picture import Bucket, Contents
from .scale import grouped

FULL = 44.0
LEAST = 3.0
"""Of a column that has anything."""
TEXT = 18.0


def contents_svg(found: Contents, name: str) -> str:
    """Draw what is left of a range of offsets. `name` is the partition's."""
    span = found.to_offset - found.from_offset
    drawn = [svg.bar(0, 1, 0, FULL, "gaps")]
    for bucket in found.buckets:
        drawn += _column(bucket, found.from_offset, span)
    if found.looked_at_to_offset < found.to_offset:
        drawn.append(svg.bar((found.looked_at_to_offset - found.from_offset) / span, 1, 0, FULL, "beyond"))
    drawn.append(svg.text(0, FULL + TEXT - 4, grouped(found.from_offset)))
    if span:
        drawn.append(svg.text(1, FULL + TEXT - 4, grouped(found.to_offset), anchor="end"))
    return svg.drawing(FULL + TEXT, f"Remaining records in {name}", contents_sentence(found), *drawn, kind="contents")


def _column(bucket: Bucket, low: int, span: int) -> Iterator[str]:
    if not bucket.records:
        return
    left, right = (bucket.from_offset - low) / span, (bucket.to_offset - low) / span
    height = max(LEAST, FULL * bucket.records / bucket.offsets)
    dead = bucket.tombstones + bucket.markers
    low_part = height * dead / bucket.records
    title = _title(bucket)
    if low_part < height:
        yield svg.bar(left, right, FULL - height, height - low_part, "survivors", title)
    if low_part:
        yield svg.bar(left, right, FULL - low_part, low_part, "tombstones", title)


def _title(bucket: Bucket) -> str:
    last = bucket.to_offset - 1
    where = (
        f"offset {grouped(last)}"
        if bucket.offsets == 1
        else f"offsets {grouped(bucket.from_offset)} to {grouped(last)}"
    )
    beside = [f"{counted(bucket.offsets - bucket.records, 'gap')}"]
    beside += [counted(bucket.tombstones, "tombstone")] * bool(bucket.tombstones)
    beside += [counted(bucket.markers, "marker")] * bool(bucket.markers)
    return f"{where}: {counted(bucket.records, 'record')}, {', '.join(beside)}"
