"""The cost of pages without a viewer: nothing, before the first watcher has come and after the last one has gone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from ottla.server.broker.broker import Broker
from ottla.server.http.access import Access
from ottla.server.http.conversation import REQUEST_TIMEOUT_S, HttpConversation
from ottla.server.page.pages import RARELY_S, STREAMS_MAX, VIEWS, Pages
from ottla.server.page.section import Page, Section
from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles
from support.lives.server_life import Ledger, Life

AN_HOUR_S = 3_600
PATHS = ("/", "/topics", "/topics/t", "/topics/t/partitions/0", "/log")


class OneLife:
    """A broker in its only run."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def call(self, view: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await view(self._broker, *args)


class Seen(trio.abc.Instrument):
    """A recorder of the broker's work: steps of its tasks by name, and reads and lookups on its disk."""

    def __init__(self, files: CrashFiles) -> None:
        self.steps = Counter[str]()
        self.reads = Counter[str]()
        files.refuse_reading = self._read
        trio.lowlevel.add_instrument(self)

    def _read(self, path: str) -> None:
        self.reads[path] += 1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._mine:
            self.steps[task.name] += 1

    async def of_an_hour(self) -> tuple[Counter[str], Counter[str]]:
        """Return steps and reads while an hour passes on Trio's clock."""
        await settled()
        self._mine = trio.lowlevel.current_task()
        self.steps, self.reads = steps, reads = Counter[str](), Counter[str]()
        for _ in range(AN_HOUR_S // 10):
            await passes(10.0)
        self.steps, self.reads = Counter(), Counter()
        return steps, reads

    _mine: trio.lowlevel.Task | None = None


def clock() -> trio.testing.MockClock:
    found = trio.lowlevel.current_clock()
    assert isinstance(found, trio.testing.MockClock)
    return found


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def passes(by_s: float) -> None:
    """Let time pass once all tasks wait."""
    await settled()
    clock().jump(by_s)
    await settled()


def living() -> int:
    """Return the number of tasks."""
    return trio.lowlevel.current_statistics().tasks_living


class Watcher:
    """A browser that watches one page."""

    def __init__(self, client: trio.StapledStream[Any, Any]) -> None:
        self.client = client

    async def sent(self) -> list[str]:
        """Return ids of the parts that the next event renews."""
        text = ""
        while "data: " not in text or not text.endswith("\n\n\r\n"):
            text += bytes(await self.client.receive_some(1 << 20)).decode()
        return [json.loads(line[6:])["id"] for line in text.splitlines() if line.startswith("data: ")]


async def says_goodbye(watcher: Watcher) -> None:
    await watcher.client.aclose()


async def is_cut_off(watcher: Watcher) -> None:
    await watcher.client.receive_stream.aclose()  # nothing notices before something is sent
    await passes(RARELY_S)


async def takes_nothing_any_more(watcher: Watcher) -> None:
    await passes(RARELY_S)
    await passes(REQUEST_TIMEOUT_S + 1)


@asynccontextmanager
async def watching(pages: Pages, path: str) -> AsyncIterator[Watcher]:
    """Yield a connection that was answered, until it has ended by itself."""
    client, server = trio.testing.lockstep_stream_pair()
    nobody: Any = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConversation(server, nobody, Access(None, "of the page"), pages).run)
        await client.send_all(f"GET {path}?events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield Watcher(client)


@pytest.mark.parametrize("leaves", [says_goodbye, is_cut_off, takes_nothing_any_more])
def test_a_departed_watcher_leaves_nothing(leaves: Callable[[Watcher], Awaitable[None]]) -> None:
    async def work() -> None:
        files = CrashFiles()
        async with running(files) as (broker, client):
            await Life(broker, client, Ledger()).create("t", 3)
            supervisor: Any = OneLife(broker)
            pages, seen = Pages(supervisor, "of the page"), Seen(files)
            before, living_before = await seen.of_an_hour(), living()
            assert not before[1], "it reads while nobody has looked"
            for path in PATHS:
                async with watching(pages, path) as watcher:
                    await watcher.sent()
                    assert living() > living_before
                    await leaves(watcher)
                await settled()
                assert living() == living_before, path
            assert seen.reads, "pages were looked at without a look at the disk: this test sees nothing"
            assert await seen.of_an_hour() == before

    run_in_order(work)


def test_views_are_rendered_only_while_a_watcher_exists() -> None:
    looks = 0

    async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
        nonlocal looks
        looks += 1
        return Page("Looks", "/", (Section("looks", "refused", str(looks)),))

    async def work() -> None:
        async with running(CrashFiles()) as (broker, _):
            supervisor: Any = OneLife(broker)
            pages = Pages(supervisor, "of the page")
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(VIEWS, "/", view)
                for watcher_number in range(1, STREAMS_MAX + 2):  # no later one takes the place of an earlier one
                    async with watching(pages, "/") as watcher:
                        for _ in range(3):
                            assert await watcher.sent() == ["looks"]
                            await passes(RARELY_S)
                        assert await watcher.sent() == ["looks"]
                        await says_goodbye(watcher)
                    await passes(AN_HOUR_S)
                    assert looks == 4 * watcher_number

    run_in_order(work)
