"""The format of `_schemas`, byte by byte: topics of Confluent's registry are read, and a compacted topic compares keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.registry.records import (
    KeyType,
    Pair,
    Reference,
    UnreadableRecordError,
    Version,
    clear_subject_record,
    config_record,
    content_of,
    delete_subject_record,
    mode_record,
    parse_record,
    schema_record,
    schema_tombstone,
)
from support.noted import each_case

STRING = content_of("AVRO", '"string"')
RULE = {"name": "r", "type": "CEL"}
RICH = content_of("JSON", "{}", (Reference("r", "s", 2),), {"properties": {"a": "b"}}, {"domainRules": [RULE]})


@each_case(
    "made, key, value",
    [
        (
            schema_record(Version("s", 1, 7, STRING)),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}',
        ),
        (
            schema_record(Version(":.c:s", 2, 8, RICH, True)),
            '{"keytype":"SCHEMA","subject":":.c:s","version":2,"magic":1}',
            (
                '{"subject":":.c:s","version":2,"id":8,"schemaType":"JSON","references":[{"name":"r","subject":"s","version":2}],'
                '"metadata":{"properties":{"a":"b"}},"ruleSet":{"domainRules":[{"kind":"TRANSFORM","mode":"WRITEREAD","disabled":false,'
                '"name":"r","type":"CEL"}]},"schema":"{}","deleted":true}'
            ),
        ),
        (schema_tombstone("s", 3), '{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}', None),
        (
            config_record(None, {"compatibilityLevel": "FULL"}),
            '{"keytype":"CONFIG","subject":null,"magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
        (
            config_record("s", {"compatibilityLevel": "NONE"}),
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"subject":"s","compatibilityLevel":"NONE"}',
        ),
        (config_record("s", None), '{"keytype":"CONFIG","subject":"s","magic":0}', None),
        (mode_record(None, "IMPORT"), '{"keytype":"MODE","subject":null,"magic":0}', '{"mode":"IMPORT"}'),
        (mode_record("s", None), '{"keytype":"MODE","subject":"s","magic":0}', None),
        (
            delete_subject_record("s", 4),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":4}',
        ),
        (clear_subject_record("s"), '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', '{"subject":"s"}'),
    ],
)
def test_records_have_the_bytes_of_confluents_registry(made: Pair, key: str, value: str | None) -> None:
    assert (made[0].decode(), None if made[1] is None else made[1].decode()) == (key, value)


names = st.text(min_size=1, max_size=20)
contents = st.builds(
    content_of,
    st.sampled_from(["AVRO", "JSON", "PROTOBUF"]),
    st.text(max_size=50),
    st.lists(st.builds(Reference, names, names, st.integers(1, 100)), max_size=3).map(tuple),
    st.none() | st.dictionaries(names, names, min_size=1, max_size=2),
    st.none(),
)


@given(st.builds(Version, names, st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1), contents, st.booleans()))
def test_a_version_is_read_as_it_was_written(version: Version) -> None:
    entry = parse_record(*schema_record(version))
    assert entry is not None
    assert entry[:4] == (KeyType.SCHEMA, version.subject, version.version, version)


@each_case(
    "key, value",
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"[]", b"{}"),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (b'{"keytype":"SCHEMA","subject":null,"version":1,"magic":1}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":true,"magic":1}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"schema":"x","id":"1"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"schema":"x","id":1,"references":[1]}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":null,"magic":0}', b'{"version":1}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b"{}"),
        (b'{"keytype":"CONFIG","subject":4,"magic":0}', b"{}"),
        (b'{"keytype":"CONFIG","subject":"s","magic":0}', b"7"),
    ],
)
def test_other_records_are_unreadable(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableRecordError):
        parse_record(key, value)


@each_case("key", [b'{"keytype":"NOOP","magic":0}', b'{"keytype":"LATER","magic":9}', b"{}"])
def test_records_of_other_types_have_no_effect(key: bytes) -> None:
    assert parse_record(key, b"{}") is None
    assert parse_record(key, None) is None


@given(st.dictionaries(names, names | st.integers() | st.none(), max_size=4), st.binary(max_size=30))
def test_any_json_is_parsed_or_unreadable(fields: dict[str, object], value: bytes) -> None:
    for kind in ["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT"]:
        key = json.dumps({"keytype": kind, "subject": "s", "version": 1} | fields).encode()
        for each in (None, value, json.dumps(fields).encode()):
            try:
                parse_record(key, each)
            except UnreadableRecordError as error:
                assert str(error)


def test_equal_schemas_have_equal_digests_whatever_the_order_of_their_metadata() -> None:
    one = content_of("AVRO", '"int"', (), {"properties": {"a": "1", "b": "2"}})
    other = content_of("AVRO", '"int"', (), {"properties": {"b": "2", "a": "1"}})
    assert one.guid == other.guid
    assert (
        len({each.guid for each in (one, STRING, RICH, content_of("JSON", '"int"'), content_of("AVRO", '"int"'))}) == 5
    )


@each_case(
    "metadata, rule_set, is_equal",
    [
        ({"properties": {"a": ""}}, {"domainRules": [RULE]}, True),
        ({"properties": {"a": ""}, "sensitive": [], "tags": None}, {"domainRules": [RULE], "migrationRules": []}, True),
        (
            {"properties": {"a": ""}},
            {"domainRules": [RULE | {"doc": "", "tags": [], "params": {}, "expr": None}]},
            True,
        ),
        (
            {"properties": {"a": ""}},
            {"domainRules": [RULE | {"kind": "TRANSFORM", "mode": "", "disabled": False}]},
            True,
        ),
        ({"properties": {"a": ""}}, {"domainRules": [RULE | {"mode": "READ"}]}, False),
        ({"properties": {"a": ""}}, {"domainRules": [RULE | {"disabled": True}]}, False),
        ({"properties": {"a": ""}}, {"encodingRules": [RULE]}, False),
        ({"properties": {"a": ""}, "sensitive": ["a"]}, {"domainRules": [RULE]}, False),
        ({"properties": {"b": ""}}, {"domainRules": [RULE]}, False),
        ({}, [], False),
    ],
)
def test_members_that_say_nothing_make_no_other_schema(metadata: Any, rule_set: Any, is_equal: bool) -> None:
    one = content_of("AVRO", '"int"', (), {"properties": {"a": ""}}, {"domainRules": [RULE]})
    assert (content_of("AVRO", '"int"', (), metadata, rule_set) == one) is is_equal


def test_metadata_and_rules_that_say_nothing_are_like_none() -> None:
    empty = content_of("AVRO", '"int"', (), {"properties": {}}, {"domainRules": []})
    assert empty.guid == content_of("AVRO", '"int"').guid
