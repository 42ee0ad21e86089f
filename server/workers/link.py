"""Calls between two processes of one broker over a pair of sockets, in both directions, in the order in which they were made.

Nobody else has an end of the pair, so what comes is pickled values of our own.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

import trio

SIZE = struct.Struct(">I")
READ_BYTES = 1 << 16
NOBODY = -1
"""Who asks under this number waits for no answer."""

Served = Mapping[str, Callable[..., Any]]
"""By name. One that returns an awaitable goes on in a task of its own; any other is done before the next call is looked at."""


class LinkLostError(Exception):
    """The other process has gone. One line."""


class _Asked:
    """A call that waits for its answer."""

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: object = None


class Link:
    """One end."""

    def __init__(self, stream: trio.SocketStream, served: Served) -> None:
        self._stream = stream
        self._served = served
        self._numbers = count()
        self._asked: dict[int, _Asked] = {}
        self._out = bytearray()
        self._written = trio.Event()
        """Set when there is something to send."""
        self.lost = trio.Event()
        """Set when the other end is closed."""
        self.heard = 0
        """How often something has come."""

    async def run(self) -> None:
        """Serve until the other end is closed, or cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                await self._receive(nursery)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.lost.set()
            for asked in self._asked.values():
                asked.answer = _lost()
                asked.answered.set()
            with trio.CancelScope(shield=True):
                await self._stream.aclose()

    def tell(self, name: str, *args: object) -> None:
        """Have it done; nobody says when, or whether."""
        self._put((name, None, args))

    def poke(self) -> None:
        """Have the other end say something, whatever it is: `heard` tells."""
        self._put(("here", NOBODY, ()))

    async def call(self, name: str, *args: object) -> Any:
        """What the other end returns or raises.

        Raises:
            LinkLostError: It has gone; whether it was done is not known.
        """
        if self.lost.is_set():
            raise _lost()
        number = next(self._numbers)
        asked = self._asked[number] = _Asked()
        self._put((name, number, args))
        try:
            await asked.answered.wait()
        finally:
            del self._asked[number]
        if isinstance(asked.answer, Exception):
            raise asked.answer
        return asked.answer

    def _put(self, message: object) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._out += SIZE.pack(len(data))
        self._out += data
        self._written.set()

    async def _send(self) -> None:
        while True:
            await self._written.wait()
            self._written = trio.Event()
            out, self._out = self._out, bytearray()
            await self._stream.send_all(out)

    async def _receive(self, nursery: trio.Nursery) -> None:
        buffer = bytearray()
        while data := await self._stream.receive_some(READ_BYTES):
            self.heard += 1
            buffer += data
            at = 0
            while (end := _end_of_message(buffer, at)) is not None:
                self._take(pickle.loads(buffer[at + SIZE.size : end]), nursery)
                at = end
            del buffer[:at]

    def _take(self, message: tuple[str | None, int | None, Any], nursery: trio.Nursery) -> None:
        name, number, content = message
        if name is None:
            if number is not None and (asked := self._asked.get(number)) is not None:
                asked.answer = content
                asked.answered.set()
            return
        try:
            done = self._served[name](*content)
        except Exception as error:  # noqa: BLE001 - it is who asked that is told
            done = error
        if isinstance(done, Awaitable):
            nursery.start_soon(self._finish, number, done)
        else:
            self._answer(number, done)

    async def _finish(self, number: int | None, work: Awaitable[object]) -> None:
        try:
            done = await work
        except Exception as error:  # noqa: BLE001 - likewise
            done = error
        self._answer(number, done)

    def _answer(self, number: int | None, answer: object) -> None:
        if number is not None:
            self._put((None, number, _readable(answer) if isinstance(answer, Exception) else answer))


def _end_of_message(buffer: bytearray, at: int) -> int | None:
    if len(buffer) - at < SIZE.size:
        return None
    end: int = at + SIZE.size + SIZE.unpack_from(buffer, at)[0]
    return end if end <= len(buffer) else None


def _readable(error: Exception) -> Exception:
    """As it is if the other end can make it again from its arguments, else its words: it is the link that would end there."""
    try:
        pickle.loads(pickle.dumps(error, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - whatever its class, or what it refers to, does then
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _lost() -> LinkLostError:
    return LinkLostError("the process of the node has gone")
