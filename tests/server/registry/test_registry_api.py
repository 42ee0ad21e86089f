"""The HTTP API of the registry: what Confluent's Schema Registry answers, call by call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.server.registry import state as state_module
from ottla.server.registry.endpoints import in_context
from support.broker.registry_calls import RegistryCalls, path_of, record_schema
from support.noted import each_case

A1 = record_schema("x int")
A2 = record_schema("x int", "y int 0")
A3 = record_schema("x int", "y int 0", "z string")
NOT_STRICT = (
    '{"type":"record","name":"Envelope","namespace":"shop-1.$db","fields":[{"name":"x","type":"int","default":""}]}'
)
MIGRATION = {"name": "_a-1", "type": "JSONATA", "mode": "UPDOWN", "onFailure": "NONE,ERROR"}
PROTO = 'syntax = "proto3"; message M { int32 a = 1; oneof o { int32 b = 2; } }'
OPTIONAL = '{"type": "object", "properties": {"a": {"type": "string"}}}'
BROKEN = '{"type": "record", "name": "R"'
ANY = object()


def body(schema: str, **fields: Any) -> dict[str, Any]:
    return {"schema": schema, **fields}


def rules(*names: str, expr: str = "true") -> dict[str, Any]:
    defaults = {"kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False}
    return {"domainRules": [{"name": each, "type": "CEL", "expr": expr} | defaults for each in names]}


def reserved(names: str) -> dict[str, Any]:
    return {"properties": {"confluent:reserved": names}}


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def registry(broker: ottla.Broker) -> Iterator[RegistryCalls]:
    yield RegistryCalls.of(broker)
    broker.reset()


Row = tuple[str, str, Any, int, Any]
"""Method, path and body of a request; status and body of the response: for an error its code, for an object some fields."""

HISTORIES: dict[str, list[Row]] = {
    "an empty registry": [
        ("GET", "/", None, 200, {}),
        ("GET", "/subjects", None, 200, []),
        ("GET", "/schemas", None, 200, []),
        ("GET", "/contexts", None, 200, ["."]),
        ("GET", "/schemas/types", None, 200, ["AVRO", "JSON", "PROTOBUF"]),
        ("GET", "/config", None, 200, {"compatibilityLevel": "BACKWARD"}),
        ("GET", "/mode", None, 200, {"mode": "READWRITE"}),
        ("GET", "/schemas/ids/1", None, 404, 40403),
        ("GET", "/schemas/ids/x", None, 404, 40403),
        ("GET", "/schemas/ids/-1/subjects", None, 404, 40403),
        ("GET", "/schemas/guids/x", None, 404, 40403),
        ("GET", "/subjects/s/versions", None, 404, 40401),
        ("GET", "/subjects/s/versions/1", None, 404, 40401),
        ("GET", "/subjects/s/versions/0", None, 422, 42202),
        ("GET", "/subjects/s/versions/earliest", None, 422, 42202),
        ("POST", "/subjects/s", body(A1), 404, 40401),
        ("DELETE", "/subjects/s", None, 404, 40401),
        ("DELETE", "/subjects/s/versions/1", None, 404, 40401),
        ("GET", "/config/s", None, 404, 40408),
        ("GET", "/config/s?defaultToGlobal=true", None, 200, {"compatibilityLevel": "BACKWARD"}),
        ("DELETE", "/config/s", None, 404, 40401),
        ("GET", "/mode/s", None, 404, 40409),
        ("GET", "/mode/s?defaultToGlobal=true", None, 200, {"mode": "READWRITE"}),
        ("DELETE", "/mode/s", None, 404, 40401),
        ("POST", "/compatibility/subjects/s/versions/latest", body(A1), 200, {"is_compatible": True}),
        ("POST", "/compatibility/subjects/s/versions", body(A1), 200, {"is_compatible": True}),
        ("POST", "/compatibility/subjects/s/versions/1", body(A1), 404, 40402),
        ("GET", "/associations/resources/x", None, 404, 404),
        ("PUT", "/subjects", None, 405, 405),
        ("GET", "/v1/metadata/id", None, 200, {"scope": ANY}),
    ],
    "versions and ids": [
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("POST", "/subjects/s/versions", body(json.dumps(json.loads(A1), indent=2)), 200, {"id": 1}),
        ("POST", "/subjects/t/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("POST", "/subjects/s/versions", body(A2, schemaType="AVRO"), 200, {"id": 2, "version": 2}),
        ("GET", "/subjects", None, 200, ["s", "t"]),
        ("GET", "/subjects?subjectPrefix=t", None, 200, ["t"]),
        ("GET", "/subjects?offset=1&limit=1", None, 200, ["t"]),
        ("GET", "/subjects/s/versions", None, 200, [1, 2]),
        ("GET", "/subjects/s/versions/1", None, 200, {"subject": "s", "version": 1, "id": 1, "schema": A1}),
        ("GET", "/subjects/s/versions/latest", None, 200, {"version": 2, "id": 2, "schema": A2}),
        ("GET", "/subjects/s/versions/-1", None, 200, {"version": 2}),
        ("GET", "/subjects/s/versions/3", None, 404, 40402),
        ("GET", "/subjects/s/versions/2/schema", None, 200, A2),
        ("GET", "/schemas/ids/1", None, 200, {"schema": A1}),
        ("GET", "/schemas/ids/1?fetchMaxId=true", None, 200, {"schema": A1, "maxId": 2}),
        ("GET", "/schemas/ids/1/schema", None, 200, A1),
        ("GET", "/schemas/ids/1/subjects", None, 200, ["s", "t"]),
        ("GET", "/schemas/ids/1/versions", None, 200, [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}]),
        ("GET", "/schemas?latestOnly=true&limit=1", None, 200, ANY),
        ("POST", "/subjects/s", body(A2), 200, {"subject": "s", "version": 2, "id": 2, "schema": A2}),
        ("POST", "/subjects/t", body(A2), 404, 40403),
        ("POST", "/subjects/s", body(BROKEN), 422, 42201),
        ("GET", "/subjects/s/versions/1/referencedby", None, 200, []),
    ],
    "compatibility": [
        ("POST", "/subjects/s/versions", body(A2), 200, {"id": 1}),
        ("POST", "/compatibility/subjects/s/versions/latest", body(A3), 200, {"is_compatible": False}),
        ("POST", "/compatibility/subjects/s/versions/latest?verbose=true", body(A3), 200, {"messages": ANY}),
        ("POST", "/compatibility/subjects/s/versions/1", body(A1), 200, {"is_compatible": True}),
        ("POST", "/compatibility/subjects/s/versions/7", body(A1), 404, 40402),
        ("POST", "/compatibility/subjects/s/versions/latest", body(BROKEN), 422, 42201),
        ("POST", "/subjects/s/versions", body(A3), 409, 409),
        ("PUT", "/config/s", {"compatibility": "FORWARD"}, 200, {"compatibility": "FORWARD"}),
        ("GET", "/config/s", None, 200, {"compatibilityLevel": "FORWARD"}),
        ("POST", "/subjects/s/versions", body(A3), 200, {"id": 2, "version": 2}),
        ("POST", "/subjects/s/versions", body(A1), 409, 409),
        ("DELETE", "/config/s", None, 200, {"compatibilityLevel": "FORWARD"}),
        ("PUT", "/config", {"compatibility": "NONE"}, 200, {"compatibility": "NONE"}),
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 3, "version": 3}),
        ("PUT", "/config", {"compatibility": "SOME"}, 422, 42203),
        ("PUT", "/config", {"compatibility": 7}, 422, 422),
        ("PUT", "/config", {}, 422, 422),
        ("DELETE", "/config", None, 200, {"compatibilityLevel": "NONE"}),
        ("GET", "/config", None, 200, {"compatibilityLevel": "BACKWARD"}),
        ("PUT", "/config/s", {"normalize": True}, 200, {"normalize": True}),
        ("PUT", "/config/s", {"normalize": None}, 200, {}),
        ("GET", "/config/s", None, 404, 40408),
        ("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE"}, 200, ANY),
        (
            "POST",
            "/compatibility/subjects/s/versions",
            body(record_schema("x int", "z int")),
            200,
            {"is_compatible": False},
        ),
    ],
    "groups of compatible versions": [
        ("PUT", "/config/s", {"compatibility": "FULL", "compatibilityGroup": "major"}, 200, ANY),
        ("POST", "/subjects/s/versions", body(A1, metadata={"properties": {"major": "1"}}), 200, {"id": 1}),
        ("POST", "/subjects/s/versions", body('"int"', metadata={"properties": {"major": "1"}}), 409, 409),
        ("POST", "/subjects/s/versions", body('"int"', metadata={"properties": {"major": "2"}}), 200, {"version": 2}),
        ("GET", "/subjects/s/metadata?key=major&value=1", None, 200, {"version": 1}),
        ("GET", "/subjects/s/metadata?key=major&value=3", None, 404, 40403),
        ("POST", "/subjects/s/versions", body(A1, metadata=7), 422, 422),
        ("DELETE", "/config/s", None, 200, ANY),
        ("PUT", "/config/s", {"compatibility": "NONE"}, 200, ANY),
        (
            "POST",
            "/subjects/s/versions",
            body('"long"', metadata={"properties": {"major": "1", "owner": "ann"}}),
            200,
            {"version": 3},
        ),
        ("GET", "/subjects/s/metadata?key=major&value=1", None, 200, {"version": 3}),
        ("GET", "/subjects/s/metadata?key=owner&value=ann&key=major&value=1", None, 200, {"version": 3}),
        ("GET", "/subjects/s/metadata?key=owner&value=bob&key=major&value=1", None, 404, 40403),
        ("GET", "/subjects/s/metadata?key=major&value=2&key=owner&value=ann", None, 404, 40403),
    ],
    "names and defaults of Avro": [
        ("POST", "/subjects/s/versions", body(NOT_STRICT), 422, 42201),
        ("POST", "/compatibility/subjects/s/versions", body(NOT_STRICT), 422, 42201),
        ("PUT", "/config/s", {"validateNewSchemas": False}, 200, {"validateNewSchemas": False}),
        ("POST", "/subjects/s/versions", body(NOT_STRICT), 200, {"id": 1}),
        ("PUT", "/config/s", {"validateNewSchemas": None}, 200, {}),
        ("POST", "/subjects/s", body(NOT_STRICT), 200, {"version": 1}),
        ("POST", "/subjects/s", body(A1), 404, 40403),
        ("POST", "/compatibility/subjects/s/versions", body(A1), 200, {"is_compatible": False}),
        ("POST", "/subjects/t/versions", body(NOT_STRICT), 422, 42201),
        ("POST", "/subjects/s/versions?force=true", body(A1), 200, {"version": 2}),
        ("PUT", "/mode/u", {"mode": "IMPORT"}, 200, ANY),
        ("POST", "/subjects/u/versions", body(NOT_STRICT, id=1), 200, {"id": 1}),
    ],
    "aliases": [
        ("PUT", "/config/other", {"alias": "s"}, 200, {"alias": "s"}),
        ("POST", "/subjects/other/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("GET", "/subjects", None, 200, ["s"]),
        ("GET", "/subjects/other/versions/latest", None, 200, {"subject": "s"}),
        ("POST", "/subjects/other", body(A1), 200, {"subject": "s"}),
        ("POST", "/compatibility/subjects/other/versions", body('"int"'), 200, {"is_compatible": False}),
        ("GET", "/config/other", None, 200, {"alias": "s"}),
        ("GET", "/config/s", None, 404, 40408),
        ("PUT", f"/config/{path_of(':.c:b')}", {"alias": "d"}, 200, ANY),
        ("POST", f"/subjects/{path_of(':.c:b')}/versions", body(A2), 200, {"id": 1}),
        ("GET", "/schemas/ids/1?subject=:.c:b", None, 200, {"schema": A2}),
        ("GET", f"/subjects/{path_of(':.c:d')}/versions", None, 200, [1]),
        ("PUT", "/config/a", {"alias": "b"}, 200, ANY),
        ("PUT", "/config/b", {"alias": "s"}, 200, ANY),
        ("GET", "/subjects/a/versions", None, 404, 40401),
        ("PUT", "/config/a", {"alias": ""}, 200, ANY),
        ("GET", "/subjects/a/versions", None, 404, 40401),
        ("DELETE", "/subjects/other", None, 200, [1]),
        ("GET", "/subjects?deleted=true", None, 200, [":.c:d", "s"]),
    ],
    "metadata and rules that a version inherits": [
        ("POST", "/subjects/s/versions", body(A1, metadata={"properties": {"a": "1"}}), 200, {"id": 1}),
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("POST", "/subjects/s/versions", body(A2, ruleSet=rules("r")), 200, {"id": 2}),
        ("GET", "/schemas/ids/2", None, 200, {"metadata": {"properties": {"a": "1"}}, "ruleSet": rules("r")}),
        ("POST", "/subjects/s", body(A2), 200, {"version": 2}),
        ("POST", "/subjects/s", body(A2, metadata={}), 404, 40403),
        ("POST", "/subjects/s/versions", {"metadata": {"properties": {"b": "2"}}}, 200, {"id": 3, "version": 3}),
        ("GET", "/schemas/ids/3", None, 200, {"schema": A2, "metadata": {"properties": {"b": "2"}}}),
        ("POST", "/subjects/t/versions", {"metadata": {"properties": {"b": "2"}}}, 422, 42201),
        ("POST", "/subjects/s", {}, 422, 42201),
    ],
    "metadata and rules of a level": [
        (
            "PUT",
            "/config",
            {
                "defaultMetadata": {"properties": {"a": "1", "b": "1"}, "tags": {"x": ["p"]}, "sensitive": ["a"]},
                "overrideMetadata": {"properties": {"c": "3"}, "sensitive": ["c"]},
                "defaultRuleSet": rules("d", "both"),
                "overrideRuleSet": rules("o"),
            },
            200,
            {"defaultRuleSet": rules("d", "both")},
        ),
        (
            "POST",
            "/subjects/s/versions",
            body(A1, metadata={"properties": {"b": "2", "c": "2"}}, ruleSet=rules("both", expr="mine")),
            200,
            {"id": 1},
        ),
        (
            "GET",
            "/subjects/s/versions/1",
            None,
            200,
            {
                "metadata": {
                    "properties": {"a": "1", "b": "2", "c": "3"},
                    "tags": {"x": ["p"]},
                    "sensitive": ["a", "c"],
                },
                "ruleSet": {
                    "domainRules": [
                        *rules("d")["domainRules"],
                        *rules("both", expr="mine")["domainRules"],
                        *rules("o")["domainRules"],
                    ]
                },
            },
        ),
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1, "version": 1}),
        ("POST", "/subjects/s", body(A1), 200, {"version": 1}),
        ("PUT", "/config", {"defaultMetadata": None, "overrideMetadata": None}, 200, ANY),
        ("POST", "/subjects/t/versions", body(A1), 200, {"id": 2}),
        ("GET", "/schemas/ids/2", None, 200, {"ruleSet": rules("d", "both", "o")}),
    ],
    "the number of a version in its metadata": [
        ("POST", "/subjects/s/versions", body(A1), 200, {"version": 1}),
        ("POST", "/subjects/s/versions", body(A1, version=-1), 200, {"version": 2}),
        ("GET", "/subjects/s/versions/2", None, 200, {"metadata": {"properties": {"confluent:version": "2"}}}),
        ("POST", "/subjects/s/versions", body(A1), 200, {"version": 2}),
        ("POST", "/subjects/s/versions", body(A2), 200, {"version": 3}),
        ("GET", "/subjects/s/versions/3", None, 200, {"metadata": {"properties": {"confluent:version": "3"}}}),
        ("POST", "/subjects/s/versions", body(A1, version=4), 200, {"version": 4}),
        ("POST", "/subjects/s", body(A2), 200, {"version": 3}),
    ],
    "names of fields": [
        ("PUT", "/config/s", {"compatibility": "NONE"}, 200, ANY),
        ("POST", "/subjects/s/versions", body(A1, metadata=reserved("x, ,y")), 200, ANY),
        ("PUT", "/config/s", {"validateFields": True}, 200, {"validateFields": True}),
        ("POST", "/subjects/s/versions", body(A2), 409, 409),  # has both names, which the metadata before reserve
        ("POST", "/compatibility/subjects/s/versions", body(A2), 200, {"is_compatible": False}),
        ("POST", "/subjects/s/versions", body(A2, metadata=reserved("y")), 409, 409),
        ("POST", "/subjects/s/versions", body(A2, metadata=reserved("x,y,z")), 409, 409),
        ("POST", "/subjects/s/versions", body('"int"', metadata=reserved("y,x,z")), 200, {"version": 2}),
        ("POST", "/subjects/s/versions?force=true", body(A2), 200, {"version": 3}),
        ("PUT", "/config", {"validateFields": True}, 200, ANY),
        ("POST", "/subjects/j/versions", body('{"properties": {"$$a": {}}}', schemaType="JSON"), 422, 42201),
        ("POST", "/subjects/j/versions", body('{"properties": {"$a": {}}}', schemaType="JSON"), 200, ANY),
        ("POST", "/subjects/j", body('{"properties": {"$$a": {}}}', schemaType="JSON"), 422, 42201),
        (
            "POST",
            "/compatibility/subjects/j/versions",
            body('{"properties": {"$$a": {}}}', schemaType="JSON"),
            422,
            42201,
        ),
        ("POST", "/subjects/p/versions", body(PROTO, schemaType="PROTOBUF", metadata=reserved("b")), 409, 409),
        ("POST", "/subjects/p/versions", body(PROTO, schemaType="PROTOBUF", metadata=reserved("c")), 200, ANY),
        ("POST", "/subjects/b/versions", body("true", schemaType="JSON", metadata=reserved("c")), 200, ANY),
    ],
    "a lenient policy": [
        ("POST", "/subjects/s/versions", body('{"type": "object"}', schemaType="JSON"), 200, ANY),
        ("POST", "/subjects/s/versions", body(OPTIONAL, schemaType="JSON"), 409, 409),
        ("PUT", "/config/s", {"compatibilityPolicy": "LENIENT"}, 200, {"compatibilityPolicy": "LENIENT"}),
        ("POST", "/subjects/s/versions", body(OPTIONAL, schemaType="JSON"), 200, ANY),
        ("POST", "/subjects/s/versions", body(OPTIONAL[:-1] + ', "required": ["a"]}', schemaType="JSON"), 409, 409),
        ("POST", "/subjects/a/versions", body(A1), 200, ANY),
        ("PUT", "/config/a", {"compatibilityPolicy": "LENIENT"}, 200, ANY),
        ("POST", "/subjects/a/versions", body(A3), 409, 409),
    ],
    "malformed options": [
        ("PUT", "/config", {"later": 1}, 422, 422),
        ("PUT", "/config", {"later": 1, "normalize": True}, 200, {"normalize": True}),
        ("PUT", "/config", {"alias": 1}, 422, 422),
        ("PUT", "/config", {"alias": "a" * 2_000}, 422, 42209),
        ("PUT", "/config", {"validateFields": 1}, 422, 422),
        ("PUT", "/config", {"validateRules": True, "compatibilityPolicy": "STRICT"}, 200, {"validateRules": True}),
        ("PUT", "/config", {"compatibilityPolicy": "LOGICAL"}, 422, 422),
        ("PUT", "/config", {"defaultMetadata": {"properties": {"a": 1}}}, 422, 422),
        ("PUT", "/config", {"overrideMetadata": {"sensitive": "a"}}, 422, 422),
        ("PUT", "/config", {"overrideMetadata": {"tags": {"a": "b"}}}, 422, 422),
        ("PUT", "/config", {"defaultRuleSet": {"domainRules": {}}}, 422, 422),
        ("PUT", "/config", {"overrideRuleSet": rules("r", "r")}, 422, 42210),
        *(
            ("POST", "/subjects/s/versions", body(A1, ruleSet={field: [rule]}), 422, 42210)
            for field, rule in (
                ("domainRules", {"type": "CEL"}),
                ("domainRules", {"name": "", "type": "CEL"}),
                ("domainRules", {"name": "n" * 257, "type": "CEL"}),
                ("domainRules", {"name": "1", "type": "CEL"}),
                ("domainRules", {"name": "a b", "type": "CEL"}),
                ("domainRules", {"name": "a"}),
                ("domainRules", {"name": "a", "type": "CEL", "mode": "UPGRADE"}),
                ("domainRules", {"name": "a", "type": "CEL", "kind": "X"}),
                ("migrationRules", {"name": "a", "type": "CEL"}),
                ("encodingRules", {"name": "a", "type": "CEL", "mode": ["READ"]}),
                ("domainRules", {"name": "a", "type": "CEL", "mode": "WRITE", "onFailure": "NONE,ERROR"}),
            )
        ),
        ("POST", "/subjects/s/versions", body(A1, ruleSet={"migrationRules": [MIGRATION]}), 200, {"id": 1}),
    ],
    "deletions": [
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1}),
        ("POST", "/subjects/s/versions", body(A2), 200, {"id": 2}),
        ("POST", "/subjects/t/versions", body(A1), 200, {"id": 1}),
        ("DELETE", "/subjects/s/versions/2?permanent=true", None, 404, 40407),
        ("DELETE", "/subjects/s/versions/2", None, 200, 2),
        ("DELETE", "/subjects/s/versions/2", None, 404, 40406),
        ("GET", "/subjects/s/versions/2", None, 404, 40402),
        ("GET", "/subjects/s/versions/2?deleted=true", None, 200, {"version": 2, "deleted": True}),
        ("GET", "/subjects/s/versions?deleted=true", None, 200, [1, 2]),
        ("GET", "/subjects/s/versions?deletedOnly=true", None, 200, [2]),
        ("GET", "/schemas/ids/2", None, 200, {"schema": A2}),
        ("POST", "/subjects/s", body(A2), 404, 40403),
        ("POST", "/subjects/s?deleted=true", body(A2), 200, {"version": 2}),
        ("POST", "/subjects/s/versions", body(A2), 200, {"id": 2, "version": 3}),
        ("GET", "/subjects/s/versions?deleted=true", None, 200, [1, 3]),
        ("DELETE", "/subjects/s?permanent=true", None, 404, 40405),
        ("DELETE", "/subjects/s", None, 200, [1, 3]),
        ("DELETE", "/subjects/s", None, 404, 40404),
        ("GET", "/subjects", None, 200, ["t"]),
        ("GET", "/subjects?deleted=true", None, 200, ["s", "t"]),
        ("GET", "/subjects/s/versions", None, 404, 40401),
        ("DELETE", "/subjects/s/versions/1?permanent=true", None, 200, 1),
        ("DELETE", "/subjects/s?permanent=true", None, 200, [3]),
        ("DELETE", "/subjects/s?permanent=true", None, 404, 40401),
        ("GET", "/schemas/ids/2", None, 404, 40403),
        ("GET", "/schemas/ids/1", None, 200, {"schema": A1}),
        ("POST", "/subjects/s/versions", body(A2), 200, {"id": 3, "version": 1}),
    ],
    "references": [
        ("POST", "/subjects/a/versions", body(A1), 200, {"id": 1}),
        (
            "POST",
            "/subjects/b/versions",
            body(record_schema("r R", name="B"), references=[{"name": "R", "subject": "a", "version": 1}]),
            200,
            {"id": 2},
        ),
        ("GET", "/schemas/ids/2", None, 200, {"references": [{"name": "R", "subject": "a", "version": 1}]}),
        ("GET", "/subjects/a/versions/1/referencedby", None, 200, [2]),
        ("DELETE", "/subjects/a", None, 422, 42206),
        ("DELETE", "/subjects/a/versions/1", None, 422, 42206),
        (
            "POST",
            "/subjects/c/versions",
            body(record_schema("r R", name="B"), references=[{"name": "R", "subject": "a", "version": -1}]),
            200,
            {"id": 2},
        ),
        (
            "POST",
            "/subjects/c/versions",
            body(record_schema("r R", name="B"), references=[{"name": "R", "subject": "a", "version": 9}]),
            422,
            42201,
        ),
        ("POST", "/subjects/c/versions", body(record_schema("r R", name="B")), 422, 42201),
        ("POST", "/subjects/c/versions", body(A1, references=[{"name": 1}]), 422, 422),
        ("POST", "/subjects/c/versions", body(A1, references="R"), 422, 422),
        ("DELETE", "/subjects/b", None, 200, [1]),
        ("DELETE", "/subjects/c", None, 200, [1]),
        ("DELETE", "/subjects/a", None, 200, [1]),
        ("DELETE", "/subjects/a?permanent=true", None, 422, 42206),
        ("DELETE", "/subjects/b?permanent=true", None, 200, [1]),
        ("DELETE", "/subjects/c?permanent=true", None, 200, [1]),
        ("DELETE", "/subjects/a?permanent=true", None, 200, [1]),
    ],
    "modes": [
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1}),
        ("POST", "/subjects/s/versions", body(A2, id=5), 422, 42205),
        ("POST", "/subjects/s/versions", body(A2, version=5), 422, 42201),
        ("PUT", "/mode/s", {"mode": "READONLY"}, 200, {"mode": "READONLY"}),
        ("POST", "/subjects/s/versions", body(A2), 422, 42205),
        ("DELETE", "/subjects/s", None, 422, 42205),
        ("DELETE", "/subjects/s/versions/1", None, 422, 42205),
        ("PUT", "/config/s", {"compatibility": "NONE"}, 422, 42205),
        ("DELETE", "/config/s", None, 422, 42205),
        ("POST", "/subjects/t/versions", body(A2), 200, {"id": 2}),
        ("DELETE", "/mode/s", None, 200, {"mode": "READONLY"}),
        ("PUT", "/mode", {"mode": "IMPORT"}, 422, 42205),
        ("PUT", "/mode/u", {"mode": "IMPORT"}, 200, {"mode": "IMPORT"}),
        ("POST", "/subjects/u/versions", body(A3), 422, 42205),
        ("POST", "/subjects/u/versions", body(A3, id=70, version=7), 200, {"id": 70, "version": 7}),
        ("POST", "/subjects/u/versions", body('"int"', id=70), 422, 42205),
        ("POST", "/subjects/u/versions", body(A1, id=71), 200, {"id": 71, "version": 8}),
        ("GET", "/subjects/u/versions", None, 200, [7, 8]),
        ("PUT", "/mode/u", {"mode": "READONLY_OVERRIDE"}, 422, 42204),
        ("PUT", "/mode", {"mode": "none"}, 422, 42204),
        ("PUT", "/mode", {"mode": 1}, 422, 42204),
        ("PUT", "/mode", {"mode": "READONLY_OVERRIDE"}, 200, ANY),
        ("POST", "/subjects/t/versions", body(A3), 422, 42205),
        ("DELETE", "/mode", None, 200, {"mode": "READONLY_OVERRIDE"}),
        ("PUT", "/mode?force=true", {"mode": "IMPORT"}, 200, {"mode": "IMPORT"}),
    ],
    "contexts": [
        ("POST", "/subjects/s/versions", body(A1), 200, {"id": 1}),
        ("POST", f"/subjects/{path_of(':.c:s')}/versions", body(A2), 200, {"id": 1}),
        ("POST", "/contexts/.c/subjects/t/versions", body(A1), 200, {"id": 2}),
        ("GET", "/contexts", None, 200, [".", ".c"]),
        ("GET", "/subjects", None, 200, [":.c:s", ":.c:t", "s"]),
        ("GET", "/subjects?subjectPrefix=:.c:", None, 200, [":.c:s", ":.c:t"]),
        ("GET", "/subjects?subjectPrefix=:.:", None, 200, ["s"]),
        ("GET", "/subjects?subjectPrefix=:*:s", None, 200, [":.c:s", "s"]),
        ("GET", "/contexts/.c/subjects", None, 200, [":.c:s", ":.c:t"]),
        ("GET", "/contexts/c/subjects/s/versions/1", None, 200, {"subject": ":.c:s", "schema": A2}),
        ("GET", "/subjects/:.:s/versions/1", None, 200, {"subject": "s", "schema": A1}),
        ("GET", "/schemas/ids/1", None, 200, {"schema": A1}),
        ("GET", "/schemas/ids/1?subject=:.c:", None, 200, {"schema": A2}),
        ("GET", "/contexts/.c/schemas/ids/1", None, 200, {"schema": A2}),
        ("GET", "/contexts/.d/schemas/ids/1", None, 404, 40403),
        ("PUT", "/contexts/.c/config", {"compatibility": "NONE"}, 200, {"compatibility": "NONE"}),
        ("GET", "/config/:.c:s?defaultToGlobal=true", None, 200, {"compatibilityLevel": "NONE"}),
        ("GET", "/config", None, 200, {"compatibilityLevel": "BACKWARD"}),
        ("PUT", "/contexts/.c/mode/s", {"mode": "READONLY"}, 200, ANY),
        ("POST", "/contexts/.c/subjects/s/versions", body(A1), 422, 42205),
    ],
    "bad requests": [
        ("POST", "/subjects/s/versions", "{", 400, 400),
        ("POST", "/subjects/s/versions", "[]", 400, 400),
        ("POST", "/subjects/s/versions", "[" * 100_000, 400, 400),
        ("POST", "/subjects/s/versions", None, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": 7}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": ""}, 422, 42201),
        ("POST", "/subjects/s/versions", body(A1, schemaType="XML"), 422, 42201),
        ("POST", "/subjects/s/versions", body(A1, schemaType=[1]), 422, 42201),
        ("POST", "/subjects/s/versions", body(A1, id="x"), 422, 422),
        ("POST", "/subjects/s/versions", body(A1, ruleSet="x"), 422, 422),
        (
            "POST",
            "/subjects/s/versions",
            body('{"type": "array", "items": ' * 10_000 + '"int"' + "}" * 10_000),
            422,
            42201,
        ),
        ("POST", "/subjects/s/versions", body('"' + "x" * (1 << 20) + '"'), 422, 42201),
        ("POST", "/subjects/s/versions", body("\ud800"), 422, 42201),
        ("POST", "/subjects/s%00/versions", body(A1), 422, 42208),
        ("POST", f"/subjects/{'s' * 2000}/versions", body(A1), 422, 42208),
        ("POST", f"/subjects/{path_of(':.c:')}/versions", body(A1), 422, 42208),
        ("GET", "/subjects?limit=x", None, 422, 422),
        ("GET", "/subjects?offset=99999999999999999999", None, 422, 422),
        ("GET", "/subjects/%FF/versions", None, 400, 400),
        ("GET", "/subjects", None, 200, []),
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_answers_are_those_of_confluents_registry(name: str, registry: RegistryCalls) -> None:
    for method, path, sent, status, expected in HISTORIES[name]:
        found = registry.ask(method, path, sent)
        case = (method, path[:200], status, found)
        assert found[0] == status, case
        if method == "GET":
            assert registry.ask(method, path, sent) == found, case  # the second response may be the first one, kept
        if status >= 400:
            assert found[1]["error_code"] == expected, case
            assert found[1]["message"] and "\n" not in found[1]["message"], case
        elif isinstance(expected, dict):
            assert isinstance(found[1], dict), case
            assert {name: found[1].get(name) for name, each in expected.items() if each is not ANY} == {
                name: each for name, each in expected.items() if each is not ANY
            }, case
            assert expected.keys() <= found[1].keys(), case
        elif expected is not ANY:
            assert found[1] == expected, case


def test_a_guid_finds_a_schema(registry: RegistryCalls) -> None:
    registry.register("s", A1)
    guid = registry.get("/subjects/s/versions/1")["guid"]
    assert registry.get(f"/schemas/guids/{guid}") == {"schema": A1, "guid": guid}
    assert registry.get(f"/schemas/guids/{guid.upper()}/ids") == [{"context": ".", "id": 1}]


@each_case(
    "content_type, status",
    [
        ("application/vnd.schemaregistry.v1+json", 200),
        ("application/vnd.schemaregistry+json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 200),
        ("text/plain", 415),
    ],
)
def test_content_types_of_requests(content_type: str, status: int, registry: RegistryCalls) -> None:
    found, answer = registry.ask("POST", "/subjects/s/versions", body(A1), **{"Content-Type": content_type})
    assert found == status, answer


@each_case(
    "path, query, found",
    [
        ("/subjects", "a=b", ("/subjects", "a=b")),
        ("/contexts", "", ("/contexts", "")),
        ("/contexts/.c/subjects", "", ("/subjects", "subjectPrefix=%3A.c%3A")),
        (
            "/contexts/.c/subjects",
            "deleted=true&subjectPrefix=s",
            ("/subjects", "deleted=true&subjectPrefix=%3A.c%3As"),
        ),
        ("/contexts/c/subjects/s%2Ft/versions/1", "", ("/subjects/:.c:s%2Ft/versions/1", "")),
        ("/contexts/.c/config", "", ("/config/:.c:", "")),
        ("/contexts/.c/mode/s", "", ("/mode/:.c:s", "")),
        ("/contexts/.c/compatibility/subjects/s/versions", "", ("/compatibility/subjects/:.c:s/versions", "")),
        ("/contexts/.c/schemas/ids/1", "subject=s", ("/schemas/ids/1", "subject=%3A.c%3As")),
        ("/contexts/.c/schemas", "", ("/schemas", "subjectPrefix=%3A.c%3A")),
    ],
)
def test_the_context_in_a_base_url_qualifies_the_subjects(path: str, query: str, found: tuple[str, str]) -> None:
    assert in_context(path, query) == found


def nested(levels: int) -> Any:
    return {"a": nested(levels - 1)} if levels else 1


@each_case(
    "fields, code",
    [
        ({"metadata": {"properties": {"owner": "a"}}}, None),
        ({"metadata": nested(21)}, 422),
        ({"metadata": {"properties": {f"p{number}": "" for number in range(10_000)}}}, 422),
        ({"ruleSet": {"domainRules": ["x" * 300_000]}}, 422),
        ({"ruleSet": [1]}, 422),
        ({"references": [{"name": "a", "subject": "a", "version": 1}] * 1_001}, 422),
        ({"references": [{"name": "a" * 2_000, "subject": "a", "version": 1}]}, 422),
        ({"schema": " " * 1_048_577}, 42201),
        ({"id": [1] * 1_000}, 422),
    ],
)
def test_references_metadata_and_rules_of_a_schema_are_bounded(
    fields: Any, code: int | None, registry: RegistryCalls
) -> None:
    status, answer = registry.ask("POST", "/subjects/s/versions", body('"int"') | fields)
    assert (status, answer.get("error_code")) == (200 if code is None else 422, code)


def test_a_number_that_is_not_in_json_is_refused(registry: RegistryCalls) -> None:
    sent = '{"schema": "1", "metadata": {"a": 1e999}}'
    status, answer = registry.ask("POST", "/subjects/s/versions", sent)
    assert (status, answer["error_code"]) == (422, 422)


def test_settings_are_bounded(registry: RegistryCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "SETTINGS_MAX", 2)
    for setting, value in (("config", {"compatibility": "FULL"}), ("mode", {"mode": "READONLY"})):
        statuses = [registry.ask("PUT", f"/{setting}/:.{name}:", value)[0] for name in "abca"]
        assert statuses == [200, 200, 422, 200]
    assert registry.ask("PUT", "/config/s", {"compatibilityGroup": "g" * 2_000})[1]["error_code"] == 42209
    many = {f"option{number}": 1 for number in range(101)}
    assert registry.ask("PUT", "/config", many)[1]["error_code"] == 422


@each_case("context", [".c", "c", ":.c:", "%2Ec", "%3A.c%3A"])
def test_a_context_in_a_path_has_one_name_however_it_is_written(context: str, registry: RegistryCalls) -> None:
    assert registry.ask("POST", f"/contexts/{context}/subjects/s/versions", body(A1))[0] == 200
    assert registry.get("/subjects") == [":.c:s"]
    assert registry.get(f"/contexts/{context}/schemas/ids/1")["schema"] == A1


@each_case("subject", [":*:", ":*:s"])
def test_a_name_of_all_subjects_is_no_subject(subject: str, registry: RegistryCalls) -> None:
    status, answer = registry.ask("POST", f"/subjects/{path_of(subject)}/versions", body(A1))
    assert (status, answer["error_code"]) == (422, 42208)
