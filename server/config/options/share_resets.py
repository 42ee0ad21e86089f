"""Where a share group begins in a partition that it has not read before (`share.auto.offset.reset`)."""

from __future__ import annotations

import re
from typing import NamedTuple

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"

# ISO 8601 as Java's Duration reads it: days, hours, minutes and seconds, each with a sign of its own.
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS_MAX = 2**63 - 1
_DIGITS_MAX = 20


class ShareReset(NamedTuple):
    """`duration_ms` says for BY_DURATION how far back from now the group begins."""

    kind: str
    duration_ms: int = 0


def read_reset(text: str) -> ShareReset | None:
    """What the option's value means; None: nothing."""
    if text in (EARLIEST, LATEST):
        return ShareReset(text)
    kind, colon, duration = text.partition(":")
    duration_ms = _duration_ms(duration) if kind == BY_DURATION and colon else None
    return None if duration_ms is None else ShareReset(BY_DURATION, duration_ms)


def is_reset(text: object) -> bool:
    return isinstance(text, str) and read_reset(text) is not None


def _duration_ms(text: str) -> int | None:
    """Whole milliseconds; None for what Java does not read, and for what is negative."""
    found = _DURATION.fullmatch(text)
    if found is None or found[3] in ("T", "t"):
        return None
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    parts = ((days, 86_400), (hours, 3_600), (minutes, 60), (seconds, 1))
    # Python reads no number of thousands of digits; Java none that does not fit.
    if not any(part for part, _ in parts) or any(part and len(part) > _DIGITS_MAX for part, _ in parts):
        return None
    nanos = sum(int(part) * unit for part, unit in parts if part) * 10**9
    nanos += int((fraction or "").ljust(9, "0")) * (-1 if seconds and seconds.startswith("-") else 1)
    nanos = -nanos if sign == "-" else nanos
    return nanos // 10**6 if 0 <= nanos <= _SECONDS_MAX * 10**9 else None
