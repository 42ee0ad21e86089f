"""Before and after of a pass as SVG, one above the other on one scale of bytes: removed parts hatched, the rest joined."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from . import svg
from .legend import counted, pass_sentence, percent, size
from .log_picture import GroupPicture, PassPicture
from .scale import NARROWEST, grouped

BAR = 26.0
TEXT = 18.0
FALL = 26.0


def pass_svg(picture: PassPicture, name: str) -> str:
    """Draw a pass or a dry run. `name` is the partition's name."""
    whole = picture.bytes_before or 1
    groups = [each for each in _wide_enough(picture.groups, whole)]
    befores = [0.0, *accumulate(each.bytes_before / whole for each in groups)]
    afters = [0.0, *accumulate((each.bytes_after or 0) / whole for each in groups)]
    drawn = [
        svg.text(
            0,
            TEXT - 5,
            _describe_group("before" if picture.ended_at_ms is not None else "now", picture, is_before=True),
        )
    ]
    top = TEXT
    for group, left in zip(groups, befores, strict=False):
        drawn += _before(group, left, left + group.bytes_before / whole, whole, top)
    if not picture.bytes_before:
        drawn.append(svg.bar(0, 1, top, BAR, "nothing"))
    height = top + BAR
    if picture.bytes_after is not None:
        drawn.append(_falls(befores, afters, height))
        height += FALL
        for group, left, right in zip(groups, afters, afters[1:], strict=False):
            if right > left:
                drawn.append(svg.bar(left, right, height, BAR, "bar clean", _title(group, is_before=False)))
        drawn.append(svg.line(0, height, height + BAR, "mark end-mark"))
        said = _describe_group(
            "after" if picture.ended_at_ms is not None else "after the next pass", picture, is_before=False
        )
        drawn.append(svg.text(0, height + BAR + TEXT - 4, said))
        height += BAR + TEXT
        if picture.bytes_after < picture.bytes_before:  # on its own line, for narrow screens
            drawn.append(svg.text(0, height + TEXT - 4, "hatched: removed"))
            height += TEXT
    kind = "The last pass" if picture.ended_at_ms is not None else "The next pass"
    return svg.drawing(height + 2, f"{kind} over {name}", pass_sentence(picture), *drawn, kind="pass")


def _wide_enough(groups: tuple[GroupPicture, ...], whole: int) -> Iterator[GroupPicture]:
    """Yield the groups; very narrow neighbours are merged."""
    narrow: list[GroupPicture] = []
    for group in groups:
        narrow.append(group)
        if sum(each.bytes_before for each in narrow) / whole >= NARROWEST:
            yield _one_of(narrow)
            narrow = []
    if narrow:
        yield _one_of(narrow)


def _one_of(groups: list[GroupPicture]) -> GroupPicture:
    if len(groups) == 1:
        return groups[0]
    is_known = all(each.bytes_after is not None and each.records_after is not None for each in groups)
    return GroupPicture(
        base_offset=groups[0].base_offset,
        end_offset=groups[-1].end_offset,
        segments_before=sum(each.segments_before for each in groups),
        segments_after=sum(each.segments_after for each in groups),
        source_bytes=tuple(size for each in groups for size in each.source_bytes),
        bytes_before=sum(each.bytes_before for each in groups),
        bytes_after=sum(each.bytes_after or 0 for each in groups) if is_known else None,
        records_before=sum(each.records_before for each in groups),
        records_after=sum(each.records_after or 0 for each in groups) if is_known else None,
    )


def _before(group: GroupPicture, left: float, right: float, whole: int, top: float) -> Iterator[str]:
    """Draw a group before the pass: what stays (left) and what is removed (right), if known, and the segment borders."""
    title = _title(group, is_before=True)
    if group.bytes_after is None:
        yield svg.bar(left, right, top, BAR, "bar closed", title)
    else:
        kept = left + min(group.bytes_after, group.bytes_before) / whole
        if kept > left:
            yield svg.bar(left, kept, top, BAR, "kept", title)
        if right > kept:
            yield svg.bar(kept, right, top, BAR, "gone", title)
    edge, drawn_to = left, left
    for size_bytes in group.source_bytes[:-1]:
        edge += size_bytes / whole
        if edge - drawn_to >= NARROWEST:
            yield svg.line(edge, top, top + BAR, "seam")
            drawn_to = edge
    yield svg.bar(left, right, top, BAR, "outline")


def _falls(befores: list[float], afters: list[float], top: float) -> str:
    """Draw the shapes from each group to its result, in a box of the drawing's width."""
    shapes = [
        svg.tag("path", class_="fall", d=f"M{1000 * a:.2f} 0H{1000 * b:.2f}L{1000 * d:.2f} 100H{1000 * c:.2f}Z")
        for a, b, c, d in zip(befores, befores[1:], afters, afters[1:], strict=False)
    ]
    return svg.tag(
        "svg",
        *(shapes or [""]),
        x=0,
        y=top,
        width="100%",
        height=FALL,
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _describe_group(what: str, picture: PassPicture, *, is_before: bool) -> str:
    if is_before:
        segments, size_bytes, records = picture.segments_before, picture.bytes_before, picture.records_before
        part = ""
    else:
        segments, size_bytes, records = picture.segments_after, picture.bytes_after or 0, picture.records_after or 0
        part = f" ({percent(size_bytes / picture.bytes_before)})" if picture.bytes_before else ""
    return f"{what}: {size(size_bytes)}{part}, {counted(records, 'record')}, {counted(segments, 'segment')}"


def _title(group: GroupPicture, *, is_before: bool) -> str:
    offsets = f"offsets {grouped(group.base_offset)} to {grouped(group.end_offset - 1)}"
    if group.bytes_after is None or group.records_after is None:
        return f"{offsets}: {size(group.bytes_before)}, {counted(group.records_before, 'record')}"
    if not is_before:
        return f"{offsets}: {size(group.bytes_after)}, {counted(group.records_after, 'record')}"
    return (
        f"{counted(group.segments_before, 'segment')}, {offsets}: {size(group.bytes_before)} to {size(group.bytes_after)},"
        f" {grouped(group.records_before)} to {counted(group.records_after, 'record')}"
    )
