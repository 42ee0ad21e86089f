"""JSON Schema, drafts 4 to 2020-12, as a graph of nodes that have one kind each.

A schema says several things at once: a type with its keywords, an enum, combinations. Each of these is a node, and
a schema with several is a combination of all (`allOf`). Confluent's registry compares schemas in this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urljoin

from .values import (
    MAX_NAME_CHARACTERS,
    NOTHING,
    Budget,
    InvalidSchema,
    Schema,
    encoded,
    reached,
    read_json,
    shown,
    write_json,
)

TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
COMBINATIONS = ("allOf", "anyOf", "oneOf")

_KEYWORDS = {
    "array": (
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
    ),
    "object": (
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
}
"""Kind of node -> the keywords that say something about values of this kind only."""
_SCHEMAS = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords whose value is a schema."""
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_CHARACTERS_PER_STEP = 20
_NEW_DRAFTS = ("2019-09", "2020-12")
_META_SCHEMAS = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")


class Node:
    """A schema, or one of several things that a schema says."""

    __slots__ = ("children", "document", "kind", "parts", "raw")

    def __init__(self, document: Document, raw: Any, kind: str = "") -> None:
        self.document = document
        self.raw: dict[str, Any] = raw if isinstance(raw, dict) else {}
        self.kind = ("any" if raw else "false") if isinstance(raw, bool) else kind
        """A name: any, false, a type (an integer is a number), enum, const, not, if, ref, or one of `COMBINATIONS`."""
        self.children: Mapping[str, Any] = NOTHING
        """Keyword -> a node, or nodes by index or name.

        `additionalProperties` and `additionalItems` that are true are left out: they say nothing.
        """
        self.parts: Sequence[Node] = ()
        """The schemas of a combination; the one that a `ref` leads to."""


class Document:
    """The JSON value of one schema, and where in it the identifiers lead."""

    def __init__(self, raw: Any, references: Mapping[str, Schema]) -> None:
        self.raw = raw
        self._identified: dict[str, Any] = {}
        """URI without fragment -> value."""
        self._anchors: dict[tuple[str, str], Any] = {}
        """URI without fragment, and name of an anchor there -> value."""
        self._bases: dict[int, str] = {}
        """Identity of a value -> its base URI, if that is not the one of the document."""
        dialect = raw.get("$schema") if isinstance(raw, dict) else None
        self.is_new = isinstance(dialect, str) and any(draft in dialect for draft in _NEW_DRAFTS)
        self._base = _identifier(raw, "") if isinstance(raw, dict) else ""
        self._index()
        self._known: dict[str, tuple[Document, str]] = {}
        """URI without fragment -> the document that it is in, and the URI there."""
        for name, schema in reached(references):
            found: Document = schema.parsed.document
            names = {uri: uri for uri in found._identified}
            for uri, own in {name: found._base, _joined(self._base, name): found._base, **names}.items():
                self._known.setdefault(uri, (found, own))

    def _index(self) -> None:
        left = [(self.raw, self._base)]
        self._identified[self._base] = self.raw
        while left:
            value, base = left.pop()
            if isinstance(value, dict):
                if "$id" in value and (own := _identifier(value, base)) != base:
                    base = own
                    self._identified.setdefault(base, value)
                if base != self._base:
                    self._bases[id(value)] = base
                for name in ("$anchor", "$dynamicAnchor", "$id", "id"):
                    anchor = value.get(name)
                    if isinstance(anchor, str) and (anchor.startswith("#") or "nchor" in name):
                        self._anchors.setdefault((base, anchor.removeprefix("#")), value)
                left += [(each, base) for each in value.values() if isinstance(each, dict | list)]
            elif isinstance(value, list):
                left += [(each, base) for each in value if isinstance(each, dict | list)]

    def find(self, reference: str, place: dict[str, Any]) -> tuple[Document, Any]:
        """Return what a `$ref` in an object of this document leads to, with the document where that is.

        Raises:
            InvalidSchema: It leads to nothing.
        """
        base = self._bases.get(id(place), self._base)
        uri, _, fragment = reference.partition("#")
        full = _joined(base, uri) if uri else base
        for each in (full, uri):
            if each in self._identified:
                return self, self._at(each, fragment, reference)
            if each in self._known:
                document, own = self._known[each]
                return document, document._at(own, fragment, reference)
        if full.startswith(_META_SCHEMAS):
            return self, True
        raise InvalidSchema(f"$ref: not found ({shown(reference)}); name its schema in the references")

    def _at(self, base: str, fragment: str, reference: str) -> Any:
        if (base, fragment) in self._anchors:
            return self._anchors[base, fragment]
        value = self._identified[base]
        steps = [unquote(step).replace("~1", "/").replace("~0", "~") for step in fragment.split("/")[1:]]
        if steps and steps[0] == "$defs" and isinstance(value, dict) and "$defs" not in value:
            steps[0] = "definitions"  # Confluent's registry accepts the one name for the other.
        if fragment and not fragment.startswith("/"):
            steps = [""]
        for step in steps:
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and len(step) < 7 and int(step) < len(value):
                value = value[int(step)]
            else:
                raise InvalidSchema(f"$ref: not found ({shown(reference)})")
        return value


class JsonSchema:
    """The content of a text."""

    __slots__ = ("document", "root")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root = _Builder(document).root


def parse(text: str, references: Mapping[str, Schema], is_new: bool) -> Schema:
    """Return the schema of a text."""
    del is_new
    raw = read_json(text)
    for name, schema in reached(references):
        if schema.kind != "JSON":
            raise InvalidSchema(f"reference {shown(name)}: expected a schema of type JSON, found {schema.kind}")
    canonical = write_json(raw)
    normalized = write_json(raw, sort_keys=True)
    encoded(canonical)
    parsed = JsonSchema(Document(raw, references))
    return Schema("JSON", text, canonical, canonical if canonical == normalized else normalized, references, parsed)


class _Builder:
    """Makes the nodes that one schema reaches. Documents stay as they are: other threads may use them."""

    def __init__(self, document: Document) -> None:
        self._nodes: dict[int, Node] = {}
        self._left: list[Node] = []
        self._budget = Budget()
        self.root = self._node(document, document.raw, "schema")
        while self._left:
            node = self._left.pop()
            self._budget.spend(1 + len(node.raw))
            self._fill(node)
        self._check_loops()

    def _node(self, document: Document, raw: Any, where: str) -> Node:
        if not isinstance(raw, dict | bool):
            raise InvalidSchema(f"{where[:100]}: expected a schema, an object or a boolean, found {shown(raw)}")
        if isinstance(raw, bool):
            return Node(document, raw)
        node = self._nodes.get(id(raw))
        if node is None:
            node = self._nodes[id(raw)] = Node(document, raw)
            self._left.append(node)
        return node

    def _fill(self, node: Node) -> None:
        facets = list(self._facets(node))
        if len(facets) == 1:
            node.kind, node.children, node.parts = facets[0].kind, facets[0].children, facets[0].parts
        elif facets:
            node.kind, node.parts = "allOf", facets
        else:
            node.kind = "any"

    def _facets(self, node: Node) -> Iterator[Node]:
        document, raw = node.document, node.raw
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(raw.get(name), str):
                yield self._made(node, "ref", parts=(self._node(*document.find(raw[name], raw), "$ref"),))
                if not document.is_new:
                    return
        if "enum" in raw:
            _expect(isinstance(raw["enum"], list), raw, "enum", "an array")
            yield self._made(node, "enum")
        for name in COMBINATIONS:
            if name in raw:
                _expect(isinstance(raw[name], list), raw, name, "an array")
                distinct = self._distinct(raw[name])
                if distinct:
                    yield self._made(node, name, parts=[self._node(document, each, name) for each in distinct])
        if "not" in raw:
            yield self._made(node, "not", {"not": self._node(document, raw["not"], "not")})
        if "const" in raw:
            yield self._made(node, "const")
        if "if" in raw:
            parts: dict[str, Any] = {
                name: self._node(document, raw[name], name) for name in ("if", "then", "else") if name in raw
            }
            yield self._made(node, "if", parts)
        yield from self._types(node)

    def _distinct(self, schemas: list[Any]) -> list[Any]:
        if len(schemas) < 2:
            return schemas
        found = {}
        for each in schemas:
            text = write_json(each, sort_keys=True)
            self._budget.spend(len(text) // _CHARACTERS_PER_STEP)  # Inner schemas are written once a level.
            found[text] = each
        return list(found.values())

    def _types(self, node: Node) -> Iterator[Node]:
        found = node.raw.get("type", [])
        types = [found] if isinstance(found, str) else found
        _expect(isinstance(types, list) and all(each in TYPES for each in types), node.raw, "type", "names of types")
        if not types:
            for kind, keywords in _KEYWORDS.items():
                if any(keyword in node.raw for keyword in keywords):
                    yield self._of_type(node, kind)
            return
        kinds = [self._of_type(node, each) for each in dict.fromkeys(types)]
        yield kinds[0] if len(kinds) == 1 else self._made(node, "anyOf", parts=kinds)

    def _of_type(self, node: Node, kind: str) -> Node:
        raw, document = node.raw, node.document
        children: dict[str, Any] = {"integer": True} if kind == "integer" else {}
        kind = "number" if kind == "integer" else kind
        for name in _KEYWORDS.get(kind, ()):
            value: Any = raw.get(name)
            if name not in raw or (value is True and name.startswith("additional")):
                continue
            if name in _SCHEMAS:
                children[name] = self._node(document, value, name)
            elif name in _MAPS:
                _expect(isinstance(value, dict), raw, name, "an object")
                children[name] = {key: self._node(document, each, key) for key, each in value.items()}
            elif name in _COUNTS:
                _expect(_is_number(value) and value >= 0 and value == int(value), raw, name, "a count")
            elif name == "pattern":
                _expect(isinstance(value, str), raw, name, "a string")
            elif name == "required":
                _expect(_are_strings(value), raw, name, "an array of strings")
            elif kind == "number":
                # In draft 4 the exclusive bounds are booleans.
                is_flag = name.startswith("exclusive") and isinstance(value, bool)
                _expect(is_flag or _is_number(value), raw, name, "a number")
        if kind == "object":
            self._add_dependencies(node, children)
        elif kind == "array":
            self._add_items(node, children)
        return self._made(node, kind, children or NOTHING)

    def _add_dependencies(self, node: Node, children: dict[str, Any]) -> None:
        names: dict[str, list[str]] = {}
        schemas: dict[str, Node] = children.pop("dependentSchemas", {})
        for keyword in ("dependencies", "dependentRequired"):
            found = node.raw.get(keyword, {})
            _expect(isinstance(found, dict), node.raw, keyword, "an object")
            for name, each in found.items():
                if isinstance(each, list) or keyword == "dependentRequired":
                    _expect(_are_strings(each), node.raw, keyword, "arrays of strings")
                    names[name] = each
                else:
                    schemas[name] = self._node(node.document, each, keyword)
        children |= {"dependentRequired": names, "dependentSchemas": schemas}

    def _add_items(self, node: Node, children: dict[str, Any]) -> None:
        """In 2020-12 `prefixItems` and `items` are what `items` and `additionalItems` were before."""
        items, first = node.raw.get("items"), node.raw.get("prefixItems")
        if isinstance(items, list) and first is None:
            items, first = None, items
        elif first is not None or (node.document.is_new and isinstance(items, bool)):
            children.pop("additionalItems", None)
            if items is not None and items is not True:
                children["additionalItems"] = self._node(node.document, items, "items")
            items = None
        if first is not None:
            _expect(isinstance(first, list), node.raw, "prefixItems", "an array")
            children["prefixItems"] = [self._node(node.document, each, "items") for each in first]
        if items is not None:
            children["items"] = self._node(node.document, items, "items")

    def _made(self, node: Node, kind: str, children: Mapping[str, Any] = NOTHING, parts: Sequence[Node] = ()) -> Node:
        made = Node(node.document, node.raw, kind)
        made.children, made.parts = children, parts
        return made

    def _check_loops(self) -> None:
        """Refuse references that lead to nothing but themselves, and lead all others to their end at once."""
        done: set[int] = set()
        for start in self._nodes.values():
            path: dict[int, Node] = {}
            node = start
            while node.kind == "ref" and id(node) not in done:
                if id(node) in path:
                    raise InvalidSchema(f"$ref: leads back to itself ({shown(node.raw.get('$ref'))})")
                path[id(node)] = node
                node = node.parts[0]
            end = target(node)
            for each in path.values():
                each.parts = (end,)
            done.update(path)


def target(node: Node) -> Node:
    """Return the node that a reference leads to, by however many steps; any other node itself."""
    while node.kind == "ref":
        node = node.parts[0]
    return node


def _identifier(raw: dict[str, Any], base: str) -> str:
    """Return the base URI in an object. `id` is the keyword of draft 4."""
    found = next((raw[name] for name in ("$id", "id") if isinstance(raw.get(name), str)), "")
    return base if not found or found.startswith("#") else _joined(base, found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _expect(holds: bool, raw: dict[str, Any], name: str, expected: str) -> None:
    if not holds:
        raise InvalidSchema(f"{name}: expected {expected}, found {shown(raw[name])}")


def _joined(base: str, reference: str) -> str:
    try:
        found = urljoin(base, reference).partition("#")[0] or reference
    except ValueError as error:
        raise InvalidSchema(f"URI: invalid ({shown(reference)}: {error})") from None
    if len(found) > MAX_NAME_CHARACTERS:
        raise InvalidSchema(f"URI: too long ({len(found)} characters, limit {MAX_NAME_CHARACTERS})")
    return found
