"""Answers to small requests: their number in preparation is limited, and no address has all places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
import trio.testing

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.network.dispatcher import finished
from ottla.server.network.response_slots import COUNTS_S, PLACES, UNBOUNDED, AnswerPlace, ResponseSlots
from support.broker.conversation import address
from support.broker.raw_client import RawClient

METADATA = 3


def test_the_table_names_the_apis_by_their_keys() -> None:
    assert {key: APIS[key].name for key in UNBOUNDED} == UNBOUNDED


async def take(places: ResponseSlots, of: str, count: int, nursery: trio.Nursery) -> list[AnswerPlace]:
    taken = [AnswerPlace(of) for _ in range(count)]
    for each in taken:
        nursery.start_soon(each.take, places[METADATA])
    await trio.testing.wait_all_tasks_blocked(0.01)
    return taken


def held(places: list[AnswerPlace]) -> int:
    return sum(each.held_bytes for each in places)


async def test_an_address_may_use_half_of_the_slots_and_another_starts_immediately() -> None:
    places = ResponseSlots()
    async with trio.open_nursery() as nursery:
        greedy = await take(places, "greedy", 200, nursery)
        assert held(greedy) == PLACES // 2 + 1, "one may go beyond"
        other = await take(places, "other", 1, nursery)
        assert held(other) == 1
        served: set[AnswerPlace] = set()
        while len(served) < len(greedy):
            assert 0 < held(greedy) <= PLACES // 2 + 1
            for each in [each for each in greedy if each.held_bytes]:
                served.add(each)
                each.leave()
                each.leave()
    assert places[METADATA].used_bytes == 1


async def test_a_closed_connection_stops_waiting() -> None:
    places = ResponseSlots()
    ended: list[str] = []
    async with trio.open_nursery() as nursery:
        holders = await take(places, "one", PLACES // 2 + 1, nursery)
        waiting = AnswerPlace("one")

        async def wait() -> None:
            try:
                await waiting.take(places[METADATA])
            except trio.BrokenResourceError as error:
                ended.append(str(error))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not ended
        waiting.stop_waiting()
    assert len(ended) == 1
    for each in (waiting, *holders):
        each.leave()
    assert places[METADATA].used_bytes == 0


async def test_responses_that_wait_for_a_disk_block_no_later_ones(autojump_clock: trio.testing.MockClock) -> None:
    places = ResponseSlots()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(places.run)
        await take(places, "one", PLACES, nursery)
        await trio.sleep(COUNTS_S + 2)
        late = AnswerPlace("one")
        with trio.fail_after(COUNTS_S + 2):
            await late.take(places[METADATA])
        nursery.cancel_scope.cancel()


async def test_slots_of_several_apis_are_managed_together(autojump_clock: trio.testing.MockClock) -> None:
    places = ResponseSlots()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(places.run)
        for key in UNBOUNDED:  # the first of them are already short when the others become so
            for _ in range(PLACES):
                nursery.start_soon(AnswerPlace("one").take, places[key])
            await trio.sleep(0.3)
        with trio.fail_after(COUNTS_S + 2):
            for key in UNBOUNDED:
                await AnswerPlace("one").take(places[key])
        await trio.sleep(COUNTS_S + 2)
        assert [places[key].waiting for key in UNBOUNDED] == [0] * len(UNBOUNDED)
        # No request waits any more, and the next one that must is noticed as the first one was.
        await take(places, "two", PLACES, nursery)
        with trio.fail_after(COUNTS_S + 2):
            await AnswerPlace("two").take(places[METADATA])
        nursery.cancel_scope.cancel()


def test_the_number_of_running_handlers_per_address_is_limited(tmp_path: Path) -> None:
    at_work = most = 0
    with ottla.Broker(str(tmp_path)) as broker:
        handle = broker.inner.handlers[METADATA]
        go_on = trio.Event()

        async def slow(ctx: Any, request: Any) -> Any:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await go_on.wait()
            at_work -= 1
            return await finished(handle(ctx, request))

        async def wait_for(count: int) -> None:
            with trio.fail_after(60):
                while at_work + broker.inner.shares.response_slots[METADATA].waiting < count:
                    await trio.sleep(0.001)
            go_on.set()

        clients = [RawClient(*address(broker)) for _ in range(2 * PLACES)]
        for client in clients:
            client.ask(MetadataRequest(topics=()))
        broker.inner.handlers[METADATA] = slow
        for client in clients:
            client.send(MetadataRequest(topics=None))
        with RawClient(*address(broker)) as leaves:
            leaves.send(MetadataRequest(topics=None))
        broker.run(wait_for, len(clients))
        assert all(client.receive().cluster_id for client in clients)
        for client in clients:
            client.close()

        async def all_left() -> None:
            with trio.fail_after(60):
                while broker.inner.shares.response_slots[METADATA].used_bytes:
                    await trio.lowlevel.checkpoint()

        broker.run(all_left)
    assert most == PLACES // 2 + 1
