"""Records as lines of JSON: the output of `consume --json`, and the input of `produce --json-lines`.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": 0, "key": "k", "value": null, "headers": [["name", "text"]]}

Keys, values and headers are texts, null, or, if they are not UTF-8, `{"base64": "…"}`. If a key or value names a schema, its content
is also there as JSON: `key_decoded`, `value_decoded`. `produce` ignores these two beside the bytes, as it ignores topic and offset.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from ....protocol.schemas.frames import PARTS, Decoded, Part
from ...client.values import NewRecord, Record
from ..frame.errors import wrong_call

FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


def as_json(record: Record, decoded: Mapping[Part, Decoded | None]) -> dict[str, Any]:
    """Return a record as the object of one line."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _json_content(record.key),
        "value": _json_content(record.value),
        "headers": [[name, _json_content(value)] for name, value in record.headers],
        **{
            f"{part}_decoded": json.loads(each.text)
            for part, each in decoded.items()
            if each is not None and each.text is not None
        },
    }


def _json_content(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def from_json(line: str, partition: int | None = None) -> NewRecord:
    """Return the record of a line. `partition` applies to all lines; if it is None, the line's own does.

    Raises:
        CommandError: WRONG_CALL. The line is not an object with those fields.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong_call(f"expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise wrong_call(f"expected a JSON object, found {type(found).__name__}")
    # Without its bytes, a decoded value would become a tombstone.
    if unknown := found.keys() - {*FIELDS, *(f"{part}_decoded" for part in PARTS if part in found)}:
        raise wrong_call(f"unknown field {min(unknown)!r}; a record has: {', '.join(FIELDS)}")
    own = _number(found, "partition")
    return NewRecord(
        _content(found.get("value"), "value"),
        _content(found.get("key"), "key"),
        _headers(found.get("headers")),
        _number(found, "timestamp_ms"),
        own if partition is None else partition,
    )


def _headers(found: object) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(found.items()) if isinstance(found, dict) else [] if found is None else found
    if not isinstance(pairs, list) or not all(
        isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str) for each in pairs
    ):
        raise wrong_call("headers: expected an array of [name, value] pairs")
    return tuple((name, _content(content, "headers")) for name, content in pairs)


def _content(found: object, what: str) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        return found.encode(errors="surrogatepass")
    if isinstance(found, dict) and found.keys() == {"base64"} and isinstance(found["base64"], str):
        try:
            return base64.b64decode(found["base64"], validate=True)
        except binascii.Error as error:
            raise wrong_call(f"{what}: expected base64: {error}") from None
    raise wrong_call(f'{what}: expected a string, null or {{"base64": text}}, found {json.dumps(found)[:60]}')


def _number(found: dict[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= -1):
        return value
    raise wrong_call(f"{name}: expected a number, found {json.dumps(value)[:60]}")
