"""Requests and answers that would keep Trio's thread for long: a worker thread reads, writes and frees them.

A request may have a hundred thousand elements, each of which takes two microseconds to read, a hundred bytes or more while
it lives, and a tenth of a microsecond to free. So every request is read at once up to a small number of elements, and if it
has more, once again by a worker. Such requests are let in by address, as `RequestMemory` does, by their number of elements,
which counts until the answer has been sent. Answers are written likewise: at once up to some size, else by a worker.

One worker reads and writes large requests, another one writes large answers to small ones, which are common: the metadata
of thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import trio

from ...protocol.connection import REQUEST_ELEMENTS_MAX, Request, encode_response, learn, parse_request
from ...protocol.errors import LargeMessageError, ProtocolError
from ..runtime.collector import Collector
from ..runtime.freeing import free, free_frames, give_back
from .request_memory import RequestMemory
from .transport import Part, PeerGoneError

# About two milliseconds each.
READ_ELEMENTS_AT_ONCE = 1_000
WRITE_ELEMENTS_AT_ONCE = 2_000
WRITE_BYTES_AT_ONCE = 1 << 20
# Texts and bytes are copied out of a frame. Of a larger frame only a Produce request is read at once, as its records stay
# where they are, and no more of its names, which may have 32 KiB each.
FRAME_BYTES_AT_ONCE = 256 << 10
LARGE_PRODUCE_ELEMENTS_AT_ONCE = 128
PRODUCE = b"\0\0"

# Of all requests that were too large to be read at once, and half of it for an address: five requests at their largest.
LIVING_ELEMENTS = 10 * REQUEST_ELEMENTS_MAX
# Texts and bytes are copied out of the frame, whose own memory goes: a request of few but long ones, which may be parked for
# days, counts by its bytes.
BYTES_AN_ELEMENT = 250
# How long such a request may last when others wait for its place; it may be a fetch that waits for data.
LASTS_S = 60.0
# After a request of so many, the memory that it took goes back to the system: some ten megabytes and more.
GIVE_BACK_ELEMENTS = 50_000

T = TypeVar("T")


def read_now(frame: memoryview) -> Request | None:
    """The request in a frame, None if it is a large one. Raises ProtocolError and UnspokenError."""
    most = READ_ELEMENTS_AT_ONCE
    if len(frame) > FRAME_BYTES_AT_ONCE:
        if frame[:2] != PRODUCE:
            return None
        most = LARGE_PRODUCE_ELEMENTS_AT_ONCE
    try:
        return parse_request(frame, most, at_once=True)
    except LargeMessageError:
        return None


def write_now(request: Request, body: Any) -> list[Part] | None:
    """The parts of an answer, None if it is a large one."""
    try:
        return encode_response(request, body, WRITE_ELEMENTS_AT_ONCE, WRITE_BYTES_AT_ONCE)
    except LargeMessageError:
        return None


class LargeRequests:
    """What the large requests of all connections share."""

    def __init__(self, collector: Collector | None = None) -> None:
        self.living = RequestMemory(LIVING_ELEMENTS, stands_still_s=LASTS_S)
        self.for_requests = Worker()
        self.for_answers = Worker()
        self.for_freeing = Worker()
        self.collector = collector or Collector()
        """Leaves old objects alone while there are such requests: nothing in one is for it to find."""


class Worker:
    """One thread at a time, in the order in which it was asked for."""

    def __init__(self) -> None:
        self.line = trio.Lock()
        self._thread = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[list[Any]], T], box: list[Any]) -> T:
        """`work(box)`. For the holder of `line`, or for who need not stand in it."""
        return await trio.to_thread.run_sync(work, box, limiter=self._thread)


class LargeRequestOwner(Protocol):
    """Whose request it is: a connection."""

    def check_peer(self) -> None:
        """Raise PeerGoneError if nobody waits for the answer any more."""

    def give_up(self, reason: str) -> None:
        """End it, for this reason."""


class LargeRequest:
    """A request, or the answer to it, from when it is found to be large until the answer has been sent.

    What is large is handed over in a box, a list that the worker empties, so that nobody else names it when it is freed.
    """

    is_receiving = True  # For `RequestMemory`: it may have to go.

    def __init__(self, shared: LargeRequests, connection: LargeRequestOwner, address: str) -> None:
        self.address = address
        self.held_bytes = 0  # As `RequestMemory` calls it: these are elements.
        self._shared = shared
        self._connection = connection
        self._worker = shared.for_answers
        self._waiting: trio.CancelScope | None = None
        self._is_closed = False
        self._has_ended = False
        shared.collector.put_off()

    async def read(self, box: list[memoryview]) -> Request:
        """The request in a frame.

        Raises:
            ProtocolError: As `parse_request`.
            PeerGoneError: The connection was closed, by either side, before the worker had come to it.
        """
        living = self._shared.living
        self._worker = self._shared.for_requests
        # Who produces without waiting for an answer may be gone, and what he sent counts.
        counts_anyway = box[0][:2] == PRODUCE
        # The bytes of a Produce request are records, which stay in the frame and count with it.
        at_least = 0 if counts_anyway else len(box[0]) // BYTES_AN_ELEMENT
        at_most = max(min(len(box[0]), REQUEST_ELEMENTS_MAX), at_least)
        request = await self._in_line(_read, box, at_most, is_client_needed=not counts_anyway)
        if isinstance(request, ProtocolError):
            raise request
        # Strings that are not UTF-8 count as more elements than they leave.
        living.give_back(self, at_most - min(max(request.elements, at_least), at_most))
        return request

    async def write(self, box: list[Any]) -> list[Part] | None:
        """The parts of an answer, None if the body is; the request and the body in `box` are freed.

        Raises PeerGoneError as `read`.
        """
        return await self._in_line(_write, box, is_client_needed=box[1] is not None)

    async def end(self, box: list[Any]) -> None:
        """Free what is in `box`, and give the place to others, also when cancelled. May be called again."""
        try:
            await self._shared.for_freeing.run(
                _clear if self.held_bytes < GIVE_BACK_ELEMENTS else _clear_and_give_back, box
            )
        finally:
            if not self._has_ended:
                self._has_ended = True
                self._shared.living.give_back(self, self.held_bytes)
                self._shared.collector.go_on()

    def shrink(self) -> None:
        """Nothing is held for later."""

    def give_up(self, _reason: str) -> None:
        self._connection.give_up(
            f"request with {self.held_bytes} elements took more than {LASTS_S:.0f} s while others waited (limit of"
            f" {LIVING_ELEMENTS} elements for all requests with more than {READ_ELEMENTS_AT_ONCE})"
        )

    def stop_waiting(self) -> None:
        """Let `read` or `write` raise PeerGoneError, now or as soon as they would wait."""
        self._is_closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _in_line(
        self, work: Callable[[list[Any]], T], box: list[Any], elements: int = 0, *, is_client_needed: bool
    ) -> T:
        with trio.CancelScope() as self._waiting:
            if self._is_closed:
                self._waiting.cancel()
            if elements:
                await self._shared.living.take(self, elements)
            async with self._worker.line:
                if is_client_needed:
                    self._connection.check_peer()
                return await self._worker.run(work, box)
        raise PeerGoneError("closed while its request was waiting for a worker thread")


def _read(box: list[memoryview]) -> Request | ProtocolError:
    try:
        return parse_request(box.pop())
    except ProtocolError as error:
        # Its traceback names all that has been read, which is to be freed here.
        free_frames(error)
        return ProtocolError(str(error))


def _clear(box: list[Any]) -> None:
    box.clear()


def _clear_and_give_back(box: list[Any]) -> None:
    box.clear()
    give_back()


def _write(box: list[Any]) -> list[Part] | None:
    request, body = box
    box.clear()
    try:
        return None if body is None else encode_response(request, body)
    finally:
        things = [request.body, body]
        del request, body
        free(things)


class Learning:
    """The first request of an API in a version: its messages are loaded and its codec is made in a thread, while others are served.

    Shared by all connections: two threads would take as long as one after the other."""

    def __init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def learn(self, frame: memoryview) -> None:
        """Let `parse_request` read this frame, with which it has raised UnspokenError."""
        try:
            await trio.to_thread.run_sync(learn, frame, limiter=self._thread)
        except RuntimeError:  # no thread can be had
            learn(frame)
