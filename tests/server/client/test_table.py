"""A topic as a table: against a model over random histories, and while it follows."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import KafkaError
from ottla.protocol.records import Record
from ottla.server.client.follower import Follower
from ottla.server.client.nodes import NodeConnections
from ottla.server.client.reading import FETCH_BYTES
from ottla.server.client.table import Table
from ottla.storage.topics.versions import NO_VERSION
from support.broker.admin import delete_records
from support.broker.raw_client import RawClient
from support.sizes import size
from support.transactions.transactional_client import TransactionalClient

KEYS = [b"a", b"b", b"c", b"key-4", b"k" * 50]


@pytest.fixture
def table(broker: ottla.Broker) -> Iterator[Table]:
    broker.create_topic("t", 2, {"cleanup.policy": "compact", "delete.retention.ms": 0})
    with broker.table("t") as made:
        yield made


def test_random_histories_match_a_dict(broker: ottla.Broker, client: RawClient, table: Table) -> None:
    rng, model = random.Random(42), dict[bytes, bytes]()
    producer = TransactionalClient(client, "x", version=2)
    producer.begin()
    for number in range(size(120, 1_500)):
        step = rng.choice(["put", "put", "delete", "commit", "abort", "compact", "open"])
        pairs = [(rng.choice(KEYS), rng.choice([b"%d" % number, b"", None])) for _ in range(rng.randint(1, 3))]
        if step in ("put", "delete"):
            pairs = [(key, None if step == "delete" else value) for key, value in pairs]
            broker.produce_all("t", [ottla.NewRecord(value, key, partition=0) for key, value in pairs])
        elif step in ("commit", "abort"):
            producer.produce("t", *pairs)
            if rng.random() < 0.5:
                assert dict(table.items()) == model, "nothing of an open transaction is in the table"
            producer.end(commit=step == "commit")
        elif step == "compact":
            broker.compact("t", force=True)
        if step not in ("abort", "compact", "open"):
            for key, value in pairs:
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = value
        key = rng.choice(KEYS)
        assert table.get(key) == model.get(key)
        assert (key in table, len(table)) == (key in model, len(model))
        if rng.random() < 0.2:
            assert dict(table.items()) == model
            assert sorted(table) == sorted(model) and sorted(table.values()) == sorted(model.values())


def test_keys_are_texts_or_bytes_in_all_partitions(broker: ottla.Broker, table: Table) -> None:
    broker.produce_all("t", [(f"k{number}", f"v{number}") for number in range(40)])
    assert {each.partition for each in table.records()} == {0, 1}
    assert (table["k7"], table[b"k7"], len(table)) == (b"v7", b"v7", 40)
    assert "k7" in table and "absent" not in table
    with pytest.raises(KeyError, match="absent"):
        table["absent"]


def test_a_loop_shows_each_key_once_while_values_change_and_are_compacted(broker: ottla.Broker, table: Table) -> None:
    broker.produce_all("t", [(f"k{number}", "1") for number in range(10)])
    found = table.items()
    seen = dict[bytes, bytes]()
    for key, value in found:
        if not seen:
            broker.produce_all("t", [(f"k{number}", "2") for number in range(10)])
            broker.compact("t", force=True)
        seen[key] = value
    assert sorted(seen) == sorted(f"k{number}".encode() for number in range(10))
    assert set(seen.values()) <= {b"1", b"2"}
    assert set(table.values()) == {b"2"}


def test_deleted_records_leave_the_table(broker: ottla.Broker, client: RawClient) -> None:
    broker.create_topic("u")
    broker.produce_all("u", [(key, "1") for key in "abc"])
    with broker.table("u") as table:
        assert len(table) == 3
        delete_records(client, "u", 2)
        assert dict(table.items()) == {b"c": b"1"}
        broker.delete_topic("u")
        with pytest.raises(KafkaError, match="not found"):
            len(table)
        broker.create_topic("u", 2)
        broker.produce_all("u", [ottla.NewRecord("2", key, partition=1) for key in "defghi"])
        assert dict(table.items()) == {key.encode(): b"2" for key in "defghi"}
        broker.delete_topic("u")
        broker.create_topic("u")
        broker.produce("u", "3", key="d")
        assert dict(table.items()) == {b"d": b"3"} and table.get("e") is None


def test_keys_whose_tombstones_were_removed_unread_leave_the_table(broker: ottla.Broker, table: Table) -> None:
    broker.produce_all("t", [ottla.NewRecord("1", key, partition=0) for key in "ab"])
    assert len(table) == 2
    waiting = broker.table("t")
    assert waiting.wait_for("a") == b"1"
    broker.produce_all("t", [ottla.NewRecord(None, "a", partition=0)])
    broker.compact("t", force=True)
    broker.produce_all("t", [ottla.NewRecord("2", "b", partition=0)])
    for _ in range(2):
        broker.compact("t", force=True)
    assert [each.key for each in broker.records("t")] == [b"b"]
    assert (len(table), "a" in table, sorted(table)) == (1, False, [b"b"])
    assert waiting.wait_for("b", lambda value: value != b"1") == b"2", "a key is never missing while it is read again"
    waiting.close()


def test_a_wait_ends_with_the_value_that_is_required(broker: ottla.Broker, table: Table) -> None:
    seen = threading.Event()  # a table that reads the values together has only the last one

    def write() -> None:
        for number in range(5):
            broker.produce("t", str(number), key="k")
        seen.wait(60)
        broker.produce("t", None, key="k")

    writing = threading.Thread(target=write)
    writing.start()
    assert table.wait_for("k", lambda value: value is not None and int(value) >= 3) in (b"3", b"4")
    seen.set()
    assert table.wait_for("k", lambda value: value is None) is None
    writing.join()
    broker.produce("t", "there", key="k")
    assert table.wait_for("k") == b"there"


def test_a_wait_says_what_the_value_is(broker: ottla.Broker, table: Table) -> None:
    broker.produce("t", "v" * 1_000, key="k")
    with pytest.raises(TimeoutError, match=r"t: the value of key 'k' is not as required after 0.01 s: b'v+$"):
        table.wait_for("k", lambda value: value == b"w", timeout_s=0.01)


def test_the_end_of_a_wait_is_soon_after_close(broker: ottla.Broker, table: Table) -> None:
    seen = threading.Event()
    found = list[BaseException]()

    def predicate(value: bytes | None) -> bool:
        seen.set()
        return False

    def wait() -> None:
        with pytest.raises(RuntimeError, match="closed while it waited") as refused:
            table.wait_for("k", predicate, timeout_s=3_600)
        found.append(refused.value)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    seen.wait()
    table.close()
    waiting.join(60)
    assert len(found) == 1
    broker.produce("t", "1", key="k")
    assert table["k"] == b"1", "a closed table connects again"


def test_an_access_ends_while_a_producer_is_faster(broker: ottla.Broker, table: Table) -> None:
    """The records do not fit into one response, and each that is read brings another one."""
    large = ottla.NewRecord("v" * 1_000_000, "k", partition=0)
    count = FETCH_BYTES // 1_000_000 + 2
    taken = list[int]()

    def take(partition: int, record: Record) -> None:
        taken.append(record.offset)
        assert len(taken) < 4 * count, "reads for ever"
        broker.produce_all("t", [large])

    for _ in range(count):
        broker.produce_all("t", [large])
    nodes = NodeConnections(broker.bootstrap)
    try:
        Follower(nodes, "t", begin=lambda: None, take=take, forget_below=lambda _, __: False).catch_up()
    finally:
        nodes.close()
    assert taken[:count] == list(range(count))


def versioned(broker: ottla.Broker, configs: Mapping[str, Any] | None = None, strategy: str = "header") -> Table:
    names = {"ottla.compaction.strategy": strategy, "ottla.compaction.strategy.header": "v"}
    broker.create_topic("v", 1, {"cleanup.policy": "compact", **names, **(configs or {})})
    return broker.table("v")


def version(value: str | bytes | None, number: int | None, key: str = "k") -> ottla.NewRecord:
    headers = () if number is None else (("v", number.to_bytes(8, signed=True)),)
    return ottla.NewRecord(value, key, headers, partition=0)


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
def test_the_highest_version_is_the_newest_in_random_histories(broker: ottla.Broker, strategy: str) -> None:
    rng, written = random.Random(strategy), dict[str, list[tuple[int, int, str | None]]]()
    lowest = 0 if strategy == "timestamp" else NO_VERSION
    with versioned(broker, strategy=strategy) as table:
        for offset in range(size(120, 1_500)):
            key, number = rng.choice("abc"), rng.choice([lowest, 1, 2, 3, offset, 10**6 - offset])
            value = None if rng.random() < 0.3 else str(offset)
            record = version(value, None if number == NO_VERSION else number, key)
            broker.produce_all("v", [replace(record, timestamp_ms=max(0, number))])
            written.setdefault(key, []).append((number, offset, value))
            newest = {name: max(each)[2] for name, each in written.items()}
            expected = {name.encode(): value.encode() for name, value in newest.items() if value is not None}
            if rng.random() < 0.2:
                broker.compact("v", force=True)
            assert (table.get(key), len(table)) == (expected.get(key.encode()), len(expected))
            if rng.random() < 0.2:
                assert dict(table.items()) == expected


def test_a_lower_version_comes_back_when_those_above_it_are_gone(broker: ottla.Broker, client: RawClient) -> None:
    with versioned(broker, {"cleanup.policy": "compact,delete", "retention.ms": -1}) as table:
        broker.produce_all("v", [version("high", 9), version("low", 1), version(None, 9, "l"), version("low", 1, "l")])
        assert (table["k"], "l" in table) == (b"high", False)
        delete_records(client, "v", 1)
        assert (table["k"], "l" in table) == (b"low", False)
        delete_records(client, "v", 3)
        assert dict(table.items()) == {b"l": b"low"}


def test_a_lower_version_comes_back_when_a_pass_removes_the_higher_one_for_its_age(broker: ottla.Broker) -> None:
    with versioned(broker, {"ottla.key.retention.ms": 3_600_000}) as table:
        broker.produce_all("v", [version("high", 9)])
        broker.clock.advance(minutes=59)
        assert table["k"] == b"high"
        broker.roll("v")
        broker.compact("v")
        broker.produce_all("v", [version("low", 1), version("other", 1, "l")])
        assert table["k"] == b"high", "both are there"
        broker.clock.advance(minutes=5)
        broker.compact("v")
        assert [each.value for each in broker.records("v")] == [b"low", b"other"], "no pass has read the lower version"
        assert (table["k"], len(table)) == (b"low", 2)


def test_a_tombstone_that_was_read_wins_after_its_removal_until_the_table_is_made_again(broker: ottla.Broker) -> None:
    with versioned(broker, {"delete.retention.ms": 0}) as table:
        broker.produce_all("v", [version(None, 9)])
        assert "k" not in table
        for _ in range(2):
            broker.compact("v", force=True)
        broker.produce_all("v", [version("low", 1)])
        assert [each.value for each in broker.records("v")] == [b"low"]
        assert "k" not in table
        with broker.table("v") as made_again:
            assert made_again["k"] == b"low"


def test_a_topic_that_is_created_again_has_its_own_strategy(broker: ottla.Broker) -> None:
    with versioned(broker) as table:
        broker.produce_all("v", [version("high", 2), version("low", 1)])
        assert table["k"] == b"high"
        broker.delete_topic("v")
        broker.create_topic("v", 1)
        broker.produce_all("v", [version("high", 2), version("low", 1)])
        assert table["k"] == b"low"


def test_a_table_without_the_right_to_read_options_warns_and_takes_the_last_record(broker: ottla.Broker) -> None:
    with versioned(broker) as table, broker.fault("DescribeConfigs", error="TOPIC_AUTHORIZATION_FAILED"):
        broker.produce_all("v", [version("high", 2), version("low", 1)])
        with pytest.warns(UserWarning, match=r"options of topic v cannot be read \(TOPIC_AUTHORIZATION_FAILED\)"):
            assert table["k"] == b"low"


def test_a_table_outlives_a_restart_of_the_broker(broker: ottla.Broker, table: Table) -> None:
    broker.produce("t", "1", key="k")
    assert table["k"] == b"1"
    broker.restart()
    broker.produce("t", "2", key="k")
    assert table["k"] == b"2"


def test_only_newest_records_of_several_nodes() -> None:
    with ottla.Broker(nodes=3) as broker:
        broker.create_topic("t", 6)
        broker.produce_all("t", [(f"k{number % 20}", str(number)) for number in range(100)])
        with broker.table("t") as table:
            assert {int(value) for value in table.values()} == set(range(80, 100))
            broker.produce("t", "new", key="k3")
            assert table.wait_for("k3", lambda value: value == b"new") == b"new"
