"""Pictures that belong to no log, and parsed drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ottla.storage.cleaning.progress import Phase
from ottla.storage.logs.record_counts import RecordCounts
from ottla.storage.pictures.log_picture import Bar, LogPicture, Part, RunningPass

SVG = "{http://www.w3.org/2000/svg}"


def picture(*spec: tuple[str, int, int], start: int = 0, **fields: Any) -> LogPicture:
    """Return the picture of a log with segments (part, offsets, bytes)."""
    bars, offset = [], start
    for part, count, size_bytes in spec:
        bars.append(Bar(part=Part(part), base_offset=offset, end_offset=offset + count, size_bytes=size_bytes))
        offset += count
    dirty = next((bar.base_offset for bar in bars if bar.part is not Part.CLEAN), offset)
    upper = next((bar.base_offset for bar in bars if bar.part in (Part.HELD, Part.ACTIVE)), offset)
    made = LogPicture(
        topic="orders",
        partition=0,
        cleanup_policy=("compact",),
        bars=tuple(bars),
        segments=len(bars),
        size_bytes=sum(bar.size_bytes for bar in bars),
        log_start_offset=start,
        first_dirty_offset=dirty,
        upper_offset=upper,
        first_uncleanable_offset=upper,
        bound_by="active_segment",
        last_stable_offset=offset,
        high_watermark=offset,
        log_end_offset=offset,
        counts=RecordCounts(
            records_min=0,
            records_max=offset - start,
            live_keys_min=0,
            live_keys_max=offset - start,
            tombstones_min=0,
            tombstones_max=offset - start,
        ),
        dirty_ratio=0.5,
        min_cleanable_dirty_ratio=0.5,
        eligible=False,
        waits_for=None,
        explanation="because",
        eligible_at_ms=None,
        horizon=None,
        passes=0,
        running=None,
        last_pass=None,
    )
    return replace(made, **fields)


LOG = (("clean", 1000, 20_000), ("dirty", 1000, 100_000), ("dirty", 2000, 90_000), ("held", 600, 9), ("active", 400, 4))


def running(phase: Phase, **fields: Any) -> RunningPass:
    """Return a pass over `LOG`, at the end of its map or at the second of two groups."""
    made = RunningPass(
        phase=phase,
        begun_at_ms=0,
        is_forced=False,
        first_dirty_offset=1000,
        upper_offset=4000,
        map_offset=3000,
        map_bytes=190_000,
        map_bytes_read=150_000,
        group=2 if phase is Phase.GROUPS else 0,
        group_count=2 if phase is Phase.GROUPS else 0,
        group_base_offset=2000 if phase is Phase.GROUPS else 0,
        group_end_offset=4000 if phase is Phase.GROUPS else 0,
        group_bytes=90_000 if phase is Phase.GROUPS else 0,
        group_bytes_read=45_000 if phase is Phase.GROUPS else 0,
        bytes_to_read=210_000 if phase is Phase.GROUPS else 0,
        bytes_read=165_000 if phase is Phase.GROUPS else 0,
        bytes_written=50_000 if phase is Phase.GROUPS else 0,
    )
    return replace(made, **fields)


class Box(NamedTuple):
    """A rectangle: left and right in percent of the width."""

    kind: str
    left: float
    right: float


def parsed(drawing: str) -> ElementTree.Element:
    """Return the drawing, parsed; it is well-formed."""
    return ElementTree.fromstring(drawing)


def boxes(drawing: str, *kinds: str) -> list[Box]:
    """Return its rectangles of these classes, in order."""
    return [box for box in _boxes(parsed(drawing)) if box.kind in kinds]


def _boxes(root: ElementTree.Element) -> Iterator[Box]:
    for each in root.iter(f"{SVG}rect"):
        left = percent(each.get("x"))
        yield Box(each.get("class", ""), left, left + percent(each.get("width")))


def percent(text: str | None) -> float:
    assert text is not None
    assert text.endswith("%"), text
    return float(text[:-1])


def texts(drawing: str) -> list[str]:
    """Return the texts of a drawing."""
    return ["".join(each.itertext()) for each in parsed(drawing).iter(f"{SVG}text")]


def parts(found: Sequence[Box]) -> list[str]:
    """Return the parts of bars; neighbours of the same part count once."""
    names = [box.kind.removeprefix("bar ") for box in found]
    return [name for name, before in zip(names, [None, *names], strict=False) if name != before]
