"""`_schemas`: what the registry writes and reads, and what becomes of it when the broker ends."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.server.client.kafka import Kafka
from ottla.server.registry import registry as registry_module
from ottla.server.registry import state as state_module
from ottla.server.registry import topic as topic_module
from ottla.server.registry.records import Version, content_of, schema_record
from ottla.server.registry.registry import registry_of
from ottla.storage.disk.files import FileSlice
from support.broker.registry_calls import RegistryCalls, path_of, record_schema

A1 = record_schema("x int")
A2 = record_schema("x int", "y int 0")

BY_CONFLUENT = r"""
{"keytype":"NOOP","magic":0} null
{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1} {"subject":"orders-value","version":1,"id":1,"md5":"nTV+dg==","schema":"\"string\"","deleted":false}
{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1} {"subject":"orders-value","version":2,"id":4,"schema":"{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"x\",\"type\":\"int\"}]}","deleted":false}
{"keytype":"CONFIG","subject":null,"magic":0} {"compatibilityLevel":"FULL"}
{"keytype":"CONFIG","subject":"orders-value","magic":0} {"subject":"orders-value","compatibilityLevel":"NONE"}
{"keytype":"MODE","subject":"frozen","magic":0} {"subject":"frozen","mode":"READONLY"}
{"keytype":"SCHEMA","subject":"gone","version":1,"magic":1} {"subject":"gone","version":1,"id":5,"schema":"\"long\"","deleted":false}
{"keytype":"DELETE_SUBJECT","subject":"gone","magic":0} {"subject":"gone","version":1}
{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1} {"subject":"orders-value","version":1,"id":1,"schema":"\"string\"","deleted":true}
{"keytype":"LATER","magic":3} {"any":"thing"}
not JSON
"""
"""Records as Confluent's Schema Registry writes them: fields that it does not use here are ignored, and so are other records."""


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(schema_registry=True) as broker:
        yield broker


def write(broker: ottla.Broker, lines: str, topic: str = "_schemas") -> None:
    for line in lines.strip().splitlines():
        key, _, value = line.partition(" ")
        broker.produce(topic, None if value == "null" else value, key=key)


def seen(registry: RegistryCalls) -> Any:
    """Return everything that a client can read."""
    subjects = registry.get("/subjects?deleted=true")
    return (
        registry.get("/schemas?deleted=true"),
        [registry.get(f"/subjects/{path_of(each)}/versions?deleted=true") for each in subjects],
        [registry.ask("GET", f"/{setting}{path}") for setting in ("config", "mode") for path in ("", "/s", "/t")],
    )


def history(registry: RegistryCalls) -> None:
    registry.register("s", A1)
    registry.register("s", A2)
    registry.register("t", A1)
    registry.register("gone", '"bytes"')
    for method, path, body in (
        ("PUT", "/config/s", {"compatibility": "FULL"}),
        ("PUT", "/config", {"compatibility": "NONE"}),
        ("DELETE", "/subjects/s/versions/1", None),
        ("DELETE", "/subjects/gone", None),
        ("DELETE", "/subjects/gone?permanent=true", None),
        ("PUT", "/mode/t", {"mode": "READONLY"}),
    ):
        assert registry.ask(method, path, body)[0] == 200


def test_a_topic_of_confluents_registry_is_read_and_continued(broker: ottla.Broker) -> None:
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    write(broker, BY_CONFLUENT)
    registry = RegistryCalls.of(broker)
    assert registry.get("/subjects") == ["orders-value"]
    assert registry.get("/subjects?deleted=true") == ["gone", "orders-value"]
    assert registry.get("/subjects/orders-value/versions") == [2]
    assert registry.get("/schemas/ids/1") | {"guid": ""} == {"schema": '"string"', "guid": ""}
    assert registry.get("/config")["compatibilityLevel"] == "FULL"
    assert registry.get("/config/orders-value")["compatibilityLevel"] == "NONE"
    assert registry.get("/mode/frozen") == {"mode": "READONLY"}
    assert registry.register("other", A1) == 4
    assert registry.register("orders-value", '"string"') == 1
    assert registry.register("orders-value", '"double"') == 6


def test_records_are_plain_records_of_a_compacted_topic(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    registry.register("s", A1)
    with Kafka(broker.bootstrap) as kafka:
        (policy,) = [each for each in kafka.configs("topic", "_schemas") if each.name == "cleanup.policy"]
    assert policy.value == "compact"
    (record,) = broker.records("_schemas")
    assert json.loads(record.value or b"") == {"subject": "s", "version": 1, "id": 1, "schema": A1, "deleted": False}


def test_the_next_answer_contains_records_of_another_client(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    registry.register("s", A1)
    for number in range(2, 5):
        key = f'{{"keytype":"SCHEMA","subject":"s","version":{number},"magic":1}}'
        write(broker, f'{key} {{"subject":"s","version":{number},"id":{number},"schema":"\\"{number}\\""}}')
        assert registry.get("/subjects/s/versions") == list(range(1, number + 1))
    broker.delete_topic("_schemas")
    assert registry.get("/subjects") == []
    assert registry.register("s", A2) == 1


def compact(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.compact("_schemas")


def snapshot_and_restore(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path / "snapshot")
    RegistryCalls.of(broker).register("later", A1)
    broker.restore(tmp_path / "snapshot")


@pytest.mark.parametrize(
    "event",
    [lambda broker, _: broker.restart(), lambda broker, _: broker.crash(), compact, snapshot_and_restore],
    ids=["restart", "crash", "compaction", "restore"],
)
def test_nothing_is_lost(event: Callable[[ottla.Broker, Path], None], broker: ottla.Broker, tmp_path: Path) -> None:
    registry = RegistryCalls.of(broker)
    history(registry)
    before = seen(registry)
    event(broker, tmp_path)
    assert seen(registry) == before
    broker.restart()
    assert seen(registry) == before
    assert registry.register("u", A2) == 2


def test_a_reset_leaves_nothing(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    history(registry)
    broker.reset()
    assert registry.get("/subjects?deleted=true") == []
    assert registry.register("s", A2) == 1


def test_one_schema_that_many_clients_register_has_one_id_and_one_version(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda number: registry.register("s", record_schema(f"f{number % 4} int 0")), range(16)))
    assert sorted(set(ids)) == [1, 2, 3, 4]
    assert registry.get("/subjects/s/versions") == [1, 2, 3, 4]


def test_a_topic_that_would_lose_schemas_is_not_written(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact,delete"})
    status, answer = registry.ask("POST", "/subjects/s/versions", {"schema": A1})
    assert (status, answer["error_code"]) == (500, 50001)
    assert "cleanup.policy must be compact" in answer["message"]


def test_a_topic_of_several_partitions_is_refused(broker: ottla.Broker) -> None:
    broker.create_topic("_schemas", partitions=2, configs={"cleanup.policy": "compact"})
    status, answer = RegistryCalls.of(broker).ask("GET", "/subjects")
    assert (status, answer["error_code"]) == (500, 50001)
    assert "has 2 partitions; it must have one" in answer["message"]


def test_a_schema_that_is_too_large_for_the_topic_is_refused(broker: ottla.Broker) -> None:
    registry = RegistryCalls.of(broker)
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact", "max.message.bytes": "1000"})
    schema = json.dumps({"type": "enum", "name": "E", "symbols": [f"S{number}" for number in range(300)]})
    status, answer = registry.ask("POST", "/subjects/s/versions", {"schema": schema})
    assert (status, answer["error_code"]) == (422, 42209)
    assert registry.get("/subjects") == []


def test_a_broker_without_a_registry_has_no_url() -> None:
    with ottla.Broker() as broker:
        assert broker.schema_registry is None


def permanently(registry: RegistryCalls, *subjects: str) -> None:
    for subject in subjects:
        for query in ("", "?permanent=true"):
            assert registry.ask("DELETE", f"/subjects/{subject}{query}")[0] == 200


@pytest.mark.parametrize(
    "delete",
    [lambda broker: permanently(RegistryCalls.of(broker), "s", "a"), lambda broker: broker.delete_topic("_schemas")],
    ids=["permanently", "the topic"],
)
def test_a_reference_means_what_its_version_is_now(
    delete: Callable[[ottla.Broker], None], broker: ottla.Broker
) -> None:
    registry = RegistryCalls.of(broker)
    schema, references = record_schema("a A"), [{"name": "A", "subject": "a", "version": 1}]
    registry.register("a", record_schema("x int", name="A"))
    registry.register("s", schema, references=references)
    delete(broker)
    registry.register("a", record_schema("x int", name="B"))
    status, answer = registry.ask("POST", "/subjects/s/versions", {"schema": schema, "references": references})
    assert (status, answer["error_code"]) == (422, 42201)


def test_a_run_that_is_over_leaves_no_registry_in_memory(broker: ottla.Broker) -> None:
    former = []
    for _ in range(3):
        RegistryCalls.of(broker).register("s", A1)
        former.append(weakref.ref(registry_of(broker.inner)))
        broker.restart()
    gc.collect()
    assert [each() for each in former] == [None] * 3


def test_a_subject_of_any_number_of_versions_is_deleted_permanently(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = RegistryCalls.of(broker)
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact", "max.message.bytes": "400"})
    monkeypatch.setattr(registry_module, "TOMBSTONES_MAX", 2)
    for number in range(7):
        registry.register("s", record_schema(f"f{number} int 0"))
    permanently(registry, "s")
    assert registry.get("/subjects?deleted=true") == []


def test_a_batch_that_unpacks_to_too_much_is_ignored_and_the_rest_is_read_in_parts(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "UNPACKED_BYTES_MAX", 1000)
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.codec": "gzip"})
    for number, size in ((1, 300), (2, 300), (3, 3000), (4, 300), (5, 300), (6, 300), (7, 300), (8, 300)):
        schema = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1, "doc": "x" * size})
        producer.produce("_schemas", *reversed(schema_record(Version("s", number, number, content_of("AVRO", schema)))))
        producer.flush()
    assert RegistryCalls.of(broker).get("/subjects/s/versions") == [1, 2, 4, 5, 6, 7, 8]


def test_a_topic_beyond_the_limits_is_read_again_once_it_is_smaller(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def counted(part: FileSlice, at: int) -> Any:
        reads.append(at)
        return entries(part, at)

    entries = topic_module._entries
    monkeypatch.setattr(topic_module, "_entries", counted)
    monkeypatch.setattr(state_module, "VERSIONS_MAX", 2)
    registry = RegistryCalls.of(broker)
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    key = '{"keytype":"SCHEMA","subject":"s","version":%d,"magic":1}'
    for number in (1, 2, 3):
        value = f'{{"subject":"s","version":{number},"id":{number},"schema":"\\"{number}\\""}}'
        write(broker, f"{key % number} {value}")
    for method, path, body in (
        ("GET", "/subjects", None),
        ("GET", "/schemas/ids/1", None),
        ("POST", "/subjects/s/versions", {"schema": A1}),
        ("DELETE", "/subjects/s", None),
    ):
        status, answer = registry.ask(method, path, body)
        assert (status, answer["error_code"]) == (500, 50001)
        assert "_schemas: too many schemas for this registry (3 versions, limit 2;" in answer["message"]
    write(broker, f"{key % 2} null")
    assert registry.ask("GET", "/subjects")[0] == 500
    assert reads == [0]
    broker.roll("_schemas")
    broker.compact("_schemas", force=True)
    assert registry.get("/subjects/s/versions") == [1, 3]
    assert len(reads) == 2
    assert registry.ask("DELETE", "/subjects/s/versions/1")[0] == 200
