"""Avro's logical types in the form that people read: decimals, dates, times, UUIDs.

A value that the form cannot show, e.g. a date in the year 30 000, stays a number or bytes. So does one whose type has invalid
attributes: by the specification these are ignored.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from .avro import Type
from .plain_json import MAX_SCALE, base64_text, decimal_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_S = 86_400
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
"""Digits after the seconds of each unit."""


def logical(kind: Type, value: Any) -> Any:
    """Return a value in the form of its logical type, or as its plain type has it: bytes in base64.

    Args:
        value: A number, a text or bytes.
    """
    name = kind.props.get("logicalType")
    form = _FORMS.get((name, kind.kind)) if isinstance(name, str) else None
    found = None if form is None else form(kind, value)
    if found is not None:
        return found
    return base64_text(value) if isinstance(value, bytes) else value


def moment_text(units: int, digits: int) -> str | None:
    """Return the time of a number of units since 1970, of which a second has 10 to the power `digits`; None for other years than
    1 to 9999."""
    seconds, fraction = divmod(units, 10**digits)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text}.{fraction:0{digits}}" if digits else text


def _decimal(kind: Type, value: bytes) -> str | None:
    precision, scale = kind.props.get("precision"), kind.props.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= MAX_SCALE:
        return None
    return decimal_text(value, scale)


def _big_decimal(kind: Type, value: bytes) -> str | None:
    """Return a decimal that has its scale with it: bytes, then a number, both in Avro's encoding."""
    del kind
    size, at = _short_number(value, 0)
    scale, end = _short_number(value, at + size)
    return decimal_text(value[at : at + size], scale) if size >= 0 and end == len(value) else None


def _short_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most three bytes, and where it ends; the end is beyond the data if there is none."""
    found = 0
    for shift, byte in enumerate(data[at : at + 3] if at >= 0 else b""):
        found |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return found >> 1 ^ -(found & 1), at + shift + 1
    return 0, len(data) + 1


def _uuid(kind: Type, value: bytes) -> str | None:
    return str(uuid.UUID(bytes=value)) if kind.size == 16 else None


def _date(kind: Type, value: int) -> str | None:
    del kind
    try:
        return date.fromordinal(_EPOCH_DAY + value).isoformat()
    except (ValueError, OverflowError):
        return None


def _duration(kind: Type, value: bytes) -> str | None:
    if kind.size != 12:
        return None
    months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return f"P{months}M{days}DT{millis // 1000}.{millis % 1000:03}S"


def _time(digits: int) -> Callable[[Type, int], str | None]:
    def form(kind: Type, value: int) -> str | None:
        del kind
        text = moment_text(value, digits) if 0 <= value < _DAY_S * 10**digits else None
        return None if text is None else text.partition("T")[2]

    return form


def _timestamp(digits: int, zone: str) -> Callable[[Type, int], str | None]:
    def form(kind: Type, value: int) -> str | None:
        del kind
        text = moment_text(value, digits)
        return None if text is None else text + zone

    return form


_FORMS: dict[tuple[str, str], Callable[[Type, Any], str | None]] = {
    ("decimal", "bytes"): _decimal,
    ("decimal", "fixed"): _decimal,
    ("big-decimal", "bytes"): _big_decimal,
    ("uuid", "fixed"): _uuid,
    ("date", "int"): _date,
    ("duration", "fixed"): _duration,
    ("time-millis", "int"): _time(3),
    ("time-micros", "long"): _time(6),
    **{(f"timestamp-{unit}", "long"): _timestamp(digits, "Z") for unit, digits in _DIGITS.items()},
    **{(f"local-timestamp-{unit}", "long"): _timestamp(digits, "") for unit, digits in _DIGITS.items()},
}
"""Logical type and the type under it -> the form."""
