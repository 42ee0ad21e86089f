"""Layout of the picture of a log: offsets as places between 0 and 1, and the order of bars and marks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from .log_picture import Bar, LogPicture

NARROWEST = 1 / 160
"""Smallest width of a bar, as a share: two pixels of a phone, eight of a large screen. Narrower bars are merged."""


TEXT_MAX = 50
"""Largest number of characters of a mark. Of several names, those that fit are written."""


class Axis(StrEnum):
    """Unit of a scale."""

    OFFSETS = "offsets"
    BYTES = "bytes"


class Scale:
    """The places of one log: 0 is the start of its first segment, 1 its end. In an empty log all are 0."""

    def __init__(self, bars: tuple[Bar, ...], axis: Axis) -> None:
        self._axis = axis
        self._bars = bars
        self._bases = [bar.base_offset for bar in bars]
        self._edges = [0, *accumulate(self._size(bar) for bar in bars)]

    def _size(self, bar: Bar) -> int:
        return bar.size_bytes if self._axis is Axis.BYTES else bar.end_offset - bar.base_offset

    @property
    def is_empty(self) -> bool:
        """Whether no bar has a width."""
        return not self._edges[-1]

    def edges(self) -> list[float]:
        """Return the start of each bar, and the end of the last one."""
        whole = self._edges[-1] or 1
        return [edge / whole for edge in self._edges]

    def place_of(self, offset: int) -> float:
        """Return the place of an offset; within a bar, all records count as equally long."""
        number = max(0, bisect_right(self._bases, offset) - 1)
        if self.is_empty or not self._bars:
            return 0.0
        bar, edge = self._bars[number], self._edges[number]
        span = bar.end_offset - bar.base_offset
        within = min(max(0, offset - bar.base_offset), span)
        size = self._edges[number + 1] - edge
        # In integers, as offsets may be too large for a float to distinguish.
        return (edge * span + within * size) / (span * self._edges[-1]) if span else edge / self._edges[-1]


@dataclass(frozen=True, slots=True)
class PositionedBar:
    """A bar and its place in the drawing."""

    bar: Bar
    left: float
    right: float


def position_bars(bars: tuple[Bar, ...], scale: Scale) -> list[PositionedBar]:
    """Place all bars that have a width, in order and without gaps; very narrow neighbours of the same part are merged."""
    found: list[PositionedBar] = []
    edges = scale.edges()
    for bar, left, right in zip(bars, edges, edges[1:], strict=False):
        last = found[-1] if found else None
        if last is not None and last.right - last.left < NARROWEST and last.bar.part == bar.part:
            found[-1] = PositionedBar(_together(last.bar, bar), last.left, right)
        elif right > left:
            found.append(PositionedBar(bar, left, right))
    return found


def _together(one: Bar, following: Bar) -> Bar:
    return Bar(
        part=one.part,
        base_offset=one.base_offset,
        end_offset=following.end_offset,
        size_bytes=one.size_bytes + following.size_bytes,
        segments=one.segments + following.segments,
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark for an important offset."""

    offset: int
    place: float
    names: tuple[str, ...]
    """Names of the offset; several if they have the same value."""

    @property
    def text(self) -> str:
        offset = grouped(self.offset)
        ways = (" = ".join(self.names), f"{self.names[0]} = … = {self.names[-1]}", self.names[-1])
        return next((f"{names} {offset}" for names in ways if len(names) + len(offset) < TEXT_MAX), f"… {offset}")


def grouped(count: int) -> str:
    """Format a number, as `12 345`, with narrow no-break spaces."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def marks(picture: LogPicture, scale: Scale) -> list[Mark]:
    """Return the marks of a log, by offset."""
    names: dict[int, list[str]] = {}
    for name, offset in _marks(picture):
        names.setdefault(offset, []).append(name)
    return [Mark(offset, scale.place_of(offset), tuple(found)) for offset, found in sorted(names.items())]


def _marks(picture: LogPicture) -> Iterator[tuple[str, int]]:
    if picture.log_start_offset == picture.log_end_offset:
        yield "empty, the next offset is", picture.log_end_offset
        return
    yield "log start", picture.log_start_offset
    if picture.is_compacted:
        yield "first dirty", picture.first_dirty_offset
        if picture.horizon is not None:
            yield "delete horizon", picture.horizon.offset
        yield "uncleanable from", picture.first_uncleanable_offset
    yield "last stable", picture.last_stable_offset
    yield "high watermark", picture.high_watermark
    yield "log end", picture.log_end_offset


@dataclass(frozen=True, slots=True)
class Label:
    """The text of a mark, in a lane below the bars."""

    mark: Mark
    lane: int
    place: float
    """Place of the anchor."""
    anchor: str
    """`start` or `end`: the side of the text that is at `place`."""


def labels(found: list[Mark], width: float, character: float) -> list[Label]:
    """Choose a lane for each mark's text, so that none covers another text or line, in a picture of this width or more.

    Texts are to the right of marks in the left half, and to the left of others. So those near the middle are placed first:
    the lines of the outer ones are then outside of their texts.

    Args:
        width, character: Widths of the picture and of a character, in the same unit.
    """
    out: list[Label] = []
    taken: list[tuple[int, float, float]] = []
    """Lane, left and right of each text."""
    lines: list[tuple[int, float]] = []
    """Lane that each line reaches, and its place."""
    for mark in sorted(found, key=lambda each: abs(each.place - 0.5)):
        length, at = (len(mark.text) + 1) * character, mark.place * width
        place, anchor = mark.place, "start" if mark.place < 0.5 else "end"
        if length > (width - at if anchor == "start" else at):  # it does not fit next to its mark
            place = 0.0 if anchor == "start" else 1.0
        left = place * width - length * (anchor == "end")
        lane = next(
            lane
            for lane in range(len(found) + 1)
            if lane == len(found)
            or (
                not any(
                    (other == lane and left < end and start < left + length) or (other < lane and start <= at <= end)
                    for other, start, end in taken
                )
                and not any(down > lane and left < there < left + length for down, there in lines)
            )
        )
        lane = min(lane, 1 + max((other for other, _, _ in taken), default=-1))
        taken.append((lane, left, left + length))
        lines.append((lane, at))
        out.append(Label(mark, lane, place, anchor))
    return sorted(out, key=lambda each: each.mark.offset)
