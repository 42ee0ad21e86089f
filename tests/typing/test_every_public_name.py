"""A user's test file with every public name: type checkers read it, and pytest runs it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ottla


@pytest.fixture(scope="session")
def kafka_broker_config() -> dict[str, Any]:
    # The cleaner's own rounds, ten a second, might leave nothing for a requested pass to compact.
    overrides = {"num.partitions": 1, "auto.create.topics.enable": True, "log.cleaner.backoff.ms": 3_600_000}
    return {"nodes": 2, "overrides": overrides}


def test_records(kafka_broker: ottla.Broker, kafka_bootstrap: str) -> None:
    kafka_broker.create_topic(
        "orders", partitions=2, configs={"cleanup.policy": "compact", "segment.ms": 1000}, replicas=2
    )
    record: ottla.Record = kafka_broker.produce(
        "orders", "new", key=b"1", headers={"by": "me"}, timestamp_ms=1_000, partition=0
    )
    where: tuple[str, int, int] = (record.topic, record.partition, record.offset)
    what: tuple[int, bytes | None, bytes | None] = (record.timestamp_ms, record.key, record.value)
    headers: tuple[tuple[str, bytes | None], ...] = record.headers
    assert (where, what, headers) == (("orders", 0, 0), (1_000, b"1", b"new"), (("by", b"me"),))
    sent: list[ottla.Record] = kafka_broker.produce_all(
        "orders",
        [("2", "paid"), ottla.NewRecord(None, key="1", headers=[("by", b"me")], timestamp_ms=2_000, partition=1)],
    )
    assert len(kafka_broker.records("orders")) == 1 + len(sent)
    assert kafka_broker.records("orders", 0, "read_committed")[0] == record
    with kafka_broker.table("orders") as table:
        value: bytes | None = table.wait_for("2", lambda value: value is not None, timeout_s=1.0)
        assert value is not None and len(table) == len(dict(table.items()))
    assert sum(at.end - at.start for at in kafka_broker.offsets("orders", "read_committed").values()) == 3
    kafka_broker.commit("readers", {("orders", 0): 1})
    groups = {group.group_id: (group.state, group.offsets) for group in kafka_broker.groups()}
    assert groups["readers"] == ("Empty", {("orders", 0): 1})
    assert [(topic.name, len(topic.partitions)) for topic in kafka_broker.topics()] == [("orders", 2)]
    assert {topic.name for topic in kafka_broker.topics(internal=True)} >= {"__consumer_offsets"}
    kafka_broker.set_configs("topic", "orders", {"segment.ms": None})
    kafka_broker.delete_topic("orders")
    assert kafka_bootstrap == kafka_broker.bootstrap


def test_access() -> None:
    with ottla.Broker(acls=["User:* allow ALL topic:*"]) as broker:
        broker.add_acls("User:alice allow READ group:readers", "User:alice deny ALL topic:secret")
        broker.remove_acls("User:alice deny ALL topic:secret")
        assert broker.acls(principal="User:alice", resource="group:readers") == ["User:alice allow READ group:readers"]
        assert broker.why_allowed("User:alice", "READ", "topic:t", host="10.0.0.1").is_allowed


def test_quotas() -> None:
    with ottla.Broker(quotas={"client-id=app": {"producer_byte_rate": 1024}}) as broker:
        broker.set_quotas("user=<default>", consumer_byte_rate=2048, request_percentage=None)
        broker.remove_quotas("client-id=app", "producer_byte_rate")
        assert broker.quotas() == {"user=<default>": {"consumer_byte_rate": 2048}}
        assert [each.sentence for each in broker.throttled()] == []


@pytest.mark.kafka_topic(partitions=1, configs={"cleanup.policy": "compact"})
def test_compaction(kafka_broker: ottla.Broker, kafka_topic: str) -> None:
    kafka_broker.produce_all(kafka_topic, [("key", str(number)) for number in range(10)])
    (waits,) = kafka_broker.explain(kafka_topic, 0).partitions
    assert waits.partition == 0
    assert kafka_broker.dry_run(kafka_topic, force=True).topic == kafka_topic
    assert kafka_broker.picture(kafka_topic).partitions[0].bars
    assert kafka_broker.topic(kafka_topic).counts.records_max
    (rolled,) = kafka_broker.roll(kafka_topic).partitions
    assert rolled.has_rolled
    (done,) = kafka_broker.compact(kafka_topic, [0], force=True).partitions
    assert done.records_written == 1
    kafka_broker.compact(kafka_topic, roll=True)
    kafka_broker.wait_until_compacted(kafka_topic, timeout_s=10)
    kafka_broker.apply_retention(kafka_topic)
    assert kafka_broker.explain_key(kafka_topic, "key", partition=0).topic == kafka_topic
    assert [status.eligibility.explanation for status in kafka_broker.cleaner_status().values()]
    numbers: dict[str, int | float] = kafka_broker.metrics()
    assert numbers


@pytest.mark.kafka_topic(partitions=1)
def test_waits(kafka_broker: ottla.Broker, kafka_topic: str, kafka_group_id: str) -> None:
    kafka_broker.commit(kafka_group_id, {(kafka_topic, 0): 0})
    assert kafka_broker.wait_until_consumed(kafka_topic, kafka_group_id, timeout_s=1).partitions == 1
    with pytest.raises(ottla.ControlError):
        kafka_broker.wait_until_reading(kafka_topic, kafka_group_id, [0], timeout_s=0)
    with pytest.raises(ottla.ControlError):
        kafka_broker.wait_until_stable(kafka_group_id, members=1, timeout_s=0)


def test_time(kafka_broker: ottla.Broker) -> None:
    before: int = kafka_broker.clock.now_ms()
    kafka_broker.clock.freeze()
    assert kafka_broker.clock.is_frozen
    kafka_broker.clock.unfreeze()
    moved = kafka_broker.clock.advance(days=1, hours=2.5)
    kafka_broker.clock.advance(timedelta(minutes=1))
    kafka_broker.advance_clock(by_ms=1_000)
    assert before < moved.now_ms < kafka_broker.clock.now_ms()
    now: datetime = kafka_broker.clock.now()
    kafka_broker.clock.set(now + timedelta(hours=1))
    assert kafka_broker.clock.now() >= now.astimezone(UTC)


def test_faults(kafka_broker: ottla.Broker, kafka_topic: str) -> None:
    with kafka_broker.fault("Produce", topic=kafka_topic, error="NOT_LEADER_OR_FOLLOWER", count=2) as fault:
        kafka_broker.produce(kafka_topic, "value")
        fault.wait(hits=2, timeout=10)
    assert (fault.hits, fault.is_active) == (2, False)
    kafka_broker.fault("Fetch", delay=0.001, count=None)
    assert len(kafka_broker.faults()) >= 1
    kafka_broker.clear_faults()
    kafka_broker.fault("Metadata", disconnect="before").remove()
    kafka_broker.stop_node(1)
    kafka_broker.start_node(1)


def test_leaders(kafka_broker_factory: Callable[..., ottla.Broker]) -> None:
    broker = kafka_broker_factory(nodes=2)
    broker.create_topic("events", replicas=2)
    leader = broker.topics()[0].partitions[0].leader
    broker.move_leader("events", 0, 1 - leader)
    assert broker.topics()[0].partitions[0].leader == 1 - leader
    broker.commit("readers", {("events", 0): 0})
    broker.move_coordinator(1, group="readers")
    broker.move_coordinator(1, group="readers", topic="events", partition=0)


def test_state(kafka_broker_factory: Callable[..., ottla.Broker], tmp_path: Path) -> None:
    broker = kafka_broker_factory()
    broker.seed({"topics": {"orders": {"partitions": 1}}})
    assert "orders" in broker.export_seed()["topics"]
    name = broker.cases()[0].name
    loaded = broker.load_case(name, topic="hard")
    assert [record.value for record in broker.records("hard", isolation="read_committed")] == [
        None if record.value is None else record.value.encode() for record in loaded.read_committed
    ]
    broker.snapshot(tmp_path / "snapshot")
    broker.restart()
    broker.crash()
    broker.reset()
    assert broker.topics() == []
    broker.restore(tmp_path / "snapshot")
    assert {topic.name for topic in broker.topics()} == {"hard", "orders"}


def test_errors(kafka_broker: ottla.Broker) -> None:
    with pytest.raises(ottla.KafkaError) as refused:
        kafka_broker.records("nowhere")
    assert refused.value.code.name == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(ottla.ControlError):
        kafka_broker.compact("nowhere")


def test_life(tmp_path: Path) -> None:
    broker = ottla.Broker(
        tmp_path / "data",
        nodes=1,
        profile="dev",
        overrides={"log.segment.bytes": 1 << 20},
        listener="127.0.0.1:0",
        rng=random.Random(1),
        admin=0,
        schema_registry=True,
        emulate="3.9",
    )
    assert broker.start() is broker
    assert (broker.state, broker.data_dir) == ("serving", str(tmp_path / "data"))
    assert broker.admin is not None
    assert broker.schema_registry is not None and broker.schema_registry.startswith("http://")
    assert broker.run(node_count, broker) == 1
    broker.stop()
    with ottla.Broker() as other:
        assert other.bootstrap


async def node_count(broker: ottla.Broker) -> int:
    """Return the number of nodes; runs in the broker's own thread."""
    return len(broker.inner.nodes)


async def test_in_trio() -> None:
    async with ottla.open_broker() as broker:
        assert broker.bootstrap
    async with ottla.Broker() as another:
        assert another.state == "serving"


def test_names(kafka_group_id: str, kafka_topic: str, kafka_schema_registry: str) -> None:
    assert kafka_group_id != kafka_topic
    assert kafka_schema_registry.startswith("http://")


def test_clients_log_in() -> None:
    with ottla.Broker(users={"alice": "secret"}, mechanism="SCRAM-SHA-256") as broker:
        arguments: dict[str, Any] = broker.sasl("alice").kafka_python()
        assert arguments["sasl_mechanism"] == "SCRAM-SHA-256"
    with ottla.Broker(mechanism="OAUTHBEARER") as broker:
        token: str = broker.token("alice", lifetime_s=60, scope="read")
        assert token and broker.sasl("alice").principal == "User:alice"
    with ottla.Broker(users={"alice": "secret"}, mechanism="SCRAM-SHA-256") as broker:
        assert broker.security.login is not None and broker.security.tls is None
        with pytest.raises(RuntimeError):
            _ = broker.tls
