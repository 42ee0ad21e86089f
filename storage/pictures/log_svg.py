"""Picture of one log as SVG: its segments to scale, the progress of a running pass, and marks for important offsets.

Below it survivors and gaps: a column for each bucket of the range, whose height is the share of surviving records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ..cleaning.progress import Phase
from . import svg
from .legend import LETTERS, MEANINGS, contents_sentence, counted, running_words, sentences, size
from .log_picture import Bar, Bucket, Contents, LogPicture, RunningPass
from .scale import Axis, PositionedBar, Scale, grouped, labels, marks, position_bars

BAR = 34.0
LANE = 15.0
PASS = 28.0
EDGE = 6.0
LETTER_FROM = 16.0
"""Smallest width in pixels of a bar with a letter."""


def log_svg(picture: LogPicture, axis: Axis = Axis.OFFSETS, *, is_small: bool = False) -> str:
    """Draw a log.

    Args:
        is_small: Draw only bars and their letters, as in a list of many logs: no marks and no other text.
    """
    scale = Scale(picture.bars, axis)
    bars = position_bars(picture.bars, scale)
    top = PASS if picture.running is not None else (0.0 if is_small else EDGE)
    height = BAR * (0.6 if is_small else 1)
    drawn = [_bar(each, top, height) for each in bars]
    drawn += [_letter(each, top, height) for each in _runs(bars)]
    if not bars:
        drawn.append(svg.bar(0, 1, top, height, "nothing"))
        drawn.append(svg.text(0, top + height / 2 + 4, "no records", class_="label quiet", dx=8))
    if picture.running is not None:
        drawn += _running(picture.running, scale, top, height)
    bottom = top + height
    if not is_small:
        found = labels(marks(picture, scale), svg.NARROW, svg.CHARACTER)
        for label in found:
            foot = bottom + EDGE + LANE * (label.lane + 1)
            dx = 4 if label.anchor == "start" else -4
            drawn.append(svg.line(label.mark.place, top - 3, foot - 3, f"mark {_kind(label.mark.names)}"))
            drawn.append(svg.text(label.place, foot - 3, label.mark.text, anchor=label.anchor, dx=dx))
        bottom += EDGE + LANE * (1 + max((label.lane for label in found), default=0))
    return svg.drawing(
        bottom + 2,
        f"The log of {picture.name} by {axis.value}",
        " ".join(sentences(picture)),
        *drawn,
        kind="log",
    )


def _bar(each: PositionedBar, top: float, height: float) -> str:
    return svg.bar(each.left, each.right, top, height, f"bar {each.bar.part.value}", _title(each.bar))


def _title(bar: Bar) -> str:
    many = "segment" if bar.segments == 1 else counted(bar.segments, "segment")
    end = bar.end_offset - 1
    offsets = f"offsets {grouped(bar.base_offset)} to {grouped(end)}" if end >= bar.base_offset else "no offsets"
    return f"{MEANINGS[bar.part][0]} {many} {grouped(bar.base_offset)}: {offsets}, {size(bar.size_bytes)}"


def _runs(bars: list[PositionedBar]) -> Iterator[PositionedBar]:
    """Merge neighbours of the same part, to place the part's letter in the middle."""
    for _, members in groupby(bars, key=lambda each: each.bar.part):
        alike = list(members)
        yield PositionedBar(alike[0].bar, alike[0].left, alike[-1].right)


def _letter(each: PositionedBar, top: float, height: float) -> str:
    if (each.right - each.left) * svg.NARROW < LETTER_FROM:
        return ""
    middle = (each.left + each.right) / 2
    return svg.tag(
        "g",
        svg.tag("circle", class_="letter-ground", cx=svg.part(middle), cy=top + height / 2, r=8.5),
        svg.text(middle, top + height / 2 + 4, LETTERS[each.bar.part], class_="letter", anchor="middle"),
        aria_hidden="true",
    )


def _kind(names: tuple[str, ...]) -> str:
    for name, kind in (("first dirty", "dirty-mark"), ("uncleanable from", "bound-mark")):
        if name in names:
            return kind
    return "horizon-mark" if "delete horizon" in names else "end-mark"


def _running(running: RunningPass, scale: Scale, top: float, height: float) -> Iterator[str]:
    """Draw the progress of a pass: a bracket over what it reads, filled up to its position."""
    foot = top - 4
    left = right = done = scale.place_of(running.first_dirty_offset)
    if running.phase is Phase.GROUPS and running.group_count:
        part = running.group_bytes_read / running.group_bytes if running.group_bytes else 1.0
        left, right = scale.place_of(running.group_base_offset), scale.place_of(running.group_end_offset)
        done = left + part * (right - left)
        yield svg.bar(0, left, foot - 3, 3, "pass-done", "groups that were rewritten")
    elif running.phase is Phase.MAP:
        right = scale.place_of(running.upper_offset)
        done = max(left, min(right, scale.place_of(running.map_offset)))
    yield svg.bar(left, right, foot - 3, 3, "pass-span")
    yield svg.bar(left, done, foot - 3, 3, "pass-now")
    yield svg.bar(left, done, top, height, "pass-shade")
    yield svg.line(done, foot - 5, top + height, "pass-head")
    yield svg.text(0, foot - 9, running_words(running), class_="label pass-label")


FULL = 44.0
LEAST = 3.0
"""Smallest height of a column that is not empty."""
TEXT = 18.0


def contents_svg(found: Contents, name: str) -> str:
    """Draw the survivors in a range of offsets. `name` is the partition's name."""
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
    title = _bucket_title(bucket)
    if low_part < height:
        yield svg.bar(left, right, FULL - height, height - low_part, "survivors", title)
    if low_part:
        yield svg.bar(left, right, FULL - low_part, low_part, "tombstones", title)


def _bucket_title(bucket: Bucket) -> str:
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
