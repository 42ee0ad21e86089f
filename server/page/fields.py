"""Numbers out of addresses and forms."""

from __future__ import annotations

from ..runtime.errors import ControlError, Kind

OFFSET_DIGITS = 19


def number(name: str, text: str, digits_max: int = OFFSET_DIGITS) -> int | None:
    """None where there is none. ControlError INVALID, naming the field: it is no whole number, or too long."""
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > digits_max:
        raise ControlError(Kind.INVALID, f"{name}: expected a whole number, found {text!r:.40}")
    return int(text)
