"""What a straight way answers is what its handler would: the same requests to two brokers, one of which is asked straight first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import trio
import trio.testing

import ottla
from ottla.protocol.connection import Request, encode_request, encode_response, parse_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.config.emulation import release_of
from ottla.server.handlers import Handlers, fetch, produce
from ottla.server.network.transport import COPIED_BYTES
from ottla.storage.disk.files import FileSlice
from support.broker.contexts import context_of
from support.broker.conversation import address, create_topic, fetch_request, produce_request
from support.broker.conversation import produce as produced
from support.broker.in_process_broker import NOW_MS, run_in_order, running
from support.broker.raw_client import RawClient
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch, broken

STRAIGHT, NOT = True, False
HANDLERS: dict[int, Any] = {0: produce, 1: fetch}
VALUES = [("k", "v" * 100)]


class Step(NamedTuple):
    """A request, and whether it goes straight."""

    is_straight: bool
    message: Callable[[], Any]
    version: int = 12


def sent(
    topic: str = "a", *, acks: int = 1, partition: int = 0, flip: int | None = None, pairs: Any = VALUES, **options: Any
) -> Callable[[], Any]:
    def message() -> Any:
        records = batch(*pairs, **({"timestamp": NOW_MS} | options))
        return produce_request(topic, records if flip is None else broken(records, flip), partition, acks)

    return message


def of_magic_1() -> bytearray:
    records = batch(*VALUES)
    records[16] = 1
    return records


def asked(topic: str = "a", offset: int = 0, **options: Any) -> Callable[[], Any]:
    """A fetch without a session."""
    return lambda: replace(fetch_request(topic, offset, **options), session_id=0, session_epoch=-1)


def in_session() -> FetchRequest:
    return replace(fetch_request("a", 0), session_id=0, session_epoch=0)


def of_two(message: Callable[[], Any]) -> Callable[[], Any]:
    """With its topic twice."""

    def doubled() -> Any:
        one = message()
        name = "topics" if isinstance(one, FetchRequest) else "topic_data"
        return replace(one, **{name: getattr(one, name) * 2})

    return doubled


def producer(sequence: int, epoch: int = 0, **options: Any) -> Callable[[], Any]:
    return sent(producer_id=7, base_sequence=sequence, producer_epoch=epoch, **options)


STEPS: dict[str, Step] = {
    "a record": Step(STRAIGHT, sent()),
    "a record for all replicas": Step(STRAIGHT, sent(acks=-1)),
    "without an answer": Step(NOT, sent(acks=0)),
    "acks that there are not": Step(NOT, sent(acks=2)),
    "old": Step(STRAIGHT, sent(), 3),
    "zstd that old clients do not know": Step(NOT, sent(codec=4), 6),
    "zstd": Step(STRAIGHT, sent(codec=4), 7),
    "a topic that is not there": Step(NOT, sent("nowhere")),
    "a partition that is not there": Step(NOT, sent(partition=9)),
    "two topics": Step(NOT, of_two(sent())),
    "of the broker alone": Step(NOT, sent("__consumer_offsets")),
    "a wrong byte": Step(STRAIGHT, sent(flip=80)),
    "no batch": Step(STRAIGHT, lambda: produce_request("a", b"nonsense", 0, 1)),
    "two batches": Step(STRAIGHT, lambda: produce_request("a", batch(*VALUES) + batch(*VALUES), 0, 1)),
    "a batch of an old magic": Step(STRAIGHT, lambda: produce_request("a", of_magic_1(), 0, 1)),
    "a cut batch": Step(STRAIGHT, lambda: produce_request("a", batch(*VALUES)[:-1], 0, 1)),
    "no records": Step(NOT, lambda: produce_request("a", b"", 0, 1)),
    "a record from the far future": Step(NOT, sent(timestamp=NOW_MS * 2)),
    "a record without a key to a compacted topic": Step(NOT, sent("compacted", pairs=[(None, "v")])),
    "a record too large": Step(STRAIGHT, sent("small")),
    "a batch larger than a segment": Step(STRAIGHT, sent("segmented", pairs=[("k", "v" * 2_000)])),
    "stamped by the broker": Step(STRAIGHT, sent("stamped")),
    "to be flushed": Step(NOT, sent("flushed")),
    "of a transaction": Step(NOT, sent(producer_id=9, transactional=True)),
    "a producer's first": Step(STRAIGHT, producer(0)),
    "a producer's first again": Step(STRAIGHT, producer(0)),
    "a producer's third": Step(STRAIGHT, producer(5)),
    "a producer's second": Step(STRAIGHT, producer(1)),
    "a producer's new epoch": Step(STRAIGHT, producer(0, 1)),
    "a producer's old epoch": Step(STRAIGHT, producer(2, 0)),
    "a fetch": Step(STRAIGHT, asked()),
    "a fetch of few bytes": Step(STRAIGHT, asked(max_bytes=10)),
    "a fetch of committed records": Step(STRAIGHT, asked(committed=True)),
    "a fetch in the midst": Step(STRAIGHT, asked(offset=2)),
    "an old fetch": Step(STRAIGHT, asked(), 4),
    "a fetch at the end": Step(STRAIGHT, asked("small")),
    "a fetch that would wait": Step(NOT, asked("small", max_wait_ms=1)),
    "a fetch for more than there is": Step(NOT, asked(min_bytes=1 << 20, max_wait_ms=1)),
    "a fetch beyond the end": Step(NOT, asked(offset=10_000)),
    "a fetch of another epoch": Step(NOT, asked(leader_epoch=9)),
    "a fetch of what is not there": Step(NOT, asked("nowhere")),
    "a fetch of two topics": Step(NOT, of_two(asked())),
    "a fetch that begins a session": Step(NOT, in_session),
    "much": Step(STRAIGHT, sent("b", pairs=[("k", "v" * COPIED_BYTES)])),
    "a fetch of much": Step(NOT, asked("b")),
}
TOPICS: dict[str, dict[str, str]] = {
    "a": {},
    "b": {},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "50"},
    "segmented": {"internal.segment.bytes": "1000"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "flushed": {"flush.messages": "1"},
}


async def answered(broker: Broker, step: Step, *, straight: bool) -> tuple[bool, bytes | None]:
    """Whether it went straight, and the bytes of the answer."""
    message = step.message()
    api = api_of(message)
    frame = memoryview(bytearray(encode_request(api, step.version, 1, "c", message)))[4:]
    request = parse_request(frame)
    request.size_bytes = len(frame)
    context = context_of(broker)
    body = HANDLERS[api.key].straight(context, request) if straight else None
    went_straight = body is not None
    try:
        body = body or await HANDLERS[api.key].handle(context, request)
    except Exception as error:  # noqa: BLE001 -- both are to raise the same
        return went_straight, repr(error).encode()
    if body is None:
        return went_straight, None
    parts = encode_response(request, body)
    return went_straight, b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)


async def life(*, straight: bool) -> tuple[dict[str, tuple[bool, bytes | None]], dict[str, int]]:
    """How each step went and what is answered to it, and where the logs end."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.autojump_threshold = 0  # for the fetches that wait
    async with running(CrashFiles()) as (broker, client):
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
            )
            for name, configs in TOPICS.items()
        ]
        await client.ask(CreateTopicsRequest(topics=tuple(wanted), timeout_ms=1_000), 7)
        told = {name: await answered(broker, step, straight=straight) for name, step in STEPS.items()}
        return told, {name: broker.services.topics.partition(name, 0).log.log_end_offset for name in TOPICS}


def test_both_ways_answer_the_same_and_do_the_same() -> None:
    told, ends = run_in_order(lambda: life(straight=True))
    expected, expected_ends = run_in_order(lambda: life(straight=False))
    assert {name: answer for name, (_, answer) in told.items()} == {
        name: answer for name, (_, answer) in expected.items()
    }
    assert {name: way for name, (way, _) in told.items()} == {name: step.is_straight for name, step in STEPS.items()}
    assert ends == expected_ends


def test_who_stands_in_between_is_always_asked() -> None:
    handlers = Handlers()
    assert handlers[0] is produce.handle and handlers.straight == {0: produce.straight}
    offered = handlers.straight
    handlers.interpose("quotas", {0: lambda handler: handler_of_nobody})
    assert handlers[1] is fetch.handle and offered == {1: fetch.straight}
    handlers.interpose("faults", {1: lambda handler: handler_of_nobody})
    assert offered == {}
    handlers.interpose("quotas", {})
    handlers.interpose("faults", {})
    assert offered == {0: produce.straight, 1: fetch.straight}


async def handler_of_nobody(ctx: Any, request: Request) -> None:
    """Stands in between."""


def test_an_emulated_release_refuses_versions_before_anybody_is_asked() -> None:
    handlers = Handlers(release_of("3.9"))
    assert handlers[0] is not produce.handle
    assert handlers.straight == {}


def test_a_record_that_went_straight_wakes_who_waits_for_it() -> None:
    with ottla.Broker() as broker, RawClient(*address(broker)) as client, RawClient(*address(broker)) as waiting:
        create_topic(client, "t")
        assert produced(client, "t", ("k", "v")).error_code == ErrorCode.NONE
        for offset in range(1, 5):
            waiting.send(fetch_request("t", offset, max_wait_ms=600_000), 12)
            broker.run(trio.testing.wait_all_tasks_blocked)
            assert len(broker.inner.shares.arrivals) == 1
            assert produced(client, "t", ("k", "v")).base_offset == offset
            assert waiting.receive().responses[0].partitions[0].high_watermark == offset + 1


def test_a_quota_that_is_set_meanwhile_holds_from_the_next_request_on() -> None:
    with ottla.Broker() as broker, RawClient(*address(broker)) as client, RawClient(*address(broker)) as admin:
        create_topic(admin, "t")
        request = produce_request("t", batch(("k", "v")), acks=1)
        for _ in range(3):
            assert client.ask(request, 7).throttle_time_ms == 0
        entry = EntryData(
            entity=(EntityData(entity_type="client-id", entity_name=None),),
            ops=(OpData(key="producer_byte_rate", value=1.0, remove=False),),
        )
        assert admin.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=False)).entries[0].error_code == 0
        assert client.ask(request, 7).throttle_time_ms > 0
