"""confluent-kafka's client of a registry, with all its serializers: bytes that one writes, another reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry._async.avro import AsyncAvroDeserializer, AsyncAvroSerializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleContext, RuleExecutor
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import ottla
from support.broker.registry_calls import record_schema

VALUE = SerializationContext("t", MessageField.VALUE)
ITEM = record_schema("name string", name="Item")
ORDER = record_schema("total int", "item Item", name="Order")
ITEM_JSON = '{"$id":"item.json","type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
ORDER_JSON = '{"$id":"order.json","title":"Order","type":"object","properties":{"item":{"$ref":"item.json"}}}'


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.schema_registry}) as client:
        yield client
    broker.reset()


@pytest.fixture
def other(broker: ottla.Broker) -> Iterator[Callable[[], SchemaRegistryClient]]:
    """Makes clients that have cached nothing."""
    with ExitStack() as clients:
        yield lambda: clients.enter_context(SchemaRegistryClient({"url": broker.schema_registry}))


def test_avro(client: SchemaRegistryClient, other: Callable[[], SchemaRegistryClient]) -> None:
    client.register_schema("item", Schema(ITEM, "AVRO"))
    schema = Schema(ORDER, "AVRO", [SchemaReference("Item", "item", 1)])
    order = {"total": 3, "item": {"name": "pen"}}
    data = AvroSerializer(client, schema)(order, VALUE)
    assert data[:5] == b"\0\0\0\0\2"
    assert AvroDeserializer(other())(data, VALUE) == order


def test_json(client: SchemaRegistryClient, other: Callable[[], SchemaRegistryClient]) -> None:
    client.register_schema("item", Schema(ITEM_JSON, "JSON"))
    schema = Schema(ORDER_JSON, "JSON", [SchemaReference("item.json", "item", 1)])
    order = {"item": {"name": "pen"}}
    data = JSONSerializer(schema, client)(order, VALUE)
    assert JSONDeserializer(None, schema_registry_client=other())(data, VALUE) == order
    with pytest.raises(Exception, match="'name' is a required property"):
        JSONSerializer(schema, client)({"item": {}}, VALUE)


def order_class() -> Any:
    """Return the class of a message that imports another file and a well-known type."""
    pool = descriptor_pool.DescriptorPool()
    kind = descriptor_pb2.FieldDescriptorProto
    time = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(time)
    item = descriptor_pb2.FileDescriptorProto(name="item.proto", package="shop", syntax="proto3")
    item.message_type.add(name="Item").field.add(
        name="name", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL
    )
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto",
        package="shop",
        syntax="proto3",
        dependency=["item.proto", "google/protobuf/timestamp.proto"],
    )
    fields = order.message_type.add(name="Order").field
    for number, (name, of) in enumerate([("item", ".shop.Item"), ("at", ".google.protobuf.Timestamp")], 1):
        fields.add(name=name, number=number, type=kind.TYPE_MESSAGE, type_name=of, label=kind.LABEL_OPTIONAL)
    for file in (time, item, order):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(client: SchemaRegistryClient, other: Callable[[], SchemaRegistryClient]) -> None:
    order = order_class()
    made = order()
    made.item.name, made.at.seconds = "pen", 7
    data = ProtobufSerializer(order, client, {"use.deprecated.format": False})(made, VALUE)
    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, schema_registry_client=other())(data, VALUE)
    assert (read.item.name, read.at.seconds) == ("pen", 7)
    assert sorted(client.get_subjects()) == ["item.proto", "t-value"]
    stored = other().get_latest_version("t-value").schema
    assert 'import "item.proto";' in str(stored.schema_str) and "message Order {" in str(stored.schema_str)


def test_the_latest_version_is_used_if_a_client_wants_it(client: SchemaRegistryClient) -> None:
    client.register_schema("t-value", Schema(record_schema("x int"), "AVRO"))
    client.register_schema("t-value", Schema(record_schema("x int", "y int 0"), "AVRO"))
    serializer = AvroSerializer(client, conf={"auto.register.schemas": False, "use.latest.version": True})
    assert serializer({"x": 1, "y": 2}, VALUE) == b"\0\0\0\0\2\2\4"


class Renaming(RuleExecutor):  # type: ignore[misc]  # the client has no types
    """Carries out rules like `old -> new`: a field gets another name, and must be there."""

    def type(self) -> str:
        return "RENAME"

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, str]) -> None: ...

    def transform(self, ctx: RuleContext, message: dict[str, Any]) -> dict[str, Any]:
        old, new = ctx.rule.expr.split(" -> ")
        return {name: each for name, each in message.items() if name != old} | {new: message[old]}


def test_rules_of_stored_schemas(client: SchemaRegistryClient, other: Callable[[], SchemaRegistryClient]) -> None:
    rules = RuleRegistry()
    rules.register_executor(Renaming())

    def rule(mode: RuleMode, expression: str) -> Rule:
        return Rule("rename", "", RuleKind.TRANSFORM, mode, "RENAME", None, None, expression, None, None, False)

    def register(field: str, release: str, rule_set: RuleSet | None) -> None:
        metadata = Metadata(None, MetadataProperties({"release": release}), None)
        client.register_schema("t-value", Schema(record_schema(f"{field} int"), "AVRO", [], metadata, rule_set))

    client.set_config("t-value", ServerConfig(compatibility_group="release"))
    register("size", "1", RuleSet(None, [rule(RuleMode.WRITE, "length -> size")]))
    register("height", "2", RuleSet([rule(RuleMode.UPGRADE, "size -> height")], None))
    old = {"auto.register.schemas": False, "use.latest.with.metadata": {"release": "1"}}
    data = AvroSerializer(client, conf=old, rule_registry=rules)({"length": 3}, VALUE)
    with pytest.raises(SerializationError):
        AvroSerializer(client, conf=old, rule_registry=rules)({"size": 3}, VALUE)
    new = {"use.latest.with.metadata": {"release": "2"}}
    assert AvroDeserializer(other(), conf=new, rule_registry=rules)(data, VALUE) == {"height": 3}


def test_a_client_needs_no_registry_for_cached_schemas() -> None:
    with ottla.Broker(schema_registry=True) as broker:
        client, stranger = (SchemaRegistryClient({"url": broker.schema_registry, "max.retries": 0}) for _ in range(2))
        write, read = AvroSerializer(client, record_schema("x int")), AvroDeserializer(client)
        data = write({"x": 1}, VALUE)
        assert read(data, VALUE) == {"x": 1}
    with client, stranger:
        assert read(write({"x": 2}, VALUE), VALUE) == {"x": 2}
        with pytest.raises(Exception, match="refused"):
            AvroDeserializer(stranger)(data, VALUE)


def test_every_call_of_the_client(client: SchemaRegistryClient, other: Callable[[], SchemaRegistryClient]) -> None:
    one, two = Schema(record_schema("x int"), "AVRO"), Schema(record_schema("x int", "y int 0"), "AVRO")
    bad = Schema(record_schema("x int", "z int"), "AVRO")
    assert client.register_schema("s", one) == 1
    assert client.register_schema_full_response("s", two, normalize_schemas=True).schema_id == 2
    assert other().get_schema(1).schema_str == one.schema_str
    guid = other().get_latest_version("s").guid
    assert other().get_schema_by_guid(guid).schema_str == two.schema_str
    assert [each.version for each in client.get_schema_versions(1)] == [1]
    assert client.get_subjects_by_schema_id(1) == ["s"]
    assert client.lookup_schema("s", two).version == 2
    assert client.get_subjects() == ["s"]
    assert (client.get_versions("s"), client.get_version("s", 1).schema_id) == ([1, 2], 1)
    assert client.get_referenced_by("s", 1) == []
    assert client.test_compatibility("s", one) and not client.test_compatibility("s", bad)
    assert client.test_compatibility_all_versions("s", one)
    with pytest.raises(SchemaRegistryError, match="incompatible") as refused:
        client.register_schema("s", bad)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    client.set_config("s", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert client.get_config("s").compatibility_level == "NONE"
    assert client.get_compatibility("s") == "NONE"
    client.delete_config("s")
    client.set_compatibility(level="FULL")
    assert client.get_compatibility() == "FULL"
    assert client.update_global_mode("IMPORT", force=True) == "IMPORT"
    assert client.get_global_mode() == "IMPORT"
    assert client.update_global_mode("READWRITE") == "READWRITE"
    assert client.update_mode("s", "READONLY") == "READONLY"
    assert client.get_mode("s") == "READONLY"
    assert client.update_mode("s", "READWRITE") == "READWRITE"
    assert client.get_contexts() == ["."]
    assert client.delete_version("s", 1) == 1
    assert client.delete_version("s", 1, permanent=True) == 1
    assert client.delete_subject("s") == [2]
    assert client.delete_subject("s", permanent=True) == [2]
    with pytest.raises(SchemaRegistryError) as missing:
        other().get_latest_version("s")
    assert missing.value.error_code == 40401


def test_the_clients_of_asyncio(broker: ottla.Broker) -> None:
    async def run() -> Any:
        async with AsyncSchemaRegistryClient({"url": broker.schema_registry}) as client:
            write = await AsyncAvroSerializer(client, record_schema("x int"))
            read = await AsyncAvroDeserializer(client)
            data = await asyncio.gather(*(write({"x": number}, VALUE) for number in range(20)))
            return [await read(each, VALUE) for each in data]

    assert asyncio.run(run()) == [{"x": number} for number in range(20)]
    broker.reset()


def test_a_context_in_the_base_url(broker: ottla.Broker) -> None:
    with SchemaRegistryClient({"url": f"{broker.schema_registry}/contexts/.staging"}) as client:
        data = AvroSerializer(client, record_schema("x int"))({"x": 1}, VALUE)
        assert AvroDeserializer(client)(data, VALUE) == {"x": 1}
        assert client.get_subjects() == [":.staging:t-value"]
    broker.reset()


def test_basic_authentication() -> None:
    with ottla.Broker(schema_registry=True, admin_token="secret") as broker:
        asked = {"url": broker.schema_registry, "basic.auth.user.info": "any:secret"}
        with SchemaRegistryClient(asked) as client:
            assert client.get_subjects() == []
        asked = {
            "url": broker.schema_registry,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": "secret",
            "bearer.auth.logical.cluster": "c",
            "bearer.auth.identity.pool.id": "p",
        }
        with SchemaRegistryClient(asked) as client:
            assert client.get_subjects() == []
