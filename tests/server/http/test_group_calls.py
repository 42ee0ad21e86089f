"""Groups and open transactions over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import ottla
from support.broker.admin_calls import AdminCalls

GROUP = "g 1<b>/é"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0", nodes=2) as broker:
        yield broker


def consumer(broker: ottla.Broker) -> KafkaConsumer:
    return KafkaConsumer(
        "t",
        bootstrap_servers=broker.bootstrap,
        group_id=GROUP,
        client_id="reader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def test_without_any_group_there_is_none_and_no_topic_is_made(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    assert admin.get("/v1/groups") == {"groups": []}
    assert admin.get("/v1/transactions") == {"transactions": []}
    assert admin.ask("GET", "/v1/groups/g") == (404, {"error": "there is no group 'g'"})
    assert admin.get("/v1/topics?internal=true") == {"topics": []}


def test_a_group_has_members_offsets_and_lag(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    broker.create_topic("t", partitions=2)
    for number in range(10):
        broker.produce("t", "v", partition=number % 2)
    with consumer(broker) as reader:
        assert len(next(iter(reader)).value) == 1
        reader.commit()
        (group,) = admin.get("/v1/groups")["groups"]
        assert group == {"group_id": GROUP, "kind": "classic", "state": "Stable", "lag": 9, "partitions": 2}
        found = admin.get("/v1/groups/g%201%3Cb%3E%2F%C3%A9")
        assert found["group"] == group
        (member,) = found["members"]
        assert (member["client_id"], member["client_host"], member["assigned"]) == ("reader", "/127.0.0.1", None)
        assert sorted(each["lag"] for each in found["offsets"]) == [4, 5]
        assert {each["log_end_offset"] for each in found["offsets"]} == {5}
    broker.delete_topic("t")
    assert [each for each in admin.get("/v1/groups/g%201%3Cb%3E%2F%C3%A9")["offsets"] if each["log_end_offset"]] == []
    assert admin.ask("GET", "/v1/groups/g%201%3Cb%3E") == (
        404,
        {"error": f"there is no group 'g 1<b>'; did you mean '{GROUP}'?"},
    )


def test_an_open_transaction_is_told_until_it_ends(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    broker.create_topic("t")
    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v").get()
        (found,) = admin.get("/v1/transactions")["transactions"]
        assert (found["transactional_id"], found["state"], found["partitions"]) == ("tx", "Ongoing", ["t-0"])
        assert found["aborted_at_ms"] >= found["started_ms"] + found["timeout_ms"]
        producer.commit_transaction()
    assert admin.get("/v1/transactions") == {"transactions": []}


def test_a_transaction_that_no_coordinator_knows_of_hangs(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v").get()
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as administrator:
        administrator.delete_topics(["__transaction_state"])
    (found,) = AdminCalls.of(broker).get("/v1/transactions")["transactions"]
    assert (found["transactional_id"], found["state"], found["aborted_at_ms"]) == (None, "Hanging", None)
    assert found["partitions"] == ["t-0"]
    producer.close(timeout=0)
