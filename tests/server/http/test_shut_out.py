"""A full listener answers probes: whatever its connections wait for, /healthz is answered at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from itertools import combinations
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

import ottla
from ottla.server.http.answering import Answering
from ottla.server.http.call import Call, Nothing, Supervisor
from ottla.server.http.conversation import REQUEST_TIMEOUT_S, STRANGER_TIMEOUT_S
from ottla.server.http.listener import AdminHttp
from ottla.server.http.listening import BACKLOG, CONNECTIONS_MAX, PROBES_MAX
from ottla.server.http.table import CALLS, CallTable
from ottla.server.page.pages import Pages
from support.sizes import some

TOKEN = "sesame"
HOST = "Host: localhost\r\n"
HEALTHZ = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
PIECE = f"GET /static/page.js HTTP/1.1\r\n{HOST}\r\n"
Client = trio.abc.Stream


class Listening(NamedTuple):
    """A listener without sockets."""

    admin: AdminHttp
    nursery: trio.Nursery
    answering: Answering
    token: str | None

    async def connected(self, data: str = "") -> Client:
        """Return a client that has sent `data` and reads nothing."""
        ours, theirs = trio.testing.lockstep_stream_pair()
        self.nursery.start_soon(self.admin._serve, self.answering, Pages(None, "of the page"), theirs)  # type: ignore[arg-type]
        if data:
            await ours.send_all(data.encode())
        await trio.testing.wait_all_tasks_blocked()
        return ours

    def asking(self, path: str) -> str:
        shown = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return f"POST {path} HTTP/1.1\r\n{HOST}{shown}Content-Length: 0\r\n\r\n"


STATES: dict[str, Callable[[Listening], str]] = {
    "has said nothing": lambda _: "",
    "has said half of a head": lambda _: "GET /healthz HTTP/1.1\r\nHo",
    "has said half of a body": lambda on: on.asking("/v1/watch").replace("Length: 0", "Length: 9") + "{",
    "takes nothing of an answer": lambda _: PIECE,
    "takes nothing of a probe's answer": lambda _: HEALTHZ,
    "takes nothing of a refusal": lambda _: f"GET /v1/none HTTP/1.1\r\n{HOST}\r\n",
    "watches": lambda on: on.asking("/v1/watch"),
    "has a call carried out": lambda on: on.asking("/v1/work"),
}


BY_CLIENT = (
    "has said nothing",
    "has said half of a head",
    "has said half of a body",
    "takes nothing of a probe's answer",
    "takes nothing of a refusal",
)
"""Connections whose time depends on the client alone. A thread makes pages, and a virtual clock does not wait for threads."""


async def forever(supervisor: Supervisor, request: Nothing) -> Nothing:
    await trio.sleep_forever()
    return request


async def listening(token: str | None, run: Callable[[Listening], Awaitable[None]]) -> None:
    rows = [
        Call("POST", "/v1/watch", "", Nothing, Nothing, forever, only_waits=True, any_time=True),
        Call("POST", "/v1/work", "", Nothing, Nothing, forever, any_time=True),
    ]
    probes: list[Any] = [call for call in CALLS if call.without_token]
    async with trio.open_nursery() as nursery:
        answering = Answering(None, CallTable([*rows, *probes]))  # type: ignore[arg-type]  # no row asks for it
        await run(Listening(AdminHttp("0", token), nursery, answering, token))
        nursery.cancel_scope.cancel()


async def answer(client: Client) -> str:
    """Return everything that arrives until the end; "" for a connection that was closed."""
    found = b""
    with trio.move_on_after(0.1):
        while more := await client.receive_some():
            found += more
    return found.decode()


async def healthz(on: Listening) -> str:
    return (await answer(await on.connected(HEALTHZ))).partition("\r\n")[0]


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("states", [*((each,) for each in STATES), *some(combinations(STATES, 2), 2)], ids=" and ".join)
async def test_a_probe_is_answered_on_a_full_listener(
    states: tuple[str, ...], token: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    async def run(on: Listening) -> None:
        held = [await on.connected(STATES[states[n % len(states)]](on)) for n in range(CONNECTIONS_MAX + PROBES_MAX)]
        begun_s = trio.current_time()
        for _ in range(3):
            assert await healthz(on) == "HTTP/1.1 200 "
        assert trio.current_time() - begun_s < 1
        assert held

    await listening(token, run)


async def test_idle_connections_are_closed_before_watchers_and_the_oldest_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def run(on: Listening) -> None:
        watching = []
        for _ in range(CONNECTIONS_MAX - 3):
            watching.append(await on.connected(on.asking("/v1/watch")))
            await trio.sleep(0.1)
        idle = []
        for state in ("takes nothing of a probe's answer", "has said nothing", "takes nothing of a refusal"):
            idle.append(await on.connected(STATES[state](on)))
            await trio.sleep(0.1)
        for gone in (*idle, *watching[:2]):
            await on.connected(on.asking("/v1/watch"))
            assert await is_closed(gone), (*idle, *watching).index(gone)
            assert len(on.admin._open) == CONNECTIONS_MAX
        assert not await is_closed(watching[2])

    await listening(None, run)


async def is_closed(client: Client) -> bool:
    """Return whether the connection has ended."""
    with trio.move_on_after(0.01):
        try:
            while await client.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        return True
    return False


async def test_a_running_call_keeps_its_place_and_further_calls_get_503(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def run(on: Listening) -> None:
        for _ in range(CONNECTIONS_MAX):
            await on.connected(on.asking("/v1/work"))
        for data in (on.asking("/v1/watch"), PIECE):
            assert (await answer(await on.connected(data))).startswith("HTTP/1.1 503 ")
        assert await healthz(on) == "HTTP/1.1 200 "

    await listening(TOKEN, run)


async def test_a_probe_only_connection_ends_with_its_response(autojump_clock: trio.testing.MockClock) -> None:
    """The client may connect again when a place is free: a scraper that keeps its connection must not get 503 for ever."""

    async def run(on: Listening) -> None:
        for _ in range(CONNECTIONS_MAX):
            await on.connected(on.asking("/v1/work"))
        for data in (HEALTHZ, PIECE, on.asking("/v1/watch"), f"GET /metrics HTTP/1.1\r\n{HOST}\r\n"):
            client = await on.connected(data)
            assert "connection: close\r\n" in (await answer(client)).lower()
            assert await is_closed(client)

    await listening(None, run)


@pytest.mark.parametrize(
    "state", ["takes nothing of an answer", "takes nothing of a probe's answer", "takes nothing of a refusal"]
)
async def test_a_response_with_enough_space_is_not_truncated(state: str) -> None:
    """A connection with an unfinished answer waits for its client, and may be the only one that does."""

    async def run(on: Listening) -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        bring = theirs.send_stream.send_all_hook
        assert bring is not None

        async def another_comes() -> None:
            await bring()
            for each in tuple(on.admin._open):
                each.give_up()

        theirs.send_stream.send_all_hook = another_comes
        on.nursery.start_soon(on.admin._serve, on.answering, Pages(None, "of the page"), theirs)  # type: ignore[arg-type]
        await ours.send_all(STATES[state](on).encode())
        found = b""
        while more := await ours.receive_some():
            found += more
        head, _, body = found.partition(b"\r\n\r\n")
        assert int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]) == len(body) > 0

    await listening(None, run)


def flooding(state: str) -> bytes:
    return STATES[state](Listening(None, None, None, None)).encode()  # type: ignore[arg-type]  # a text


@pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2")
@pytest.mark.parametrize("state", some(BY_CLIENT, 2))
def test_a_flood_from_one_address_leaves_places_for_the_rest(state: str) -> None:
    data = flooding(state)
    with ottla.Broker(admin="0") as broker, ExitStack() as held:
        assert broker.admin is not None
        host, _, port = broker.admin.rpartition(":")
        probe = held.enter_context(socket.create_connection((host, int(port)), 60))
        for _ in range(3 * (CONNECTIONS_MAX + BACKLOG)):
            other = socket.create_connection(("127.0.0.1", int(port)), 60, ("127.0.0.2", 0))
            held.enter_context(other).sendall(data)
        probe.sendall(HEALTHZ.encode())
        assert probe.recv(1 << 10).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("state", BY_CLIENT)
@pytest.mark.parametrize("token", [None, TOKEN])
async def test_an_unauthenticated_client_has_less_time(
    state: str, token: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    async def run(on: Listening) -> None:
        client = await on.connected(STATES[state](on))
        shows_it = "body" in state
        lasts_s = STRANGER_TIMEOUT_S if token and not shows_it else REQUEST_TIMEOUT_S
        await trio.sleep(lasts_s - 1)
        assert on.admin._open
        await trio.sleep(2)
        assert not on.admin._open
        await client.aclose()

    await listening(token, run)
