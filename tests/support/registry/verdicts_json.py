"""Changes of JSON Schemas, by whether all values that one accepts are accepted by the other one.

Two kinds of rows differ from that because Confluent's registry judges by structure: those that say so.
"""

from __future__ import annotations

from typing import Any

from .verdict import BACKWARD, FORWARD, FULL, NONE, Pair

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
NEW = "https://json-schema.org/draft/2020-12/schema"


def opened(properties: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """An object with an open content model: properties that it does not declare may have any value."""
    return {"type": "object", "properties": properties or {}, **keywords}


def closed(properties: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """An object without other properties than it declares."""
    return opened(properties, additionalProperties=False, **keywords)


def partly(rest: Any, properties: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    """An object with a partially open content model: other properties are of one schema."""
    return opened(properties, additionalProperties=rest, **keywords)


def array(items: Any = None, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", **({} if items is None else {"items": items}), **keywords}


A, AB = {"a": STRING}, {"a": STRING, "b": INTEGER}
TREE = opened({"children": array({"$ref": "#"}), "a": INTEGER})
"""A recursive schema."""


def new(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in draft 2020-12."""
    return {"$schema": NEW, **schema}


def sums(*schemas: Any) -> dict[str, Any]:
    return {"oneOf": list(schemas)}


def anything(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def products(*schemas: Any) -> dict[str, Any]:
    return {"allOf": list(schemas)}


def loop(kind: Any) -> dict[str, Any]:
    """Definitions of two objects that contain each other; one of them also contains this schema."""
    return {"a": closed({"n": {"$ref": "#/definitions/c"}, "v": kind}), "c": closed({"p": {"$ref": "#/definitions/a"}})}


PAIRS = [
    # Types.
    Pair("the same type", STRING, STRING, FULL),
    Pair("annotations have no meaning", STRING, {**STRING, "title": "t", "description": "d", "default": "x"}, FULL),
    Pair("$id and $schema have no meaning", STRING, {**STRING, "$id": "http://e.org/a", "$comment": "c"}, FULL),
    Pair("format is not compared", STRING, {**STRING, "format": "date"}, FULL),
    Pair("another type", STRING, BOOLEAN, NONE, ("TYPE_CHANGED", "TYPE_CHANGED")),
    Pair("integers are numbers", INTEGER, NUMBER, BACKWARD, ("TYPE_NARROWED",)),
    Pair("a number is no string", NUMBER, STRING, NONE),
    Pair("null is no boolean", NULL, BOOLEAN, NONE),
    Pair("an array is no object", array(), opened(), NONE),
    Pair("a type is left out", STRING, {}, BACKWARD, ("TYPE_CHANGED",)),
    Pair("true accepts everything", STRING, True, BACKWARD),
    Pair("true is the empty schema", {}, True, FULL),
    Pair("false accepts nothing", False, STRING, BACKWARD),
    Pair("false and true", False, True, BACKWARD),
    Pair("a type is added to a list", {"type": ["string"]}, {"type": ["string", "null"]}, BACKWARD),
    Pair("a type becomes a list with it", STRING, {"type": ["string", "null"]}, BACKWARD),
    Pair("a list of one type is that type", STRING, {"type": ["string"]}, FULL),
    Pair("order of types", {"type": ["null", "string"]}, {"type": ["string", "null"]}, FULL),
    Pair("a type of a list is widened", {"type": ["null", "integer"]}, {"type": ["null", "number"]}, BACKWARD),
    Pair("a type of a list is replaced", {"type": ["null", "integer"]}, {"type": ["null", "string"]}, NONE),
    Pair("keywords are those of the type even where it is missing", {"minLength": 3}, {"minLength": 2}, BACKWARD),
    # Strings.
    Pair("maxLength is added", STRING, {**STRING, "maxLength": 3}, FORWARD, ("MAX_LENGTH_ADDED",)),
    Pair(
        "maxLength grows", {**STRING, "maxLength": 3}, {**STRING, "maxLength": 4}, BACKWARD, ("MAX_LENGTH_DECREASED",)
    ),
    Pair("minLength is added", STRING, {**STRING, "minLength": 3}, FORWARD, ("MIN_LENGTH_ADDED",)),
    Pair("minLength grows", {**STRING, "minLength": 3}, {**STRING, "minLength": 4}, FORWARD, ("MIN_LENGTH_INCREASED",)),
    Pair("a pattern is added", STRING, {**STRING, "pattern": "a"}, FORWARD, ("PATTERN_ADDED",)),
    Pair(
        "a pattern changes",
        {**STRING, "pattern": "a"},
        {**STRING, "pattern": "a|b"},
        NONE,
        ("PATTERN_CHANGED", "PATTERN_CHANGED"),
    ),
    # Numbers.
    Pair("maximum is added", NUMBER, {**NUMBER, "maximum": 3}, FORWARD, ("MAXIMUM_ADDED",)),
    Pair("maximum grows", {**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 3.5}, BACKWARD, ("MAXIMUM_DECREASED",)),
    Pair("minimum is added", NUMBER, {**NUMBER, "minimum": 0}, FORWARD, ("MINIMUM_ADDED",)),
    Pair("minimum grows", {**NUMBER, "minimum": -1}, {**NUMBER, "minimum": 0}, FORWARD, ("MINIMUM_INCREASED",)),
    Pair("an equal minimum", {**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 1.0}, FULL),
    Pair("exclusiveMaximum is added", NUMBER, {**NUMBER, "exclusiveMaximum": 3}, FORWARD),
    Pair("exclusiveMaximum grows", {**NUMBER, "exclusiveMaximum": 3}, {**NUMBER, "exclusiveMaximum": 4}, BACKWARD),
    Pair("exclusiveMinimum is added", NUMBER, {**NUMBER, "exclusiveMinimum": 3}, FORWARD),
    Pair("exclusiveMinimum grows", {**NUMBER, "exclusiveMinimum": 3}, {**NUMBER, "exclusiveMinimum": 4}, FORWARD),
    Pair(
        "a bound becomes exclusive (by structure: one keyword is removed, one is added)",
        {**NUMBER, "minimum": 0},
        {**NUMBER, "exclusiveMinimum": 0},
        NONE,
    ),
    Pair("multipleOf is added", NUMBER, {**NUMBER, "multipleOf": 2}, FORWARD, ("MULTIPLE_OF_ADDED",)),
    Pair("a multiple", {**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 2}, BACKWARD, ("MULTIPLE_OF_EXPANDED",)),
    Pair("a fraction", {**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.01}, BACKWARD),
    Pair("the same multiple", {**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 2.0}, FULL),
    Pair(
        "another multiple",
        {**NUMBER, "multipleOf": 3},
        {**NUMBER, "multipleOf": 2},
        NONE,
        ("MULTIPLE_OF_CHANGED", "MULTIPLE_OF_CHANGED"),
    ),
    Pair("integers within bounds become numbers", {**INTEGER, "maximum": 3}, {**NUMBER, "maximum": 3}, BACKWARD),
    Pair("a bound and the type change against each other", {**INTEGER, "maximum": 3}, {**NUMBER, "maximum": 2}, NONE),
    # Enums and constants.
    Pair("a value is added", {"enum": ["x"]}, {"enum": ["x", "y"]}, BACKWARD, ("ENUM_ARRAY_NARROWED",)),
    Pair("order of values", {"enum": ["x", "y"]}, {"enum": ["y", "x"]}, FULL),
    Pair("a value is replaced", {"enum": ["x"]}, {"enum": ["y"]}, NONE, ("ENUM_ARRAY_CHANGED", "ENUM_ARRAY_CHANGED")),
    Pair("values of all types", {"enum": [1, None, {"a": []}]}, {"enum": [1, None, {"a": []}, True]}, BACKWARD),
    Pair("an enum with its type", {**STRING, "enum": ["x"]}, {**STRING, "enum": ["x", "y"]}, BACKWARD),
    Pair("an enum becomes its type", {**STRING, "enum": ["x"]}, STRING, BACKWARD, ("TYPE_CHANGED",)),
    Pair("an enum without type becomes a type (by structure)", {"enum": ["x"]}, STRING, NONE),
    Pair("the same constant", {"const": 3}, {"const": 3}, FULL),
    Pair("another constant", {"const": 3}, {"const": 4}, NONE),
    Pair("a constant becomes an enum (by structure)", {"const": 3}, {"enum": [3, 4]}, NONE),
    # Objects with an open content model: old data may have any property, so a new one restricts them.
    Pair("the same properties", opened(AB), opened(AB), FULL),
    Pair("additionalProperties true is the default", opened(A), opened(A, additionalProperties=True), FULL),
    Pair(
        "an optional property is added to an open content model",
        opened(A),
        opened(AB),
        FORWARD,
        ("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",),
    ),
    Pair(
        "a required property is added to an open content model",
        opened(A),
        opened(AB, required=["b"]),
        FORWARD,
        ("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",),
    ),
    Pair(
        "a required property with default is added to an open content model",
        opened(A),
        opened({**A, "b": {**INTEGER, "default": 0}}, required=["b"]),
        FORWARD,
        ("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",),
    ),
    Pair("a property of any value is added to an open content model", opened(A), opened({**A, "b": {}}), FULL),
    Pair("a required property is removed from an open content model", opened(AB, required=["b"]), opened(A), BACKWARD),
    # Objects with a closed content model: old data has no other properties, so a new one must be optional.
    Pair(
        "an optional property is added to a closed content model",
        closed(A),
        closed(AB),
        BACKWARD,
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",),
    ),
    Pair(
        "a required property is added to a closed content model",
        closed(A),
        closed(AB, required=["b"]),
        NONE,
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
    ),
    Pair(
        "a required property with default is added to a closed content model",
        closed(A),
        closed({**A, "b": {**INTEGER, "default": 0}}, required=["b"]),
        BACKWARD,
    ),
    Pair("a property that is false is removed from a closed content model", closed({**A, "b": False}), closed(A), FULL),
    Pair("a closed content model is opened", closed(A), opened(A), BACKWARD, ("ADDITIONAL_PROPERTIES_REMOVED",)),
    Pair("a closed content model is opened, and declares more", closed(A), opened(AB), BACKWARD),
    Pair("a closed content model is opened, and declares less", closed(AB), opened(A), BACKWARD),
    Pair("an empty closed object gets a property", closed(), closed(A), BACKWARD),
    # Objects with a partially open content model: a property is compared with the schema of the others.
    Pair("a partially open content model is opened", partly(STRING), opened(), BACKWARD),
    Pair("a closed content model is partially opened", closed(A), partly(STRING, A), BACKWARD),
    Pair("the schema of other properties is widened", partly(INTEGER), partly(NUMBER), BACKWARD),
    Pair("the schema of other properties changes", partly(INTEGER), partly(STRING), NONE),
    Pair("a property is added that is covered", partly(STRING), partly(STRING, A), FULL),
    Pair(
        "a property is added that is wider than the others",
        partly(INTEGER),
        partly(INTEGER, {"a": NUMBER}),
        BACKWARD,
        ("TYPE_NARROWED", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
    ),
    Pair(
        "a property is added that is not covered",
        partly(INTEGER),
        partly(INTEGER, A),
        NONE,
        (
            "TYPE_CHANGED",
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "TYPE_CHANGED",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        ),
    ),
    Pair("a required property is added that is covered", partly(STRING), partly(STRING, A, required=["a"]), FORWARD),
    Pair(
        "a property is covered by a pattern",
        closed(A, patternProperties={"^x_": INTEGER}),
        closed({**A, "x_b": INTEGER}, patternProperties={"^x_": INTEGER}),
        FULL,
    ),
    Pair(
        "a property is not covered by a pattern that does not match its name",
        closed(A, patternProperties={"^x_": INTEGER}),
        closed({**A, "b_x_": INTEGER}, patternProperties={"^x_": INTEGER}),
        BACKWARD,
    ),
    Pair(
        "a property is of another type than its pattern",
        closed(A, patternProperties={"x$": INTEGER}),
        closed({**A, "b.x": STRING}, patternProperties={"x$": INTEGER}),
        NONE,
    ),
    Pair(
        "additionalProperties {} accepts everything, as a schema of others (by structure)",
        opened(),
        partly({}),
        FORWARD,
    ),
    # Properties that both declare.
    Pair("a property is widened", opened({"a": INTEGER}), opened({"a": NUMBER}), BACKWARD, ("TYPE_NARROWED",)),
    Pair("a property changes its type", opened({"a": INTEGER}), opened(A), NONE),
    Pair("a property becomes required", opened(A), opened(A, required=["a"]), FORWARD, ("REQUIRED_ATTRIBUTE_ADDED",)),
    Pair(
        "a property with default becomes required",
        opened({"a": {**STRING, "default": "x"}}),
        opened({"a": {**STRING, "default": "x"}}, required=["a"]),
        FULL,
    ),
    Pair("a name that is not declared becomes required (by structure)", opened(A), opened(A, required=["z"]), FULL),
    Pair("a property becomes nullable", opened(A), opened({"a": {"type": ["string", "null"]}}), BACKWARD),
    Pair(
        "a nested property is added to a closed object", closed({"n": closed(A)}), closed({"n": closed(AB)}), BACKWARD
    ),
    Pair("a nested property is added to an open object", opened({"n": opened(A)}), opened({"n": opened(AB)}), FORWARD),
    Pair(
        "a nested object is opened and gains a required name",
        closed({"n": closed(A)}),
        closed({"n": opened(A, required=["a"])}),
        NONE,
    ),
    Pair("an object without type", {"properties": {"a": INTEGER}}, {"properties": {"a": NUMBER}}, BACKWARD),
    # Other keywords of objects.
    Pair("maxProperties is added", opened(), opened(maxProperties=3), FORWARD, ("MAX_PROPERTIES_ADDED",)),
    Pair(
        "maxProperties grows", opened(maxProperties=3), opened(maxProperties=4), BACKWARD, ("MAX_PROPERTIES_DECREASED",)
    ),
    Pair(
        "minProperties grows", opened(minProperties=3), opened(minProperties=4), FORWARD, ("MIN_PROPERTIES_INCREASED",)
    ),
    Pair("minProperties is added", opened(), opened(minProperties=4), FORWARD, ("MIN_PROPERTIES_ADDED",)),
    Pair(
        "a dependency is added", opened(A), opened(A, dependencies={"a": ["b"]}), FORWARD, ("DEPENDENCY_ARRAY_ADDED",)
    ),
    Pair(
        "a dependency names more",
        opened(dependencies={"a": ["b"]}),
        opened(dependencies={"a": ["b", "c"]}),
        FORWARD,
        ("DEPENDENCY_ARRAY_EXTENDED",),
    ),
    Pair("a dependency changes", opened(dependencies={"a": ["b"]}), opened(dependencies={"a": ["c"]}), NONE),
    Pair(
        "a dependency on a schema is added",
        opened(A),
        opened(A, dependencies={"a": {"minProperties": 2}}),
        FORWARD,
        ("DEPENDENCY_SCHEMA_ADDED",),
    ),
    Pair(
        "a dependency on a schema is widened",
        opened(dependencies={"a": {"minProperties": 2}}),
        opened(dependencies={"a": {"minProperties": 1}}),
        BACKWARD,
    ),
    Pair(
        "dependencies of draft 2019-09",
        new(opened(dependentRequired={"a": ["b", "c"]}, dependentSchemas={"d": {"minProperties": 2}})),
        new(opened(dependentRequired={"a": ["b"]}, dependentSchemas={"d": {"minProperties": 1}})),
        BACKWARD,
    ),
    Pair("propertyNames is not compared", opened(), opened(propertyNames={"maxLength": 3}), FULL),
    Pair("unevaluatedProperties false is added", new(opened(A)), new(opened(A, unevaluatedProperties=False)), FORWARD),
    Pair(
        "unevaluatedProperties become a schema",
        new(opened(A, unevaluatedProperties=True)),
        new(opened(A, unevaluatedProperties=STRING)),
        FORWARD,
        ("UNEVALUATED_PROPERTIES_NARROWED",),
    ),
    Pair(
        "the schema of unevaluatedProperties is widened",
        new(opened(unevaluatedProperties=INTEGER)),
        new(opened(unevaluatedProperties=NUMBER)),
        BACKWARD,
    ),
    Pair(
        "a property is added that unevaluatedProperties cover",
        new(opened(unevaluatedProperties=STRING)),
        new(opened(A, unevaluatedProperties=STRING)),
        FULL,
    ),
    Pair("unevaluatedProperties mean nothing in draft 7", opened(A), opened(A, unevaluatedProperties=False), FULL),
    # Arrays.
    Pair("items are widened", array(INTEGER), array(NUMBER), BACKWARD),
    Pair("items change", array(INTEGER), array(STRING), NONE, ("TYPE_CHANGED", "TYPE_CHANGED")),
    Pair("items are restricted", array(), array(STRING), FORWARD, ("SCHEMA_ADDED",)),
    Pair("minItems is added", array(), array(minItems=1), FORWARD, ("MIN_ITEMS_ADDED",)),
    Pair("minItems grows", array(minItems=1), array(minItems=2), FORWARD, ("MIN_ITEMS_INCREASED",)),
    Pair("maxItems is added", array(), array(maxItems=1), FORWARD, ("MAX_ITEMS_ADDED",)),
    Pair("maxItems grows", array(maxItems=1), array(maxItems=2), BACKWARD, ("MAX_ITEMS_DECREASED",)),
    Pair("uniqueItems is added", array(), array(uniqueItems=True), FORWARD, ("UNIQUE_ITEMS_ADDED",)),
    Pair("uniqueItems false is the default", array(), array(uniqueItems=False), FULL),
    Pair(
        "an item is added to an open tuple",
        array([STRING]),
        array([STRING, INTEGER]),
        FORWARD,
        ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL",),
    ),
    Pair("an item of any value is added to an open tuple", array([STRING]), array([STRING, {}]), FULL),
    Pair(
        "an item is added to a closed tuple",
        array([STRING], additionalItems=False),
        array([STRING, INTEGER], additionalItems=False),
        BACKWARD,
        ("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",),
    ),
    Pair(
        "an item that is false is removed from a closed tuple",
        array([STRING, False], additionalItems=False),
        array([STRING], additionalItems=False),
        FULL,
    ),
    Pair(
        "an item is added that is covered",
        array([STRING], additionalItems=INTEGER),
        array([STRING, INTEGER], additionalItems=INTEGER),
        FULL,
    ),
    Pair(
        "an item is added that is not covered",
        array([STRING], additionalItems=INTEGER),
        array([STRING, STRING], additionalItems=INTEGER),
        NONE,
        (
            "TYPE_CHANGED",
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "TYPE_CHANGED",
            "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        ),
    ),
    Pair("a tuple is closed", array([STRING]), array([STRING], additionalItems=False), FORWARD),
    Pair("an item of a tuple is widened", array([INTEGER]), array([NUMBER]), BACKWARD),
    Pair("the rest of a tuple is restricted", array([STRING]), array([STRING], additionalItems=STRING), FORWARD),
    Pair("a tuple of draft 2020-12", new(array(prefixItems=[INTEGER])), new(array(prefixItems=[NUMBER])), BACKWARD),
    Pair(
        "a tuple of draft 2020-12 is closed",
        new(array(prefixItems=[STRING])),
        new(array(False, prefixItems=[STRING])),
        FORWARD,
        ("ADDITIONAL_ITEMS_REMOVED",),
    ),
    Pair(
        "the rest of a tuple of draft 2020-12 is widened",
        new(array(INTEGER, prefixItems=[STRING])),
        new(array(NUMBER, prefixItems=[STRING])),
        BACKWARD,
    ),
    Pair("items may be anything in draft 2020-12", new(array()), new(array(True)), FULL),
    Pair(
        "an array of draft 2020-12 becomes empty",
        new(array()),
        new(array(False)),
        FORWARD,
        ("ADDITIONAL_ITEMS_REMOVED",),
    ),
    Pair("unevaluatedItems false is added", new(array()), new(array(unevaluatedItems=False)), FORWARD),
    Pair("maxContains is added", new(array(contains=STRING)), new(array(contains=STRING, maxContains=2)), FORWARD),
    Pair("contains is added, and with it a minimum of one", new(array()), new(array(contains=STRING)), FORWARD),
    Pair("contains itself is not compared", array(contains=STRING), array(contains=INTEGER), FULL),
    # Combinations: sum types (oneOf, anyOf) and product types (allOf).
    Pair("the same sum", sums(STRING, INTEGER), sums(STRING, INTEGER), FULL),
    Pair("order of a sum", sums(STRING, INTEGER), sums(INTEGER, STRING), FULL),
    Pair("a sum is extended", sums(STRING), sums(STRING, INTEGER), BACKWARD, ("SUM_TYPE_NARROWED",)),
    Pair("a type becomes a sum with it", STRING, sums(STRING, INTEGER), BACKWARD, ("TYPE_CHANGED",)),
    Pair("a type becomes a sum without it", STRING, sums(BOOLEAN, INTEGER), NONE),
    Pair("a sum of one type is that type", STRING, sums(STRING), FULL),
    Pair("a part of a sum is widened", sums(STRING, INTEGER), sums(STRING, NUMBER), BACKWARD),
    Pair(
        "a part of a sum is replaced",
        sums(STRING, INTEGER),
        sums(STRING, BOOLEAN),
        NONE,
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ),
    Pair(
        "each part of a sum needs a part of its own",
        anything({**INTEGER, "maximum": 1}, {**INTEGER, "maximum": 2}),
        anything({**INTEGER, "maximum": 3}, STRING),
        NONE,
    ),
    Pair(
        "parts are matched as well as possible, whatever their order",
        anything({**INTEGER, "maximum": 1}, {**INTEGER, "maximum": 2}),
        anything({**INTEGER, "maximum": 2}, {**INTEGER, "maximum": 1}),
        FULL,
    ),
    Pair("the same part twice counts once", anything(STRING, STRING), anything(STRING), FULL),
    Pair("anyOf is extended", anything(STRING), anything(STRING, NULL), BACKWARD),
    Pair("oneOf becomes anyOf", sums(STRING, NULL), anything(STRING, NULL), BACKWARD, ("COMBINED_TYPE_CHANGED",)),
    Pair("oneOf of one becomes anyOf of one", sums(STRING), anything(STRING), FULL),
    Pair("allOf becomes anyOf", products(STRING, {"maxLength": 3}), anything(STRING, {"maxLength": 3}), BACKWARD),
    Pair("allOf becomes oneOf", products(STRING, {"maxLength": 3}), sums(STRING, {"maxLength": 3}), NONE),
    Pair(
        "a product is extended",
        products(STRING),
        products(STRING, {"maxLength": 3}),
        FORWARD,
        ("PRODUCT_TYPE_EXTENDED",),
    ),
    Pair("a product becomes one of its parts", products(STRING, {"maxLength": 3}), STRING, BACKWARD),
    Pair("a product of one type is that type", STRING, products(STRING), FULL),
    Pair(
        "a part of a product is widened",
        products(opened(A), {"minProperties": 2}),
        products(opened(A), {"minProperties": 1}),
        BACKWARD,
    ),
    Pair(
        "a sum next to a type",
        {**opened(), **sums({"required": ["a"]})},
        {**opened(), **sums({"required": ["a"]})},
        FULL,
    ),
    Pair("what must not match is narrowed", {"not": NUMBER}, {"not": INTEGER}, BACKWARD, ("NOT_TYPE_EXTENDED",)),
    Pair("what must not match changes", {"not": NUMBER}, {"not": STRING}, NONE),
    Pair("something must not match any more", {**STRING, "not": {"const": "x"}}, STRING, BACKWARD),
    Pair("a condition is not compared", {"if": STRING, "then": STRING}, {"if": INTEGER, "else": STRING}, FULL),
    # References.
    Pair(
        "a definition is used by reference",
        opened(A),
        {**opened({"a": {"$ref": "#/definitions/s"}}), "definitions": {"s": STRING}},
        FULL,
    ),
    Pair("a definition that is not used", opened(A), {**opened(A), "definitions": {"s": STRING}}, FULL),
    Pair(
        "a definition is widened",
        {"$ref": "#/definitions/a", "definitions": {"a": INTEGER}},
        {"$ref": "#/definitions/a", "definitions": {"a": NUMBER}},
        BACKWARD,
    ),
    Pair(
        "next to a reference other keywords count in draft 2020-12",
        new({"$ref": "#/$defs/a", "$defs": {"a": STRING}}),
        new({"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": STRING}}),
        FORWARD,
    ),
    Pair(
        "next to a reference other keywords do not count in draft 7",
        {"$ref": "#/definitions/a", "definitions": {"a": STRING}},
        {"$ref": "#/definitions/a", "maxLength": 3, "definitions": {"a": STRING}},
        FULL,
    ),
    Pair("the same recursive schema", TREE, TREE, FULL),
    Pair("a recursive schema is widened", TREE, opened({"children": array({"$ref": "#"}), "a": NUMBER}), BACKWARD),
    Pair("a recursive schema is unrolled once", TREE, opened({"children": array(TREE), "a": INTEGER}), FULL),
    Pair("a recursive schema is no longer recursive", TREE, opened({"children": array(STRING), "a": INTEGER}), NONE),
    Pair(
        "a difference that an assumption hides at first is found",
        closed({"x": {"$ref": "#/definitions/a"}, "y": {"$ref": "#/definitions/c"}}, definitions=loop(INTEGER)),
        closed(
            {"x": anything({"$ref": "#/definitions/a"}, {}), "y": {"$ref": "#/definitions/c"}}, definitions=loop(STRING)
        ),
        NONE,
    ),
]
