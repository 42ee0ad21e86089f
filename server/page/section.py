"""What a page is made of: sections, which are drawn anew, one by one, only when what they show has changed.

And how numbers and times are written for people, the filters of the templates; and numbers out of addresses and forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..runtime.errors import ControlError, Kind

if TYPE_CHECKING:
    from markupsafe import Markup

EVENTS = "events"
"""The field of a page that is watched: what takes a look at files is drawn with the page alone (`Section.is_still`)."""
ROWS_MAX = 500
"""Of what may be more than anybody reads; how many there are is told."""


@dataclass(frozen=True, slots=True)
class Row:
    """One of many within a section: of a table, for the most part."""

    id: str
    """Unique on the page."""
    state: object
    """What the template of rows shows, as `row`. Equal states look equal: it is what decides whether anything is drawn."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    id: str
    """Unique on the page; a template of that name, `sections/<template>.html`, draws it."""
    template: str
    state: object
    """What the template shows, as `state`; see `Row.state`."""
    rows: tuple[Row, ...] = ()
    """Drawn by `rows/<template>.html`, each by itself; the section's template places them, as `rows`, and knows how many they are, as `shown`."""
    is_still: bool = False
    """Whether it is drawn with the page alone, and stays as it was then while the page is watched."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one view comes to at one moment."""

    title: str
    here: str
    """Which entry of the navigation this is: its path."""
    sections: tuple[Section, ...]
    trail: tuple[tuple[str, str], ...] = ()
    """Above this page: names and paths."""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def size(count_bytes: int) -> str:
    """`1.5 MiB`."""
    count = float(count_bytes)
    for unit in _UNITS:
        if abs(count) < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count_bytes} B" if unit == "B" else f"{count:.1f} {unit}"


def number(count: int) -> str:
    """Thousands apart by thin spaces, which no reader takes for a point or a comma."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def moment(at_ms: int | None) -> str:
    """`2026-01-31 12:00:00.000` in UTC; `–` for none, the milliseconds themselves for what no calendar has."""
    if at_ms is None or at_ms < 0:
        return "–"
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except OverflowError:
        return f"{at_ms} ms"


def duration(span_ms: float) -> str:
    """The two largest units: `3 d 4 h`."""
    if abs(span_ms) < 1000:
        return f"{span_ms:.0f} ms"
    left = round(abs(span_ms) / 1000)
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append(f"{count} {unit}")
    return ("-" if span_ms < 0 else "") + " ".join(part for part in parts[:2] if not part.startswith("0 "))


def segment(text: object) -> str:
    """As one segment of a path."""
    return quote(str(text), safe="")


def breakable(name: str) -> Markup:
    """The name of an option, which goes on in the next line behind a point."""
    from markupsafe import Markup, escape  # at the first look of anybody

    return Markup(".<wbr>").join(escape(name).split("."))


FILTERS: dict[str, Callable[..., str]] = {
    "breakable": breakable,
    "bytes": size,
    "number": number,
    "moment": moment,
    "duration": duration,
    "segment": segment,
}

OFFSET_DIGITS = 19


def number_in(name: str, text: str, digits_max: int = OFFSET_DIGITS) -> int | None:
    """The number in a field; None where there is none. ControlError INVALID, naming the field: it is no whole number, or too long."""
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > digits_max:
        raise ControlError(Kind.INVALID, f"{name}: expected a whole number, found {text!r:.40}")
    return int(text)
