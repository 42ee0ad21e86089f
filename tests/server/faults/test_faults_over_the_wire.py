"""The effects of declared faults on clients, over real sockets."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import RecordBatch, batches
from ottla.server.faults.declaration import Declaration
from ottla.server.faults.error_fields import ERROR_FIELDS, NameKind, names
from ottla.server.handlers import faulted
from ottla.server.handlers import produce as produce_handler
from ottla.server.handlers.faulted import METADATA_KEY, PRODUCE_KEY
from ottla.server.network import connection
from ottla.server.network.large_requests import READ_ELEMENTS_AT_ONCE
from ottla.server.network.response_slots import PLACES
from support.broker.conversation import (
    address,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    records_of,
)
from support.broker.raw_client import RawClient
from support.logs.batches import batch

LATEST = -1
AN_HOUR = timedelta(hours=1)
NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=2) as broker, connected(broker) as client:
        create_topic(client, "t", 2)
        create_topic(client, "u")
        for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
            broker.move_leader(topic, partition, 0)
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with connected(broker) as client:
        yield client


def connected(broker: ottla.Broker, client_id: str = "client", node: int = 0) -> RawClient:
    return RawClient(*address(broker, node), client_id=client_id)


def end_of(client: RawClient, topic: str = "t", partition: int = 0) -> int:
    return list_offset(client, topic, LATEST, partition)[1]


# Errors


def test_an_error_is_answered_once_and_nothing_is_carried_out(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", topic="t", error=NOT_LEADER)
    row = produce(client, "t", ("k", "v"))
    assert (row.error_code, row.base_offset, end_of(client)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0)
    assert row.error_message == f"injected by fault {fault.id}"
    assert (fault.hits, fault.is_active) == (1, False)
    assert produce(client, "t", ("k", "v")).base_offset == 0


def test_of_a_request_that_names_more_only_the_partition_is_refused(broker: ottla.Broker, client: RawClient) -> None:
    broker.fault("Produce", topic="t", partition=1, error="KAFKA_STORAGE_ERROR")
    answer = client.ask(everywhere(), version=12)
    found = {(topic.name, row.index): row.error_code for topic in answer.responses for row in topic.partition_responses}
    assert found == {("t", 0): 0, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR, ("u", 0): 0}
    assert len(answer.responses) == 2
    assert (end_of(client), end_of(client, partition=1), end_of(client, "u")) == (1, 0, 1)


def everywhere() -> ProduceRequest:
    def to(index: int) -> PartitionProduceData:
        return PartitionProduceData(index=index, records=batch(("k", "v")))

    topics = (
        TopicProduceData(name="t", partition_data=(to(0), to(1))),
        TopicProduceData(name="u", partition_data=(to(0),)),
    )
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)


def test_an_error_afterwards_is_a_lost_acknowledgement(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", topic="t", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", after=True)
    # Recent timestamps: 30 s after its start a broker forgets the records and the producers of 1970.
    now_ms = time.time_ns() // 1_000_000
    one = batch(("k", "v"), producer_id=5, timestamp=now_ms)
    code = client.ask(produce_request("t", one), 12).responses[0].partition_responses[0].error_code
    assert (code, end_of(client), fault.hits) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1, 1)
    row = client.ask(produce_request("t", one), 12).responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset, end_of(client)) == (0, 0, 1), "an idempotent producer's retry"


def test_topics_are_known_by_their_ids(broker: ottla.Broker, client: RawClient) -> None:
    topic_id = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12).topics[0].topic_id
    broker.fault("Produce", topic="u", error=NOT_LEADER)
    for_t = broker.fault("Produce", topic="t", error=NOT_LEADER)
    row = client.ask(produce_request(topic_id, batch(("k", "v"))), 13).responses[0]
    assert (row.topic_id, row.partition_responses[0].error_code) == (topic_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert for_t.hits == 1


def test_without_an_answer_an_error_closes_the_connection(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", error=NOT_LEADER)
    client.send_without_answer(produce_request("t", batch(("k", "v")), acks=0), 12)
    assert client.is_closed_by_peer()
    with connected(broker) as other:
        assert (fault.hits, end_of(other)) == (1, 0)


def test_a_topic_is_not_made_by_asking_for_it_in_vain(broker: ottla.Broker, client: RawClient) -> None:
    broker.fault("Metadata", topic="new", error="LEADER_NOT_AVAILABLE")
    wanted = MetadataRequest(
        topics=(MetadataRequestTopic(name="new"), MetadataRequestTopic(name="t")), allow_auto_topic_creation=True
    )
    answer = client.ask(wanted, 8)
    assert {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics} == {
        "new": (ErrorCode.LEADER_NOT_AVAILABLE, 0),
        "t": (0, 2),
    }
    assert len(answer.brokers) == 2
    assert {topic.name for topic in client.ask(MetadataRequest(topics=None), 8).topics} == {"t", "u"}


def test_who_asks_for_all_topics_asks_for_this_one(broker: ottla.Broker, client: RawClient) -> None:
    elsewhere = broker.fault("Metadata", topic="not-there", error="LEADER_NOT_AVAILABLE")
    broker.fault("Metadata", topic="t", error="LEADER_NOT_AVAILABLE")
    answer = client.ask(MetadataRequest(topics=None), 8)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"t": ErrorCode.LEADER_NOT_AVAILABLE, "u": 0}
    assert elsewhere.hits == 0


def test_who_asks_for_no_topic_has_no_place_for_an_error(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Metadata", error="LEADER_NOT_AVAILABLE")
    assert client.ask(MetadataRequest(topics=()), 8).topics == ()
    assert fault.hits == 0 and fault.is_active


# Fetch sessions


def in_session(session_id: int, epoch: int, *requests: FetchRequest) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=tuple(topic for request in requests for topic in request.topics),
    )


def test_a_fetch_in_a_session_asks_for_what_it_does_not_name(broker: ottla.Broker, client: RawClient) -> None:
    produce(client, "t", ("k", "v"))
    produce(client, "u", ("k", "v"))
    first = client.ask(in_session(0, 0, fetch_request("t", 1), fetch_request("u", 1)), 12)
    produce(client, "t", ("k", "v2"))
    produce(client, "u", ("k", "v2"))
    broker.fault("Fetch", topic="t", error="OFFSET_NOT_AVAILABLE")
    found = rows(client.ask(in_session(first.session_id, 1), 12))
    assert found == {"t": (ErrorCode.OFFSET_NOT_AVAILABLE, 0), "u": (0, 1)}
    found = rows(client.ask(in_session(first.session_id, 2, fetch_request("u", 2)), 12))
    assert found == {"t": (0, 1)}, "the session goes on"


def test_after_an_error_a_session_tells_where_the_partition_is(broker: ottla.Broker, client: RawClient) -> None:
    produce(client, "t", ("k", "v"))
    first = client.ask(in_session(0, 0, fetch_request("t", 1)), 12)
    assert first.responses[0].partitions[0].high_watermark == 1
    broker.fault("Fetch", topic="t", error="OFFSET_NOT_AVAILABLE")
    assert rows(client.ask(in_session(first.session_id, 1), 12)) == {"t": (ErrorCode.OFFSET_NOT_AVAILABLE, 0)}
    (row,) = client.ask(in_session(first.session_id, 2), 12).responses[0].partitions
    assert (row.error_code, row.high_watermark) == (0, 1)


def rows(answer: Any) -> dict[str, tuple[int, int]]:
    """Return error and number of batches of the only partition of each topic."""
    return {
        topic.topic: (row.error_code, len(list(batches(row.records or b""))))
        for topic in answer.responses
        for row in topic.partitions
    }


# Connections and answers


@pytest.mark.parametrize(("when", "written"), [("before", 0), ("after", 1)])
def test_a_connection_is_closed_before_or_after(
    when: Any, written: int, broker: ottla.Broker, client: RawClient
) -> None:
    fault = broker.fault("Produce", disconnect=when)
    client.send(produce_request("t", batch(("k", "v"))), 12)
    assert client.is_closed_by_peer()
    fault.wait()
    with connected(broker) as other:
        assert end_of(other) == written
        assert produce(other, "t", ("k", "v")).error_code == 0


def test_a_lost_answer_leaves_its_connection_silent_and_no_other(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", topic="t", drop_response=True)
    client.send(produce_request("t", batch(("k", "v"))), 12)
    client.send(produce_request("u", batch(("k", "v"))), 12)
    fault.wait()
    with connected(broker) as other:
        assert (end_of(other), end_of(other, "u")) == (1, 0), "what comes behind it stays unread"
        assert produce(other, "t", ("k", "v")).base_offset == 1
    fault.remove()
    assert client.is_closed_by_peer()


def test_no_answer_is_lost_where_there_is_none(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", drop_response=True)
    client.send_without_answer(produce_request("t", batch(("k", "v")), acks=0), 12)
    assert end_of(client) == 1
    assert fault.hits == 0 and fault.is_active


def test_a_batch_is_damaged_on_the_way_and_not_in_the_log(broker: ottla.Broker, client: RawClient) -> None:
    for value in ("one", "two"):
        produce(client, "t", ("k", value))
    nothing_there = broker.fault("Fetch", topic="t", partition=1, corrupt_batch=True)
    fault = broker.fault("Fetch", topic="t", partition=0, corrupt_batch=True)
    (damaged,) = fetched(client)
    assert damaged.base_offset == 0 and not damaged.is_crc_valid()
    assert [one.is_crc_valid() for one in fetched(client)] == [True, True]
    assert [value for _, _, value in records_of(fetch(client, "t", 0))] == [b"one", b"two"]
    assert (fault.hits, nothing_there.hits) == (1, 0)


def fetched(client: RawClient) -> list[RecordBatch]:
    records = fetch(client, "t", 0).records or b""
    assert isinstance(records, bytes | memoryview)
    return list(batches(records))


# Delays


def test_a_delay_keeps_the_order_of_its_connection_and_nobody_else(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", topic="t", delay=AN_HOUR)
    client.send(produce_request("t", batch(("k", "v"))), 12)
    client.send(produce_request("u", batch(("k", "v"))), 12)
    client.send(MetadataRequest(topics=()), 12)
    fault.wait()
    with connected(broker) as other:
        assert produce(other, "t", ("k", "v")).base_offset == 0
        assert end_of(other, "u") == 0
    fault.remove()
    assert client.receive().responses[0].partition_responses[0].base_offset == 1
    assert client.receive().responses[0].name == "u"
    assert len(client.receive().brokers) == 2


def test_a_delay_is_over_in_its_time(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", delay=0.001, error=NOT_LEADER)
    assert produce(client, "t", ("k", "v")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fault.hits == 1


def test_what_is_removed_while_it_delays_acts_no_more(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", delay=AN_HOUR, error=NOT_LEADER)
    client.send(produce_request("t", batch(("k", "v"))), 12)
    fault.wait()
    fault.remove()
    assert client.receive().responses[0].partition_responses[0].error_code == 0


def test_what_is_delayed_is_carried_out_whether_or_not_its_client_has_gone(
    broker: ottla.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PEER_CHECK_MS", 1)
    fault = broker.fault("Produce", delay=AN_HOUR)
    # Recent timestamps: 30 s after its start a broker forgets the records and the producers of 1970.
    now_ms = time.time_ns() // 1_000_000
    one = batch(("k", "v"), producer_id=5, timestamp=now_ms)
    with connected(broker) as impatient:
        impatient.send(produce_request("t", one), 12)
        fault.wait()
    retried = client.ask(produce_request("t", one), 12).responses[0].partition_responses[0]
    assert (retried.error_code, retried.base_offset) == (0, 0)
    with connected(broker) as impatient:
        late = broker.fault("Produce", delay=AN_HOUR)
        impatient.send(produce_request("u", batch(("k", "v"), timestamp=now_ms)), 12)
        late.wait()
    broker.clear_faults()
    waiting = fetch_request("u", 0, max_wait_ms=60_000)
    assert rows(client.ask(waiting, 12)) == {"u": (0, 1)}
    assert end_of(client) == 1, "an idempotent producer's is not there twice"


def test_a_silent_connection_ends_with_its_client(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PEER_CHECK_MS", 1)
    silent = broker.fault("Produce", drop_response=True)
    before = len(broker.inner.connections)
    with connected(broker) as client:
        client.send(produce_request("t", batch(("k", "v"))), 12)
        silent.wait()

    async def ended() -> None:
        with trio.fail_after(60):
            while len(broker.inner.connections) > before:
                await trio.lowlevel.checkpoint()

    broker.run(ended)


def test_a_stop_waits_for_no_delay_and_no_silence(broker: ottla.Broker, client: RawClient) -> None:
    delayed = broker.fault("Produce", topic="t", delay=AN_HOUR)
    silent = broker.fault("Produce", topic="u", drop_response=True)
    with connected(broker) as other:
        client.send(produce_request("t", batch(("k", "v"))), 12)
        other.send(produce_request("u", batch(("k", "v"))), 12)
        delayed.wait()
        silent.wait()
        broker.restart()
        assert client.is_closed_by_peer() and other.is_closed_by_peer()
    with connected(broker) as again:
        assert (end_of(again), end_of(again, "u")) == (0, 1)


def test_a_node_that_stops_waits_for_no_delay(broker: ottla.Broker, client: RawClient) -> None:
    delayed = broker.fault("Produce", topic="t", delay=AN_HOUR)
    client.send(produce_request("t", batch(("k", "v"))), 12)
    delayed.wait()
    broker.stop_node(0)
    assert client.is_closed_by_peer()


# Matching requests


MATCHING: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"api": "Produce"}, True),
    ({"api": "Fetch"}, False),
    ({"topic": "t"}, True),
    ({"topic": "u"}, False),
    ({"topic": "t", "partition": 1}, True),
    ({"topic": "t", "partition": 0}, False),
    ({"api": "Produce", "topic": "t", "partition": 1}, True),
    ({"client": "client"}, True),
    ({"client": "another"}, False),
    ({"node": 0}, True),
    ({"node": 1}, False),
    ({"api": "Produce", "version": 12}, True),
    ({"api": "Produce", "version": 11}, False),
    ({"group": "g"}, False),
    ({"transactional_id": "x"}, False),
    ({"api": "Produce", "transactional_id": "x"}, False),
    ({"api": "Produce", "topic": "t", "partition": 1, "client": "client", "node": 0, "version": 12}, True),
    ({"api": "Produce", "topic": "t", "partition": 1, "client": "client", "node": 1, "version": 12}, False),
]


@pytest.mark.parametrize(("of", "fits"), MATCHING, ids=[str(of) for of, _ in MATCHING])
def test_all_that_is_said_has_to_fit(of: dict[str, Any], fits: bool, broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault(delay=0.001, **of)
    produce(client, "t", ("k", "v"), partition=1)
    assert fault.hits == fits


def test_so_many_go_by_and_so_many_are_met(broker: ottla.Broker, client: RawClient) -> None:
    fault = broker.fault("Produce", error=NOT_LEADER, skip=2, count=3)
    found = [produce(client, "t", ("k", "v")).error_code for _ in range(7)]
    assert found == [0, 0, 6, 6, 6, 0, 0]
    assert (fault.hits, fault.is_active) == (3, False)


def test_without_a_count_all_are_met_until_it_is_removed(broker: ottla.Broker, client: RawClient) -> None:
    with broker.fault("Produce", error=NOT_LEADER, count=None) as fault:
        assert [produce(client, "t", ("k", "v")).error_code for _ in range(5)] == [6] * 5
    assert fault.hits == 5
    assert produce(client, "t", ("k", "v")).error_code == 0


def test_of_several_the_one_declared_first_acts(broker: ottla.Broker, client: RawClient) -> None:
    broker.fault("Produce", error="KAFKA_STORAGE_ERROR")
    broker.fault("Produce", error=NOT_LEADER)
    assert [produce(client, "t", ("k", "v")).error_code for _ in range(3)] == [56, 6, 0]


def test_of_many_requests_at_a_time_one_is_met(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", error=NOT_LEADER)
    together = threading.Barrier(8)

    def ask(_: int) -> int:
        with connected(broker) as client:
            together.wait()
            code: int = produce(client, "t", ("k", "v")).error_code
            return code

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(ask, range(8))) == [0] * 7 + [6]
    assert fault.hits == 1


# Large requests


def test_a_large_request_is_refused_row_by_row(broker: ottla.Broker, client: RawClient) -> None:
    many = 3 * READ_ELEMENTS_AT_ONCE
    broker.fault("Metadata", error="TOPIC_AUTHORIZATION_FAILED")
    names = tuple(MetadataRequestTopic(name=f"n{number}") for number in range(many))
    answer = client.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * many


def test_of_a_large_produce_one_partition_is_refused(broker: ottla.Broker, client: RawClient) -> None:
    indexes, there = range(READ_ELEMENTS_AT_ONCE + 1), 9
    create_topic(client, "wide", there)
    for index in range(there):
        broker.move_leader("wide", index, 0)
    fault = broker.fault("Produce", topic="wide", partition=7, error=NOT_LEADER)
    data = tuple(PartitionProduceData(index=index, records=batch(("k", "v"))) for index in indexes)
    request = ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=(TopicProduceData(name="wide", partition_data=data),)
    )
    (topic,) = client.ask(request, 12).responses
    none = {index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for index in indexes[there:]}
    written = dict.fromkeys(indexes[:there], ErrorCode.NONE) | {7: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert {row.index: row.error_code for row in topic.partition_responses} == written | none
    assert [end_of(client, "wide", index) for index in range(there)] == [1] * 7 + [0, 1]
    assert fault.hits == 1


# No cost without faults


def handlers(broker: ottla.Broker) -> Callable[[], Any]:
    return lambda: broker.inner.handlers[PRODUCE_KEY]


def test_handlers_are_asked_themselves_while_no_fault_is_for_their_api(broker: ottla.Broker, client: RawClient) -> None:
    produce(client, "t", ("k", "v"))
    assert broker._call(handlers(broker)) is produce_handler.handle
    others = broker.fault("Fetch", delay=0.001)
    assert broker._call(handlers(broker)) is produce_handler.handle
    spent = broker.fault("Produce", error=NOT_LEADER)
    assert broker._call(handlers(broker)) is not produce_handler.handle
    produce(client, "t", ("k", "v"))
    assert not spent.is_active
    assert broker._call(handlers(broker)) is produce_handler.handle
    everywhere = broker.fault(client="nobody", delay=0.001)
    assert broker._call(handlers(broker)) is not produce_handler.handle
    everywhere.remove()
    assert broker._call(handlers(broker)) is produce_handler.handle
    assert [fault.fault_id for fault in broker.faults()] == [others.id, spent.id]


def test_a_request_that_faults_have_looked_at_is_freed_with_its_answer(broker: ottla.Broker, client: RawClient) -> None:
    async def still_there() -> int:
        return sum(type(each) is faulted._Met for each in gc.get_objects())

    broker.fault("Produce", topic="u", error=NOT_LEADER)
    broker.fault("Produce", topic="t", partition=1, error=NOT_LEADER)
    gc.collect()  # garbage of that kind from other tests
    gc.disable()
    try:
        for partition in (0, 1):
            produce(client, "t", ("k", "v"), partition=partition)
        assert broker.run(still_there) == 0, "nothing in it is for the collector of cycles"
    finally:
        gc.enable()


def test_a_thousand_faults_are_taken_in_a_moment(broker: ottla.Broker) -> None:
    asked = 0

    def counted(key: int) -> frozenset[NameKind]:
        nonlocal asked
        asked += 1
        return names(key)

    declarations = [Declaration(client_id=f"client-{number}", delay_ms=1) for number in range(1_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faulted, "names", counted)
        faulted._naming.cache_clear()
        assert {len(faulted.matching_api_keys(each)) for each in declarations} == {len(ERROR_FIELDS)}
    assert asked == len(ERROR_FIELDS)


def test_who_is_kept_waiting_has_no_place_that_others_need(broker: ottla.Broker) -> None:
    every = MetadataRequest(topics=None)
    fault = broker.fault("Metadata", client="late", delay=AN_HOUR, count=None)
    late = [connected(broker, "late") for _ in range(PLACES)]
    for each in late:
        each.send(every, 12)
    fault.wait(PLACES)
    used = broker._call(lambda: broker.inner.shares.response_slots[METADATA_KEY].used_bytes)
    fault.remove()
    for each in late:
        assert len(each.receive().brokers) == 2
        each.close()
    assert used == 0


# Runs


def test_faults_outlive_a_restart_and_a_crash_but_no_reset(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", error=NOT_LEADER, count=None)
    for again in (broker.restart, broker.crash):
        again()
        with connected(broker) as client:
            assert produce(client, "t", ("k", "v")).error_code != 0
    assert fault.hits >= 2
    broker.reset()
    assert broker.faults() == [] and not fault.is_active
