"""Times as people write them: UTC, to the second or the millisecond."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = re.compile(r"@(-?[0-9]{1,18})")


def time_text(at_ms: int, *, with_ms: bool = False) -> str | None:
    """`2026-01-31 12:00:00`; None for a time that no calendar has, before the year 1 or after 9999."""
    try:
        found = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return None
    return f"{found:%Y-%m-%d %H:%M:%S}" + (f".{at_ms % 1000:03}" if with_ms else "")


def time_ms(text: str) -> int:
    """Reads `2026-01-31`, `2026-01-31T12:00:00`, with `Z` or `+02:00` (UTC without), or ms since 1970 behind an @."""
    if match := _MS.fullmatch(text):
        return int(match[1])
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a time, e.g. 2026-01-31T12:00:00Z, or @MS (milliseconds since 1970), found {text!r}"
        ) from None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
