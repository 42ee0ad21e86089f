"""Answers that their clients do not read: their memory is freed, starting with the address that holds most."""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.network.unsent_answers import LOOK_EVERY_S, MAY_LIE_S, UnsentAnswers
from ottla.server.runtime import time_slices
from support.broker.conversation import address
from support.broker.raw_client import RawClient


class Sender:
    """A connection that sends an answer until it is ended."""

    def __init__(self, answers: UnsentAnswers, host: str, size_bytes: int) -> None:
        self.is_given_up = False
        self._answers, self.host, self._size_bytes = answers, host, size_bytes
        self._scope = trio.CancelScope()

    async def send(self, lasts_s: float) -> None:
        with self._scope, self._answers.lying(self, self.host, self._size_bytes):
            await trio.sleep(lasts_s)

    def give_up(self, reason: str) -> None:
        self.is_given_up = True
        self._scope.cancel()


async def send_all(answers: UnsentAnswers, senders: list[tuple[Sender, float]]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answers.run)
        async with trio.open_nursery() as sending:
            for sender, lasts_s in senders:
                sending.start_soon(sender.send, lasts_s)
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_a_few_unread_responses_may_stay(autojump_clock: trio.testing.MockClock) -> None:
    answers = UnsentAnswers(100)
    slow = Sender(answers, "a", 100)
    await send_all(answers, [(slow, 3600)])
    assert not slow.is_given_up and answers.used_bytes == 0


async def test_old_unread_responses_over_the_limit_are_dropped(autojump_clock: trio.testing.MockClock) -> None:
    answers = UnsentAnswers(100)
    other, lying = Sender(answers, "other", 20), [Sender(answers, "many", 30) for _ in range(5)]
    await send_all(answers, [(other, 20), *((sender, 3600.0) for sender in lying)])
    assert [sender.is_given_up for sender in lying] == [True, True, True, False, False]
    assert not other.is_given_up and answers.used_bytes == 0


async def test_a_short_excess_drops_no_response(autojump_clock: trio.testing.MockClock) -> None:
    answers = UnsentAnswers(100)
    senders = [Sender(answers, "a", 30) for _ in range(10)]
    await send_all(answers, [(sender, MAY_LIE_S - LOOK_EVERY_S) for sender in senders])
    assert not any(sender.is_given_up for sender in senders)


def addresses(answers: UnsentAnswers, stack: ExitStack, count: int) -> list[Sender]:
    """Return `count` senders, each of its own address, whose answers have waited for long; all except one are too many."""
    senders = [Sender(answers, f"host-{number}", 100) for number in range(count)]
    for sender in senders:
        stack.enter_context(answers.lying(sender, sender.host, 100))
    answers.limit_bytes = 100
    return senders


async def test_the_search_cost_follows_the_number_of_responses_and_not_addresses(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 3_600.0)
    calls: dict[int, int] = {}
    for count in (50, 400):
        with ExitStack() as stack:
            answers = UnsentAnswers(0)
            senders = addresses(answers, stack, count)
            await trio.sleep(MAY_LIE_S + 1)
            seen: list[str] = []
            gc.collect()
            gc.disable()
            sys.setprofile(lambda _frame, event, _argument: seen.append(event))  # noqa: B023
            try:
                await answers._end_oldest()
            finally:
                sys.setprofile(None)
                gc.enable()
            assert [sender.is_given_up for sender in senders].count(True) == count - 1
            calls[count] = len(seen)
    assert calls[400] < 10 * calls[50]


async def test_other_tasks_run_while_many_are_dropped_and_sent_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
    monkeypatch.setattr("ottla.server.network.unsent_answers.MAY_LIE_S", 0.0)
    others = 0

    async def send_the_last() -> None:
        nonlocal others
        with answers.lying(last, last.host, 100):
            while not senders[0].is_given_up:
                await trio.lowlevel.checkpoint()
        while True:
            others += 1
            await trio.lowlevel.checkpoint()

    with ExitStack() as stack:
        answers = UnsentAnswers(0)
        last, senders = Sender(answers, "the last", 100), addresses(answers, stack, 20)
        answers.limit_bytes = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_the_last)
            while answers.used_bytes < 2_100:
                await trio.lowlevel.checkpoint()
            await answers._end_oldest()
            nursery.cancel_scope.cancel()
    assert [sender.is_given_up for sender in senders] == [True] * 20
    assert others >= 10 and not last.is_given_up


def test_clients_that_never_read_do_not_exhaust_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.network.unsent_answers.MAY_LIE_S", 0.0)
    monkeypatch.setattr("ottla.server.network.unsent_answers.LOOK_EVERY_S", 0.01)
    names = tuple(MetadataRequestTopic(name=f"{number}" + "n" * 32_000) for number in range(200))
    question = MetadataRequest(topics=names)  # no topic can have such a name; the answer repeats it
    overrides = dict.fromkeys(("queued.max.request.bytes", "socket.request.max.bytes"), str(8 << 20))
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as reads:
        never = [RawClient(*address(broker)) for _ in range(4)]
        for client in never:
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(question)
        while broker.run(used_bytes, broker) > 8 << 20 or len(broker.inner.connections) > 3:
            assert reads.ask(MetadataRequest(topics=())).error_code == ErrorCode.NONE
        for client in never:
            client.close()


async def used_bytes(broker: ottla.Broker) -> int:
    return broker.inner.shares.unsent_answers.used_bytes
