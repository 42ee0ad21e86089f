"""Parked answers of a coordinator, and fetches that wait for records: many of them, which one event ends."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.server.coordination.service import ParkedAnswer
from ottla.server.network.dispatcher import finished
from ottla.server.runtime.time_slices import WakeupThrottle
from ottla.storage.disk.os_files import OsFiles
from support.broker.contexts import context_of
from support.broker.conversation import create_topic
from support.broker.served import serving
from support.logs.batches import batch
from support.passes import counting_passes

MANY = 50


class Patient:
    """A client that stays connected."""

    def check_peer(self) -> None:
        pass


@pytest.mark.parametrize("awake_max", [1, 7, MANY])
async def test_few_of_many_waiters_answered_by_one_event_continue_per_pass(
    awake_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.server.runtime.time_slices.AWAKE_MAX", awake_max)
    seen: list[tuple[int, int]] = []
    wakeup_throttle = WakeupThrottle()
    parked: list[ParkedAnswer[int]] = [ParkedAnswer(wakeup_throttle) for _ in range(MANY)]

    async def wait(one: ParkedAnswer[int]) -> None:
        answer = await one.wait(Patient())
        seen.append((passes.count, answer))

    async with counting_passes() as passes, trio.open_nursery() as nursery:
        for one in parked:
            nursery.start_soon(wait, one)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        for number, one in enumerate(parked):
            one(number)
    assert sorted(answer for _, answer in seen) == list(range(MANY))
    # The counting task may run before or after them.
    assert max(sum(at == number for at, _ in seen) for number in range(passes.count + 1)) <= 2 * awake_max


async def test_a_cancelled_waiter_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter that has been woken and one in the queue are cancelled at the moment in which all are answered."""
    monkeypatch.setattr("ottla.server.runtime.time_slices.AWAKE_MAX", 2)
    wakeup_throttle, seen = WakeupThrottle(), []
    parked: list[ParkedAnswer[int]] = [ParkedAnswer(wakeup_throttle) for _ in range(5)]
    scopes = [trio.CancelScope() for _ in parked]

    async def wait(one: ParkedAnswer[int], scope: trio.CancelScope) -> None:
        with scope:
            seen.append(await one.wait(Patient()))

    async with trio.open_nursery() as nursery:
        for one, scope in zip(parked, scopes, strict=True):
            nursery.start_soon(wait, one, scope)
        await trio.testing.wait_all_tasks_blocked()
        for scope in (scopes[0], scopes[3]):
            scope.cancel()
        for number, one in enumerate(parked):
            one(number)
    assert {1, 2, 4} <= set(seen)
    late: ParkedAnswer[int] = ParkedAnswer(wakeup_throttle)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, late, trio.CancelScope())
        await trio.testing.wait_all_tasks_blocked()
        late(7)
    assert 7 in seen


class Gone:
    """A client that has disconnected."""

    def check_peer(self) -> None:
        raise trio.BrokenResourceError("gone")


async def test_answers_to_disconnected_clients_hold_no_slots(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.server.runtime.time_slices.AWAKE_MAX", 2)
    wakeup_throttle = WakeupThrottle()
    for number in range(5):
        parked: ParkedAnswer[int] = ParkedAnswer(wakeup_throttle)
        with pytest.raises(trio.BrokenResourceError):
            await parked.wait(Gone())
        parked(number)  # the rebalance ends nevertheless
    stays: ParkedAnswer[int] = ParkedAnswer(wakeup_throttle)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stays.wait, Patient())
            await trio.testing.wait_all_tasks_blocked()
            stays(7)


async def test_an_available_answer_is_not_waited_for() -> None:
    answered: ParkedAnswer[int] = ParkedAnswer(WakeupThrottle())
    answered(3)
    assert await answered.wait(Patient()) == 3


@pytest.mark.parametrize("awake_max", [1, 7, MANY])
async def test_few_of_many_fetches_woken_by_an_append_continue_per_pass(
    awake_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.server.runtime.time_slices.AWAKE_MAX", awake_max)
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),)
    body = FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=(FetchTopic(topic="t", partitions=wanted),))
    looks: list[int] = []
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", partitions=1, retention_ms=-1)  # the batch below is of 1970
        broker = served.broker
        log = broker.services.topics.partition("t", 0).log
        log.make()  # now, so that the appends below do not meet a thread that does it
        fetch = broker.handlers[1]

        async def wait() -> None:
            answer = await finished(fetch(context_of(broker), Request(APIS[1], 12, 1, "c", body)))
            looks.append(passes.count)
            assert answer.responses[0].partitions[0].high_watermark == 1

        async with counting_passes() as passes, trio.open_nursery() as nursery:
            for _ in range(MANY):
                nursery.start_soon(wait)
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            before = passes.count
            log.append(memoryview(batch(("k", "v"))), now_ms=broker.clock.now_ms())
            broker.waits.notify_moved(log)
    assert len(looks) == MANY
    # The counting task may run before or after them.
    assert max(looks.count(number) for number in looks) <= 2 * awake_max
    assert passes.count - before <= 3 * MANY // awake_max + 20
