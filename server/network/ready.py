"""The connections that have a request for us, in the order in which their sockets became readable.

    a socket is readable -> the connection stands in the queue -> `take`: one request -> `send`: its answer

One task serves the queue. The first in the queue has waited longest, and is next. It has one request carried out, and stands at
the end again if it has sent more: nobody waits for more than one request of each of the others. After a time slice all other
tasks have theirs.

What has to wait is not done here: the connection's own task is woken for it, and its connection leaves the queue until that is
done. A task that is woken has work to do in this pass of the scheduler, so the slice ends after HANDED_OVER_MAX of them, too.

Sockets stay registered, in an epoll of our own with the edge as trigger: to register a socket for every wait, as Trio does, is a
third of what a small request costs. Only Linux has it. Elsewhere, and while nobody `run`s this, each connection waits by itself.
"""

from __future__ import annotations

import select
from collections import deque
from contextlib import suppress
from typing import Protocol

import trio

from ..runtime.turns import Turn
from .frames import INITIAL_BUFFER_BYTES
from .transport import Part

IS_KNOWN = hasattr(select, "epoll")
# That the client has closed its side is an event of its own: after all bytes have been read no other event comes.
EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if IS_KNOWN else 0

TOGETHER = 16
"""Answers that are sent one after the other. Clients that one thread serves are woken by the first of them, and still at work when
the last one comes; sent one by one each would wake it again, which is half of what a send takes. More would keep the first of them
waiting for longer than the others gain."""

AT_ONCE = 64
"""Connections that one call of epoll names. To name a connection touches its socket, and of a thousand the first ones are in no near
cache any more when their turn comes."""

HANDED_OVER_MAX = 32
"""Requests that connections' own tasks go on with, in one slice."""

ALONE_REQUESTS = 50
"""A client that has sent so many while no other sent one is alone."""
LOOKS = 6
"""For the next request of a client that is alone and mostly sends it at once: to fall asleep and to be woken takes longer, on both
sides. Other tasks run in between."""
REST_REQUESTS = 32
"""After looks that found nothing so many requests are waited for without: the client takes its time."""


class Watched(Protocol):
    """A connection."""

    is_queued: bool
    """Whether it stands in the queue: for this module alone."""

    is_parked: bool
    """Whether its own task leaves its requests to this."""

    def has_news(self, *, is_ending: bool) -> None:
        """Its socket has become readable; or its client has closed it, after which no further event comes."""

    def take(self) -> list[Part] | None:
        """Carry out the next request if it is there, as far as that needs no waiting. Never raises.

        Returns:
            The answer, for `send`, before which no other task runs; it has no parts where none is sent. None: nothing has come, or
            the connection's own task has been woken.
        """

    def send(self, parts: list[Part]) -> bool:
        """Send an answer; returns whether there may be another request already. Never raises."""

    def wake(self) -> None:
        """Let its own task go on, if it is parked."""


class ReadyConnections:
    """See the module. All on Trio's thread."""

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}
        """By descriptor."""
        self._epoll: select.epoll | None = None
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        """For what any of them brings: see `FrameReader.frame_now`."""
        self._is_running = False
        self._is_awake = False
        """Whether the queue is being served; else the task that serves it sleeps until a socket is readable."""
        self._first = trio.lowlevel.ParkingLot()
        self._queue = deque[Watched]()
        self._last: Watched | None = None
        """The connection whose request was answered last."""
        self._in_a_row = 0
        """Its requests since another connection brought one."""

    def __len__(self) -> int:
        return len(self._watched)

    def give_buffer_away(self) -> None:
        """What is in the buffer is still needed: the next connection has another one."""
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))

    def watch(self, fd: int, watched: Watched) -> bool:
        """From now on `watched` has news of what comes, and of what is there if it has not been watched so far.

        False: it cannot be watched; the connection has to wait by itself.
        """
        if self._watched.get(fd) is watched:
            return True
        if not self._is_running:
            return False
        try:
            if self._epoll is None:
                self._epoll = select.epoll()
                self._first.unpark_all()
            self._epoll.register(fd, EVENTS)
        except OSError:  # out of descriptors, memory or watches
            return False
        self._watched[fd] = watched
        return True

    def forget(self, fd: int, watched: Watched) -> None:
        """Before the descriptor is closed. May be called again."""
        if self._watched.get(fd) is watched:
            del self._watched[fd]
            if self._epoll is not None:
                with suppress(OSError):
                    self._epoll.unregister(fd)
        if self._last is watched:
            self._last = None

    def stand(self, watched: Watched) -> bool:
        """Have one that is watched stand in the queue, as it may have a request already. False: nobody serves the queue at present."""
        if self._is_awake and not watched.is_queued:
            watched.is_queued = True
            self._queue.append(watched)
        return self._is_awake

    async def run(self) -> None:
        """Serve the queue until cancelled."""
        if not IS_KNOWN:
            return
        self._is_running = True
        try:
            if self._epoll is None:
                await self._first.park()
            epoll = self._epoll
            assert epoll is not None
            turn = Turn()
            while True:
                # It is readable for as long as it has an event to tell of.
                await trio.lowlevel.wait_readable(epoll.fileno())
                turn.begin()
                self._is_awake = True
                await self._serve_until_none_is_ready(epoll, turn)
                self._is_awake = False
        finally:
            self._is_running = self._is_awake = False
            left, self._watched, self._queue = list(self._watched.values()), {}, deque()
            if self._epoll is not None:
                self._epoll.close()
                self._epoll = None
            for each in left:
                each.is_queued = False
                each.wake()

    async def _serve_until_none_is_ready(self, epoll: select.epoll, turn: Turn) -> None:
        queue, looks = self._queue, 0
        while True:
            for fd, event in epoll.poll(0, AT_ONCE):
                watched = self._watched.get(fd)
                if watched is not None:
                    watched.has_news(is_ending=event != select.EPOLLIN)
                    if watched.is_parked and not watched.is_queued:
                        watched.is_queued = True
                        queue.append(watched)
            if queue:
                is_over = self._serve(queue, turn)
                looks = LOOKS if self._in_a_row >= ALONE_REQUESTS else 0
                if not is_over:
                    continue
            elif looks:
                looks -= 1
                if not looks:
                    self._in_a_row = ALONE_REQUESTS - REST_REQUESTS
            else:
                return
            await trio.lowlevel.checkpoint()
            turn.begin()

    def _serve(self, queue: deque[Watched], turn: Turn) -> bool:
        """One request of each in the queue, until it is empty or the time slice is over; returns whether that is so."""
        answered: list[tuple[Watched, list[Part]]] = []
        handed_over = 0
        while queue:
            watched = queue.popleft()
            watched.is_queued = False
            if watched.is_parked:
                parts = watched.take()
                if parts is not None:
                    answered.append((watched, parts))
                elif not watched.is_parked:
                    handed_over += 1
            is_over = handed_over >= HANDED_OVER_MAX or turn.is_over()
            if is_over or len(answered) >= TOGETHER or not queue:
                for each, parts in answered:
                    if each is self._last:
                        self._in_a_row += 1
                    else:
                        self._last, self._in_a_row = each, 0
                    if each.send(parts):
                        each.is_queued = True
                        queue.append(each)
                answered.clear()
                if is_over:
                    return True
        return False
