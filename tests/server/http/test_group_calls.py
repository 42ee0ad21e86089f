"""Groups and open transactions over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from urllib.request import urlopen

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

import ottla
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.server.control.transactions import OpenTransactions, open_in_pieces
from support.broker.admin_calls import AdminCalls
from support.broker.background_jobs import eventually
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.transactions.transactional_client import TransactionalClient

GROUP = "g 1<b>/é"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0", nodes=2) as broker:
        yield broker


def consumer(broker: ottla.Broker) -> KafkaConsumer:
    reader = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=GROUP,
        client_id="reader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    # Otherwise it joins twice; if a poll ends during the second join, 3.0.12 forgets its partitions and reads nothing more.
    reader.partitions_for_topic("t")
    reader.subscribe(["t"])
    return reader


def test_without_groups_the_list_is_empty_and_no_topic_created(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    assert admin.get("/v1/groups") == {"groups": []}
    assert admin.get("/v1/transactions") == {"transactions": []}
    assert admin.ask("GET", "/v1/groups/g") == (404, {"error": "group 'g' not found"})
    assert admin.get("/v1/topics?internal=true") == {"topics": []}


def test_a_group_has_members_offsets_and_lag(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    broker.create_topic("t", partitions=2)
    for number in range(10):
        broker.produce("t", "v", partition=number % 2)
    with consumer(broker) as reader:
        # The client may know one partition before the other: it commits its positions in both.
        read: dict[int, int] = {}
        while len(read) < 2:
            for records in reader.poll(1_000, max_records=1).values():
                read[records[0].partition] = records[0].offset
        reader.commit({TopicPartition("t", partition): OffsetAndMetadata(1 - partition, "", -1) for partition in read})
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
        {"error": f"group 'g 1<b>' not found; did you mean '{GROUP}'?"},
    )


def test_a_share_group_has_members_and_start_offsets() -> None:
    overrides = {"group.share.assignment.interval.ms": "0"}
    with ottla.Broker(admin="0", overrides=overrides) as broker, RawClient(*address(broker)) as client:
        admin = AdminCalls.of(broker)
        broker.create_topic("t", partitions=3)
        for _ in range(5):
            broker.produce("t", "v", partition=1)
        rows = tuple(
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=index) for index in (0, 1)
        )
        topics = (AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=rows),)
        client.ask(AlterShareGroupOffsetsRequest(group_id="s", topics=topics))
        joining = ShareGroupHeartbeatRequest(group_id="s", member_id="m", subscribed_topic_names=("t",))
        assert eventually(broker, lambda: len(client.ask(joining).assignment.topic_partitions) > 0)
        assert eventually(broker, lambda: len(client.ask(joining).assignment.topic_partitions[0].partitions) == 3)
        (group,) = admin.get("/v1/groups")["groups"]
        assert group == {"group_id": "s", "kind": "share", "state": "Stable", "lag": 4, "partitions": 3}
        found = admin.get("/v1/groups/s")
        assert found["group"] == group
        (member,) = found["members"]
        assert (member["member_id"], member["assigned"]) == ("m", ["t-0", "t-1", "t-2"])
        offsets = [(each["partition"], each["committed_offset"], each["lag"]) for each in found["offsets"]]
        assert offsets == [(0, 0, 0), (1, 1, 4), (2, 0, 0)]  # a new partition of a known topic starts at 0
        assert found["dead_letters"] is None
        broker.set_configs("group", "s", {"errors.deadletterqueue.topic.name": "dlq.s"})
        assert admin.get("/v1/groups/s")["dead_letters"] == {"topic": "dlq.s", "records": None}
        broker.create_topic("dlq.s", partitions=2)
        broker.produce("dlq.s", "v", partition=1)
        assert admin.get("/v1/groups/s")["dead_letters"] == {"topic": "dlq.s", "records": 1}
        with urlopen(f"http://{broker.admin}/groups/s", timeout=60) as page:
            assert "<dt>Dead letters</dt><dd>dlq.s, 1 record</dd>" in page.read().decode()


def test_an_open_transaction_is_listed_until_it_ends(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    broker.create_topic("t")
    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v").get()
        (found,) = admin.get("/v1/transactions")["transactions"]
        assert (found["transactional_id"], found["state"], found["partitions"]) == ("tx", "Ongoing", ["t-0"])
        # The test reads two clocks, one after the other.
        assert found["aborted_at_ms"] >= found["started_ms"] + found["timeout_ms"] - 1_000
        producer.commit_transaction()
    assert admin.get("/v1/transactions") == {"transactions": []}


def test_a_transaction_unknown_to_any_coordinator_is_hanging(broker: ottla.Broker) -> None:
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


@pytest.mark.parametrize("does", [("produce",), ("produce", "end", "rest")], ids=str)
def test_a_transaction_repeated_during_the_search_is_not_hanging(does: tuple[str, ...]) -> None:
    """The producer acts between two pieces of a walk, and repeats the last action."""
    with ottla.Broker() as broker, RawClient(*address(broker)) as client:
        broker.create_topic("t", partitions=3)
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",)), 6)
        producer = TransactionalClient(client, "tx", version=2)
        producer.begin()
        steps = open_in_pieces(broker.inner)

        async def go_on() -> OpenTransactions | None:
            try:
                return next(steps)
            except StopIteration as end:
                found: OpenTransactions = end.value
                return found

        for what in chain(does, repeat(does[-1])):
            if (found := broker.run(go_on)) is not None:
                break
            if what == "end":
                producer.end(commit=True)
            elif what == "produce":
                producer.produce("t", ("k", "v"))
    assert found is not None
    assert "Hanging" not in {each.state for each in found.transactions}
