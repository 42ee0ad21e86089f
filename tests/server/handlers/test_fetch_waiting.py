"""The time of a fetch's answer: at once, after an event while it waits, or when its time is over."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.server.handlers.fetch import WAIT_MS_MIN, wait_for
from ottla.server.partitions.waits import FetchWaits
from support.broker.admin import delete_records
from support.broker.conversation import address, create_topic, fetch_request, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.logs.batches import batch

VALUE = "v" * 300_000
SIZE = len(batch(("k", VALUE)))
MANY_BYTES = 1 << 25
FOR_EVER_MS = 600_000
"""A wait longer than a client waits for its answer."""


def fill(client: RawClient, topic: str = "t", batches: int = 10, **configs: Any) -> None:
    """Create a topic of batches of SIZE, four in each segment."""
    create_topic(client, topic, segment_bytes=4 * SIZE, **configs)
    for _ in range(batches):
        produce(client, topic, ("k", VALUE))


def together(*requests: FetchRequest) -> FetchRequest:
    """Put all their topics into the first of them."""
    return replace(requests[0], topics=tuple(topic for request in requests for topic in request.topics))


def rows(answer: FetchResponse) -> list[tuple[str, int, int]]:
    """Return (topic, error, number of batches) of each partition."""
    return [
        (topic.topic, row.error_code, len(row.records or b"") // SIZE)
        for topic in answer.responses
        for row in topic.partitions
    ]


@pytest.mark.parametrize(
    ("offset", "min_bytes", "max_bytes", "batches"),
    [
        (0, MANY_BYTES, MANY_BYTES, 4),  # in a segment before the last one
        (7, MANY_BYTES, MANY_BYTES, 1),
        (8, 2 * SIZE, MANY_BYTES, 2),
        (8, SIZE + 1, SIZE + 1, 1),  # a batch that the limit cuts counts, and is not sent
        (8, SIZE, 1, 1),  # the first batch is larger than the limit
        (10, 0, MANY_BYTES, 0),
    ],
)
def test_a_fetch_does_not_wait_for_available_or_impossible_records(
    client: RawClient, offset: int, min_bytes: int, max_bytes: int, batches: int
) -> None:
    fill(client)
    wanted = fetch_request("t", offset, min_bytes=min_bytes, max_bytes=max_bytes, max_wait_ms=FOR_EVER_MS)
    assert rows(client.ask(wanted, 12)) == [("t", ErrorCode.NONE, batches)]


def test_a_limit_of_the_whole_response_bounds_the_wait(client: RawClient) -> None:
    fill(client, batches=2)
    wanted = fetch_request("t", 0, min_bytes=MANY_BYTES, max_wait_ms=FOR_EVER_MS)
    assert rows(client.ask(replace(wanted, max_bytes=SIZE + 1), 12)) == [("t", ErrorCode.NONE, 1)]


def test_bytes_of_a_cut_batch_are_not_given_to_the_next_partition(client: RawClient) -> None:
    fill(client, "a", 3)
    fill(client, "b", 3)
    both = together(fetch_request("a", 0, max_bytes=MANY_BYTES), fetch_request("b", 0, max_bytes=MANY_BYTES))
    wanted = replace(both, max_bytes=2 * SIZE + SIZE // 2)
    assert rows(client.ask(wanted, 12)) == [("a", ErrorCode.NONE, 2), ("b", ErrorCode.NONE, 0)]


def waiting(topic: str, offset: int, **options: Any) -> FetchRequest:
    return fetch_request(topic, offset, max_wait_ms=FOR_EVER_MS, **options)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (waiting("t", 99), [("t", ErrorCode.OFFSET_OUT_OF_RANGE, 0)]),
        (waiting("t", 2, leader_epoch=5), [("t", ErrorCode.UNKNOWN_LEADER_EPOCH, 0)]),
        (
            together(waiting("t", 2), waiting("e", 1)),
            [("t", ErrorCode.NONE, 0), ("e", ErrorCode.OFFSET_OUT_OF_RANGE, 0)],
        ),
        (waiting("missing", 0), [("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]),
        (
            together(waiting("missing", 0), waiting("t", 1)),
            [("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), ("t", ErrorCode.NONE, 1)],
        ),
    ],
)
def test_an_error_is_returned_at_once(
    client: RawClient, wanted: FetchRequest, expected: list[tuple[str, int, int]]
) -> None:
    fill(client, batches=2)
    create_topic(client, "e")
    assert rows(client.ask(wanted, 12)) == expected


@pytest.mark.parametrize(("last_epoch", "code"), [(0, ErrorCode.NONE), (3, ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_a_client_with_an_unknown_epoch_is_out_of_range(client: RawClient, last_epoch: int, code: ErrorCode) -> None:
    fill(client, batches=2)
    wanted = fetch_request("t", 0, max_wait_ms=FOR_EVER_MS)
    (partition,) = wanted.topics[0].partitions
    topic = replace(wanted.topics[0], partitions=(replace(partition, last_fetched_epoch=last_epoch),))
    (answered,) = rows(client.ask(replace(wanted, topics=(topic,)), 12))
    assert answered[1] == code


def a_record(client: RawClient) -> None:
    produce(client, "t", ("k", VALUE))


def deletion(client: RawClient) -> None:
    client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=5000), 6)


@pytest.fixture
def parked(broker: ottla.Broker, client: RawClient) -> Callable[[FetchRequest], None]:
    """Return a function that sends a fetch and checks that it waits."""
    return partial(park, broker, client)


def park(broker: ottla.Broker, client: RawClient, request: FetchRequest) -> None:
    async def until_it_waits() -> None:
        with trio.fail_after(60):
            while not broker.inner.waits:
                await trio.sleep(0.001)

    client.send(request, 12)
    broker.run(until_it_waits)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (a_record, [("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), ("t", ErrorCode.NONE, 1)]),
        (
            deletion,
            [
                ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
                ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
            ],
        ),
    ],
)
def test_a_missing_partition_waits_with_the_others(
    broker: ottla.Broker,
    client: RawClient,
    parked: Callable[[FetchRequest], None],
    event: Callable[[RawClient], None],
    expected: list[tuple[str, int, int]],
) -> None:
    fill(client, batches=2)
    parked(together(waiting("missing", 0), waiting("t", 2)))
    with RawClient(*address(broker)) as other:
        event(other)
    assert rows(client.receive()) == expected


def test_a_segment_that_rolls_ends_the_wait(
    broker: ottla.Broker, client: RawClient, parked: Callable[[FetchRequest], None]
) -> None:
    fill(client, batches=2)
    parked(waiting("t", 1, min_bytes=MANY_BYTES))
    with RawClient(*address(broker)) as producer:
        for _ in range(3):
            a_record(producer)
    assert rows(client.receive()) == [("t", ErrorCode.NONE, 3)]


def test_a_log_start_that_passes_the_reader_ends_the_wait(
    broker: ottla.Broker, client: RawClient, parked: Callable[[FetchRequest], None]
) -> None:
    fill(client, batches=2)
    parked(waiting("t", 0, min_bytes=MANY_BYTES))
    with RawClient(*address(broker)) as other:
        assert delete_records(other, "t", 1) == (ErrorCode.NONE, 1)
    assert rows(client.receive()) == [("t", ErrorCode.OFFSET_OUT_OF_RANGE, 0)]


def test_a_session_without_changes_waits_for_some(
    broker: ottla.Broker, client: RawClient, parked: Callable[[FetchRequest], None]
) -> None:
    fill(client, batches=2)
    opened = client.ask(replace(fetch_request("t", 2), session_epoch=0), 12)
    parked(replace(waiting("t", 2), topics=(), session_id=opened.session_id, session_epoch=1))
    with RawClient(*address(broker)) as producer:
        a_record(producer)
        assert list_offset(producer, "t", -1) == (ErrorCode.NONE, 3)
    (row,) = client.receive().responses[0].partitions
    assert [offset for offset, _, _ in records_of(row)] == [2]


METADATA = MetadataRequest(topics=())


def test_without_held_heartbeats_the_next_request_waits_for_the_fetch(tmp_path: Path) -> None:
    with (
        ottla.Broker(str(tmp_path), overrides={"ottla.hold.heartbeats": "false"}) as broker,
        RawClient(*address(broker)) as client,
        RawClient(*address(broker)) as other,
    ):
        fill(client, batches=2)
        for offset in (2, 3):
            client.send(waiting("t", offset), 12)
            client.send(METADATA, 12)
            assert isinstance(other.ask(METADATA, 12), MetadataResponse)
            a_record(other)
            assert rows(client.receive()) == [("t", ErrorCode.NONE, 1)]
            assert isinstance(client.receive(), MetadataResponse)


@pytest.mark.parametrize("holds", ["true", "false"])
def test_a_fetch_whose_client_disconnects_waits_no_longer(tmp_path: Path, holds: str) -> None:
    with ottla.Broker(str(tmp_path), overrides={"ottla.hold.heartbeats": holds}) as broker:

        async def until(waits: bool) -> None:
            with trio.fail_after(60):
                while bool(broker.inner.waits) != waits:
                    await trio.sleep(0.001)

        with RawClient(*address(broker)) as other:
            fill(other, batches=2)
            with RawClient(*address(broker)) as client:
                client.send(waiting("t", 2), 12)
                broker.run(lambda: until(True))
            broker.run(lambda: until(False))


def test_a_client_that_sends_no_more_gets_no_records_but_the_answer_to_its_next_request(tmp_path: Path) -> None:
    """Thousands of clients may leave at once: nothing is read for them."""
    with (
        ottla.Broker(str(tmp_path), overrides={"ottla.hold.heartbeats": "false"}) as broker,
        RawClient(*address(broker)) as client,
    ):
        fill(client, batches=2)
        park(broker, client, waiting("t", 0, min_bytes=MANY_BYTES))
        client.send(METADATA, 12)
        client.shut_down_sending()
        assert rows(client.receive()) == []
        assert isinstance(client.receive(), MetadataResponse)


def test_a_fetch_that_waits_keeps_no_rows(client: RawClient, parked: Callable[[FetchRequest], None]) -> None:
    fill(client, batches=2)
    gc.collect()
    before = rows_in_memory()
    parked(waiting("t", 2))
    assert rows_in_memory() == before


def rows_in_memory() -> int:
    return sum(type(each) is PartitionData for each in gc.get_objects())


def test_all_fetches_of_a_partition_get_its_next_record(broker: ottla.Broker, client: RawClient) -> None:
    fill(client, batches=1)
    with ExitStack() as stack:
        readers = [stack.enter_context(RawClient(*address(broker))) for _ in range(50)]
        for offset in range(1, 4):
            for reader in readers:
                reader.send(waiting("t", offset), 12)
            a_record(client)
            assert [rows(reader.receive()) for reader in readers] == [[("t", ErrorCode.NONE, 1)]] * len(readers)


def test_the_next_request_ends_the_wait(client: RawClient, parked: Callable[[FetchRequest], None]) -> None:
    fill(client, batches=2)
    for _ in range(3):
        parked(waiting("t", 2))
        client.send(METADATA, 12)
        assert rows(client.receive()) == [("t", ErrorCode.NONE, 0)]
        assert isinstance(client.receive(), MetadataResponse)


def test_fetches_that_are_sent_together_wait_a_little_for_each_other(client: RawClient) -> None:
    fill(client, batches=2)
    for _ in range(3):
        client.send(waiting("t", 2), 12)
    client.send(METADATA, 12)
    begun_s = time.perf_counter()
    assert [rows(client.receive()) for _ in range(3)] == [[("t", ErrorCode.NONE, 0)]] * 3
    assert time.perf_counter() - begun_s >= 3 * WAIT_MS_MIN / 1000
    assert isinstance(client.receive(), MetadataResponse)


def waiting_ctx(calls: list[Callable[[], object] | None], *, holds_heartbeats: bool) -> Any:
    """Return a context whose client adds the functions given to `on_more` to `calls`."""
    client = SimpleNamespace(check_peer=lambda: None, on_more=calls.append)
    config = SimpleNamespace(current=SimpleNamespace(ottla_hold_heartbeats=holds_heartbeats))
    return SimpleNamespace(client=client, services=SimpleNamespace(config=config))


@pytest.mark.parametrize(
    ("wait_ms", "more_after_ms", "ends_after_ms", "is_hurried"),
    [
        (500, None, 500, False),
        (500, 0, WAIT_MS_MIN, True),
        (500, WAIT_MS_MIN - 1, WAIT_MS_MIN, True),
        (500, WAIT_MS_MIN + 1, WAIT_MS_MIN + 1, True),
        (500, 400, 400, True),
        (WAIT_MS_MIN - 1, 0, WAIT_MS_MIN - 1, False),
    ],
)
async def test_a_hurried_wait_has_its_least_time(
    wait_ms: int,
    more_after_ms: int | None,
    ends_after_ms: int,
    is_hurried: bool,
    autojump_clock: trio.testing.MockClock,
) -> None:
    calls: list[Callable[[], object] | None] = []
    ctx = waiting_ctx(calls, holds_heartbeats=True)
    begun_s = trio.current_time()

    async def send_more() -> None:
        if more_after_ms is not None:
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(more_after_ms / 1000)
            assert calls[-1] is not None
            calls[-1]()

    with FetchWaits().waiter(1, committed=False, is_alone=True) as waiter:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_more)
            assert await wait_for(ctx, waiter, begun_s + wait_ms / 1000) == is_hurried
            assert calls[-1] is None
    assert round((trio.current_time() - begun_s) * 1000) == ends_after_ms


async def test_without_held_heartbeats_no_request_ends_a_wait(autojump_clock: trio.testing.MockClock) -> None:
    calls: list[Callable[[], object] | None] = []
    ctx, begun_s = waiting_ctx(calls, holds_heartbeats=False), trio.current_time()
    with FetchWaits().waiter(1, committed=False, is_alone=True) as waiter:
        assert not await wait_for(ctx, waiter, begun_s + 0.5)
    assert calls == [None] and round((trio.current_time() - begun_s) * 1000) == 500
