"""Ten tests of a table in a compacted topic. The other languages have the same ten, in the same order."""

from __future__ import annotations

import pytest
from server.table import Table

import ottla

compacted = pytest.mark.kafka_topic(configs={"cleanup.policy": "compact"})


@pytest.fixture
def table(kafka_bootstrap: str, kafka_topic: str) -> Table:
    return Table(kafka_bootstrap, kafka_topic)


def values(count: int, keys: int) -> list[tuple[str, str | None]]:
    """Return `count` rows over `keys` keys, one after the other."""
    return [(f"key {number % keys}", f"value {number}") for number in range(count)]


@compacted
def test_1_a_table_is_what_its_topic_says(table: Table) -> None:
    table.put("a", "1")
    table.put("b", "2")
    table.put("a", "3")
    table.delete("b")
    assert table.rows() == {"a": "3"}


@compacted
def test_2_compaction_leaves_the_newest_record_of_each_key(
    kafka_broker: ottla.Broker, kafka_topic: str, table: Table
) -> None:
    table.put_all(values(100, keys=10))
    before = table.rows()
    kafka_broker.compact(kafka_topic, force=True)
    assert len(table.history()) == 10
    assert table.rows() == before


@compacted
def test_3_after_eight_days_all_but_the_last_record_is_compacted(
    kafka_broker: ottla.Broker, kafka_topic: str, table: Table
) -> None:
    table.put_all(values(100, keys=10))
    kafka_broker.clock.advance(days=8)  # more than segment.ms
    table.put("key 0", "one more")
    assert len(table.history()) == 11
    assert table.rows()["key 0"] == "one more"


@compacted
def test_4_a_tombstone_stays_for_a_day_and_goes(kafka_broker: ottla.Broker, kafka_topic: str, table: Table) -> None:
    table.put("a", "1")
    table.delete("a")
    table.put("b", "2")
    kafka_broker.compact(kafka_topic, force=True)
    assert table.history() == [("a", None), ("b", "2")]
    kafka_broker.clock.advance(hours=25)  # more than delete.retention.ms
    kafka_broker.compact(kafka_topic, force=True)
    assert table.history() == [("b", "2")]


@pytest.mark.kafka_topic(configs={"cleanup.policy": "compact", "min.compaction.lag.ms": 3_600_000})
def test_5_young_records_are_not_compacted(kafka_broker: ottla.Broker, kafka_topic: str, table: Table) -> None:
    table.put_all(values(20, keys=2))
    kafka_broker.compact(kafka_topic, roll=True)
    assert len(table.history()) == 20
    kafka_broker.clock.advance(hours=2)
    kafka_broker.compact(kafka_topic)
    assert len(table.history()) == 2


@pytest.mark.kafka_topic(configs={"cleanup.policy": "delete", "retention.ms": 3_600_000})
def test_6_retention_takes_what_is_too_old(kafka_broker: ottla.Broker, kafka_topic: str, table: Table) -> None:
    table.put_all(values(20, keys=2))
    kafka_broker.roll(kafka_topic)
    kafka_broker.clock.advance(hours=2)
    kafka_broker.apply_retention(kafka_topic)
    table.put("a", "later")
    assert table.history() == [("a", "later")]
    assert kafka_broker.offsets(kafka_topic)[0].start == 20


@compacted
def test_7_a_write_whose_answer_is_lost_is_there_once(
    kafka_broker: ottla.Broker, kafka_bootstrap: str, kafka_topic: str
) -> None:
    table = Table(kafka_bootstrap, kafka_topic, idempotent=True)
    with kafka_broker.fault("Produce", topic=kafka_topic, disconnect="after") as lost:
        table.put("a", "1")
    assert lost.hits == 1
    assert table.history() == [("a", "1")]


@compacted
def test_8_a_reader_lives_through_a_leader_that_moves(
    kafka_broker: ottla.Broker, kafka_topic: str, table: Table
) -> None:
    table.put("a", "1")
    with kafka_broker.fault("Fetch", topic=kafka_topic, error="NOT_LEADER_OR_FOLLOWER", count=3) as moved:
        assert table.rows() == {"a": "1"}
    assert moved.hits == 3


def test_9_a_reset_leaves_nothing(kafka_broker: ottla.Broker, kafka_bootstrap: str) -> None:
    kafka_broker.create_topic("rows", configs={"cleanup.policy": "compact"})
    Table(kafka_bootstrap, "rows").put("a", "1")
    kafka_broker.reset()
    assert kafka_broker.topics() == []
    kafka_broker.create_topic("rows", configs={"cleanup.policy": "compact"})
    assert Table(kafka_bootstrap, "rows").rows() == {}


def test_10_every_hard_log_is_read_to_its_end(kafka_broker: ottla.Broker, kafka_bootstrap: str) -> None:
    for case in kafka_broker.cases():
        loaded = kafka_broker.load_case(case.name)
        found = Table(kafka_bootstrap, loaded.topic).history()
        assert found == [(record.key, record.value) for record in loaded.read_committed], case.looks_like
