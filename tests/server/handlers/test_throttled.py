"""Clients with quotas over the wire: answers contain the throttle time, and connections read nothing during it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.client.connection import Client
from ottla.server.handlers import throttled
from ottla.server.quotas.clients import ClientQuotas
from ottla.server.quotas.validation import CLIENT_KEYS
from ottla.server.runtime.clock import Clock, wall_time_ms
from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import address, create_topic, fetch_request, produce_request
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.logs.batches import batch
from support.sharing.members import Member, acquired, initialize_share, offsets_of


def alter(client: Client, quotas: dict[str, float | None], *, validate_only: bool = False, **entity: str | None) -> Any:
    """Alter a quota; return the row of the answer. A value of None removes."""
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()),
    )
    (row,) = client.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)).entries
    return row


def described(client: Client, *components: ComponentData, strict: bool = False) -> dict[str, dict[str, float]]:
    answer = client.ask(DescribeClientQuotasRequest(components=components, strict=strict))
    assert answer.error_code == ErrorCode.NONE
    return {
        ",".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path)) as broker:
        yield broker


@contextmanager
def client_of(broker: ottla.Broker, client_id: str = "app") -> Iterator[RawClient]:
    with RawClient(*address(broker), client_id=client_id) as client:
        yield client


def test_quotas_are_set_described_removed_and_persistent(broker: ottla.Broker) -> None:
    with client_of(broker) as client:
        assert alter(client, {"producer_byte_rate": 5e6, "request_percentage": 50}, user="alice").error_code == 0
        assert alter(client, {"consumer_byte_rate": 5e6}, client_id=None, user="alice").error_code == 0
        assert alter(client, {"connection_creation_rate": 500}, ip="localhost").error_code == 0
        assert alter(client, {"producer_byte_rate": 1}, validate_only=True, user="alice").error_code == 0
        refused = alter(client, {"producer_byte_rate": 0}, user="alice")
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Quota producer_byte_rate must be greater than 0",
        )
        told = described(client)
    broker.crash()
    with client_of(broker) as client:
        assert (
            described(client)
            == told
            == {
                "user=alice": {"producer_byte_rate": 5e6, "request_percentage": 50},
                "client-id=None,user=alice": {"consumer_byte_rate": 5e6},
                "ip=localhost": {"connection_creation_rate": 500},
            }
        )
        alter(client, {"producer_byte_rate": None, "request_percentage": None}, user="alice")
        component = ComponentData(entity_type="user", match_type=0, match="alice")
        assert list(described(client, component)) == ["client-id=None,user=alice"]
        assert described(client, component, strict=True) == {}
        wrong = client.ask(DescribeClientQuotasRequest(components=(component, component)))
        assert wrong.error_code == ErrorCode.INVALID_REQUEST and wrong.entries is None


def java_order(keys: Iterable[str]) -> list[str]:
    """Return `keys` in Apache Kafka's order.

    They come from the HashMap of one request's changes (16 buckets) into one that begins with one bucket, and doubles whenever
    it is more than three quarters full.
    """

    def spread(key: str) -> int:
        hashed = 0
        for character in key:
            hashed = (31 * hashed + ord(character)) % 2**32
        return hashed ^ (hashed >> 16)

    changes = sorted(keys, key=lambda key: spread(key) % 16)
    buckets = 1
    while len(changes) > buckets * 3 // 4:
        buckets *= 2
    return sorted(changes, key=lambda key: spread(key) % buckets)


def test_the_values_of_an_entity_have_apache_kafkas_order(broker: ottla.Broker) -> None:
    """Clients compare lists, as the order is the same from run to run in Apache Kafka."""
    assert java_order(list(CLIENT_KEYS)[:3]) == ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]
    with client_of(broker) as client:
        for keys in [*permutations(CLIENT_KEYS), *permutations(CLIENT_KEYS, 3), *permutations(CLIENT_KEYS, 2)]:
            assert alter(client, dict.fromkeys(CLIENT_KEYS), user="alice").error_code == 0
            for key in keys:
                assert alter(client, {key: 5}, user="alice").error_code == 0
            assert list(described(client)["user=alice"]) == java_order(keys)


@asynccontextmanager
async def frozen(data_dir: Path, quotas: dict[str, float | None]) -> AsyncIterator[Served]:
    """Run a broker whose clock stands still, with a topic "t", and these quotas for the client id "app"."""
    clock = Clock()
    async with serving(data_dir, OsFiles(), clock) as served:
        await served.ask(create_topic, "t")
        clock.freeze()
        await served.ask(alter, quotas, client_id="app")
        served.client.client_id = "app"
        yield served


PRODUCE = produce_request("t", batch(("k", b"v" * 10_000), timestamp=wall_time_ms()))


@pytest.mark.parametrize("version", [3, 12])
async def test_a_producer_above_its_quota_is_answered_at_once_then_muted(tmp_path: Path, version: int) -> None:
    async with frozen(tmp_path, {"producer_byte_rate": 1000}) as served:
        ask = partial(served.client.ask, PRODUCE, version)
        told = await trio.to_thread.run_sync(ask)
        assert told.responses[0].partition_responses[0].error_code == 0
        assert 0 < told.throttle_time_ms < 1000
        served.client.send(PRODUCE, version)
        served.broker.clock.advance(told.throttle_time_ms - 1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        log = served.broker.services.topics.partition("t", 0).log
        assert log.log_end_offset == 1
        served.broker.clock.advance(1)
        answer = await trio.to_thread.run_sync(served.client.receive)
        assert log.log_end_offset == 2 and answer.throttle_time_ms > 9000


async def test_a_producer_with_acks_0_is_muted(tmp_path: Path) -> None:
    async with frozen(tmp_path, {"producer_byte_rate": 1000}) as served:
        silent = produce_request("t", batch(("k", b"v" * 20_000), timestamp=1), acks=0)
        for _ in range(2):
            await trio.to_thread.run_sync(served.client.send_without_answer, silent, 12)
        served.client.close()
        log = served.broker.services.topics.partition("t", 0).log
        with trio.fail_after(60):
            while log.log_end_offset == 0:
                await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert log.log_end_offset == 1
        served.broker.clock.advance(60_000)
        with trio.fail_after(60):
            while log.log_end_offset == 1:  # what it has sent before it left counts
                await trio.sleep(0.001)


@pytest.mark.parametrize("why", ["the broker is stopping", "the node stops", "idle"])
async def test_a_muted_connection_does_not_delay_a_stop(tmp_path: Path, why: str) -> None:
    with trio.fail_after(60):
        async with frozen(tmp_path, {"producer_byte_rate": 1}) as served:
            await trio.to_thread.run_sync(served.client.ask, PRODUCE, 12)
            await trio.testing.wait_all_tasks_blocked(0.01)
            (connection,) = served.broker.connections
            if why == "the node stops":
                await served.broker.stop_node(0)
                assert len(served.broker.connections) == 0
            elif why == "idle":
                connection.idle_s(trio.current_time())
                await served.broker.connections.close_idle(-1000)
                assert await trio.to_thread.run_sync(served.client.is_closed_by_peer)


async def test_a_consumer_above_its_quota_gets_nothing_until_the_delay_ends(tmp_path: Path) -> None:
    async with frozen(tmp_path, {"consumer_byte_rate": 1500}) as served:
        await trio.to_thread.run_sync(served.client.ask, PRODUCE, 12)
        fetch = partial(served.client.ask, fetch_request("t", 0), 12)
        first = await trio.to_thread.run_sync(fetch)
        assert first.responses[0].partitions[0].records and first.throttle_time_ms == 0
        second = await trio.to_thread.run_sync(fetch)
        assert second.responses == () and 0 < second.throttle_time_ms < 5000
        served.broker.clock.advance(second.throttle_time_ms)
        third = await trio.to_thread.run_sync(fetch)
        assert third.responses == () and third.throttle_time_ms > 0, "what it did not get does not count, nor help"
        served.broker.clock.advance(11_000)
        assert (await trio.to_thread.run_sync(fetch)).responses[0].partitions[0].records


async def test_a_member_above_its_quota_gets_its_acquired_records_with_a_delay(tmp_path: Path) -> None:
    """Apache Kafka sends an empty answer, and the acquired records reach no member until the lock ends."""
    async with frozen(tmp_path, {"consumer_byte_rate": 1500}) as served:
        topic = served.broker.services.topics.get("t")
        assert topic is not None
        topic_id = topic.id
        await served.ask(initialize_share, "g", topic_id)
        member = Member(served.client, topic_id)
        opened = await trio.to_thread.run_sync(partial(member.ask, 0, max_wait_ms=0))
        assert (opened.responses, opened.throttle_time_ms) == ((), 0)
        await trio.to_thread.run_sync(served.client.ask, PRODUCE, 12)
        await trio.to_thread.run_sync(served.client.ask, PRODUCE, 12)
        first = await trio.to_thread.run_sync(member.ask)
        ((row,),) = (topic.partitions for topic in first.responses)
        assert acquired(row) == [(0, 0, 1)], "no more than a window has"
        assert (offsets_of(row), first.throttle_time_ms) == ([0], 0)
        second = await trio.to_thread.run_sync(member.ask)
        ((row,),) = (topic.partitions for topic in second.responses)
        assert (acquired(row), offsets_of(row)) == ([(1, 1, 1)], [1])
        assert second.throttle_time_ms > 0
        served.client.send(member.request(max_wait_ms=0), 2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        served.broker.clock.advance(second.throttle_time_ms)
        third = await trio.to_thread.run_sync(served.client.receive)
        assert (third.responses, third.throttle_time_ms > 0) == ((), True), "what it got counts"


def session_fetch(session_id: int, epoch: int, offset: int | None = None) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset or 0, partition_max_bytes=1 << 20)
    topics = () if offset is None else (FetchTopic(topic="t", partitions=(partition,)),)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics
    )


async def test_a_throttled_fetch_leaves_its_session_unchanged(tmp_path: Path) -> None:
    async with frozen(tmp_path, {"consumer_byte_rate": 1500}) as served:

        async def asked(request: FetchRequest) -> Any:
            return await trio.to_thread.run_sync(served.client.ask, request, 12)

        opened = await asked(session_fetch(0, 0, 0))
        assert opened.session_id and opened.throttle_time_ms == 0
        await trio.to_thread.run_sync(served.client.ask, PRODUCE, 12)
        taken = await asked(session_fetch(opened.session_id, 1))
        assert taken.responses and taken.throttle_time_ms == 0
        throttled = await asked(session_fetch(opened.session_id, 2, 0))
        assert (throttled.responses, throttled.session_id) == ((), opened.session_id)
        assert throttled.throttle_time_ms > 0
        served.broker.clock.advance(60_000)
        again = await asked(session_fetch(opened.session_id, 3, 0))
        assert again.responses[0].partitions[0].records


def topics_request(*partitions: int, start: int = 0) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=f"m{start + at}", num_partitions=count, replication_factor=1)
            for at, count in enumerate(partitions)
        ),
        timeout_ms=1000,
    )


async def test_topics_beyond_the_quota_are_refused_or_waited_for(tmp_path: Path) -> None:
    async with frozen(tmp_path, {"controller_mutation_rate": 1}) as served:

        async def asked(request: Any, version: int) -> Any:
            return await trio.to_thread.run_sync(served.client.ask, request, version)

        strict = await asked(topics_request(6, 6, 1), 6)
        codes = [row.error_code for row in strict.topics]
        assert codes == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert strict.topics[2].error_message is None
        assert strict.throttle_time_ms == 1000
        assert served.broker.services.topics.get("m2") is None
        served.broker.clock.advance(1000)
        old = await asked(topics_request(3, start=10), 5)
        assert (old.topics[0].error_code, old.throttle_time_ms) == (0, 3000)
        served.broker.clock.advance(3000)
        grown = await asked(
            CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="t", count=3, assignments=None),)), 3
        )
        assert (grown.results[0].error_code, grown.throttle_time_ms) == (0, 0)
        gone = await asked(DeleteTopicsRequest(topics=(DeleteTopicState(name="m10"),)), 6)
        assert (gone.responses[0].error_code, gone.throttle_time_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)
        served.broker.clock.advance(2000)
        named = MetadataRequest(topics=(MetadataRequestTopic(name="auto"),), allow_auto_topic_creation=True)
        await asked(topics_request(2, start=20), 6)
        refused = await asked(named, 12)
        assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert served.broker.services.topics.get("auto") is None


async def test_time_on_the_thread_counts_for_the_request_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(quotas: ClientQuotas, keys: frozenset[str]) -> Any:
        ticks = iter(range(0, 10**15, 50_000_000))
        return made(quotas, keys, lambda: next(ticks))

    made = throttled.layers
    monkeypatch.setattr(throttled, "layers", layers)
    async with frozen(tmp_path, {"request_percentage": 1}) as served:
        ask = partial(served.client.ask, MetadataRequest(topics=()), 12)
        told = [0]
        while not told[-1]:
            told.append((await trio.to_thread.run_sync(ask)).throttle_time_ms)
        assert 2 < len(told) < 5 and told[-1] <= 1000
        named = served.broker.quotas.clients.usages()
        assert [(using.key, usage.throttled) for using, usage in named] == [("request_percentage", 1)]


async def test_without_quotas_handlers_are_not_wrapped(tmp_path: Path) -> None:
    async with frozen(tmp_path, {"producer_byte_rate": 10**9}) as served:
        handlers = served.broker.handlers
        assert handlers[0].__module__.endswith("throttled") and not handlers[1].__module__.endswith("throttled")
        await served.ask(alter, {"producer_byte_rate": None}, client_id="app")
        assert handlers[0].__module__.endswith("produce")
