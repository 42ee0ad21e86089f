"""Requests are decoded from JSON by their dataclasses, and one line names what does not fit."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.control.operation import Length, Matches, Name, Range
from ottla.server.http.fields import docs_of
from ottla.server.http.json_values import decoded, encoded, from_texts, json_form
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.disk.paths import TopicPartition
from support.noted import each_case


class When(Enum):
    BEFORE = 1
    AFTER = 2


class Color(StrEnum):
    DARK_RED = "dark-red"


@dataclass(frozen=True)
class Header:
    key: str
    value: bytes | None = None


@dataclass(frozen=True)
class Everything:
    name: Name
    """The name."""
    count: Annotated[int, Range(1, 9)] = 1
    part: Annotated[float, Range(0, 1)] = 0.5
    anything: int = 0
    is_there: bool = False
    when: When = When.BEFORE
    color: Color = Color.DARK_RED
    side: Literal["left", "right"] = "left"
    lease: Name | None = None
    number_or_text: int | str = 0
    data: Annotated[bytes, Length(0, 4)] = b""
    headers: tuple[Header, ...] = ()
    pairs: Annotated[tuple[tuple[int, int], ...], Length(0, 2)] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    small: Annotated[str, Matches("[a-z]*", "small letters")] = ""
    free: Any = None
    partition: TopicPartition | None = None
    names: list[str] = field(default_factory=list)


def test_what_is_given_is_read_and_the_rest_has_its_default() -> None:
    found = decoded(
        Everything,
        {
            "name": "x",
            "count": 9,
            "part": 1,
            "is_there": True,
            "when": "after",
            "color": "dark-red",
            "side": "right",
            "lease": None,
            "number_or_text": "seven",
            "data": "AAE=",
            "headers": [{"key": "a"}, {"key": "b", "value": ""}],
            "pairs": [[1, 2]],
            "configs": {"a.b": "c"},
            "free": [{}],
            "partition": {"topic": "t", "partition": 3},
            "names": ["a"],
        },
    )
    assert found == Everything(
        name="x",
        count=9,
        part=1.0,
        is_there=True,
        when=When.AFTER,
        side="right",
        number_or_text="seven",
        data=b"\0\1",
        headers=(Header("a"), Header("b", b"")),
        pairs=((1, 2),),
        configs={"a.b": "c"},
        free=[{}],
        partition=TopicPartition("t", 3),
        names=["a"],
    )
    assert decoded(Everything, {"name": "x"}) == Everything("x")


REFUSED: list[tuple[Any, str]] = [
    ({}, "name: expected a string, but the field is missing"),
    ({"name": ""}, "name: expected 1 to 4096 characters, found 0"),
    ({"name": "a\0b"}, r"name: expected a string with no NUL, found 'a\x00b'"),
    ({"name": "\ud800"}, r"name: expected a string of valid Unicode, found '\ud800'"),
    ({"name": 7}, "name: expected a string, found 7"),
    ({"name": None}, "name: expected a string, found None"),
    ({"count": 0}, "count: expected an integer from 1 to 9, found 0"),
    ({"count": True}, "count: expected an integer from 1 to 9, found True"),
    ({"count": 1.0}, "count: expected an integer from 1 to 9, found 1.0"),
    ({"count": 10**30}, "count: expected an integer from 1 to 9, found 1000000000000000000000000000000"),
    ({"anything": 2**63}, "anything: expected an integer, found 9223372036854775808"),
    ({"part": math.inf}, "part: expected a number from 0 to 1, found inf"),
    ({"part": 10**400}, "part: expected a number from 0 to 1, found " + "1" + "0" * 17 + "..." + "0" * 19),
    ({"is_there": 1}, "is_there: expected true or false, found 1"),
    ({"when": "befor"}, "when: expected one of before, after, found 'befor'; did you mean 'before'?"),
    ({"when": 1}, "when: expected one of before, after, found 1"),
    ({"when": []}, "when: expected one of before, after, found []"),
    ({"color": "DARK_RED"}, "color: expected one of dark-red, found 'DARK_RED'"),
    ({"side": "up"}, "side: expected one of left, right, found 'up'"),
    ({"lease": 1}, "lease: expected a string, found 1"),
    ({"number_or_text": []}, "number_or_text: expected an integer or a string, found []"),
    ({"data": "?"}, "data: expected bytes in base64, found '?'"),
    ({"data": "AAAAAAAA"}, "data: expected 0 to 4 bytes, found 6"),
    ({"headers": {}}, "headers: expected an array, found {}"),
    ({"headers": [{}]}, "headers[0].key: expected a string, but the field is missing"),
    ({"headers": [1]}, "headers[0]: expected an object, found 1"),
    ({"headers": [{"key": "a", "valu": 1}]}, "unknown field 'headers[0].valu'; did you mean 'value'?"),
    ({"pairs": [[1]]}, "pairs[0]: expected an array of 2, found [1]"),
    ({"pairs": [[1, 2]] * 3}, "pairs: expected 0 to 2 members, found 3"),
    ({"configs": {"a": 1}}, "configs.a: expected a string, found 1"),
    ({"small": "A"}, "small: expected a string with small letters, found 'A'"),
    ({"partition": {"topic": "t"}}, "partition.partition: expected an integer, but the field is missing"),
    ({"cuont": 1}, "unknown field 'cuont'; did you mean 'count'?"),
    ({"x" * 10_000: 1}, f"unknown field '{'x' * 100}'; expected one of: name, count, "),
]


@each_case("given_fields, sentence", REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_what_does_not_fit_is_named_in_one_line(given_fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ControlError) as refused:
        decoded(Everything, given_fields if sentence.startswith("name") else {"name": "x"} | given_fields)
    assert refused.value.kind is Kind.INVALID and str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 500 and "\n" not in str(refused.value)


def test_texts_of_a_query_become_what_json_would_have() -> None:
    pairs = [("count", "7"), ("part", "1e-1"), ("is_there", "true"), ("names", "a"), ("names", "1"), ("lease", "5")]
    assert from_texts(Everything, pairs) == {
        "count": 7,
        "part": 0.1,
        "is_there": True,
        "names": ["a", "1"],
        "lease": "5",
    }
    # A value of none of these types is refused with its own type.
    assert from_texts(Everything, [("count", "0x7"), ("is_there", "yes")]) == {"count": "0x7", "is_there": "yes"}


def test_a_field_of_a_query_is_given_once() -> None:
    with pytest.raises(ControlError, match="count: expected one value, found several"):
        from_texts(Everything, [("count", "1"), ("count", "2")])
    with pytest.raises(ControlError, match="unknown field 'coun'; did you mean 'count'"):
        from_texts(Everything, [("coun", "1")])


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Everything.__dataclass_fields__]), ANY_JSON))
def test_whatever_comes_is_read_or_refused(found: dict[str, Any]) -> None:
    """A decoded value is encoded as the given one."""
    try:
        request = decoded(Everything, {"name": "x"} | found)
    except ControlError as error:
        assert len(str(error)) < 500 and "\n" not in str(error)
    else:
        assert decoded(Everything, json.loads(encoded(request))) == request


def test_answers_are_written_as_their_dataclasses_are() -> None:
    found = json_form(
        {
            TopicPartition("t", 1): Header("k", b"\xff"),
            When.AFTER: [When.BEFORE, Color.DARK_RED, math.nan, -math.inf, 1.5, True],
            1: (TopicPartition("t", 1), Path.__name__),
        }
    )
    assert found == {
        "t-1": {"key": "k", "value": base64.b64encode(b"\xff").decode()},
        "after": ["before", "dark-red", None, None, 1.5, True],
        "1": [{"topic": "t", "partition": 1}, "Path"],
    }
    with pytest.raises(TypeError, match="type object is not supported in responses"):
        json_form(object())


def test_a_docstring_below_a_field_describes_it() -> None:
    assert docs_of(Everything) == {"name": "The name."}
    assert docs_of(TopicPartition) == {}
