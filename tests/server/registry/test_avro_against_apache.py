"""Verdicts on Avro schemas are those of the package `avro`, Apache Avro for Python."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

import avro.compatibility
import avro.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry.verdict import Pair, parsed
from support.registry.verdicts_avro import PAIRS, array, enum, field, fixed, mapping, record

DIFFERENT = {
    "a field that matches two of the writer by alias cannot be read": "Java refuses it, Python reads the first match",
    "an alias without namespace is one in the namespace of the type": "Python does not add the namespace",
    "an error is read as a record": "Python compares errors only in protocols",
}


def apache_can_read(reader: Any, writer: Any) -> bool:
    with warnings.catch_warnings(action="ignore", category=avro.errors.IgnoredLogicalType):
        schemas = [avro.schema.parse(json.dumps(each)) for each in (reader, writer)]
    found = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(*schemas)
    return bool(found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible)


def can_read(reader: Any, writer: Any) -> bool:
    return not find_incompatibilities("BACKWARD", parsed("AVRO", reader), [parsed("AVRO", writer)])


@each_case("pair", [pair for pair in PAIRS if pair.reason not in DIFFERENT])
def test_verdicts_of_the_table(pair: Pair) -> None:
    for reader, writer in ((pair.older, pair.newer), (pair.newer, pair.older)):
        assert can_read(reader, writer) == apache_can_read(reader, writer)


def test_the_listed_differences_exist() -> None:
    pairs = {pair.reason: pair for pair in PAIRS}
    for reason in DIFFERENT:
        reader, writer = pairs[reason].newer, pairs[reason].older
        with suppress(avro.errors.AvroRuntimeException):
            assert can_read(reader, writer) != apache_can_read(reader, writer)


PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def fields_of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    attributes = st.sampled_from([{}, {"aliases": ["a"]}, {"aliases": ["c"]}])
    return st.dictionaries(st.sampled_from("abc"), st.tuples(types, attributes), max_size=3).map(
        lambda found: [
            field(name, kind, **{key: value for key, value in more.items() if not set(value) & set(found)})
            for name, (kind, more) in found.items()
        ]
    )


def is_unambiguous(schema: Any) -> bool:
    """Return whether Apache Avro parses it: no union has two branches of one kind or name, no name is defined twice."""
    try:
        avro.schema.parse(json.dumps(schema))
    except avro.errors.AvroException:
        return False
    return True


SCHEMAS = st.recursive(
    PRIMITIVES
    | st.sets(st.sampled_from("XYZ"), min_size=1).map(lambda found: enum(*sorted(found)))
    | st.sampled_from([enum("X", default="X"), fixed(1), fixed(2)]),
    lambda types: st.one_of(
        types.map(array),
        types.map(mapping),
        st.lists(types, min_size=1, max_size=3),
        st.tuples(fields_of(types), st.sampled_from("RS")).map(lambda found: record(*found[0], name=found[1])),
    ),
    max_leaves=6,
).filter(is_unambiguous)


@given(SCHEMAS, SCHEMAS)
def test_verdicts_of_random_schemas(one: Any, other: Any) -> None:
    for reader, writer in ((one, other), (other, one), (one, one)):
        try:
            expected = apache_can_read(reader, writer)
        except avro.errors.AvroRuntimeException:
            pytest.skip("not compared by Apache Avro")
        if not _matches_twice(reader, writer):
            assert can_read(reader, writer) == expected


def _matches_twice(reader: Any, writer: Any) -> bool:
    found = find_incompatibilities("BACKWARD", parsed("AVRO", reader), [parsed("AVRO", writer)])
    return "AMBIGUOUS_ALIASES" in "".join(found)
