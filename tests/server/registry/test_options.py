"""Metadata and rules: how those of a level and of a schema become one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.registry.options import merged_metadata, merged_rules, numbered, property_of
from support.noted import each_case

RULE = {"name": "a", "type": "CEL"}
OTHER = {"name": "a", "type": "JSONATA"}


@each_case(
    "found, expected",
    [
        ([None, None], None),
        ([None, {"properties": {"a": "1"}}, None], {"properties": {"a": "1"}}),
        ([{"properties": {"a": "1", "b": "1"}}, {"properties": {"b": "2"}}], {"properties": {"a": "1", "b": "2"}}),
        ([{"tags": {"p": ["a"]}}, {"tags": {"p": ["b"]}}], {"tags": {"p": ["b"]}}),
        ([{"sensitive": ["b"]}, {"sensitive": ["a", "b"]}], {"sensitive": ["a", "b"]}),
        ([{"tags": {"p": ["a"]}}, {"sensitive": ["a"]}], {"tags": {"p": ["a"]}, "sensitive": ["a"]}),
        ([{"later": 1}, {"later": 2}], {"later": 2}),
        ([{"tags": 3}, {"tags": {"p": ["a"]}}], {"tags": {"p": ["a"]}}),
    ],
)
def test_later_metadata_is_stronger(found: list[Any], expected: Any) -> None:
    assert merged_metadata(*found) == expected


@each_case(
    "found, expected",
    [
        ([None], None),
        ([{"domainRules": [RULE]}, None], {"domainRules": [RULE]}),
        ([{"domainRules": [RULE]}, {"domainRules": [OTHER]}], {"domainRules": [OTHER]}),
        ([{"domainRules": [RULE]}, {"domainRules": []}], {"domainRules": [RULE]}),
        ([{"domainRules": [RULE]}, {"encodingRules": [OTHER]}], {"domainRules": [RULE], "encodingRules": [OTHER]}),
        ([{"enableAt": "CLIENT"}, {"enableAt": None}], {"enableAt": "CLIENT"}),
        ([{"domainRules": 3}, {"domainRules": [RULE]}], {"domainRules": [RULE]}),
    ],
)
def test_later_rules_replace_those_of_their_name(found: list[Any], expected: Any) -> None:
    assert merged_rules(*found) == expected


json_values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tags", "properties", "sensitive", "domainRules", "name"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(json_values, json_values)
def test_any_json_of_other_clients_is_merged(one: Any, other: Any) -> None:
    for merge in (merged_metadata, merged_rules):
        found = merge(one, other)
        assert found is None or isinstance(found, dict)
    numbered(one, 3)
    assert property_of(numbered(one, None), "confluent:version") is None


@pytest.mark.parametrize("metadata", [None, {}, {"properties": {"confluent:version": "7"}}])
def test_the_number_of_a_version_is_set_and_removed(metadata: Any) -> None:
    assert numbered(metadata, 3) == {"properties": {"confluent:version": "3"}}
    assert numbered(numbered(metadata, 3), None) == {}
    assert numbered({"tags": {}, "properties": {"a": "1"}}, None) == {"tags": {}, "properties": {"a": "1"}}
