"""Ottla's message classes against the definitions in Apache Kafka's jars, field by field in every version."""

from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api, snake_case
from ottla.protocol.messages import (
    consumer_group_log,
    consumer_offsets,
    consumer_protocol,
    share_group_log,
    share_state_log,
    streams_group_log,
    transaction_log,
)
from ottla.protocol.schema import ZERO_UUID, Field, fields_of
from support.kafka_schemas import bounds, definitions, in_range, parse
from support.noted import each_case

TYPES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "string": "string",
    "bytes": "bytes",
    "records": "records",
}
NAMED_TWICE = {
    "EntryResponse": "EntryData",
    "TopicQuorum": "TopicData",
    "PartitionQuorum": "PartitionData",
    "OwnedTaskIds": "TaskIds",
}
"""Structs whose name in Kafka's definition occurs elsewhere, in the request or in another record: Ottla's -> Kafka's name."""
NAMED_ONCE = {"TopicConfig": "KeyValue"}
"""Structs of Kafka's log that are those of its request under another name: Kafka's name -> Ottla's."""
IMPLIED_DEFAULTS = {"bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_UUID, "float64": 0.0}


def default_of(definition: Any, field: Field) -> Any:
    """Return the default that a definition states or implies."""
    spelt = definition.get("default", "")
    if spelt in ("null", None):
        return None
    if definition["type"].startswith("[]"):
        return ()
    if definition["type"] not in TYPES:
        return field.type.struct and field.type.struct()
    if definition["type"] == "string":
        return spelt or ""
    if spelt == "":
        return IMPLIED_DEFAULTS.get(definition["type"], 0)
    if definition["type"] == "bool":
        return str(spelt).lower() == "true"
    return int(str(spelt), 0)


def assert_like(cls: Any, definition: list[Any], structs: dict[str, Any], version: int) -> None:
    expected = [one for one in definition if in_range(one.get("versions", one.get("taggedVersions")), version)]
    ours = [field for field in fields_of(cls) if field.exists_in(version) and not field.is_private]
    assert [snake_case(one["name"]) for one in expected] == [field.name for field in ours], cls.__name__
    for one, field in zip(expected, ours, strict=True):
        where = f"{cls.__name__}.{field.name} v{version}"
        kind = one["type"].removeprefix("[]")
        type = field.type
        if kind != one["type"]:
            assert type.item is not None, where
            type = type.item
        if kind in TYPES:
            assert TYPES[kind] == type.name, where
        else:
            assert type.struct is not None, where
            name = type.struct.__name__
            assert kind == NAMED_TWICE.get(name, name) or NAMED_ONCE.get(kind) == name, where
            assert_like(type.struct, one.get("fields") or structs[kind], structs, version)
        assert in_range(one.get("nullableVersions"), version) == field.is_nullable_in(version), where
        assert (one["tag"] if in_range(one.get("taggedVersions"), version) else None) == field.tag, where
        assert default_of(one, field) == field.default, where
        assert "flexibleVersions" not in one, where


def assert_message_like(cls: Any, definition: Any, versions: tuple[int, int]) -> None:
    structs = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}
    served = range(versions[0], versions[1] + 1)
    for version in served:
        assert_like(cls, definition["fields"], structs, version)
    never = [field.name for field in fields_of(cls) if not any(map(field.exists_in, served))]
    assert never == [], "fields that no version has"


@each_case("api", APIS.values(), ids=[api.name for api in APIS.values()])
def test_an_api_is_declared_as_kafka_declares_it(api: Api) -> None:
    known = definitions("kafka-clients")
    for side, cls in (("Request", api.request), ("Response", api.response)):
        definition = known[f"{api.name}{side}"]
        low, high = bounds(definition["validVersions"])
        is_unstable = known[f"{api.name}Request"].get("latestVersionUnstable", False)
        assert definition["apiKey"] == api.key
        assert (low, high - is_unstable) == api.versions
        assert api.unstable == (high if is_unstable else None)
        for version in range(low, high + 1):
            assert in_range(definition["flexibleVersions"], version) == api.is_flexible(version)
        assert_message_like(cls, definition, (low, high))


@pytest.mark.parametrize(
    "cls", [consumer_protocol.ConsumerProtocolSubscription, consumer_protocol.ConsumerProtocolAssignment]
)
def test_consumer_blobs_are_declared_as_kafka_declares_them(cls: type[Any]) -> None:
    definition = definitions("kafka-clients")[cls.__name__]
    assert definition["flexibleVersions"] == "none"
    assert_message_like(cls, definition, bounds(definition["validVersions"]))


@each_case(
    "cls, flexible",
    [
        (consumer_offsets.OffsetCommitKey, "none"),
        (consumer_offsets.OffsetCommitValue, "4+"),
        (consumer_offsets.GroupMetadataKey, "none"),
        (consumer_offsets.GroupMetadataValue, "4+"),
        *((key, "none") for key, _ in consumer_group_log.RECORD_TYPES.values()),
        *((value, "0+") for _, value in consumer_group_log.RECORD_TYPES.values()),
        *((key, "none") for key, _ in streams_group_log.RECORD_TYPES.values()),
        *((value, "0+") for _, value in streams_group_log.RECORD_TYPES.values()),
        *((key, "none") for key, _ in share_group_log.RECORD_TYPES.values()),
        *((value, "0+") for _, value in share_group_log.RECORD_TYPES.values()),
    ],
)
def test_records_of_the_offsets_topic_are_declared_as_kafka_declares_them(cls: type[Any], flexible: str) -> None:
    definition = definitions("kafka-group-coordinator")[cls.__name__]
    assert definition["flexibleVersions"] == flexible
    assert_message_like(cls, definition, bounds(definition["validVersions"]))


@pytest.mark.parametrize(
    "cls, flexible", [(transaction_log.TransactionLogKey, "none"), (transaction_log.TransactionLogValue, "1+")]
)
def test_records_of_the_transaction_topic_are_declared_as_kafka_declares_them(cls: type[Any], flexible: str) -> None:
    definition = definitions("kafka-transaction-coordinator")[cls.__name__]
    assert definition["flexibleVersions"] == flexible
    assert_message_like(cls, definition, bounds(definition["validVersions"]))


@pytest.mark.parametrize(
    "number, side", [(number, side) for number in share_state_log.RECORD_TYPES for side in ("Key", "Value")]
)
def test_records_of_the_share_state_topic_are_declared_as_kafka_declares_them(number: int, side: str) -> None:
    cls = share_state_log.RECORD_TYPES[number][side == "Value"]
    definition = definitions("kafka-share-coordinator")[cls.__name__]
    assert definition["apiKey"] == number
    assert definition["flexibleVersions"] == ("none" if side == "Key" else "0+")
    assert_message_like(cls, definition, bounds(definition["validVersions"]))


def test_fields_that_only_ottla_has_are_listed() -> None:
    """The exceptions to this file: a tagged field that differs from its default is sent, so each is listed by name."""
    private = [
        f"{cls.__name__}.{field.name} v{field.first}"
        for api in APIS.values()
        for cls in structs_of(api.request) | structs_of(api.response)
        for field in fields_of(cls)
        if field.is_private
    ]
    assert sorted(private) == [
        "DescribeLogDirsPartition.ottla_cleaner_status v2",
        "DescribeLogDirsRequest.ottla_cleaner_status v2",
    ]


def structs_of(cls: type[Any]) -> set[type[Any]]:
    """Return a message class and the classes of its structs, however deep."""
    types = [field.type.item or field.type for field in fields_of(cls)]
    return {cls}.union(*(structs_of(type.struct) for type in types if type.struct is not None))


def test_definitions_are_parsed_with_their_comments() -> None:
    text = '// licence\n{\n  // about\n  "name": "X", // tail\n  "versions": "0-7"\n}\n'
    assert parse(text) == {"name": "X", "versions": "0-7"}
    assert [in_range("3+", v) for v in (2, 3, 9)] == [False, True, True]
    assert [in_range("2-7", v) for v in (1, 2, 7, 8)] == [False, True, True, False]
    assert [in_range("2", v) for v in (1, 2, 3)] == [False, True, False]
    assert not in_range("none", 0) and not in_range(None, 0)
