"""Java's properties syntax, which Kafka's option files use: parsing of a text, and escaping of a value."""

import re
from collections.abc import Iterator

from .options import ConfigError

_SPACE = " \t\f"
_CHARS_SHOWN = 100
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
LINE_END = re.compile(r"\r\n|\n|\r")


def parse_properties(text: str) -> dict[str, str]:
    """Parse a text in Java's properties syntax. ConfigError for a malformed escape."""
    return dict(_pair(line) for line in _logical_lines(text))


def properties_text(value: str) -> str:
    """Escape a value for such a file, in ASCII: Java's default encoding for other characters varies."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    units = memoryview(escaped.encode("utf-16-le", "surrogatepass")).cast("H")
    text = "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in units)
    return f"\\{text}" if text[:1] in (" ", "\f") else text


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines without leading blanks; comments and empty lines are left out, continued lines joined."""
    joined = ""
    continued = False
    for line in LINE_END.split(text):
        line = line.lstrip(_SPACE)
        if not joined and (not line or line[0] in "#!"):
            continued = False
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        joined += line[:-1] if continued else line
        if not continued:
            if joined:
                yield joined
            joined = ""
    if continued:  # by a backslash at the very end of the text
        yield joined


def _pair(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_SPACE)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_SPACE)
    key = _unescape(line[:end], "a key")
    return key, _unescape(value, f"the value of {key[:_CHARS_SHOWN]!r}")


def _unescape(text: str, what: str) -> str:
    """Resolve the escapes in a text. An error has `what` it is, not the text, which may be a password."""
    if "\\" not in text:
        return text
    parts = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\" or at == len(text):
            parts.append(character)
            continue
        character = text[at]
        at += 1
        if character == "u":
            digits = text[at : at + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise ConfigError(f"malformed \\u escape in {what}; expected four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            at += 4
        else:
            parts.append(_ESCAPES.get(character, character))
    # Two \u escapes may form one character beyond the basic plane.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
