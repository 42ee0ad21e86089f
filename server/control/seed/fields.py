"""A seed's text, or mapping, as fields with their positions: errors name the path of a field, and its line if known.

YAML is read by PyYAML's safe loader (JSON by Python's); aliases are refused, since a few of them can expand to a text
of any size.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...runtime.errors import ControlError, Kind, did_you_mean

SEED_BYTES_MAX = 4 << 20
"""Maximum size of a seed's text: a second of parsing."""
NESTED_MAX = 100
NOT_FINITE = ("Infinity", "NaN")
"""Numbers that quotas may have, as in Apache Kafka, but JSON does not: written as texts."""

_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a string"),
    (bytes, "bytes"),
    (list, "a list"),
    (dict, "a mapping"),
    (datetime.date, "a time"),
)


class SeedField:
    """A value in a seed: a mapping or list of fields, or a scalar."""

    __slots__ = ("line", "path", "source", "value")

    def __init__(self, value: Any, path: str, line: int | None, source: str) -> None:
        self.value = value
        """`dict[str, SeedField]`, `list[SeedField]`, or a scalar of YAML or JSON."""
        self.path = path
        """`topics.orders.partitions`; empty for the seed itself."""
        self.line = line
        self.source = source
        """The seed's name, for messages."""

    def error(self, problem: str, kind: Kind = Kind.INVALID) -> ControlError:
        """Return an error with position and problem in one line."""
        line = "" if self.line is None else f" line {self.line}"
        return ControlError(kind, f"{self.source}{line}: {self.path or 'the seed'}: {problem}")

    def expected(self, what: str) -> ControlError:
        """Return an error that names the expected and the actual value."""
        return self.error(f"expected {what}, found {self.describe}")

    @property
    def describe(self) -> str:
        """Short description of the value, for messages."""
        if self.value is None:
            return "nothing"
        word = next((word for kind, word in _WORDS if isinstance(self.value, kind)), type(self.value).__name__)
        if isinstance(self.value, dict | list | bytes):
            return word
        text = str(self.value)
        return f"{word}, {text[:60]!r}" if isinstance(self.value, str) else f"{word}, {text[:60]}"

    # What it should be

    def mapping(self, known: Collection[str] | None = None) -> Mapping[str, SeedField]:
        """Return its fields; `known` are the allowed names."""
        if not isinstance(self.value, dict):
            raise self.expected("a mapping")
        if known is not None:
            for name, field in self.value.items():
                if name not in known:
                    there = ", ".join(known)
                    raise field.error(f"unknown field; fields: {there}{did_you_mean(name, known)}")
        return self.value

    def items(self) -> list[SeedField]:
        """Return the members of a list."""
        if not isinstance(self.value, list):
            raise self.expected("a list")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.expected("a string (quote values that look like another type)")
        return self.value

    def number(self) -> float:
        if self.value in NOT_FINITE:
            return float(self.value)
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.expected("a number")
        return float(self.value)

    def integer(self, low: int, high: int) -> int:
        """Return a whole number, both bounds included."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.expected(f"a whole number from {low} to {high}")
        return self.value


def field_of_text(text: str, source: str) -> SeedField:
    """Parse the seed in a text: JSON if it begins with a brace, YAML otherwise.

    Raises:
        ControlError: INVALID: the text is too long, or neither; names the line.
    """
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > SEED_BYTES_MAX:
        raise ControlError(Kind.INVALID, f"{source}: seed too large ({size_bytes} bytes, limit {SEED_BYTES_MAX})")
    try:
        return _from_json(text, source) if text.lstrip("\ufeff \t\r\n").startswith("{") else _from_yaml(text, source)
    except RecursionError:
        raise ControlError(Kind.INVALID, f"{source}: nested too deeply") from None


def field_of(value: Any, source: str) -> SeedField:
    """Return the seed in a mapping of a program, or in parsed JSON. ControlError as above."""
    return _field(value, "", source, 0)


def _from_json(text: str, source: str) -> SeedField:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise ControlError(Kind.INVALID, f"{source}: duplicate key {twice!r} in a mapping")
        return found

    try:
        value = json.loads(text.lstrip("\ufeff"), object_pairs_hook=unique)
    except ValueError as error:
        line = f" line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ControlError(Kind.INVALID, f"{source}{line}: invalid JSON: {what}") from None
    return field_of(value, source)


def _field(value: Any, path: str, source: str, depth: int) -> SeedField:
    if depth > NESTED_MAX:
        raise ControlError(Kind.INVALID, f"{source}: nested too deeply (limit {NESTED_MAX} levels)")
    made: Any = value
    if isinstance(value, Mapping):
        made = {}
        for name, each in value.items():
            # Mappings in Python name partitions by numbers, as in YAML.
            key = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
            if not isinstance(key, str):
                raise SeedField(name, path, None, source).expected("a string as name")
            made[key] = _field(each, _below(path, key), source, depth + 1)
    elif isinstance(value, list | tuple):
        made = [_field(each, f"{path}[{at}]", source, depth + 1) for at, each in enumerate(value)]
    return SeedField(made, path, None, source)


def _below(path: str, name: str) -> str:
    return f"{path}.{name[:100]}" if path else name[:100]


def _from_yaml(text: str, source: str) -> SeedField:
    try:
        import yaml  # imported here, since only a seed needs it
    except ImportError as error:
        raise ControlError(
            Kind.INVALID, f"{source}: YAML requires PyYAML (pip install pyyaml); JSON works without it"
        ) from error
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            _refuse_aliases(yaml, loader_class, text, source)
            node = loader.get_single_node()
            if node is None:
                return SeedField(None, "", 1, source)
            return _Tree(yaml, loader, source).field(node, "", 0)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise ControlError(Kind.INVALID, f"{source}{line}: invalid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ControlError(Kind.INVALID, f"{source}: invalid YAML: {' '.join(str(error).split())[:200]}") from None
    except ValueError as error:  # e.g. an impossible date
        raise ControlError(Kind.INVALID, f"{source}: invalid YAML: {error}") from None


def _refuse_aliases(yaml: Any, loader_class: Any, text: str, source: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise ControlError(
                Kind.INVALID, f"{source} line {line}: *{event.anchor}: aliases are not supported; repeat the content"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > NESTED_MAX:
            line = event.start_mark.line + 1
            raise ControlError(Kind.INVALID, f"{source} line {line}: nested too deeply (limit {NESTED_MAX} levels)")


class _Tree:
    """Fields from YAML's nodes."""

    def __init__(self, yaml: Any, loader: Any, source: str) -> None:
        self._yaml = yaml
        self._loader = loader
        self._source = source

    def field(self, node: Any, path: str, depth: int) -> SeedField:
        line = node.start_mark.line + 1
        if not isinstance(node, self._yaml.ScalarNode) and node.tag not in _TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")[:100]
            raise SeedField(None, path, line, self._source).error(f"tag {tag} is not supported")
        if isinstance(node, self._yaml.MappingNode):
            return SeedField(dict(self._members(node, path, depth)), path, line, self._source)
        if isinstance(node, self._yaml.SequenceNode):
            fields = [self.field(each, f"{path}[{at}]", depth + 1) for at, each in enumerate(node.value)]
            return SeedField(fields, path, line, self._source)
        return SeedField(self._loader.construct_object(node), path, line, self._source)

    def _members(self, node: Any, path: str, depth: int) -> Iterator[tuple[str, SeedField]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = self._loader.construct_object(key_node) if isinstance(key_node, self._yaml.ScalarNode) else None
            # Partitions are numbers, and a topic may be called 42 or on: the text of a key is used as it is written.
            name = key_node.value if isinstance(key, str | int | float) else key
            line = key_node.start_mark.line + 1
            if not isinstance(name, str):
                raise SeedField(key, path, line, self._source).expected("a string as name")
            if name in seen:
                raise SeedField(None, _below(path, name), line, self._source).error("duplicate key")
            seen.add(name)
            field = self.field(value_node, _below(path, name), depth + 1)
            field.line = line
            yield name, field
