"""Changes of Avro schemas, by the rules of schema resolution in Avro's specification."""

from __future__ import annotations

from typing import Any

from .verdict import BACKWARD, FORWARD, FULL, NONE, Pair


def record(*fields: Any, name: str = "R", **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def field(name: str, kind: Any = "int", **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **attributes}


def enum(*symbols: str, name: str = "E", **attributes: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(size: int, name: str = "F", **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **attributes}


def array(items: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **attributes}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


A, B = field("a"), field("b", "string")
LIST = record(field("next", ["null", "R"], default=None), A)
"""A recursive type."""

PAIRS = [
    # Primitive types and promotions: a reader of the wider type reads the narrower one.
    Pair("the same primitive type", "int", "int", FULL),
    Pair("a primitive type is the same as an object with its name", "int", {"type": "int"}, FULL),
    Pair("int is promoted to long", "int", "long", BACKWARD, ("TYPE_MISMATCH",)),
    Pair("int is promoted to float", "int", "float", BACKWARD),
    Pair("int is promoted to double", "int", "double", BACKWARD),
    Pair("long is promoted to float", "long", "float", BACKWARD),
    Pair("long is promoted to double", "long", "double", BACKWARD),
    Pair("float is promoted to double", "float", "double", BACKWARD),
    Pair("long is not read as int", "long", "int", FORWARD),
    Pair("double is not read as float", "double", "float", FORWARD),
    Pair("double is not read as int", "double", "int", FORWARD),
    Pair("string and bytes are read as each other", "string", "bytes", FULL),
    Pair("boolean is not promoted to int", "boolean", "int", NONE, ("TYPE_MISMATCH", "TYPE_MISMATCH")),
    Pair("null is not promoted", "null", "string", NONE),
    Pair("int is not promoted to string", "int", "string", NONE),
    Pair("int is not promoted to bytes", "int", "bytes", NONE),
    Pair("int is not promoted to boolean", "int", "boolean", NONE),
    Pair("a primitive type is not read as an array of it", "int", array("int"), NONE),
    Pair("a primitive type is not read as a record of it", "int", record(A), NONE),
    # Logical types are not compared: their bytes are those of the type below.
    Pair("a logical type is read as its type", "int", {"type": "int", "logicalType": "date"}, FULL),
    Pair(
        "logical types on the same type are read as each other",
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
        FULL,
    ),
    Pair(
        "the scale of a decimal may change, because logical types are not compared",
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        FULL,
    ),
    Pair(
        "the type below a logical type is promoted",
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "time-micros"},
        BACKWARD,
    ),
    Pair("an unknown logical type is ignored", "string", {"type": "string", "logicalType": "colour"}, FULL),
    Pair("uuid on a string", "string", {"type": "string", "logicalType": "uuid"}, FULL),
    Pair(
        "decimal on bytes is not read as decimal on fixed",
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        fixed(4, logicalType="decimal", precision=4),
        NONE,
    ),
    # Attributes without a meaning for resolution.
    Pair("documentation", record(A), record(field("a", doc="words"), doc="words"), FULL),
    Pair("order of a field", record(A), record(field("a", order="descending")), FULL),
    Pair("unknown attributes of a type", "string", {"type": "string", "avro.java.string": "String"}, FULL),
    Pair("unknown attributes of a field", record(A), record(field("a", since=3)), FULL),
    # Fields of records.
    Pair("the same record", record(A, B), record(A, B), FULL),
    Pair("order of fields", record(A, B), record(B, A), FULL),
    Pair("a field with default is added", record(A), record(A, field("b", "string", default="x")), FULL),
    Pair(
        "a field without default is added",
        record(A),
        record(A, B),
        FORWARD,
        ("READER_FIELD_MISSING_DEFAULT_VALUE",),
    ),
    Pair("a field without default is removed", record(A, B), record(A), BACKWARD),
    Pair("a field with default is removed", record(A, field("b", default=1)), record(A), FULL),
    Pair("all fields are removed", record(A, B), record(), BACKWARD),
    Pair("a default is added to a field", record(A), record(field("a", default=1)), FULL),
    Pair("a default is removed from a field", record(field("a", default=1)), record(A), FULL),
    Pair("a default changes", record(field("a", default=1)), record(field("a", default=2)), FULL),
    Pair("a default null counts", record(), record(field("a", ["null", "int"], default=None)), FULL),
    Pair("a field with null in its type still needs a default", record(), record(field("a", ["null", "int"])), FORWARD),
    Pair("a field is renamed", record(A), record(field("b")), NONE),
    Pair("a field is renamed, with default", record(A), record(field("b", default=1)), BACKWARD),
    Pair("a field is renamed with an alias", record(A), record(field("b", aliases=["a"])), BACKWARD),
    Pair("an alias of another field does not help", record(A), record(field("b", aliases=["c"])), NONE),
    Pair("one of several aliases is enough", record(A), record(field("b", aliases=["c", "a"])), BACKWARD),
    Pair("names of fields differ by case", record(A), record(field("A")), NONE),
    Pair(
        "a field that matches two of the writer by alias cannot be read",
        record(A, field("b")),
        record(field("c", aliases=["a", "b"])),
        NONE,
    ),
    Pair("the type of a field is promoted", record(A), record(field("a", "long")), BACKWARD),
    Pair("the type of a field is narrowed", record(field("a", "long")), record(A), FORWARD),
    Pair("the type of a field changes", record(A), record(field("a", "string")), NONE),
    Pair("a default does not help against a wrong type", record(A), record(field("a", "string", default="")), NONE),
    Pair(
        "two fields change in opposite directions",
        record(field("a", "int"), field("b", "long")),
        record(field("a", "long"), field("b", "int")),
        NONE,
    ),
    Pair(
        "one field is added and one is removed, both with default",
        record(field("a", default=1)),
        record(field("b", default=1)),
        FULL,
    ),
    Pair(
        "a field of a nested record is added without default",
        record(field("n", record(A, name="N"))),
        record(field("n", record(A, B, name="N"))),
        FORWARD,
    ),
    Pair(
        "a field of a nested record is added with default",
        record(field("n", record(A, name="N"))),
        record(field("n", record(A, field("b", default=1), name="N"))),
        FULL,
    ),
    # Names of types are compared without namespace.
    Pair("a record is renamed", record(A), record(A, name="S"), NONE, ("NAME_MISMATCH", "NAME_MISMATCH")),
    Pair("a record is renamed with an alias", record(A), record(A, name="S", aliases=["R"]), BACKWARD),
    Pair("the namespace of a record changes", record(A, name="a.R"), record(A, name="b.R"), FULL),
    Pair("a namespace is added", record(A), record(A, namespace="a"), FULL),
    Pair("a namespace as part of the name", record(A, namespace="a"), record(A, name="a.R"), FULL),
    Pair(
        "an alias without namespace is one in the namespace of the type",
        record(A, name="a.R"),
        record(A, name="a.S", aliases=["R"]),
        BACKWARD,
    ),
    Pair(
        "an alias in another namespace than the writer's type",
        record(A, name="a.R"),
        record(A, name="b.S", aliases=["R"]),
        NONE,
    ),
    Pair("a full alias", record(A, name="a.R"), record(A, name="b.S", aliases=["a.R"]), BACKWARD),
    Pair("an error is read as a record", {**record(A), "type": "error"}, record(A), FULL),
    Pair(
        "a nested record is renamed",
        record(field("n", record(A, name="N"))),
        record(field("n", record(A, name="M"))),
        NONE,
    ),
    # Enums.
    Pair("the same enum", enum("X", "Y"), enum("X", "Y"), FULL),
    Pair("order of symbols", enum("X", "Y"), enum("Y", "X"), FULL),
    Pair("a symbol is added", enum("X"), enum("X", "Y"), BACKWARD, ("MISSING_ENUM_SYMBOLS",)),
    Pair("a symbol is removed", enum("X", "Y"), enum("X"), FORWARD),
    Pair("a symbol is removed, with a default", enum("X", "Y"), enum("X", default="X"), FULL),
    Pair("a symbol is added to an enum that has a default", enum("X", default="X"), enum("X", "Y"), FULL),
    Pair("a symbol is renamed, with defaults", enum("X", "Y", default="X"), enum("X", "Z", default="X"), FULL),
    Pair("an enum is renamed", enum("X"), enum("X", name="G"), NONE),
    Pair("an enum is renamed with an alias", enum("X"), enum("X", name="G", aliases=["E"]), BACKWARD),
    Pair("an enum is not read as a string", enum("X"), "string", NONE),
    Pair(
        "the default of an enum is not the default of its field",
        record(A),
        record(A, field("e", enum("X", default="X"))),
        FORWARD,
    ),
    Pair(
        "a field's default is used before an enum's",
        record(A),
        record(A, field("e", enum("X", default="X"), default="X")),
        FULL,
    ),
    # Fixed.
    Pair("the same fixed", fixed(8), fixed(8), FULL),
    Pair("the size changes", fixed(8), fixed(16), NONE, ("FIXED_SIZE_MISMATCH", "FIXED_SIZE_MISMATCH")),
    Pair("a fixed is renamed", fixed(8), fixed(8, name="G"), NONE),
    Pair("a fixed is renamed with an alias", fixed(8), fixed(8, name="G", aliases=["F"]), BACKWARD),
    Pair("a fixed is not read as bytes", fixed(8), "bytes", NONE),
    Pair(
        "a logical type on a fixed",
        fixed(12),
        fixed(12, logicalType="duration"),
        FULL,
    ),
    # Arrays and maps.
    Pair("the same array", array("int"), array("int"), FULL),
    Pair("items are promoted", array("int"), array("long"), BACKWARD),
    Pair("items of another type", array("int"), array("string"), NONE),
    Pair("values of a map are promoted", mapping("int"), mapping("double"), BACKWARD),
    Pair("values of a map of another type", mapping("int"), mapping("boolean"), NONE),
    Pair("an array is not read as a map", array("int"), mapping("int"), NONE),
    Pair("items become optional", array("int"), array(["null", "int"]), BACKWARD),
    Pair("records in an array get a field", array(record(A)), array(record(A, field("b", default=1))), FULL),
    Pair("a map in an array", array(mapping("int")), array(mapping("long")), BACKWARD),
    # Unions: of the writer each branch, of the reader one of them.
    Pair("a type becomes a union with it", "int", ["null", "int"], BACKWARD, ("TYPE_MISMATCH",)),
    Pair("a union becomes one of its types", ["null", "int"], "int", FORWARD),
    Pair("a union of one type is that type", ["int"], "int", FULL),
    Pair("a branch is added", ["null", "int"], ["null", "int", "string"], BACKWARD, ("MISSING_UNION_BRANCH",)),
    Pair("a branch is removed", ["null", "int", "string"], ["null", "int"], FORWARD),
    Pair("order of branches", ["null", "int"], ["int", "null"], FULL),
    Pair("a branch is promoted", ["null", "int"], ["null", "long"], BACKWARD),
    Pair("a branch is read as a wider one next to it", ["int", "long"], ["long", "string"], BACKWARD),
    Pair("a branch is replaced", ["null", "int"], ["null", "boolean"], NONE),
    Pair("a type is promoted into a union", "int", ["null", "double"], BACKWARD),
    Pair("a union of numbers is read as the widest", ["int", "long", "float"], "double", BACKWARD),
    Pair("a union is not read as a type that misses one branch", ["int", "string"], "long", NONE),
    Pair("string reads a union of string and bytes", ["string", "bytes"], "string", FULL),
    Pair("an empty union writes nothing that a reader cannot read", [], "int", BACKWARD),
    Pair("records in a union are found by name", [record(A), record(B, name="S")], record(A), FORWARD),
    Pair(
        "a record in a union gets a field without default",
        ["null", record(A)],
        ["null", record(A, B)],
        FORWARD,
    ),
    Pair(
        "a record in a union gets a field with default",
        ["null", record(A)],
        ["null", record(A, field("b", default=1))],
        FULL,
    ),
    Pair("an enum in a union gets a symbol", ["null", enum("X")], ["null", enum("X", "Y")], BACKWARD),
    Pair(
        "a branch that cannot be read in one place cannot be read in another one",
        record(field("x", "long"), field("y", "long")),
        record(field("x", ["int", "double"]), field("y", "int")),
        NONE,
    ),
    Pair("a field becomes optional", record(A), record(field("a", ["null", "int"], default=None)), BACKWARD),
    Pair("a field becomes required", record(field("a", ["null", "int"], default=None)), record(A), FORWARD),
    # Recursive types.
    Pair("the same recursive record", LIST, LIST, FULL),
    Pair(
        "a recursive record gets a field",
        LIST,
        record(field("next", ["null", "R"], default=None), A, field("b", default=1)),
        FULL,
    ),
    Pair(
        "a field of a recursive record is promoted",
        LIST,
        record(field("next", ["null", "R"], default=None), field("a", "long")),
        BACKWARD,
    ),
    Pair(
        "a recursive record is no longer recursive",
        LIST,
        record(field("next", ["null", "string"], default=None), A),
        NONE,
    ),
    Pair(
        "two records that contain each other",
        record(field("n", ["null", record(field("r", ["null", "R"]), name="N")])),
        record(field("n", ["null", record(field("r", ["null", "R"]), A, name="N")])),
        FORWARD,
    ),
    Pair("a record as tree", record(field("c", array("R"))), record(field("c", mapping("R"))), NONE),
    # References by name inside one schema.
    Pair(
        "a type that is used twice changes for both uses",
        record(field("x", enum("X")), field("y", "E")),
        record(field("x", enum("X", "Y")), field("y", "E")),
        BACKWARD,
    ),
    Pair(
        "a type in a namespace is used with and without it",
        record(field("x", enum("X", name="a.E")), field("y", "a.E"), name="a.R"),
        record(field("x", enum("X", name="a.E")), field("y", "E"), name="a.R"),
        FULL,
    ),
]
