"""How numbers and times are written for people: the filters of the templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from markupsafe import Markup

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
