"""Waits for consumers: what counts as reading, consumed and stable, and what a timeout says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import ottla
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.server.control import records
from ottla.server.runtime.errors import ControlError, Kind
from support.broker.conversation import address, create_topic, fetch_request, produce
from support.broker.raw_client import RawClient

LONG_MS = 60_000
Ask = Callable[[ottla.Broker], object]


@pytest.fixture
def topic(client: RawClient) -> str:
    create_topic(client, "t", 2)
    return "t"


@pytest.fixture
def consumer(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker), client_id="consumer") as connected:
        yield connected


def park(client: RawClient, topic: str, *partitions: int) -> None:
    """Send a fetch from the start of empty partitions, which the broker does not answer for long."""
    requests = [fetch_request(topic, 0, partition, max_wait_ms=LONG_MS) for partition in partitions]
    rows = tuple(row for request in requests for row in request.topics[0].partitions)
    client.send(replace(requests[0], topics=(replace(requests[0].topics[0], partitions=rows),)), 12)


def heartbeat(client: RawClient, topic: str, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="consumer-1",
        member_epoch=0,
        rebalance_timeout_ms=LONG_MS,
        subscribed_topic_names=(topic,),
    )
    return client.ask(replace(request, **fields), 1)


def join(client: RawClient, topic: str) -> None:
    """Join the group "g", and take all partitions of the topic."""
    joined = heartbeat(client, topic, topic_partitions=())
    (row,) = joined.assignment.topic_partitions
    owned = (TopicPartitions(topic_id=row.topic_id, partitions=row.partitions),)
    heartbeat(client, topic, member_epoch=joined.member_epoch, topic_partitions=owned)


def timed_out(wait: Callable[[], object]) -> str:
    with pytest.raises(ControlError) as refused:
        wait()
    assert refused.value.kind is Kind.TIMED_OUT
    return str(refused.value)


def test_a_partition_is_read_while_a_fetch_waits_for_it(broker: ottla.Broker, consumer: RawClient, topic: str) -> None:
    park(consumer, topic, 0)
    found = broker.wait_until_reading(topic, partitions=[0])
    assert [(each.partition, each.client_id, each.client_host) for each in found.readers] == [
        (0, "consumer", "127.0.0.1")
    ]
    assert timed_out(lambda: broker.wait_until_reading(topic, timeout_s=0)) == "no consumer reads t-1; waited 0 s"
    consumer.close()
    timed_out(lambda: broker.wait_until_reading(topic, partitions=[0], timeout_s=0))


@pytest.mark.parametrize("version", [12, 17])
def test_a_partition_of_a_connected_clients_session_is_read_between_two_fetches(
    broker: ottla.Broker, consumer: RawClient, topic: str, version: int
) -> None:
    topic_id = next(each for each in broker.topics() if each.name == topic).topic_id
    request = fetch_request(topic if version == 12 else topic_id, 0)
    consumer.ask(replace(request, session_id=0, session_epoch=0), version)
    assert len(broker.wait_until_reading(topic, partitions=[0]).readers) == 1
    consumer.close()
    with pytest.raises(ControlError, match="no consumer reads t-0"):
        while True:  # until the broker has noticed
            broker.wait_until_reading(topic, partitions=[0], timeout_s=0)


def test_a_fetch_without_a_session_counts_only_while_it_waits(
    broker: ottla.Broker, consumer: RawClient, topic: str
) -> None:
    consumer.ask(fetch_request(topic, 0), 12)
    timed_out(lambda: broker.wait_until_reading(topic, partitions=[0], timeout_s=0))


def test_a_consumer_that_leaves_during_the_wait_does_not_count(
    broker: ottla.Broker, consumer: RawClient, client: RawClient, topic: str
) -> None:
    def read(reader: RawClient, partition: int) -> None:
        reader.ask(replace(fetch_request(topic, 0, partition), session_id=0, session_epoch=0), 12)

    found = list[str]()

    def wait() -> None:
        found.extend(each.client_id for each in broker.wait_until_reading(topic, timeout_s=60).readers)

    waiting = threading.Thread(target=wait)
    waiting.start()
    read(consumer, 0)
    timed_out(lambda: broker.wait_until_reading(topic, timeout_s=0.05))  # The thread has also looked.
    consumer.close()
    with pytest.raises(ControlError):
        while True:  # until the broker has noticed
            broker.wait_until_reading(topic, partitions=[0], timeout_s=0)
    with RawClient(*address(broker), client_id="later") as later:
        read(client, 1)
        timed_out(lambda: broker.wait_until_reading(topic, timeout_s=0.05))
        read(later, 0)
        waiting.join()
    assert found == ["later", client.client_id]


def test_members_of_one_client_read_the_partitions_of_all(
    broker: ottla.Broker, consumer: RawClient, topic: str
) -> None:
    epochs, owned = {"a": 0, "b": 0}, dict[str, Any]({"a": (), "b": ()})
    for _ in range(5):
        broker.clock.advance(seconds=1)
        for name, epoch in epochs.items():
            answer = heartbeat(consumer, topic, member_id=name, member_epoch=epoch, topic_partitions=owned[name])
            epochs[name] = answer.member_epoch
            if answer.assignment is not None:
                rows = answer.assignment.topic_partitions
                owned[name] = tuple(TopicPartitions(topic_id=row.topic_id, partitions=row.partitions) for row in rows)
    assert [member.assigned for member in broker.wait_until_stable("g", 2, 0).members] == [("t-0",), ("t-1",)]
    park(consumer, topic, 0, 1)
    assert len(broker.wait_until_reading(topic, "g").readers) == 2


def test_only_members_of_the_group_count(
    broker: ottla.Broker, consumer: RawClient, client: RawClient, topic: str
) -> None:
    park(client, topic, 0, 1)
    assert timed_out(lambda: broker.wait_until_reading(topic, "g", timeout_s=0)) == "group 'g' not found; waited 0 s"
    join(consumer, topic)
    assert timed_out(lambda: broker.wait_until_reading(topic, "g", timeout_s=0)) == (
        "no consumer reads t-0, t-1; the consumer group is Stable, members: consumer at /127.0.0.1; waited 0 s"
    )
    park(consumer, topic, 0, 1)
    assert {each.client_id for each in broker.wait_until_reading(topic, "g").readers} == {"consumer"}


def test_the_wait_ends_when_the_topic_is_made_and_read(broker: ottla.Broker, consumer: RawClient) -> None:
    def make() -> None:
        broker.create_topic("later")
        park(consumer, "later", 0)

    assert timed_out(lambda: broker.wait_until_reading("later", timeout_s=0)).startswith("topic 'later' not found")
    make()
    assert broker.wait_until_reading("later").topic == "later"


def test_a_topic_is_consumed_when_all_of_it_is_committed(broker: ottla.Broker, client: RawClient, topic: str) -> None:
    broker.commit("g", {(topic, 1): 0})
    assert broker.wait_until_consumed(topic, "g").partitions == 2  # it is empty
    produce(client, topic, ("k", "v"))
    assert timed_out(lambda: broker.wait_until_consumed(topic, "g", 0)) == (
        "not consumed: t-0: nothing committed, log end 1; the classic group is Empty, members: none; waited 0 s"
    )
    broker.commit("g", {(topic, 0): 0})
    assert "t-0: committed 0, log end 1" in timed_out(lambda: broker.wait_until_consumed(topic, "g", 0))
    broker.commit("g", {(topic, 0): 1})
    broker.wait_until_consumed(topic, "g")


def test_a_batch_that_is_too_large_to_show_is_not_consumed(
    broker: ottla.Broker, client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "UNPACKED_BYTES_MAX", 10)
    produce(client, topic, ("k", "v"))
    broker.commit("g", {(topic, 0): 0})
    assert "t-0: committed 0, log end 1" in timed_out(lambda: broker.wait_until_consumed(topic, "g", 0))


def test_a_group_is_stable_with_its_members(broker: ottla.Broker, consumer: RawClient, topic: str) -> None:
    join(consumer, topic)
    (member,) = broker.wait_until_stable("g", 1).members
    assert (member.client_id, member.assigned) == ("consumer", ("t-0", "t-1"))
    assert timed_out(lambda: broker.wait_until_stable("g", 2, 0)) == (
        "group 'g' is not stable with 2 members; the consumer group is Stable, members: consumer at /127.0.0.1; waited 0 s"
    )


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda broker: broker.wait_until_reading("t", timeout_s=-1),
            "timeout_s: expected seconds from 0 to 3600, found -1",
        ),
        (
            lambda broker: broker.wait_until_consumed("t", "g", "1"),
            "timeout_s: expected seconds from 0 to 3600, found '1'",
        ),
        (lambda broker: broker.wait_until_stable("g", 0), "members: expected a number from 1, found 0"),
        (lambda broker: broker.wait_until_stable("g", True), "members: expected a number from 1, found True"),
        (lambda broker: broker.wait_until_reading("t", partitions="x"), "partitions: expected numbers, found ['x']"),
    ],
)
def test_wrong_arguments_are_named(broker: ottla.Broker, topic: str, ask: Ask, sentence: str) -> None:
    with pytest.raises(ControlError) as refused:
        ask(broker)
    assert (refused.value.kind, str(refused.value)) == (Kind.INVALID, sentence)


def test_many_missing_partitions_are_counted(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "wide", 100)
    assert timed_out(lambda: broker.wait_until_reading("wide", timeout_s=0)) == (
        "no consumer reads wide-0, wide-1, wide-2, wide-3, wide-4 and 95 more; waited 0 s"
    )


def test_a_wait_for_consumers_decodes_no_values(
    broker: ottla.Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each look would take as long as the values that are left."""
    broker.create_topic("_schemas", configs={"cleanup.policy": "compact"})
    broker.produce("_schemas", "{}", key="not a key, which the registry logs when it reads the topic")
    broker.produce(topic, b"\0\0\0\0\1value", partition=0)
    broker.commit("g", {(topic, 0): 0})
    assert "t-0: committed 0" in timed_out(lambda: broker.wait_until_consumed(topic, "g", 0))
    assert "_schemas" not in caplog.text
