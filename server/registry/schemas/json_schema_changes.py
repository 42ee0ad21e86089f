"""Whether a JSON Schema accepts all that another one accepts, as Confluent's registry judges it.

Names of differences are Confluent's. Like there, the following are not compared: `format`, `if`, `contains` (only its
numbers), `propertyNames`, `patternProperties` (only whether they cover a property that is added or removed), and the
booleans of draft 4 that make a bound exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from ....protocol.errors import KafkaError
from ....protocol.schemas.json_schema import COMBINATIONS, Node, target
from ....protocol.schemas.values import DIFFERENCE_STEPS, Budget, Comparison, Path, Schema, Walk, path_text, write_json
from ...runtime.expressions import Expression

_MATCH_STEPS = 100
"""Cost of a match, which takes at most 3 ms."""
_PATTERN_STEPS = 2_000
"""Cost of compiling an expression, which takes at most 20 ms."""

_LENIENT = {
    "ADDITIONAL_PROPERTIES_NARROWED",
    "ADDITIONAL_PROPERTIES_REMOVED",
    "UNEVALUATED_PROPERTIES_NARROWED",
    "UNEVALUATED_PROPERTIES_REMOVED",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}
"""Differences that the policy LENIENT allows."""

_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxProperties", "maxItems", "maxContains")
_BOUNDS = {
    "string": ("maxLength", "minLength"),
    "number": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
    "object": ("maxProperties", "minProperties"),
    "array": ("maxItems", "minItems", "maxContains", "minContains"),
}
"""Kind of node -> keywords whose value is a number, and that must not become stricter."""

_DESCRIPTIONS = (
    ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_", "has an unopen content model, and requires a property"),
    ("_ADDED_TO_OPEN_", "has an open content model, and declares a property or an item"),
    ("_REMOVED_FROM_CLOSED_", "has a closed content model, and does not declare the property or item"),
    (
        "_REMOVED_NOT_COVERED_",
        "does not accept, by its partially open content model, each value of the property or item",
    ),
    (
        "_ADDED_NOT_COVERED_",
        "declares, against the partially open content model of the other one, a property or an item",
    ),
    ("_ADDED", "has a keyword or a restriction that the other one does not have"),
    ("_REMOVED", "has a keyword or a restriction that the other one does not have"),
    ("_INCREASED", "has a value that is more than in the other one"),
    ("_EXPANDED", "has a value that is more than in the other one"),
    ("_DECREASED", "has a value that is less than in the other one"),
    ("_NARROWED", "accepts fewer types or values than the other one"),
    ("_EXTENDED", "requires more than the other one"),
    ("", "has a type or a value that differs from the other one"),
)
"""Part of a kind of difference -> what the reader's schema does at the path. The first one that is found counts."""


def find_differences(
    reader: Schema, writer: Schema, reader_word: str, writer_word: str, *, is_lenient: bool = False
) -> list[str]:
    """Return the differences because of which `reader` does not accept all that `writer` accepts.

    Raises:
        SchemaTooLarge: The schemas are too large.
    """
    allowed = _LENIENT if is_lenient else set()
    return _Comparison(reader_word, writer_word, allowed).run(writer.parsed.root, reader.parsed.root, (None, "#"))


class _Comparison(Comparison):
    """Compares nodes. Methods take the writer's node first."""

    def __init__(self, reader_word: str, writer_word: str, allowed: Collection[str]) -> None:
        super().__init__(reader_word, writer_word)
        self._allowed = allowed
        self._value_sets: dict[int, set[tuple[str, Any]]] = {}
        self._expressions: dict[str, Expression | None] = {}

    def walk(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        return super().walk(target(writer), target(reader), path)

    def compare(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        if reader.kind in COMBINATIONS and writer.kind not in COMBINATIONS:
            if reader.kind != "allOf" or len(reader.parts) == 1:
                for part in reader.parts:
                    if not (yield self.walk(writer, part, path)):
                        return []
        elif writer.kind in COMBINATIONS and reader.kind not in COMBINATIONS:
            if writer.kind == "allOf" or len(writer.parts) == 1:
                for part in writer.parts:
                    if not (yield self.walk(part, reader, path)):
                        return []
        elif writer.kind in COMBINATIONS:
            found: list[str] = yield self._combinations(writer, reader, path)
            return found
        if writer.kind != reader.kind:
            is_wider = writer.kind == "false" or reader.kind == "any"
            # Confluent's JSON converter writes decimals in more than one form.
            are_bytes = all(each.raw.get("connect.type") == "bytes" for each in (writer, reader))
            return [] if is_wider or are_bytes else [self._difference("TYPE_CHANGED", path)]
        found = self._bounds(writer, reader, path)
        match writer.kind:
            case "string":
                found += self._pattern(writer.raw.get("pattern"), reader.raw.get("pattern"), (path, "/pattern"))
            case "number":
                found += self._numbers(writer, reader, path)
            case "enum" | "const":
                found += self._values(writer, reader, (path, f"/{writer.kind}"))
            case "not":
                if (yield self.walk(reader.children["not"], writer.children["not"], (path, "/not"))):
                    found.append(self._difference("NOT_TYPE_EXTENDED", (path, "/not")))
            case "object":
                found += yield self._objects(writer, reader, path)
            case "array":
                found += yield self._arrays(writer, reader, path)
        return found

    def _unless_allowed(self, kind: str, path: Path) -> list[str]:
        return [] if kind in self._allowed else [self._difference(kind, path)]

    def _difference(self, kind: str, path: Path) -> str:
        self.budget.spend(DIFFERENCE_STEPS)
        text = next(text for part, text in _DESCRIPTIONS if part in kind)
        reader, writer = self.words
        at = path_text(path) if path and path[0] else "#/"
        text = f"The {reader} schema {text} (path '{at}', compared with the {writer} schema)"
        return f'{{errorType:"{kind}", description:"{text}"}}'

    def _bounds(self, writer: Node, reader: Node, path: Path) -> list[str]:
        found = []
        for name in _BOUNDS.get(writer.kind, ()):
            old, new = _bound(writer, name), _bound(reader, name)
            if new is None or new == old:
                continue
            if old is None:
                found.append(self._difference(f"{_capitals(name)}_ADDED", (path, f"/{name}")))
            elif (new < old) == (name in _UPPER):
                change = "DECREASED" if name in _UPPER else "INCREASED"
                found.append(self._difference(f"{_capitals(name)}_{change}", (path, f"/{name}")))
        return found

    def _pattern(self, old: str | None, new: str | None, path: Path) -> list[str]:
        if new is None or new == old:
            return []
        return [self._difference("PATTERN_ADDED" if old is None else "PATTERN_CHANGED", path)]

    def _numbers(self, writer: Node, reader: Node, path: Path) -> list[str]:
        found = []
        old, new = writer.raw.get("multipleOf"), reader.raw.get("multipleOf")
        if new is not None and new != old:
            change = "ADDED" if old is None else "EXPANDED" if _divides(old, new) else "CHANGED"
            if old is None or not _divides(new, old):
                found.append(self._difference(f"MULTIPLE_OF_{change}", (path, "/multipleOf")))
        if "integer" in reader.children and "integer" not in writer.children:
            found.append(self._difference("TYPE_NARROWED", path))
        return found

    def _values(self, writer: Node, reader: Node, path: Path) -> list[str]:
        old, new = self._values_of(writer), self._values_of(reader)
        self.budget.spend(len(old) + len(new))
        if old <= new:
            return []
        return [self._difference("ENUM_ARRAY_NARROWED" if new < old else "ENUM_ARRAY_CHANGED", path)]

    def _values_of(self, node: Node) -> set[tuple[str, Any]]:
        """Return the values of an enum or a constant, so that they can be compared."""
        if id(node) not in self._value_sets:
            values = [node.raw["const"]] if node.kind == "const" else node.raw["enum"]
            self._value_sets[id(node)] = {_comparable(value) for value in values}
        return self._value_sets[id(node)]

    def _combinations(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        found: list[str] = []
        old, new = writer.parts, reader.parts
        if writer.kind != reader.kind and not (
            reader.kind == "anyOf"
            or (len(old) == 1 and (len(new) == 1 or reader.kind == "oneOf"))
            or (len(new) == 1 and writer.kind == "allOf")
        ):
            return [self._difference("COMBINED_TYPE_CHANGED", path)]
        if len(old) < len(new) and reader.kind == "allOf":
            found.append(self._difference("PRODUCT_TYPE_EXTENDED", path))
        elif len(old) > len(new) and writer.kind != "allOf":
            found.append(self._difference("SUM_TYPE_NARROWED", path))
        compatible: list[list[int]] = []
        for index, part in enumerate(old):
            row = []
            for other_index, other in enumerate(new):
                if not (yield self.walk(part, other, (path, f"/{writer.kind}/{index}"))):
                    row.append(other_index)
            compatible.append(row)
        if _matched(compatible, self.budget) < min(len(old), len(new)):
            found.append(self._difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path))
        return found

    def _objects(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        found: list[str] = []
        old, new = writer.children.get("properties", {}), reader.children.get("properties", {})
        required, was_required = set(reader.raw.get("required", ())), set(writer.raw.get("required", ()))
        self.budget.spend(len(old) + len(new) + len(required) + len(was_required))
        now_required = required - was_required
        for name in old:
            if name in new and name in now_required and "default" not in new[name].raw:
                found.append(self._difference("REQUIRED_ATTRIBUTE_ADDED", (path, f"/required/{name}")))
        for name in {**old, **new}:
            where = (path, f"/properties/{name}")
            if name not in new:
                found += yield self._property_removed(old[name], name, reader, where)
            elif name not in old:
                found += yield self._property_added(new[name], name, writer, name in required, where)
            else:
                found += yield self.walk(old[name], new[name], where)
        found += yield self._dependencies(writer, reader, (path, "/dependencies"))
        found += yield self._rest(writer, reader, "additionalProperties", path)
        found += yield self._unevaluated(writer, reader, "unevaluatedProperties", path)
        return found

    def _property_removed(self, old: Node, name: str, reader: Node, path: Path) -> Walk[list[str]]:
        if _is_open(reader, "additionalProperties", "unevaluatedProperties"):
            return []
        rest = self._rest_for(reader, name)
        if rest is not None:
            found: list[str] = yield self.walk(old, rest, path)
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, *self._unless_allowed(kind, path)] if found else []
        return [] if old.kind == "false" else self._unless_allowed("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)

    def _property_added(self, new: Node, name: str, writer: Node, is_required: bool, path: Path) -> Walk[list[str]]:
        has_default = "default" in new.raw
        if _is_open(writer, "additionalProperties", "unevaluatedProperties"):
            if new.kind == "any":
                return []
            kind = "REQUIRED_PROPERTY" if is_required else "OPTIONAL_PROPERTY"
            kind = f"{kind}_WITH_DEFAULT" if is_required and has_default else kind
            return self._unless_allowed(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)
        found: list[str] = []
        rest = self._rest_for(writer, name)
        if rest is not None:
            found += yield self.walk(rest, new, path)
            if found:
                found += self._unless_allowed("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        if is_required and not has_default:
            found.append(self._difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path))
        return found

    def _rest_for(self, node: Node, name: str) -> Node | None:
        """Return the schema that a partially open content model has for a property that is not declared."""
        for pattern, schema in node.children.get("patternProperties", {}).items():
            if self._matches(pattern, name):
                return schema  # type: ignore[no-any-return]
        return _rest_of(node, "additionalProperties", "unevaluatedProperties")

    def _matches(self, pattern: str, name: str) -> bool:
        """Return whether an expression is found in a name. One that RE2 does not accept is found in none."""
        self.budget.spend(_MATCH_STEPS)
        try:
            if pattern not in self._expressions:
                self.budget.spend(_PATTERN_STEPS)
                self._expressions[pattern] = None
                self._expressions[pattern] = Expression(f"(?s:.*)(?:{pattern})(?s:.*)")
            expression = self._expressions[pattern]
            return expression is not None and expression.matches(name)
        except KafkaError:
            return False

    def _dependencies(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        found: list[str] = []
        for name, names in reader.children["dependentRequired"].items():
            where = (path, f"/{name}")
            if name not in writer.children["dependentRequired"]:
                found.append(self._difference("DEPENDENCY_ARRAY_ADDED", where))
                continue
            old, new = set(writer.children["dependentRequired"][name]), set(names)
            self.budget.spend(len(old) + len(new))
            if not new <= old:
                kind = "DEPENDENCY_ARRAY_EXTENDED" if new > old else "DEPENDENCY_ARRAY_CHANGED"
                found.append(self._difference(kind, where))
        for name, schema in reader.children["dependentSchemas"].items():
            where = (path, f"/{name}")
            if name not in writer.children["dependentSchemas"]:
                found.append(self._difference("DEPENDENCY_SCHEMA_ADDED", where))
            else:
                found += yield self.walk(writer.children["dependentSchemas"][name], schema, where)
        return found

    def _arrays(self, writer: Node, reader: Node, path: Path) -> Walk[list[str]]:
        found: list[str] = []
        old_items, new_items = writer.children.get("items"), reader.children.get("items")
        if new_items is not None:
            if old_items is None:
                found.append(self._difference("SCHEMA_ADDED", (path, "/items")))
            else:
                found += yield self.walk(old_items, new_items, (path, "/items"))
        old, new = writer.children.get("prefixItems", ()), reader.children.get("prefixItems", ())
        for index in range(max(len(old), len(new))):
            where = (path, f"/items/{index}")
            if index >= len(new):
                found += yield self._item_removed(old[index], reader, where)
            elif index >= len(old):
                found += yield self._item_added(new[index], writer, where)
            else:
                found += yield self.walk(old[index], new[index], where)
        found += yield self._rest(writer, reader, "additionalItems", path)
        found += yield self._unevaluated(writer, reader, "unevaluatedItems", path)
        if reader.raw.get("uniqueItems") and not writer.raw.get("uniqueItems"):
            found.append(self._difference("UNIQUE_ITEMS_ADDED", (path, "/uniqueItems")))
        return found

    def _item_removed(self, old: Node, reader: Node, path: Path) -> Walk[list[str]]:
        if _is_open(reader, "additionalItems", "unevaluatedItems"):
            return []
        rest = _rest_of(reader, "additionalItems", "unevaluatedItems")
        if rest is None:
            return [] if old.kind == "false" else [self._difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
        found: list[str] = yield self.walk(old, rest, path)
        kind = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, self._difference(kind, path)] if found else []

    def _item_added(self, new: Node, writer: Node, path: Path) -> Walk[list[str]]:
        if _is_open(writer, "additionalItems", "unevaluatedItems"):
            return [] if new.kind == "any" else [self._difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        rest = _rest_of(writer, "additionalItems", "unevaluatedItems")
        if rest is None:
            return []
        found: list[str] = yield self.walk(rest, new, path)
        kind = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, self._difference(kind, path)] if found else []

    def _rest(self, writer: Node, reader: Node, keyword: str, path: Path) -> Walk[list[str]]:
        """Compare what the schemas say about properties or items that they do not declare."""
        where = (path, f"/{keyword}")
        old, new = writer.children.get(keyword), reader.children.get(keyword)
        if new is None or _is_false(old):
            return []
        if _is_false(new):
            return self._unless_allowed(f"{_capitals(keyword)}_REMOVED", where)
        if old is None:
            return self._unless_allowed(f"{_capitals(keyword)}_NARROWED", where)
        found: list[str] = yield self.walk(old, new, where)
        return found

    def _unevaluated(self, writer: Node, reader: Node, keyword: str, path: Path) -> Walk[list[str]]:
        where = (path, f"/{keyword}")
        old, new = _unevaluated_of(writer, keyword), _unevaluated_of(reader, keyword)
        if new is None or _is_false(old) or (old is not None and new.kind == "any"):
            return []
        if _is_false(new):
            return self._unless_allowed(f"{_capitals(keyword)}_REMOVED", where)
        if old is None or old.kind == "any":
            return self._unless_allowed(f"{_capitals(keyword)}_NARROWED", where)
        found: list[str] = yield self.walk(old, new, where)
        return found


def _is_false(node: Node | None) -> bool:
    return node is not None and node.kind == "false"


def _unevaluated_of(node: Node, keyword: str) -> Node | None:
    """Return the schema of a keyword that drafts before 2019-09 do not have."""
    return node.children.get(keyword) if node.document.is_new else None


def _is_open(node: Node, rest: str, unevaluated: str) -> bool:
    """Return whether a content model is open: anything may be added to what the schema declares."""
    other = _unevaluated_of(node, unevaluated)
    is_restricted = rest in node.children or node.children.get("patternProperties")
    return not is_restricted and (other is None or other.kind == "any")


def _rest_of(node: Node, rest: str, unevaluated: str) -> Node | None:
    """Return the schema of what a partially open content model does not declare."""
    found = node.children.get(rest) or _unevaluated_of(node, unevaluated)
    return (
        None if found is None or found.kind == "false" or (rest not in node.children and found.kind == "any") else found
    )


def _bound(node: Node, name: str) -> Any:
    found = node.raw.get(name)
    if name == "minContains" and node.document.is_new and "contains" in node.raw and found is None:
        return 1
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _divides(divisor: float, number: float) -> bool:
    """Return whether a number is a multiple of another one, both as they are written."""
    left, right = Decimal(str(number)), Decimal(str(divisor))
    try:
        return bool(right) and left % right == 0
    except ArithmeticError:  # Numbers of more than 28 digits.
        return False


def _comparable(value: Any) -> tuple[str, Any]:
    """Return a value that is equal only to those of equal JSON: in Python, 1 is True."""
    return type(value).__name__, write_json(value, sort_keys=True) if isinstance(value, list | dict) else value


def _capitals(keyword: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", keyword).upper()


def _matched(rows: Sequence[Sequence[int]], budget: Budget) -> int:
    """Return the size of the largest matching: each row gets one of its numbers, and each number is used once."""
    row_of: dict[int, int] = {}
    number_of: dict[int, int] = {}
    for start in range(len(rows)):
        came_from: dict[int, int] = {}
        number = _free_number(rows, start, row_of, came_from, budget)
        while number is not None:  # The row of each step gives its number to the row of the step before.
            row = came_from[number]
            row_of[number], number_of[row], number = row, number, number_of.get(row)
    return len(row_of)


def _free_number(
    rows: Sequence[Sequence[int]], start: int, row_of: dict[int, int], came_from: dict[int, int], budget: Budget
) -> int | None:
    """Search for a number that no row has, over rows that could take another number; None if all are taken."""
    left = [start]
    for row in left:
        budget.spend(1 + len(rows[row]))
        for number in rows[row]:
            if number not in came_from:
                came_from[number] = row
                if number not in row_of:
                    return number
                left.append(row_of[number])
    return None
