"""Picture of a log as text of any width: a line of blocks to scale, in Unicode or ASCII, with colours or without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from ..cleaning.eligibility import BlockedReason
from ..cleaning.progress import Phase
from .legend import MEANINGS, counted, percent, running_words, size
from .log_picture import LogPicture, Part, PassPicture, RunningPass
from .scale import Axis, Scale

_ANSI = {Part.CLEAN: "32", Part.DIRTY: "33", Part.HELD: "35", Part.ACTIVE: "34", Part.CLOSED: "37"}
_PASS_ANSI, _GONE_ANSI = "1;35", "33"


@dataclass(frozen=True, slots=True)
class Style:
    """Characters and colours of a picture."""

    blocks: Mapping[Part, str]
    passed: str
    """Block for the range that a running pass has read."""
    gone: str
    empty: str
    has_colours: bool = False

    def coloured(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_colours and text else text


def style(*, is_unicode: bool, has_colours: bool) -> Style:
    """Return the style with Unicode blocks, or with the ASCII characters of every terminal."""
    if is_unicode:
        blocks = dict(zip(Part, "█▒▓░▄", strict=True))
        return Style(blocks, "▶", "·", "–", has_colours)
    return Style(dict(zip(Part, "#/x-=", strict=True)), ">", ".", "_", has_colours)


def key(parts: Iterable[Part], look: Style) -> str:
    """Return the legend of the blocks on one line."""
    return "  ".join(f"{look.coloured(look.blocks[part], _ANSI[part])} {MEANINGS[part][0]}" for part in parts)


def bar(picture: LogPicture, width: int, look: Style, axis: Axis = Axis.OFFSETS) -> str:
    """Draw the log in `width` characters; each shows the part at its middle."""
    scale = Scale(picture.bars, axis)
    if scale.is_empty:
        return look.empty * width
    edges, number, cells = scale.edges(), 0, []
    for place in range(width):
        middle = (place + 0.5) / width
        while edges[number + 1] <= middle and number + 1 < len(picture.bars):
            number += 1
        cells.append(picture.bars[number].part)
    passed = range(0)
    if picture.running is not None:
        low, high = _span(picture.running, scale)
        passed = range(round(low * width), max(round(low * width) + 1, round(high * width)))
    return _coloured(cells, passed, look)


def _span(running: RunningPass, scale: Scale) -> tuple[float, float]:
    """Return the range that a running pass has read, of the map or of its current group."""
    if running.phase is Phase.GROUPS and running.group:
        left, right = scale.place_of(running.group_base_offset), scale.place_of(running.group_end_offset)
        return left, left + (right - left) * (
            running.group_bytes_read / running.group_bytes if running.group_bytes else 1
        )
    return scale.place_of(running.first_dirty_offset), scale.place_of(running.map_offset)


def _coloured(cells: list[Part], passed: range, look: Style) -> str:
    """Colour the cells, with one escape sequence for each run of the same kind."""
    found, run, code = [], "", ""
    for place, part in enumerate(cells):
        block, wanted = (look.passed, _PASS_ANSI) if place in passed else (look.blocks[part], _ANSI[part])
        if wanted != code:
            found.append(look.coloured(run, code))
            run, code = "", wanted
        run += block
    return "".join([*found, look.coloured(run, code)])


def _plain(text: str) -> str:
    """Replace narrow no-break spaces by plain ones, which every terminal has."""
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def state(picture: LogPicture) -> str:
    """Return the text next to the bar."""
    if picture.running is not None:
        return _plain(running_words(picture.running))
    if not picture.is_compacted:
        return "not compacted"
    if picture.waits_for is BlockedReason.ALL_CLEAN:
        return "all clean"
    wait = "eligible" if picture.waits_for is None else f"not eligible: {picture.waits_for.value.replace('_', ' ')}"
    return f"{percent(picture.dirty_ratio)} dirty, {wait}" if picture.dirty_ratio else wait


def pass_lines(picture: PassPicture, width: int, look: Style) -> list[str]:
    """Draw before and after of a pass, one above the other on one scale of bytes."""
    whole = picture.bytes_before or 1
    cells: list[bool] = []
    edge = 0
    for group in picture.groups:
        kept = group.bytes_before if group.bytes_after is None else min(group.bytes_after, group.bytes_before)
        cells += [True] * (round((edge + kept) * width / whole) - len(cells))
        edge += group.bytes_before
        cells += [False] * (round(edge * width / whole) - len(cells))
    stays = Part.CLOSED if picture.bytes_after is None else Part.CLEAN  # no dry run was made
    block = look.blocks[stays]
    before = "".join(
        look.coloured((block if kept else look.gone) * len(list(run)), _ANSI[stays] if kept else _GONE_ANSI)
        for kept, run in groupby(cells)
    )
    is_done = picture.ended_at_ms is not None
    found = f"{size(picture.bytes_before)}, {counted(picture.records_before, 'record')}, {counted(picture.segments_before, 'segment')}"
    lines = [before, _plain(f"{'before' if is_done else 'now'}: {found}")]
    if picture.bytes_after is not None and picture.records_after is not None:
        after = max(round(picture.bytes_after * width / whole), 1 if picture.bytes_after else 0)
        found = f"{size(picture.bytes_after)} ({percent(picture.bytes_after / whole)})"
        found += f", {counted(picture.records_after, 'record')}, {counted(picture.segments_after, 'segment')}"
        lines += [
            look.coloured(block * after, _ANSI[Part.CLEAN]),
            _plain(f"{'after' if is_done else 'after the pass'}: {found}"),
        ]
    return lines
