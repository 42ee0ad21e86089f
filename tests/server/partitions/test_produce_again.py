"""Requests that are like an earlier one are answered without being read, and nobody can tell: the same requests to two brokers, one
of which knows the requests that were before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, encode_response, parse_request
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.server.broker.broker import Broker
from ottla.server.handlers import produce
from ottla.server.handlers.produce_at_once import HEAD_BYTES_MAX, Again
from ottla.server.network.straight import ALONE_REQUESTS
from support.broker.contexts import context_of
from support.broker.conversation import address, create_topic, produce_request
from support.broker.conversation import produce as produced
from support.broker.in_process_broker import NOW_MS, run_in_order, running
from support.broker.raw_client import RawClient
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch, broken

API = APIS[0]
VERSIONS = range(3, 14)
AGAIN, ELSE = True, False
FLEXIBLE_SINCE = 9


class Asked(NamedTuple):
    """A request, and whether it is like the first one."""

    is_like: Callable[[int], bool] | bool
    """In a version."""
    message: Callable[[Broker, int], ProduceRequest]
    client_id: str | None = "c"
    frame: Callable[[bytes], bytes] = lambda frame: frame


def only_of_fixed_length(version: int) -> bool:
    """For records whose length takes another number of bytes in the flexible encoding."""
    return version < FLEXIBLE_SINCE


def sent(
    *,
    topic: str = "a",
    value: str = "v" * 100,
    acks: int = 1,
    partition: int = 0,
    flip: int | None = None,
    **options: Any,
) -> Callable[[Broker, int], ProduceRequest]:
    def message(broker: Broker, version: int) -> ProduceRequest:
        records = batch(("k", value), **({"timestamp": NOW_MS} | options))
        known = broker.services.topics.get(topic) if version >= 13 else None
        asked = topic if version < 13 else b"?" * 16 if known is None else known.id
        return produce_request(asked, records if flip is None else broken(records, flip), partition, acks)

    return message


def of(records: bytes) -> Callable[[Broker, int], ProduceRequest]:
    def message(broker: Broker, version: int) -> ProduceRequest:
        request = sent()(broker, version)
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        return replace(request, topic_data=(replace(topic, partition_data=(replace(data, records=records),)),))

    return message


def producer(sequence: int, epoch: int = 0) -> Callable[[Broker, int], ProduceRequest]:
    return sent(producer_id=7, base_sequence=sequence, producer_epoch=epoch)


ASKED: dict[str, Asked] = {
    "the same": Asked(AGAIN, sent()),
    "longer": Asked(AGAIN, sent(value="v" * 1_000)),
    "shorter again": Asked(AGAIN, sent(value="v" * 99)),
    "much longer": Asked(only_of_fixed_length, sent(value="v" * 20_000)),
    "very short": Asked(only_of_fixed_length, sent(value="")),
    "with other bytes": Asked(AGAIN, sent(value="w" * 100)),
    "a producer's first": Asked(AGAIN, producer(0)),
    "a producer's first again": Asked(AGAIN, producer(0)),
    "a producer's third": Asked(AGAIN, producer(5)),
    "a producer's second": Asked(AGAIN, producer(1)),
    "a producer's new epoch": Asked(AGAIN, producer(0, 1)),
    "a producer's old epoch": Asked(AGAIN, producer(2, 0)),
    "a wrong byte": Asked(AGAIN, sent(flip=80)),
    "another magic": Asked(AGAIN, sent(flip=16)),
    "a record from the far future": Asked(ELSE, sent(timestamp=NOW_MS * 2)),
    "compressed": Asked(ELSE, sent(codec=1)),
    "of a transaction": Asked(ELSE, sent(producer_id=9, transactional=True)),
    "of the broker's time": Asked(ELSE, sent(log_append_time=True)),
    "for another partition": Asked(ELSE, sent(partition=1)),
    "for a partition that is not there": Asked(ELSE, sent(partition=9)),
    "for another topic": Asked(ELSE, sent(topic="b")),
    "for a topic that is not there": Asked(ELSE, sent(topic="nowhere")),
    "for all replicas": Asked(ELSE, sent(acks=-1)),
    "without an answer": Asked(ELSE, sent(acks=0)),
    "by another client": Asked(ELSE, sent(), "d"),
    "by a client without a name": Asked(ELSE, sent(), None),
    "by a client with a long name": Asked(ELSE, sent(), "c" * 1_000),
    "no records": Asked(ELSE, of(b"")),
    "few bytes": Asked(ELSE, of(b"nonsense")),
    "many bytes that are no batch": Asked(ELSE, of(b"nonsense" * 21 + b"ab")),
    "nothing but zeros": Asked(AGAIN, of(bytes(170))),
    "with bytes behind it": Asked(ELSE, sent(), frame=lambda frame: frame + bytes(3)),
    "one byte longer, and shorter than it says": Asked(ELSE, sent(), frame=lambda frame: frame[:-1]),
    "with a tag, or a byte for another": Asked(ELSE, sent(), frame=lambda frame: frame[:-1] + b"\1\x63\0"),
    "the same at last": Asked(AGAIN, sent()),
}


def framed(asked: Asked, broker: Broker, version: int, number: int) -> memoryview:
    frame = encode_request(API, version, number, asked.client_id, asked.message(broker, version))[4:]
    return memoryview(bytearray(asked.frame(frame)))


async def handled(broker: Broker, frame: memoryview) -> bytes | None:
    try:
        request = parse_request(frame)
        body = await produce.handle(context_of(broker), request)
    except ProtocolError as error:
        return repr(error).encode()
    return None if body is None else b"".join(encode_response(request, body))


def learned(broker: Broker, frame: memoryview) -> tuple[Again | None, bytes]:
    """Who answers what is like this request, which goes straight; and its answer."""
    context, request = context_of(broker), parse_request(frame)
    body = produce.straight(context, request)
    assert body is not None
    return produce.again(context, frame, request, body), b"".join(encode_response(request, body))


Told = dict[str, tuple[bool, bytes | None]]


async def life(version: int, first: Asked, *, knows: bool) -> tuple[Told, int]:
    """Of each request whether it was found to be like the first one, and the answer; and where the log ends."""
    async with running(CrashFiles()) as (broker, client):
        wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("a", "b")]
        await client.ask(CreateTopicsRequest(topics=tuple(wanted), timeout_ms=1_000), 7)
        again, answer = learned(broker, framed(first, broker, version, 1))
        assert again is not None
        told: Told = {"the first": (False, answer)}

        async def ask(name: str, asked: Asked, number: int) -> None:
            frame = framed(asked, broker, version, number)
            before = bytes(frame)
            parts = again(frame) if knows and again is not None else None
            assert parts is not None or frame == before
            told[name] = (parts is not None, await handled(broker, frame) if parts is None else b"".join(parts))

        for number, (name, asked) in enumerate(ASKED.items(), -5):
            await ask(name, asked, number)
        end = broker.services.topics.partition("a", 0).log.log_end_offset
        await client.ask(DeleteTopicsRequest(topic_names=("a",), timeout_ms=1_000), 5)
        await ask("when the topic is gone", Asked(ELSE, sent()), 99)
        return told, end


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_like_an_earlier_request_is_answered_as_by_the_handler(version: int) -> None:
    first = Asked(ELSE, sent())
    told, end = run_in_order(lambda: life(version, first, knows=True))
    expected, expected_end = run_in_order(lambda: life(version, first, knows=False))
    assert {name: answer for name, (_, answer) in told.items()} == {
        name: answer for name, (_, answer) in expected.items()
    }
    assert end == expected_end
    found = {name for name, (is_like, _) in told.items() if is_like}
    assert found == {
        name for name, (is_like, *_) in ASKED.items() if (is_like(version) if callable(is_like) else is_like)
    }


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_for_all_replicas_it_is_the_same(version: int) -> None:
    first = Asked(ELSE, sent(acks=-1), "")
    told, end = run_in_order(lambda: life(version, first, knows=True))
    expected, expected_end = run_in_order(lambda: life(version, first, knows=False))
    assert {name: answer for name, (_, answer) in told.items()} == {
        name: answer for name, (_, answer) in expected.items()
    }
    assert end == expected_end


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_any_other_byte_before_the_records_makes_it_another_request(version: int) -> None:
    async def ask() -> None:
        async with running(CrashFiles()) as (broker, client):
            wanted = CreatableTopic(name="a", num_partitions=1, replication_factor=1)
            await client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=1_000), 7)
            first = framed(Asked(ELSE, sent()), broker, version, 1)
            sound = bytes(first)
            again, _ = learned(broker, first)
            assert again is not None
            records_at = sound.index(
                bytes(8) + (len(batch(("k", "v" * 100), timestamp=NOW_MS)) - 12).to_bytes(4, "big")
            )
            for at in (
                *range(4),
                *range(8, records_at),
                *range(len(sound) - 3 * (version >= FLEXIBLE_SINCE), len(sound)),
            ):
                for bit in range(8):
                    changed = bytearray(sound)
                    changed[at] ^= 1 << bit
                    assert again(memoryview(changed)) is None
            for end in range(len(sound)):
                assert again(memoryview(bytearray(sound[:end]))) is None
            assert again(memoryview(bytearray(sound))) is not None

    run_in_order(ask)


@pytest.mark.parametrize(
    "first",
    [
        Asked(ELSE, sent(), "c" * HEAD_BYTES_MAX),
        Asked(ELSE, sent(), frame=lambda frame: frame + bytes(3)),
        Asked(ELSE, sent(flip=80)),
    ],
    ids=["much before its records", "bytes behind it", "refused"],
)
@pytest.mark.parametrize("version", [7, 12])
def test_of_some_requests_nobody_is_made_who_answers_others(first: Asked, version: int) -> None:
    async def ask() -> None:
        async with running(CrashFiles()) as (broker, client):
            wanted = CreatableTopic(name="a", num_partitions=1, replication_factor=1)
            await client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=1_000), 7)
            assert learned(broker, framed(first, broker, version, 1))[0] is None

    run_in_order(ask)


def test_a_client_that_does_not_batch_has_each_record_where_it_is_told() -> None:
    """Over the wire, by two clients, so that they are answered where their requests arrive, and then by one that is alone."""
    rng = random.Random(1)
    values = [rng.randbytes(rng.randrange(1, 300)).hex() for _ in range(4 * ALONE_REQUESTS)]
    told: dict[int, str] = {}
    with ottla.Broker() as broker, RawClient(*address(broker)) as one, RawClient(*address(broker)) as other:
        create_topic(one, "t")

        half = len(values) // 2
        for number, value in enumerate(values):
            row = produced(one if number >= half or number % 2 else other, "t", ("k", value), acks=1)
            assert row.error_code == ErrorCode.NONE
            told[row.base_offset] = value
        found = {record.offset: record.value.decode() for record in broker.records("t") if record.value is not None}
    assert found == told
    assert sorted(told) == list(range(len(values)))
