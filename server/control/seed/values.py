"""Keys, values, headers and times of records as a seed writes them.

order-1                       a text, in UTF-8
{json: {total: 3}}            JSON, without blanks
{hex: 00ff}  {base64: AP8=}   bytes
null, or nothing at all       none: a value of none is a tombstone

2026-01-31T12:00:00Z          a time (UTC without a zone)
1767225600000                 milliseconds since 1970
-25h                          that long before the seed is planted (ms, s, m, h, d)
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import re
from collections.abc import Callable
from typing import Any

from .fields import SeedField

_AGO = re.compile(r"-([0-9]{1,12})(ms|s|m|h|d)", re.ASCII)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIMESTAMP_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, in ms since 1970."""


def _from_hex(field: SeedField) -> bytes:
    try:
        return bytes.fromhex(field.text())
    except ValueError:
        raise field.expected("an even number of hexadecimal digits") from None


def _from_base64(field: SeedField) -> bytes:
    try:
        return base64.b64decode(field.text(), validate=True)
    except (binascii.Error, ValueError):
        raise field.expected("base64") from None


def _from_json(field: SeedField) -> bytes:
    try:
        return json.dumps(plain_value(field), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise field.expected("a JSON number") from None


def _from_text(field: SeedField) -> bytes:
    try:
        return field.text().encode()
    except UnicodeEncodeError:
        raise field.expected("valid Unicode text") from None


FORMS: dict[str, Callable[[SeedField], bytes]] = {
    "text": _from_text,
    "json": _from_json,
    "hex": _from_hex,
    "base64": _from_base64,
}


def bytes_of(field: SeedField) -> bytes | None:
    """Return the bytes of a key, a value, or a header's value. ControlError: not a known form."""
    if field.value is None:
        return None
    if isinstance(field.value, str):
        return _from_text(field)
    if isinstance(field.value, bytes):  # YAML's !!binary, or from a Python program
        return field.value
    if not isinstance(field.value, dict):
        raise field.error(f"expected a string, found {field.describe}; quote it, or write {{json: ...}}")
    members = field.mapping(FORMS)
    if len(members) != 1:
        raise field.expected(f"one of {', '.join(FORMS)}")
    ((form, member),) = members.items()
    return FORMS[form](member)


def timestamp_of(field: SeedField) -> Callable[[int], int]:
    """Return a timestamp as a function of the time of seeding, both in ms since 1970. ControlError: not a time."""
    value = field.value
    if isinstance(value, str):
        if ago := _AGO.fullmatch(value):
            by_ms = int(ago[1]) * _UNITS_MS[ago[2]]
            if by_ms > TIMESTAMP_MS_MAX:
                raise field.expected("at most 8000 years")
            return lambda now_ms: max(0, now_ms - by_ms)
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise field.expected("a time, e.g. 2026-01-31T12:00:00Z, ms since 1970, or -25h") from None
    if isinstance(value, datetime.date):
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        at_ms = (value - _EPOCH) // datetime.timedelta(milliseconds=1)
        if at_ms < 0:
            raise field.expected("a time not before 1970")
        return lambda _: at_ms
    at_ms = field.integer(0, TIMESTAMP_MS_MAX)
    return lambda _: at_ms


def plain_value(field: SeedField) -> Any:
    value = field.value
    if isinstance(value, dict):
        return {name: plain_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_value(each) for each in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        raise field.expected("a JSON value")
    return value
