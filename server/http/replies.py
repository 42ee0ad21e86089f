"""Bodies of requests and responses: parsed, written, refused."""

from __future__ import annotations

import json
import json.scanner
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl

from .access import HttpRefusal
from .call import JSON_TYPE
from .json_values import encoded

READ_AT_ONCE_BYTES = 64 << 10
"""Maximum bytes of JSON that are parsed on Trio's thread: a millisecond or two."""
QUERY_FIELDS_MAX = 100


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()


def refusal(status: int, sentence: str, *headers: tuple[str, str]) -> Reply:
    """Return `{"error": sentence}`, in one line whatever names it contains."""
    return Reply(status, encoded({"error": " ".join(sentence.split())}), headers=headers)


def query_fields(text: str) -> list[tuple[str, str]]:
    """Parse the names and texts of a query. HttpRefusal 400: too many, or not UTF-8."""
    if not text:
        return []
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as error:
        raise HttpRefusal(400, f"expected a query of at most {QUERY_FIELDS_MAX} fields in UTF-8: {error}") from None


class _Patient(json.JSONDecoder):
    """Decoder in Python, which is slower: the decoder in C lets no other thread run before it ends."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_no_number)
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # typeshed lacks it


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


_AT_ONCE = json.JSONDecoder(parse_constant=_no_number)


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body that is a JSON object; HttpRefusal 400 if it is not."""
    decoder = _AT_ONCE if len(body) <= READ_AT_ONCE_BYTES else _Patient()
    try:
        found = decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise HttpRefusal(400, f"expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise HttpRefusal(400, f"expected a JSON object, found {type(found).__name__}")
    return found
