"""Large requests and responses, which would keep Trio's thread for long: a worker thread reads, writes and frees them.

A request may have a hundred thousand elements, each of which takes two microseconds to read, a hundred bytes or more while
it lives, and a tenth of a microsecond to free. So every request is read at once up to a small number of elements, and if it
has more, once again by a worker. Such requests are admitted by address, as `RequestMemory` does, by their number of elements,
which counts until the response has been sent. Responses are also written at once up to some size, otherwise by a worker.

One worker reads large requests and writes their responses. Another one writes large responses to small requests, which are
common: the metadata of thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import trio

from ...protocol.connection import REQUEST_ELEMENTS_MAX, Request, encode_response, learn, parse_request
from ...protocol.errors import LargeMessageError, ProtocolError
from ..runtime.deferred_free import free, free_frames, give_back
from ..runtime.gc_policy import GcPolicy
from .request_memory import RequestMemory
from .transport import Part

# Each takes about two milliseconds.
READ_ELEMENTS_AT_ONCE = 1_000
WRITE_ELEMENTS_AT_ONCE = 2_000
WRITE_BYTES_AT_ONCE = 1 << 20
# Texts and bytes are copied out of a frame. Of larger frames only Produce requests are read at once, as their records are not
# copied, with few elements: each name may have 32 KiB.
FRAME_BYTES_AT_ONCE = 256 << 10
LARGE_PRODUCE_ELEMENTS_AT_ONCE = 128
PRODUCE = b"\0\0"

# Elements of all requests that were too large to be read at once; half of it for an address: five requests of the largest size.
LIVING_ELEMENTS = 10 * REQUEST_ELEMENTS_MAX
# Texts and bytes are copied out of the frame, whose own memory is freed. A request of few but long ones, which may be parked
# for days, counts by its bytes.
BYTES_AN_ELEMENT = 250
# How long such a request may last while others wait for its place; it may be a fetch that waits for data.
LASTS_S = 60.0
# After a request of this size, the memory that it took is given back to the system: more than ten megabytes.
GIVE_BACK_ELEMENTS = 50_000

T = TypeVar("T")


def read_now(frame: memoryview) -> Request | None:
    """Read the request in a frame as `parse_request` does at once. LargeMessageError if it is large."""
    most = READ_ELEMENTS_AT_ONCE
    if len(frame) > FRAME_BYTES_AT_ONCE:
        if frame[:2] != PRODUCE:
            raise LargeMessageError("a large frame")
        most = LARGE_PRODUCE_ELEMENTS_AT_ONCE
    return parse_request(frame, most, at_once=True)


def write_now(request: Request, body: Any) -> list[Part] | None:
    """Write the parts of a response; None if it is large."""
    try:
        return encode_response(request, body, WRITE_ELEMENTS_AT_ONCE, WRITE_BYTES_AT_ONCE)
    except LargeMessageError:
        return None


class LargeRequests:
    """Workers and limits that the large requests of all connections share."""

    def __init__(self, collector: GcPolicy | None = None) -> None:
        self.living = RequestMemory(LIVING_ELEMENTS, stands_still_s=LASTS_S)
        self.for_requests = Worker()
        self.for_answers = Worker()
        self.for_freeing = Worker()
        self.collector = collector or GcPolicy()
        """Does not look at old objects while there are large requests: none of them is a cycle."""


class Worker:
    """One worker thread, used in the order of its callers."""

    def __init__(self) -> None:
        self.line = trio.Lock()
        self._thread = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[list[Any]], T], box: list[Any]) -> T:
        """Run `work(box)` in the thread. For the holder of `line`, or a caller that need not wait in it."""
        return await trio.to_thread.run_sync(work, box, limiter=self._thread)


class LargeRequestOwner(Protocol):
    """The connection of a large request."""

    def check_peer(self) -> None:
        """Raise trio.BrokenResourceError if the client has disconnected."""

    def give_up(self, reason: str) -> None:
        """Close the connection, for this reason."""


class LargeRequest:
    """A large request, or a request with a large response, from when its size is known until the response has been sent.

    Large objects are passed in a box, a list that the worker empties, so that no other reference exists when they are freed.
    """

    is_receiving = True  # For `RequestMemory`: it may have to end.

    def __init__(self, shared: LargeRequests, connection: LargeRequestOwner, address: str) -> None:
        self.address = address
        self.held_bytes = 0  # The name is that of `RequestMemory`; the unit here is elements.
        self._shared = shared
        self._connection = connection
        self._worker = shared.for_answers
        self._waiting: trio.CancelScope | None = None
        self._is_closed = False
        self._has_ended = False
        shared.collector.put_off()

    async def read(self, box: list[memoryview]) -> Request:
        """Read the request in a frame.

        Raises:
            ProtocolError: As `parse_request`.
            trio.BrokenResourceError: The connection was closed, by either side, before the worker began.
        """
        living = self._shared.living
        self._worker = self._shared.for_requests
        # A producer without acks may have disconnected, but its records are still appended.
        counts_anyway = box[0][:2] == PRODUCE
        # The bytes of a Produce request are records, which stay in the frame and count with it.
        at_least = 0 if counts_anyway else len(box[0]) // BYTES_AN_ELEMENT
        at_most = max(min(len(box[0]), REQUEST_ELEMENTS_MAX), at_least)
        request = await self._run_in_queue(_read, box, at_most, is_client_needed=not counts_anyway)
        if isinstance(request, ProtocolError):
            raise request
        # Strings that are not UTF-8 count as more elements than they leave.
        living.give_back(self, at_most - min(max(request.elements, at_least), at_most))
        return request

    async def write(self, box: list[Any]) -> list[Part] | None:
        """Write the parts of a response; None if the body is None. The request and the body in `box` are freed.

        Raises trio.BrokenResourceError, as `read` does.
        """
        return await self._run_in_queue(_write, box, is_client_needed=box[1] is not None)

    async def end(self, box: list[Any]) -> None:
        """Free the content of `box` and release the place, also when cancelled. May be called again."""
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
        """Do nothing: a place is never kept for later."""

    def give_up(self, _reason: str) -> None:
        self._connection.give_up(
            f"request with {self.held_bytes} elements took more than {LASTS_S:.0f} s while others waited (limit of"
            f" {LIVING_ELEMENTS} elements for all requests with more than {READ_ELEMENTS_AT_ONCE})"
        )

    def stop_waiting(self) -> None:
        """Let `read` or `write` raise trio.BrokenResourceError, now or as soon as they would wait."""
        self._is_closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _run_in_queue(
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
        raise trio.BrokenResourceError("closed while its request was waiting for a worker thread")


def _read(box: list[memoryview]) -> Request | ProtocolError:
    try:
        return parse_request(box.pop())
    except ProtocolError as error:
        # Its traceback refers to everything that has been read, which must be freed here.
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
    """Loading of an API's messages and making of its codec in a thread, at the first request in a version, while others are
    served.

    Shared by all connections: two threads would take as long as one after the other.
    """

    def __init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def learn(self, frame: memoryview) -> None:
        """Enable `parse_request` to read this frame, for which it has returned None."""
        try:
            await trio.to_thread.run_sync(learn, frame, limiter=self._thread)
        except RuntimeError:  # no thread can be started
            learn(frame)
