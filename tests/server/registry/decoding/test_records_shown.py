"""Records that confluent-kafka's serializers have written are shown as JSON: on the page, over HTTP, by a command and in reports."""

from __future__ import annotations

import http.client
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2

import ottla
from ottla.server.client.kafka import Kafka
from ottla.server.registry.decoding.cluster_schemas import RESTS_PER_TRY, ClusterSchemas
from ottla.server.testing.reports import tails
from support.broker.registry_calls import RegistryCalls, record_schema
from support.commands.command_runs import run_command

ORDER = record_schema("total int", "at long", name="Order").replace(
    '"long"', '{"type":"long","logicalType":"timestamp-millis"}'
)
KEY = '{"title":"Key","type":"object","properties":{"id":{"type":"integer"}}}'
VALUE = SerializationContext("shop", MessageField.VALUE)
SHOWN = [
    (None, '{"total":3,"at":"1970-01-01T00:00:00.005Z"}'),
    ('{"id":7}', '{"a":[true,null,1.5]}'),
    (None, '{"total":-4,"at":"2001-09-09T01:46:40.000Z"}'),
]
"""Keys and values of the topic `shop`, as they are shown."""


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with (
        ottla.Broker(admin="0", schema_registry=True) as broker,
        SchemaRegistryClient({"url": broker.schema_registry}) as client,
    ):
        in_header = SerializationContext("shop", MessageField.VALUE, [])
        struct = struct_pb2.Struct()
        struct.update({"a": [True, None, 1.5]})
        avro = AvroSerializer(client, ORDER)
        avro_in_header = AvroSerializer(client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
        keys = JSONSerializer(KEY, client)
        protobuf = ProtobufSerializer(struct_pb2.Struct, client, {"use.deprecated.format": False})
        context = SerializationContext("other", MessageField.VALUE)
        broker.create_topic("shop")
        broker.produce("shop", avro({"total": 3, "at": 5}, VALUE))
        broker.produce(
            "shop", protobuf(struct, context), key=keys({"id": 7}, SerializationContext("shop", MessageField.KEY))
        )
        value = avro_in_header({"total": -4, "at": 1_000_000_000_000}, in_header)
        assert isinstance(in_header.headers, list)
        broker.produce("shop", value, headers=in_header.headers)
        broker.create_topic("odd")
        broker.produce(
            "odd", b"\0\0\0\0\1", key=b"\0\0\0\0\x63x"
        )  # a value that ends too early, a schema that is not there
        broker.produce("odd", "plain", key=(1_700_000_000_000).to_bytes(8))
        broker.produce("odd", None, key=b"\0")
        yield broker


def get(broker: ottla.Broker, target: str) -> str:
    assert broker.admin is not None
    with closing(http.client.HTTPConnection(broker.admin, timeout=60)) as connection:
        connection.request("GET", target)
        return connection.getresponse().read().decode()


def records(broker: ottla.Broker, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(get(broker, f"/v1/topics/{topic}/records"))["records"]
    return found


def test_http(broker: ottla.Broker) -> None:
    found = [
        [each[name] and each[name]["text"] for name in ("key_decoded", "value_decoded")]
        for each in records(broker, "shop")
    ]
    assert found == [list(each) for each in SHOWN]
    first, second, third = records(broker, "odd")
    assert first["key_decoded"] == {"schema": "99", "text": None, "reason": "not found in the schema registry"}
    assert first["value_decoded"] == {
        "schema": "1",
        "text": None,
        "reason": "position 0: expected 1 more bytes, found 0",
    }
    assert [each[name] for each in (second, third) for name in ("key_decoded", "value_decoded")] == [None] * 4


def test_the_page(broker: ottla.Broker) -> None:
    html = unescape(get(broker, "/topics/shop/records"))
    for pair in SHOWN:
        for text in pair:
            assert text is None or f"<code>{text}</code>" in html
    assert '<span class="quiet">schema 1</span> <code>' in html
    assert "schema 1: position 0: expected 1 more bytes, found 0" in get(broker, "/topics/odd/records")


def run(broker: ottla.Broker, *words: str, stdin: bytes = b"") -> str:
    ran = run_command(*words, "--bootstrap", broker.bootstrap, stdin=stdin)
    assert ran.code == 0, ran
    return ran.out


def test_the_command(broker: ottla.Broker) -> None:
    lines = run(broker, "consume", "shop", "--until-end").splitlines()
    for line, (key, value) in zip(lines, SHOWN, strict=True):
        assert f"  {key or '(null)'}  {value}" in line
    odd = run(broker, "consume", "odd", "--until-end").splitlines()
    assert r"\x00\x00\x00\x00c" in odd[0] and "cx (schema 99: not found in the schema registry)  " in odd[0]
    assert odd[0].endswith(r"\x01 (schema 1: position 0: expected 1 more bytes, found 0)")
    assert odd[1].endswith("  plain") and "schema" not in odd[2]


def test_json_lines_have_the_bytes_as_well(broker: ottla.Broker) -> None:
    text = run(broker, "consume", "shop", "--until-end", "--json")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line.get("key_decoded"), line["value_decoded"]) for line in lines] == [
        (key and json.loads(key), json.loads(str(value))) for key, value in SHOWN
    ]
    broker.create_topic("copy")
    run(broker, "produce", "copy", "--json-lines", stdin=text.encode())
    assert [(each.key, each.value, each.headers) for each in broker.records("copy")] == [
        (each.key, each.value, each.headers) for each in broker.records("shop")
    ]
    assert run(broker, "consume", "shop", "-e", "-n", "1", "-f", "value") == "\x00\x00\x00\x00\x01\x06\n\n"


def test_a_decoded_value_without_its_bytes_is_no_tombstone(broker: ottla.Broker) -> None:
    line = b'{"key": "k", "value_decoded": {"total": 3}}\n'
    ran = run_command("produce", "odd", "--json-lines", "--bootstrap", broker.bootstrap, stdin=line)
    assert ran.code == 2 and "unknown field 'value_decoded'" in ran.err
    assert len(broker.records("odd")) == 3


def test_the_report_of_a_failed_test(broker: ottla.Broker) -> None:
    text = tails(broker.bootstrap, ["shop", "odd"])
    for key, value in SHOWN:
        assert f"  {key}: {value}\n" in text or f"  {key}: {value}  headers=" in text
    assert (
        "b'\\x00\\x00\\x00\\x00cx' (schema 99: not found in the schema registry): b'\\x00\\x00\\x00\\x00\\x01' (schema 1: position 0:"
        in text
    )
    assert ": b'plain'\n" in text


def first(kafka: Kafka, topic: str) -> Any:
    return kafka.records(topic)[0]


def test_a_cluster_without_schemas_shows_bytes() -> None:
    with ottla.Broker(admin="0") as broker:
        broker.produce("t", b"\0\0\0\0\1\6")
        assert broker.admin is not None
        assert records(broker, "t")[0]["value_decoded"] is None
        assert r"\x00\x00\x00\x00\x01\x06" in run(broker, "consume", "t", "--until-end")
        assert "_schemas" not in [topic.name for topic in broker.topics(internal=True)]


def test_new_schemas_are_read_when_they_may_be_needed() -> None:
    with ottla.Broker(schema_registry=True) as broker, Kafka(broker.bootstrap) as kafka:
        broker.produce("t", b"\0\0\0\0\1\6")
        record, schemas = first(kafka, "t"), ClusterSchemas(kafka, elapsed_s=lambda: 0)
        assert schemas.decoded(record, "value") is None
        for text, shown in (('"int"', "3"), ('{"type":"enum","name":"E","symbols":["A","B","C","D"]}', '"D"')):
            assert RegistryCalls.of(broker).register("t-value", text) == 1
            schemas.expire()
            found = schemas.decoded(record, "value")
            assert found is not None and found.text == shown
            broker.reset()  # the next registry gives the same id again


def test_unreadable_schemas_have_a_reason() -> None:
    with ottla.Broker(schema_registry=True) as broker, Kafka(broker.bootstrap) as kafka:
        broker.produce("t", b"\0\0\0\0\1\6")
        broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
        broker.produce("_schemas", "not a schema", key="not a key")
        record = first(kafka, "t")
        found = ClusterSchemas(kafka).decoded(record, "value")
        assert found is not None and found.reason == "not found in the schema registry"
        few = ClusterSchemas(kafka, offsets_max=0)
        for _ in range(2):
            found = few.decoded(record, "value")
            assert found is not None and found.reason == "_schemas cannot be read: too many offsets (1, limit 0)"


def test_an_unreadable_topic_is_not_read_again_at_once() -> None:
    """A cluster whose `_schemas` has no leader lets the client wait for its whole time, for every value that arrives."""
    seconds = itertools.count()
    with ottla.Broker() as broker, Kafka(broker.bootstrap) as kafka:
        broker.produce("t", b"\0\0\0\0\1\6")
        broker.create_topic("_schemas")
        broker.produce("_schemas", "not a schema", key="not a key")
        record, schemas = first(kafka, "t"), ClusterSchemas(kafka, offsets_max=0, elapsed_s=lambda: next(seconds))
        found = schemas.decoded(record, "value")
        assert found is not None and found.reason is not None  # A second has gone by.
        broker.delete_topic("_schemas")
        tries = 0
        while found is not None:
            schemas.expire()
            found = schemas.decoded(record, "value")
            tries += 1
        assert tries == RESTS_PER_TRY


def test_decoding_loads_no_trio() -> None:
    program = (
        "import sys; from ottla.protocol.schemas import avro_values, proto_values; from ottla.server.registry.decoding import cluster_schemas, decoder;"
        "print('trio' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )
