"""Searches by timestamp are done in pieces: only their client waits, and a client that disconnects ends its search."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.server.broker.broker import Broker
from ottla.server.partitions import searches
from ottla.server.partitions.searches import Search, Searches
from ottla.storage.logs import log_reader
from ottla.storage.logs.log import Log
from ottla.storage.segment import timestamp_search
from support.broker.contexts import Staying, context_of
from support.broker.in_process_broker import NOW_MS, InProcessClient, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.lives.server_life import Ledger, Life
from support.logs.batches import batch
from support.logs.make_log import make_log

PATIENCE_S = 60


def do_nothing() -> None:
    """Do nothing: the client is connected, and the broker serves."""


@pytest.fixture
def log() -> Log:
    return make_log(CrashFiles())


async def test_an_address_gets_one_of_the_two_threads_per_directory(log: Log) -> None:
    all_searches, let_on = Searches(), threading.Event()
    reached = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def hangs() -> log_reader.Search:
        token.run_sync_soon(reached.set)
        assert let_on.wait(PATIENCE_S)
        return None
        yield

    def finds() -> log_reader.Search:
        return log_reader.FoundOffset(1, 2, 3)
        yield

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(all_searches.run, [Search(log, hangs())], "greedy", do_nothing)
            await reached.wait()
            other = Search(log, finds())
            await all_searches.run([other], "other", do_nothing)
            assert other.found == (1, 2, 3)
            let_on.set()
    assert not all_searches._places


async def test_a_long_search_lets_a_short_one_of_its_address_pass(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "SEARCHING_S", 0.0)
    all_searches, is_found = Searches(), threading.Event()
    steps = 0

    def long() -> log_reader.Search:
        nonlocal steps
        while not is_found.is_set():
            steps += 1
            yield
        return None

    def short() -> log_reader.Search:
        is_found.set()
        return None
        yield

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(all_searches.run, [Search(log, long())], "one", do_nothing)
            while not steps:
                await trio.to_thread.run_sync(bool)
            await all_searches.run([Search(log, short())], "one", do_nothing)


def _leaves(broker: Broker) -> None:
    raise trio.BrokenResourceError("closed while its request was parked")


def _stops(broker: Broker) -> None:
    broker.services.cluster.is_stopping = True


class Leaving(Staying):
    """The connection of a client with a long search; after some pieces of it an event happens."""

    def __init__(self, broker: Broker, what: Any) -> None:
        self.pieces, self.broker, self.what = 0, broker, what

    def check_peer(self) -> None:
        self.pieces += 1
        if self.pieces == 3:
            self.what(self.broker)


@pytest.mark.parametrize("timestamp", [NOW_MS + 30, -3], ids=["by timestamp", "the latest"])
@pytest.mark.parametrize("what", [_leaves, _stops], ids=["the client leaves", "the broker is stopping"])
def test_a_search_ends_when_its_client_leaves_or_the_broker_stops(
    what: Any, timestamp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "SEARCHING_S", 0.0)
    monkeypatch.setattr(timestamp_search, "SEARCHED_AT_ONCE", 1)

    async def work() -> None:
        async with running(CrashFiles()) as (broker, client):
            await Life(broker, client, Ledger()).create("a", 1)
            log = broker.services.topics.partition("a", 0).log
            for at in range(20):
                log.append(memoryview(batch((b"k", b"v"), timestamp=NOW_MS + at * 2)), now_ms=NOW_MS)
                log.roll(NOW_MS)
            leaving = Leaving(broker, what)
            asking = InProcessClient(broker)
            asking._context = context_of(broker, leaving)
            asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(topics=(ListOffsetsTopic(name="a", partitions=(asked,)),))
            try:
                answer = await asking.ask(request, 9)
            except* trio.BrokenResourceError:
                assert what is _leaves
            else:
                assert what is _stops
                assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                broker.services.cluster.is_stopping = False
            assert leaving.pieces == 3

    run_in_order(work)
