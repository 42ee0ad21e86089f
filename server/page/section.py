"""Parts of a page: sections, each of which is drawn again only when what it shows has changed.

Also formats of numbers and times for people, which are the filters of the templates, and numbers from addresses and
forms.
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
"""Query field of a watched page. Sections that read files are drawn only with the whole page (`Section.is_still`)."""
ROWS_MAX = 500
"""Maximum number of rows of long lists; pages show the total number."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row within a section, mostly of a table."""

    id: str
    """Unique on the page."""
    state: object
    """The template's variable `row`. Rows with equal states look equal: a row is drawn only if its state has changed."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    id: str
    """Unique on the page."""
    template: str
    state: object
    """The template's variable `state`; see `Row.state`."""
    rows: tuple[Row, ...] = ()
    """Rows, each drawn by `rows/<template>.html`. The section's template places them, as `rows`, and knows their
    number, as `shown`.
    """
    is_still: bool = False
    """Whether it is drawn only with the whole page, and does not change while the page is watched."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of one page at one moment."""

    title: str
    here: str
    """Its entry in the navigation: a path."""
    sections: tuple[Section, ...]
    trail: tuple[tuple[str, str], ...] = ()
    """The pages above this one: names and paths."""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def size(count_bytes: int) -> str:
    """Format a size: `1.5 MiB`."""
    count = float(count_bytes)
    for unit in _UNITS:
        if abs(count) < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count_bytes} B" if unit == "B" else f"{count:.1f} {unit}"


def number(count: int) -> str:
    """Format a number with thin spaces between thousands, which cannot be mistaken for a decimal point or comma."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def moment(at_ms: int | None) -> str:
    """Format a time: `2026-01-31 12:00:00.000` in UTC; `–` for None; the number of milliseconds if it has no calendar date."""
    if at_ms is None or at_ms < 0:
        return "–"
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except OverflowError:
        return f"{at_ms} ms"


def duration(span_ms: float) -> str:
    """Format a duration by its two largest units: `3 d 4 h`."""
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
    """Quote a text as one segment of a path."""
    return quote(str(text), safe="")


def breakable(name: str) -> Markup:
    """Return the name of an option, with line breaks allowed after points."""
    from markupsafe import Markup, escape  # imported with the first page

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
    """Parse the number in a field; None if the field is empty.

    ControlError INVALID that names the field: not a whole number, or too long.
    """
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > digits_max:
        raise ControlError(Kind.INVALID, f"{name}: expected a whole number, found {text!r:.40}")
    return int(text)
