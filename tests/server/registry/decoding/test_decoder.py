"""Bytes name a schema, and become JSON, or have a reason why not."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any

import pytest

from ottla.protocol.schemas.frames import Decoded, Frame, frame_of
from ottla.protocol.schemas.plain_json import MAX_BYTES, MAX_CHARACTERS, MAX_STEPS
from ottla.server.registry.decoding.decoder import NEAR_IDS, TOO_MANY, Decoder
from ottla.server.registry.parsing import Parser
from ottla.server.registry.records import Content, Entry, KeyType, Reference, Version, content_of
from ottla.server.registry.state import State
from support.broker.registry_calls import record_schema
from support.noted import each_case

GUID = "12345678-1234-5678-1234-567812345678"
GUID_BYTES = b"\1" + uuid.UUID(GUID).bytes
AFTER_ID = b"\0\0\0\0\7"


@each_case(
    "part, content, headers, frame",
    [
        ("value", AFTER_ID + b"x", (), Frame(7, AFTER_ID + b"x", 5, None)),
        ("key", AFTER_ID, (), Frame(7, AFTER_ID, 5, None)),
        ("value", None, (("__value_schema_id", GUID_BYTES),), None),
        ("value", b"", (), None),
        ("value", AFTER_ID[:4], (), None),
        ("value", b"\1" + AFTER_ID[1:], (), None),
        ("value", bytes(8), (), None),  # the number 0 in eight bytes
        ("value", b"\0\x80\0\0\0x", (), None),
        ("value", b"x", (("__value_schema_id", GUID_BYTES),), Frame(GUID, GUID_BYTES, 17, b"x")),
        ("key", b"x", (("__key_schema_id", GUID_BYTES + b"\0"),), Frame(GUID, GUID_BYTES + b"\0", 17, b"x")),
        ("value", b"x", (("__value_schema_id", AFTER_ID),), Frame(7, AFTER_ID, 5, b"x")),
        ("value", AFTER_ID, (("__value_schema_id", GUID_BYTES),), Frame(GUID, GUID_BYTES, 17, AFTER_ID)),
        ("value", b"x", (("__key_schema_id", GUID_BYTES),), None),
        ("value", b"x", (("__value_schema_id", GUID_BYTES[:16]),), None),
        ("value", b"x", (("__value_schema_id", b""),), None),
        ("value", AFTER_ID, (("__value_schema_id", None),), Frame(7, AFTER_ID, 5, None)),
    ],
)
def test_frames(part: Any, content: bytes | None, headers: Any, frame: Frame | None) -> None:
    assert frame_of(part, content, headers) == frame


ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "total", "type": "int"}]})
OF_ORDER = json.dumps({"type": "array", "items": "Order"})
LINE = 'syntax = "proto3"; message Line { int32 count = 1; message Item { string name = 1; } }'
OF_LINE = 'syntax = "proto3"; import "line.proto"; message Page { Line line = 1; }'


def state_of(*versions: tuple[str, int, Content]) -> State:
    """Return the state with version 1 of subjects, each with its id and schema."""
    state = State()
    for subject, schema_id, content in versions:
        for _ in state.apply(Entry(KeyType.SCHEMA, subject, 1, Version(subject, 1, schema_id, content))):
            pass
    return state


STATE = state_of(
    ("order", 1, content_of("AVRO", ORDER)),
    ("orders", 2, content_of("AVRO", OF_ORDER, (Reference("Order", "order", 1),))),
    ("line", 3, content_of("PROTOBUF", LINE)),
    ("page", 4, content_of("PROTOBUF", OF_LINE, (Reference("line.proto", "line", 1),))),
    ("json", 5, content_of("JSON", '{"type": "object"}')),
    ("broken", 6, content_of("AVRO", '"no type"')),
    ("dangling", 7, content_of("AVRO", OF_ORDER, (Reference("Order", "absent", 1),))),
    ("foreign", 8, content_of("THRIFT", "struct A {}")),
    ("two", 10, content_of("AVRO", record_schema("a string", "b string"))),
    ("long", 9, content_of("AVRO", json.dumps({"type": "array", "items": "null"}))),
)


def shown(
    schema_id: int, data: bytes, state: State = STATE, topic: str = "t", steps: float = math.inf
) -> Decoded | None:
    frame = frame_of("value", b"\0" + schema_id.to_bytes(4) + data, ())
    assert frame is not None
    return Decoder(Parser(), steps).decode(state, topic, "value", frame)


def text_of(decoder: Decoder, state: State, data: bytes) -> str | None:
    frame = frame_of("value", data, ())
    assert frame is not None
    found = decoder.decode(state, "t", "value", frame)
    assert found is not None
    return found.text


@each_case(
    "schema_id, data, text",
    [
        (1, b"\6", '{"total":3}'),
        (2, b"\4\6\x08\0", '[{"total":3},{"total":4}]'),
        (3, b"\0\x08\5", '{"count":5}'),
        (3, b"\4\0\0\n\1a", '{"name":"a"}'),
        (4, b"\0\n\2\x08\5", '{"line":{"count":5}}'),
        (5, b' {"a": "\\ud800", "b": 1.50} ', '{"a": "\\ud800", "b": 1.50}'),
    ],
)
def test_values_are_shown_as_json(schema_id: int, data: bytes, text: str) -> None:
    assert shown(schema_id, data) == Decoded(str(schema_id), text, None)


@each_case(
    "schema_id, data, reason",
    [
        (1, b"", "position 0: expected 1 more bytes, found 0"),
        (3, b"", "a number does not end"),
        (3, b"\2\4", "the schema has no message 2"),
        (5, b"\xff", "not JSON: invalid UTF-8 at byte 0"),
        (5, b"{", "invalid JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"),
        (5, b"", "invalid JSON (Expecting value: line 1 column 1 (char 0))"),
        (5, b"NaN", "invalid JSON (NaN is not a number of JSON)"),
        (5, b"[" * 5_000, "nested too deeply (limit 200 levels)"),
        (6, b"", "type: not defined ('no type'); define it before its first use, or reference its schema"),
        (7, b"\0", 'No schema reference found for subject "absent" and version 1'),
        (8, b"", "schemaType: invalid ('THRIFT', expected one of AVRO, JSON, PROTOBUF)"),
        (99, b"", "not found in the schema registry"),
        (1, bytes(MAX_BYTES), f"too large to be decoded ({MAX_BYTES + 5} bytes, limit {MAX_BYTES})"),
        (
            10,
            b"\x80\x80\x20" + b"\1" * (1 << 18) + b"\x80\x80\x20" + b"\1" * (1 << 18),
            f"too large to be shown ({6 * (1 << 19) + 15} characters of JSON, limit {MAX_CHARACTERS})",
        ),
        (9, b"\xfe\xff\xff\xff\1\0", f"too large to be decoded (limit {MAX_STEPS} steps)"),
    ],
)
def test_other_bytes_have_a_reason(schema_id: int, data: bytes, reason: str) -> None:
    assert shown(schema_id, data) == Decoded(str(schema_id), None, reason)


def test_a_guid_in_a_header_names_a_schema() -> None:
    for subject, data, indexes, text in (
        ("order", b"\6", b"", '{"total":3}'),
        ("line", b"\x08\5", b"\0", '{"count":5}'),
    ):
        guid = STATE.subjects[subject][1].content.guid
        frame = frame_of("key", data, (("__key_schema_id", b"\1" + uuid.UUID(guid).bytes + indexes),))
        assert frame is not None
        assert Decoder(Parser()).decode(STATE, "t", "key", frame) == Decoded(guid, text, None)


@each_case(
    "data, headers, names_schema",
    [
        (b"\0" + (10 + NEAR_IDS).to_bytes(4), (), True),
        (b"\0" + (11 + NEAR_IDS).to_bytes(4), (), False),
        (b"\0" + (10 + NEAR_IDS).to_bytes(4) + b"abc", (), False),  # eight bytes: a number
        ((1_700_000_000_000).to_bytes(8), (), False),
        ((1_700_000_000_000).to_bytes(8) * 2, (), False),
        (b"\0\0\0\5hello", (), False),  # a text after its length
        (b"x", (("__value_schema_id", GUID_BYTES),), True),
        (b"x", (("__value_schema_id", b"\0\x7f\0\0\0"),), True),
    ],
)
@pytest.mark.parametrize("steps", [math.inf, 0])
def test_other_bytes_than_frames_are_not_said_to_name_a_schema(
    data: bytes, headers: Any, names_schema: bool, steps: float
) -> None:
    frame = frame_of("value", data, headers)
    assert frame is not None
    found = Decoder(Parser(), steps).decode(STATE, "t", "value", frame)
    reason = "not found in the schema registry" if steps else TOO_MANY
    assert found == (Decoded(str(frame.schema), None, reason) if names_schema else None)


def test_an_id_is_that_of_the_context_of_the_topic_s_subject() -> None:
    state = state_of(("t-value", 1, content_of("AVRO", '"int"')), (":.staging:u-value", 1, content_of("AVRO", ORDER)))
    assert shown(1, b"\6", state, "t") == Decoded("1", "3", None)
    assert shown(1, b"\6", state, "u") == Decoded("1", '{"total":3}', None)
    assert shown(1, b"\6", state, "v") == Decoded("1", "3", None)
    state = state_of((":.staging:u-value", 1, content_of("AVRO", ORDER)))
    assert shown(1, b"\6", state, "v") == Decoded("1", None, "not found in the schema registry")


def test_values_share_their_steps() -> None:
    decoder = Decoder(Parser(), steps=100)
    frame = frame_of("value", b"\0\0\0\0\x01\x06", ())
    assert frame is not None
    found = [decoder.decode(STATE, "t", "value", frame) for _ in range(100)]
    assert found[0] == Decoded("1", '{"total":3}', None)
    assert found[-1] == Decoded("1", None, TOO_MANY)


def test_a_reference_to_another_schema_is_noticed() -> None:
    """A version that was deleted may return with another schema."""
    referring = ("orders", 2, content_of("AVRO", OF_ORDER, (Reference("Order", "order", 1),)))
    states = [state_of(("order", 1, content_of("AVRO", ORDER.replace("total", name))), referring) for name in "ab"]
    decoder, data = Decoder(Parser()), b"\0\0\0\0\x02\x02\x06\0"
    assert [text_of(decoder, states[0], data) for _ in range(2)] == ['[{"a":3}]'] * 2
    assert text_of(decoder, states[1], data) == '[{"b":3}]'


def test_parsed_schemas_are_kept_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.registry.decoding.decoder.READERS_MAX", 3)
    state = state_of(*((f"s{at}", at, content_of("AVRO", ORDER.replace("total", f"f{at}"))) for at in range(1, 10)))
    decoder = Decoder(Parser())
    for at in (*range(1, 10), 1):
        assert text_of(decoder, state, b"\0" + at.to_bytes(4) + b"\6") == f'{{"f{at}":3}}'
