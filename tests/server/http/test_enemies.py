"""Invalid requests to the admin listener: it answers with one line, or not at all, and continues; nothing is half done."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest
import trio
import trio.testing

import ottla
from ottla.server.http.access import Access
from ottla.server.http.answering import Answering
from ottla.server.http.call import Call, Nothing, Supervisor
from ottla.server.http.conversation import REQUEST_TIMEOUT_S, HttpConversation
from ottla.server.http.fields import fields_of
from ottla.server.http.listener import AdminHttp
from ottla.server.http.listening import CONNECTIONS_MAX
from ottla.server.http.openapi import operation_id
from ottla.server.http.table import CALLS, CallTable
from ottla.server.page.pages import STREAMS_MAX, Pages
from support.broker.admin_calls import AdminCalls
from support.broker.plausible import ANYTHING, body, impossible
from support.sizes import size, some


@pytest.fixture
def admin() -> Iterator[AdminCalls]:
    with ottla.Broker(admin="0") as broker:
        yield AdminCalls.of(broker)


@pytest.fixture
def admin_of() -> Iterator[Callable[[bool], AdminCalls]]:
    """Yield a listener for many calls, or a new one if the last call has changed something, since a start takes longer."""
    with ExitStack() as stack:
        known: list[AdminCalls] = []

        def admin(has_changed: bool) -> AdminCalls:
            if has_changed or not known:
                stack.close()
                known[:] = [AdminCalls.of(stack.enter_context(ottla.Broker(admin="0")))]
            return known[0]

        yield admin


def filled(call: Call[Any, Any], fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return target and body of a call with these fields."""
    in_path = re.findall(r"\{(\w+)\}", call.path)
    target = call.path
    for name in in_path:
        target = target.replace(f"{{{name}}}", quote(str(fields[name]), safe="", errors="replace"))
    others = {name: value for name, value in fields.items() if name not in in_path}
    if call.has_body:
        return target, others
    query = "&".join(f"{name}={quote(str(value), safe='', errors='replace')}" for name, value in others.items())
    return f"{target}?{query}" if query else target, {}


def meaningless(call: Call[Any, Any]) -> dict[str, Any]:
    """Return valid fields of a call; waits end at once."""
    return body(call.request) | {name: 0 for name in fields_of(call.request) if name == "timeout_ms"}


def in_one_line(answer: Any) -> bool:
    return list(answer) == ["error"] and "\n" not in answer["error"] and 0 < len(answer["error"]) < 2_000


TIMED_OUT = 504
"""The status of a wait that nothing ends."""
VALUE_PARTS, BODY_PARTS = size(16, 1), size(8, 1)
"""A short run sends each field, and each call with a body, one in this number of the values: others get the others."""
ROWS_WITH_FIELDS = [call for call in CALLS if fields_of(call.request)]


def test_wrong_values_in_every_field_are_refused_with_their_name(admin_of: Callable[[bool], AdminCalls]) -> None:
    has_changed = False
    for call in ROWS_WITH_FIELDS:
        in_path = re.findall(r"\{(\w+)\}", call.path)
        for at, (name, field) in enumerate(fields_of(call.request).items(), CALLS.index(call)):
            for wrong in [*impossible(call.request, field)][at % VALUE_PARTS :: VALUE_PARTS]:
                admin = admin_of(has_changed)
                target, sent = filled(call, meaningless(call) | {name: wrong})
                status, answer = admin.ask(call.method, target, sent if call.has_body else None)
                case = (call.method, call.path, name, wrong, answer)
                if call.has_body and name not in in_path:
                    assert status == 422 and name in answer["error"], case
                assert status < 500 or status == TIMED_OUT, case  # as a text it may be a valid one
                assert status == 200 or in_one_line(answer), case
                has_changed = status == 200 and call.method != "GET"
        assert admin.get("/readyz") == "ready\n", operation_id(call)


def test_valid_requests_without_meaning_are_answered(
    admin_of: Callable[[bool], AdminCalls], caplog: pytest.LogCaptureFixture
) -> None:
    has_changed = False
    for call in CALLS:
        admin = admin_of(has_changed)
        target, sent = filled(call, meaningless(call))
        status, answer = admin.ask(call.method, target, sent if call.has_body else None)
        case = (call.method, call.path, answer)
        assert status < 500 or status == TIMED_OUT, case
        assert status == 200 or in_one_line(answer), case
        assert admin.get("/readyz") == "ready\n", case
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR], case
        has_changed = status == 200 and call.method != "GET"


def test_invalid_bodies_are_refused(admin: AdminCalls) -> None:
    for call in CALLS:
        if call.has_body:
            assert_bodies_that_are_no_request_are_refused(admin, call)


def assert_bodies_that_are_no_request_are_refused(admin: AdminCalls, call: Call[Any, Any]) -> None:
    target, _ = filled(call, body(call.request))
    bodies = [
        "{",
        "[" * 50_000,
        '{"a":' * 5_000,
        '{"a": 1e999999}',
        '{"a": NaN}',
        f'{{"a": {"9" * 10_000}}}',
        '"text"',
        "null",
        *(json.dumps({"no such field": each}) for each in some(ANYTHING, 8)),
    ]
    for each in bodies[CALLS.index(call) % BODY_PARTS :: BODY_PARTS]:
        status, answer = admin.ask(call.method, target, each)
        assert status in (400, 422) and in_one_line(answer), (call.path, each[:60], answer)


def connected(admin: AdminCalls, stack: ExitStack, count: int) -> list[socket.socket]:
    host, port = admin.address.rsplit(":", 1)
    return [stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(count)]


def is_served(connection: socket.socket) -> bool:
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"ok\n") and (more := connection.recv(1 << 16)):
        answer += more
    return answer.startswith(b"HTTP/1.1 200 ")


def test_connections_that_waited_longest_make_room_for_new_ones(admin: AdminCalls) -> None:
    with ExitStack() as stack:
        first = connected(admin, stack, CONNECTIONS_MAX)
        assert all(map(is_served, first))
        others = connected(admin, stack, 8)
        assert all(map(is_served, others))
        assert [each.recv(1) for each in first[:8]] == [b""] * 8
        assert all(map(is_served, first[8:]))
        assert admin.get("/healthz") == "ok\n"


def test_connections_with_a_running_response_do_not_make_room(admin: AdminCalls) -> None:
    watching = b"GET /?events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        watchers = connected(admin, stack, STREAMS_MAX)
        for each in watchers:
            each.sendall(watching)
            assert each.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        others = connected(admin, stack, CONNECTIONS_MAX)
        assert is_served(others[-1])
        assert all(each.recv(1 << 16) for each in watchers)
    while True:  # it notices their end when it reaches it
        try:
            assert admin.get("/healthz") == "ok\n"
            return
        except ConnectionError:
            continue


# Slow clients, and clients that leave


class Waiting:
    """A listener of two calls that end when the test lets them."""

    def __init__(self, *, only_waits: bool = True) -> None:
        self.begun, self.let_on, self.over = trio.Event(), trio.Event(), trio.Event()
        self.was_cancelled = False

        async def wait(supervisor: Supervisor, request: Nothing) -> Nothing:
            self.begun.set()
            try:
                await self.let_on.wait()
            except trio.Cancelled:
                self.was_cancelled = True
                raise
            finally:
                self.over.set()
            return request

        row = Call("POST", "/v1/wait", "", Nothing, Nothing, wait, only_waits=only_waits, any_time=True)
        self.client, self._server = trio.testing.memory_stream_pair()
        answering = Answering(None, CallTable([row]))  # type: ignore[arg-type]  # no row asks for it
        self.run = HttpConversation(self._server, answering, Access(None, "of the page")).run

    async def send(self, data: str) -> None:
        await self.client.send_all(data.encode())

    async def answers(self, count: int) -> str:
        found = ""
        while found.count("\r\n\r\n{}\n") < count:
            found += bytes(await self.client.receive_some(1 << 16)).decode()
        return found


WAIT = "POST /v1/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("only_waits", [True, False])
async def test_only_a_waiting_call_is_cancelled_when_its_client_disconnects(only_waits: bool) -> None:
    waiting = Waiting(only_waits=only_waits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.run)
        await waiting.send(WAIT)
        await waiting.begun.wait()
        await waiting.client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.over.is_set() == waiting.was_cancelled == only_waits
        waiting.let_on.set()
        await waiting.over.wait()
        nursery.cancel_scope.cancel()


async def test_a_client_that_pipelines_requests_is_answered_in_order() -> None:
    waiting = Waiting()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.run)
        await waiting.send(WAIT)
        await waiting.begun.wait()
        await waiting.send(WAIT + WAIT)
        await trio.testing.wait_all_tasks_blocked()
        assert not waiting.over.is_set()
        waiting.let_on.set()
        assert (await waiting.answers(3)).count("HTTP/1.1 200") == 3
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "data",
    [
        "",
        "GET",
        "POST /v1/wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ],
)
async def test_an_incomplete_request_times_out(data: str, autojump_clock: trio.testing.MockClock) -> None:
    waiting = Waiting()
    begun_s = trio.current_time()
    await waiting.send(data)
    await waiting.run()
    assert trio.current_time() - begun_s == pytest.approx(REQUEST_TIMEOUT_S)
    assert not waiting.begun.is_set()


class Lost(trio.abc.Stream):
    """A client that has sent a request, and is lost: only a sender to it notices."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        request, self._request = self._request, b""
        return request or await trio.sleep_forever()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("target", ["/?events", "/static/page.js", "/v1/wait"])
async def test_a_client_that_disconnects_during_a_response_is_not_a_failure(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    lost = Lost(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    supervisor: Any = None
    await AdminHttp("0")._serve(Answering(supervisor, CallTable()), Pages(supervisor, "of the page"), lost)
    assert [record.message for record in caplog.records if "connection" in record.message] == []
