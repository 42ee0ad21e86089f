"""Immediate answers of a handler equal those of its coroutine: the same requests to two brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from types import CoroutineType, FunctionType
from typing import Any, NamedTuple

import trio
import trio.testing

import ottla
from ottla.protocol.apis import APIS, snake_case
from ottla.protocol.connection import Request, encode_request, encode_response, parse_request, parse_response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_client_quotas import EntityData
from ottla.protocol.messages.fetch import FetchRequest, ForgottenTopic
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.config.emulation import release_of
from ottla.server.handlers import Handlers, fetch, produce
from ottla.server.network.dispatcher import finished
from ottla.server.network.transport import COPIED_BYTES
from ottla.storage.disk.files import FileSlice
from ottla.storage.steps import A_PIECE
from support.broker.background_jobs import have_on_disk
from support.broker.contexts import context_of
from support.broker.conversation import address, create_topic, fetch_request, produce_request
from support.broker.conversation import produce as produced
from support.broker.in_process_broker import NOW_MS, run_in_order, running
from support.broker.raw_client import RawClient
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch, broken

AT_ONCE, LATER = True, False
LAST_SESSION = -1
"""The placeholder for its id."""


def fetched(ctx: Any, request: Request) -> Any:
    services = ctx.services
    sessions = services.fetch_sessions[ctx.node.node_id]
    beginning = sessions.begin(request.body, False, services.clock.elapsed_ms, partial(fetch._reader, ctx, ""))
    return fetch._fetch(ctx, request.body, "", beginning)


COROUTINES: dict[int, Any] = {0: produce._append_each, 1: fetched}
"""The coroutine that a handler returns when it may have to wait, by API key."""
VALUES = [("k", "v" * 100)]


class Step(NamedTuple):
    """A request, and whether it is answered at once."""

    is_at_once: bool
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
    """Return a fetch without a session."""
    return lambda: replace(fetch_request(topic, offset, **options), session_id=0, session_epoch=-1)


def in_session() -> FetchRequest:
    return replace(fetch_request("a", 0), session_id=0, session_epoch=0)


def going_on(epoch: int, *fetched: FetchRequest, forgotten: str = "", **options: Any) -> Callable[[], Any]:
    """Return a fetch in the newest session."""
    rows = tuple(topic for each in fetched for topic in each.topics)
    names = (ForgottenTopic(topic=forgotten, partitions=(0,)),) if forgotten else ()
    changes: dict[str, Any] = {
        "topics": rows,
        "forgotten_topics_data": names,
        "session_id": LAST_SESSION,
        "session_epoch": epoch,
    }
    return lambda: replace(fetch_request("a", 0, **options), **changes)


def of_two(message: Callable[[], Any]) -> Callable[[], Any]:
    """Return the request with its topic twice."""

    def doubled() -> Any:
        one = message()
        name = "topics" if isinstance(one, FetchRequest) else "topic_data"
        return replace(one, **{name: getattr(one, name) * 2})

    return doubled


def producer(sequence: int, epoch: int = 0, **options: Any) -> Callable[[], Any]:
    return sent(producer_id=7, base_sequence=sequence, producer_epoch=epoch, **options)


STEPS: dict[str, Step] = {
    "a record": Step(AT_ONCE, sent()),
    "a record for all replicas": Step(AT_ONCE, sent(acks=-1)),
    "without an answer": Step(AT_ONCE, sent(acks=0)),
    "acks that there are not": Step(AT_ONCE, sent(acks=2)),
    "old": Step(AT_ONCE, sent(), 3),
    "zstd that old clients do not know": Step(AT_ONCE, sent(codec=4), 6),
    "zstd": Step(AT_ONCE, sent(codec=4), 7),
    "a topic that is not there": Step(AT_ONCE, sent("nowhere")),
    "a partition that is not there": Step(AT_ONCE, sent(partition=9)),
    "two topics": Step(LATER, of_two(sent())),
    "of the broker alone": Step(AT_ONCE, sent("__consumer_offsets")),
    "a wrong byte": Step(AT_ONCE, sent(flip=80)),
    "no batch": Step(AT_ONCE, lambda: produce_request("a", b"nonsense", 0, 1)),
    "two batches": Step(AT_ONCE, lambda: produce_request("a", batch(*VALUES) + batch(*VALUES), 0, 1)),
    "a batch of an old magic": Step(AT_ONCE, lambda: produce_request("a", of_magic_1(), 0, 1)),
    "a cut batch": Step(AT_ONCE, lambda: produce_request("a", batch(*VALUES)[:-1], 0, 1)),
    "no records": Step(AT_ONCE, lambda: produce_request("a", b"", 0, 1)),
    "a record from the far future": Step(LATER, sent(timestamp=NOW_MS * 2)),
    "a record without a key to a compacted topic": Step(LATER, sent("compacted", pairs=[(None, "v")])),
    "a record too large": Step(AT_ONCE, sent("small")),
    "a batch larger than a segment": Step(AT_ONCE, sent("segmented", pairs=[("k", "v" * 2_000)])),
    "stamped by the broker": Step(AT_ONCE, sent("stamped")),
    "to be flushed": Step(LATER, sent("flushed")),
    "of a transaction": Step(LATER, sent(producer_id=9, transactional=True)),
    "a producer's first": Step(AT_ONCE, producer(0)),
    "a producer's first again": Step(AT_ONCE, producer(0)),
    "a producer's third": Step(AT_ONCE, producer(5)),
    "a producer's second": Step(AT_ONCE, producer(1)),
    "a producer's new epoch": Step(AT_ONCE, producer(0, 1)),
    "a producer's old epoch": Step(AT_ONCE, producer(2, 0)),
    "a fetch": Step(AT_ONCE, asked()),
    "a fetch of few bytes": Step(AT_ONCE, asked(max_bytes=10)),
    "a fetch of committed records": Step(AT_ONCE, asked(committed=True)),
    "a fetch in the midst": Step(AT_ONCE, asked(offset=2)),
    "an old fetch": Step(AT_ONCE, asked(), 4),
    "a fetch at the end": Step(AT_ONCE, asked("small")),
    "a fetch that would wait": Step(AT_ONCE, asked("small", max_wait_ms=1)),
    "a fetch for more than there is": Step(AT_ONCE, asked(min_bytes=1 << 20, max_wait_ms=1)),
    "a fetch beyond the end": Step(AT_ONCE, asked(offset=10_000)),
    "a fetch of another epoch": Step(AT_ONCE, asked(leader_epoch=9)),
    "a fetch of what is not there": Step(AT_ONCE, asked("nowhere")),
    "a fetch of two topics": Step(AT_ONCE, of_two(asked())),
    "a fetch that begins a session": Step(AT_ONCE, in_session),
    "the next": Step(AT_ONCE, going_on(1)),
    "of a moved offset, with another topic": Step(
        AT_ONCE, going_on(2, fetch_request("a", 3), fetch_request("stamped", 0))
    ),
    "of one topic less": Step(AT_ONCE, going_on(3, forgotten="a")),
    "at the end of the log": Step(AT_ONCE, going_on(4, fetch_request("stamped", 1))),
    "at the end, until a time": Step(AT_ONCE, going_on(5, max_wait_ms=1)),
    "of what is not there beside it": Step(AT_ONCE, going_on(6, fetch_request("nowhere", 0))),
    "which is no news, but an error": Step(AT_ONCE, going_on(7)),
    "of an epoch that was": Step(AT_ONCE, going_on(7)),
    "of many": Step(LATER, going_on(8, *(fetch_request("a", 0, each) for each in range(A_PIECE + 1)))),
    "which are still many": Step(LATER, going_on(9)),
    "the session's end": Step(AT_ONCE, going_on(-1, fetch_request("a", 0))),
    "after its end": Step(AT_ONCE, going_on(10)),
    "much": Step(AT_ONCE, sent("b", pairs=[("k", "v" * COPIED_BYTES)])),
    "a fetch of much": Step(AT_ONCE, asked("b")),
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


async def answered(broker: Broker, step: Step, session_id: int, *, at_once: bool) -> tuple[bool, bytes | None]:
    """Return whether an answer came at once, and its bytes."""
    message = step.message()
    if isinstance(message, FetchRequest) and message.session_id == LAST_SESSION:
        message = replace(message, session_id=session_id)
    api = api_of(message)
    frame = memoryview(bytearray(encode_request(api, step.version, 1, "c", message)))[4:]
    request = parse_request(frame)
    request.size_bytes = len(frame)
    context = context_of(broker)
    was_at_once = False
    try:
        body = broker.handlers[api.key](context, request) if at_once else COROUTINES[api.key](context, request)
        was_at_once = not isinstance(body, CoroutineType)
        body = await finished(body)
    except Exception as error:  # noqa: BLE001 -- both are to raise the same
        return at_once, repr(error).encode()
    if body is None:
        return was_at_once, None
    parts = encode_response(request, body)
    return was_at_once, b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)


async def life(*, at_once: bool) -> tuple[dict[str, tuple[bool, bytes | None]], dict[str, int]]:
    """Return whether each step was answered at once with its answer, and the ends of the logs."""
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
        have_on_disk(broker)
        told, session_id = dict[str, tuple[bool, bytes | None]](), 0
        for name, step in STEPS.items():
            told[name] = _, answer = await answered(broker, step, session_id, at_once=at_once)
            if step.message is in_session:
                assert answer is not None
                session_id = parse_response(api_of(in_session()), step.version, answer[4:])[1].session_id
        return told, {name: broker.services.topics.partition(name, 0).log.log_end_offset for name in TOPICS}


def test_both_paths_give_the_same_response_and_effect() -> None:
    told, ends = run_in_order(lambda: life(at_once=True))
    expected, expected_ends = run_in_order(lambda: life(at_once=False))
    assert {name: answer for name, (_, answer) in told.items()} == {
        name: answer for name, (_, answer) in expected.items()
    }
    assert {name: way for name, (way, _) in told.items()} == {name: step.is_at_once for name, step in STEPS.items()}
    assert ends == expected_ends


def test_one_function_answers_an_api() -> None:
    """A handler's module has no other public function of a context and a request."""
    found = {}
    for name in (api.name for api in APIS.values()):
        module = import_module(f"ottla.server.handlers.{snake_case(name)}")
        public = {
            each
            for each, function in vars(module).items()
            if isinstance(function, FunctionType)
            and not each.startswith("_")
            and (each == "handle" or function.__module__ == module.__name__)
            and list(signature(function).parameters)[:2] == ["ctx", "request"]
        }
        # The answer to a client without the right; and no answer, but knowledge about the client.
        found[name] = public - {"refused", "known_of"}
    assert {name: public for name, public in found.items() if public != {"handle"}} == {}


def test_a_wrapper_of_a_handler_is_always_called() -> None:
    handlers = Handlers()
    assert handlers[0] is produce.handle
    handlers.interpose("quotas", {0: lambda handler: other})
    assert handlers[0] is other and handlers[1] is fetch.handle
    handlers.interpose("faults", {1: lambda handler: other})
    assert handlers[1] is other
    handlers.interpose("quotas", {})
    handlers.interpose("faults", {})
    assert handlers[0] is produce.handle and handlers[1] is fetch.handle


async def other(ctx: Any, request: Request) -> None:
    """Run before a handler."""


def test_an_emulated_release_refuses_versions_before_a_handler_is_called() -> None:
    assert Handlers(release_of("3.9"))[0] is not produce.handle


def test_an_immediately_appended_record_wakes_the_waiting_fetch() -> None:
    with ottla.Broker() as broker, RawClient(*address(broker)) as client, RawClient(*address(broker)) as waiting:
        create_topic(client, "t")
        assert produced(client, "t", ("k", "v")).error_code == ErrorCode.NONE
        for offset in range(1, 5):
            waiting.send(fetch_request("t", offset, max_wait_ms=600_000), 12)
            broker.run(trio.testing.wait_all_tasks_blocked)
            assert produced(client, "t", ("k", "v")).base_offset == offset
            assert waiting.receive().responses[0].partitions[0].high_watermark == offset + 1


def test_a_new_quota_applies_from_the_next_request() -> None:
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
