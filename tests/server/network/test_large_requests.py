"""Large requests and answers: the work of a worker, its order, and which connection gives up its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request, encode_request, encode_response, learn, parse_request
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.network import large_requests
from ottla.server.network.large_requests import (
    BYTES_AN_ELEMENT,
    FRAME_BYTES_AT_ONCE,
    LASTS_S,
    LIVING_ELEMENTS,
    READ_ELEMENTS_AT_ONCE,
    WRITE_BYTES_AT_ONCE,
    WRITE_ELEMENTS_AT_ONCE,
    LargeRequest,
    LargeRequests,
    read_now,
    write_now,
)
from ottla.server.network.transport import SEND_BYTES, PeerGoneError, PlainTransport
from ottla.server.runtime import time_slices
from ottla.server.runtime.gc_policy import LOOK_S, NOW_AND_THEN_S
from support.broker.conversation import address, create_topic, list_offset
from support.broker.raw_client import RawClient
from support.logs.batches import batch
from support.old_garbage import OldGarbage
from support.passes import counting_passes

METADATA, PRODUCE = APIS[3], APIS[0]


class Client:
    """The connection of a large request."""

    def __init__(self) -> None:
        self.is_gone = False
        self.reasons: list[str] = []

    def check_peer(self) -> None:
        if self.is_gone:
            raise PeerGoneError("closed while its request was parked")

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)


def names(count: int, length: int = 3) -> MetadataRequest:
    topics = tuple(MetadataRequestTopic(name=f"{number:0{length}}") for number in range(count))
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def frame_of(body: Any, *, version: int = 9) -> memoryview:
    api = PRODUCE if isinstance(body, ProduceRequest) else METADATA
    return memoryview(encode_request(api, version, 1, "client", body))[4:]


def produced(partitions: int, records_bytes: int) -> ProduceRequest:
    data = tuple(PartitionProduceData(index=index, records=bytes(records_bytes)) for index in range(partitions))
    return ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=1, topic_data=(TopicProduceData(name="t", partition_data=data),)
    )


@pytest.mark.parametrize(
    "body, is_small",
    [
        (names(READ_ELEMENTS_AT_ONCE), True),
        (names(READ_ELEMENTS_AT_ONCE + 1), False),
        (names(9, 30_000), False),
        (produced(1, 2 * FRAME_BYTES_AT_ONCE), True),
        (produced(100, FRAME_BYTES_AT_ONCE), True),
        (produced(1_000, FRAME_BYTES_AT_ONCE // 500), False),
        (produced(READ_ELEMENTS_AT_ONCE + 1, 1), False),
    ],
    ids=lambda value: "small" if value is True else "large" if value is False else type(value).__name__,
)
def test_a_request_is_read_at_once_if_it_has_few_elements_and_little_is_copied(body: Any, is_small: bool) -> None:
    learn(frame_of(body))
    assert (read_now(frame_of(body)) is not None) == is_small


@pytest.mark.parametrize(
    "topics, length, is_small",
    [(WRITE_ELEMENTS_AT_ONCE, 3, True), (WRITE_ELEMENTS_AT_ONCE + 1, 3, False), (60, 30_000, False)],
)
def test_an_answer_is_written_at_once_if_it_is_small(topics: int, length: int, is_small: bool) -> None:
    from ottla.protocol.messages.metadata import MetadataResponseTopic

    body = MetadataResponse(
        controller_id=1,
        brokers=(),
        topics=tuple(MetadataResponseTopic(error_code=0, name="x" * length) for _ in range(topics)),
    )
    request = Request(METADATA, 9, 1, None, names(0))
    assert (length * topics > WRITE_BYTES_AT_ONCE) or length == 3
    assert (write_now(request, body) is not None) == is_small
    if is_small:
        assert write_now(request, body) == encode_response(request, body)


async def test_a_worker_reads_what_is_large_and_its_elements_count_until_the_end() -> None:
    shared = LargeRequests()
    large = LargeRequest(shared, Client(), "a")
    frame = frame_of(names(5_000))
    box = [frame]

    request = await large.read(box)

    assert request == parse_request(frame)
    assert not box
    assert shared.living.used_bytes == request.elements == 5_000
    await large.end([])
    assert shared.living.used_bytes == 0


async def test_a_request_of_few_but_long_texts_counts_by_its_bytes() -> None:
    shared = LargeRequests()
    for body, counted in ((names(200, 30_000), 200 * 30_000 // BYTES_AN_ELEMENT), (produced(200, 30_000), 200)):
        large = LargeRequest(shared, Client(), "a")
        await large.read([frame_of(body)])
        assert counted <= shared.living.used_bytes <= counted * 1.01 + 1
        await large.end([])
        assert shared.living.used_bytes == 0


@pytest.mark.parametrize("cut", [1, 30_000])
async def test_a_large_frame_that_is_malformed_gets_the_same_error(cut: int) -> None:
    frame = frame_of(names(5_000, 6))[:-cut]
    with pytest.raises(ProtocolError) as expected:
        parse_request(frame)
    shared = LargeRequests()
    large = LargeRequest(shared, Client(), "a")
    assert read_now(frame) is None

    with pytest.raises(ProtocolError) as raised:
        await large.read([frame])

    assert str(raised.value) == str(expected.value)
    await large.end([])
    assert shared.living.used_bytes == 0


def _closes(client: Client, large: LargeRequest) -> None:
    large.stop_waiting()


def _leaves(client: Client, large: LargeRequest) -> None:
    client.is_gone = True


@pytest.mark.parametrize("goes", [_closes, _leaves])
@pytest.mark.parametrize("is_without_room", [False, True])
async def test_a_closed_connection_leaves_the_line(
    goes: Callable[[Client, LargeRequest], None], is_without_room: bool
) -> None:
    shared, client, other = LargeRequests(), Client(), LargeRequest(LargeRequests(), Client(), "b")
    large = LargeRequest(shared, client, "a")
    ended: list[str] = []
    if is_without_room:
        for _ in range(2):  # one at the limit, one beyond it
            await shared.living.take(other, LIVING_ELEMENTS)

    async def read() -> None:
        try:
            await large.read([frame_of(names(5_000))])
        except PeerGoneError as error:
            ended.append(str(error))
        await large.end([])

    async with trio.open_nursery() as nursery, shared.for_requests.line:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        goes(client, large)
        await trio.testing.wait_all_tasks_blocked()
        assert bool(ended) == (goes is _closes), "who has left is found out at the place, and not read any more"
        shared.living.give_back(other, other.held_bytes)
    assert len(ended) == 1
    assert shared.living.used_bytes == 0


class Piece:
    """An object that notes in which thread it is freed."""

    freed_in: ClassVar[list[int]] = []

    def __len__(self) -> int:
        return 0

    def __del__(self) -> None:
        self.freed_in.append(threading.get_ident())


async def test_what_is_large_is_freed_by_a_worker() -> None:
    Piece.freed_in.clear()
    large = LargeRequest(LargeRequests(), Client(), "a")

    await large.end([Piece()])
    await large.write([Request(METADATA, 9, 1, None, Piece()), None])

    assert len(Piece.freed_in) == 2
    assert threading.get_ident() not in Piece.freed_in


async def test_a_request_that_lasts_too_long_gives_up_its_place_when_others_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shared, client = LargeRequests(), Client()
    parked = LargeRequest(shared, client, "a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.living.run)
        await shared.living.take(parked, LIVING_ELEMENTS)
        await trio.sleep(2 * LASTS_S)
        assert not client.reasons

        waiting = LargeRequest(shared, Client(), "c")
        nursery.start_soon(waiting.read, [frame_of(names(5_000))])
        await trio.sleep(2)
        assert [f"{LIVING_ELEMENTS} elements took more than 60 s" in reason for reason in client.reasons[:1]] == [True]
        await parked.end([])
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert waiting.held_bytes == 5_000


async def _given_back(shared: LargeRequests) -> None:
    with trio.fail_after(60):
        while shared.living.used_bytes:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("count", [READ_ELEMENTS_AT_ONCE // 2, 3 * READ_ELEMENTS_AT_ONCE])
def test_small_and_large_requests_get_the_same_answers(broker: ottla.Broker, client: RawClient, count: int) -> None:
    create_topic(client, f"{count // 2:03}")
    answer = client.ask(names(count), 9)
    assert [topic.name for topic in answer.topics] == [topic.name for topic in names(count).topics or ()]
    assert sum(topic.error_code == 0 for topic in answer.topics) == 1
    broker.run(_given_back, broker.inner.shares.large_requests)


def test_a_large_request_that_is_malformed_closes_its_connection_only(broker: ottla.Broker, client: RawClient) -> None:
    frame = frame_of(names(5_000))[:-1]
    with RawClient(*address(broker)) as other:
        other.send_bytes(len(frame).to_bytes(4, "big") + bytes(frame))
        assert other.is_closed_by_peer()
    assert client.ask(names(3), 9).topics
    broker.run(_given_back, broker.inner.shares.large_requests)


async def test_old_objects_are_left_alone_while_large_requests_live(
    autojump_clock: trio.testing.MockClock,
) -> None:
    garbage, shared = OldGarbage(), LargeRequests()
    first = LargeRequest(shared, Client(), "a")
    second = LargeRequest(shared, Client(), "b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.collector.run)
        await first.end([])
        await trio.sleep(2 * NOW_AND_THEN_S)
        assert garbage.is_there()
        with trio.move_on_after(0):
            await second.end([])
        await second.end([])
        await trio.sleep(2 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


class FastReader:
    """A socket whose peer takes all that one call offers."""

    family = 1

    def __init__(self) -> None:
        self.calls: list[int] = []

    def setblocking(self, _flag: bool) -> None: ...
    def setsockopt(self, *_option: int) -> None: ...

    def sendmsg(self, buffers: list[Any], _ancillary: tuple[()], _flags: int) -> int:
        self.calls.append(sum(map(len, buffers)))
        return self.calls[-1]


@pytest.mark.parametrize(
    "parts", [[bytes(5 << 20)], [bytes(300_000)] * 10, [bytes(1)] * 5_000], ids=["one", "some", "many"]
)
async def test_an_answer_to_a_fast_reader_is_sent_in_turns(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)
    sock = FastReader()
    async with counting_passes() as passes:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        before = passes.count
        await PlainTransport(sock).send(parts)  # type: ignore[arg-type]
    assert sum(sock.calls) == sum(map(len, parts))
    assert max(sock.calls) <= SEND_BYTES
    assert passes.count - before >= len(sock.calls) - 2 >= 2, "each turn is a pass, whoever comes first in it"


def test_pipelined_requests_are_answered_in_turns_of_time(
    broker: ottla.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen requests, the former unit of time slices, may take a second."""
    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)
    steps = 0

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += "onnection" in task.name

    async def watch() -> None:
        trio.lowlevel.add_instrument(Steps())

    client.ask(names(1), 9)
    broker.run(watch)
    raw = encode_request(METADATA, 9, 1, "client", names(1))
    client.send_bytes(raw * 64)
    for _ in range(64):
        client.receive_frame()

    assert steps >= 64


def test_the_constants_fit_together() -> None:
    assert frame_of(produced(1, 1))[:2] == large_requests.PRODUCE


def test_what_is_produced_without_an_answer_counts_though_its_client_has_gone(broker: ottla.Broker) -> None:
    rows = 200
    with RawClient(*address(broker)) as client:
        create_topic(client, "t")
        data = (PartitionProduceData(index=0, records=bytes(batch(("k", "v" * 3_000)))),) * rows
        request = ProduceRequest(acks=0, timeout_ms=1, topic_data=(TopicProduceData(name="t", partition_data=data),))
        with RawClient(*address(broker)) as leaves:
            leaves.send_without_answer(request, 9)
        for _ in range(10_000):
            if list_offset(client, "t", -1) == (ErrorCode.NONE, rows):
                break
        else:
            pytest.fail("it was not appended")
