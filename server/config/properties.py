"""Reads `server.properties` files: Java's properties syntax, and the comment lines that carry what has no property.

    # nodes=3                          number of nodes
    # controllers=3000@localhost:9093  controllers by id, of whom `# node.ID.…` lines may speak, and where they answer
    # controller.listener=CONTROLLER   the name of their listener
    # node.1.listeners=PLAINTEXT://:0  an option of one node
    # cluster.id=abc                   the cluster's id
    # metadata.version=4.0-IV3         finalized feature levels to start with, those of a new cluster of that version
    # feature.group.version=0          one of them

Called by the server's configuration. Text in, values out; reading the file is the caller's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage.topics.options import ConfigError

_SPACE = " \t\f"
_CHARS_SHOWN = 100
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\n|\r")
_HINT = re.compile(
    r"# (nodes|metadata\.version|controllers|controller\.listener|cluster\.id|feature\.[^=:\s]+|node\.[0-9]+\.[^=:\s]+)[ \t]*="
)


@dataclass(frozen=True, slots=True)
class Properties:
    """What a file says. A key that occurs twice has its last value, as in Java."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    node_values: dict[int, dict[str, str]] = field(default_factory=dict, repr=False)
    nodes: int | None = None
    controllers: dict[int, str] = field(default_factory=dict)
    """HOST:PORT of controllers by id; empty for one that is only spoken of."""
    controller_listener: str | None = None
    cluster_id: str | None = None
    features: dict[str, int] = field(default_factory=dict)
    metadata_version: str | None = None


def parse_server_properties(text: str) -> Properties:
    """The properties and comment lines of a file.

    Raises:
        ConfigError: A malformed escape, or a comment line of ours whose value is no number.
    """
    values = parse_properties(text)
    found: dict[str, str] = {}
    for line in _LINE_END.split(text):
        if _HINT.match(line):
            found.update(parse_properties(line[2:]))
    node_values: dict[int, dict[str, str]] = {}
    features = {}
    for key, value in found.items():
        kind, _, rest = key.partition(".")
        if kind == "node":
            node, _, name = rest.partition(".")
            node_values.setdefault(_number(f"# {key}", node, 2**31 - 1), {})[name] = value
        elif kind == "feature":
            features[rest] = _number(f"# {key}", value, 2**15 - 1)
    nodes = _number("# nodes", found["nodes"], 1000) if "nodes" in found else None
    voters = filter(None, found.get("controllers", "").split(","))
    controllers = {
        _number("# controllers", voter.partition("@")[0].strip(), 2**31 - 1): voter.partition("@")[2].strip()
        for voter in voters
    }
    return Properties(
        values,
        node_values,
        nodes,
        controllers,
        found.get("controller.listener"),
        found.get("cluster.id"),
        features,
        found.get("metadata.version"),
    )


def _number(place: str, text: str, maximum: int) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > maximum:
        raise ConfigError(f"Invalid value {text} for comment line {place}: must be a number from 0 to {maximum}")
    return int(text)


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a text in Java's properties syntax. ConfigError for a malformed escape."""
    return dict(_pair(line) for line in _logical_lines(text))


def properties_text(value: str) -> str:
    """A value as it stands in such a file, in ASCII: Java reads nothing else alike everywhere."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    units = memoryview(escaped.encode("utf-16-le", "surrogatepass")).cast("H")
    text = "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in units)
    return f"\\{text}" if text[:1] in (" ", "\f") else text


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without leading blanks, comments and empty lines left out, continued lines joined."""
    joined = ""
    continued = False
    for line in _LINE_END.split(text):
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
    """`what` it is stands in the error; the text itself may be a password."""
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
                raise ConfigError(f"malformed \\u escape in {what}: four hexadecimal digits must follow")
            parts.append(chr(int(digits, 16)))
            at += 4
        else:
            parts.append(_ESCAPES.get(character, character))
    # Two \u escapes may spell one character beyond the basic plane.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
