"""The connections that have a request for us, in the order in which their sockets became readable.

    a socket becomes readable   its connection enters the queue
    take                        one request of the first connection is carried out
    send                        its answer is sent

One task serves the queue. The first connection has waited longest and is next. The task carries out one of its requests, and puts
it at the end again if it has sent more. So a connection waits for at most one request of each other connection. After a time
slice the other tasks run.

A connection whose client has closed it enters the queue too, but of those at most ENDINGS_MAX in a pass of the scheduler: when thousands
of clients leave at once, the others do not wait for all of them.

A request that has to wait is left to the connection's own task, which is woken. The connection leaves the queue until that task is
done. A woken task works in the next pass of the scheduler, so at most HANDED_OVER_MAX are woken between two passes.

Sockets stay registered in an edge-triggered epoll of our own. Trio registers a socket for each wait, which is a third of the cost of
a small request. Only Linux has epoll. Elsewhere, and while `run` does not run, each connection waits by itself.
"""

from __future__ import annotations

import select
from collections import deque
from contextlib import suppress
from typing import Protocol

import trio

from ..runtime.time_slices import TimeSlice
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
"""Tasks of connections that are woken between two passes of the scheduler."""

ENDINGS_MAX = 16
"""Connections closed by their clients that enter the queue in one pass. To end one takes 0.15 ms."""

ALONE_REQUESTS = 50
"""A client is alone after so many requests in a row, without one of another client."""
LOOKS = 6
"""Polls for the next request of a client that is alone, before the task sleeps: sleeping and waking take longer, on both sides.
Other tasks run in between."""
REST_REQUESTS = 32
"""After LOOKS polls that found nothing the task sleeps at once for so many requests: the client takes its time."""


class WatchedConnection(Protocol):
    """A connection."""

    is_queued: bool
    """Whether it is in the queue. Only this module sets it."""

    is_parked: bool
    """Whether its own task leaves its requests to this."""

    def has_news(self, *, is_ending: bool) -> None:
        """Its socket has become readable; or its client has closed it, after which no further event comes."""

    def take(self, buffer: memoryview) -> list[Part] | None:
        """Carry out the next request if it is there, as far as that needs no waiting. Never raises.

        Args:
            buffer: Where it may put what it reads: see `FrameReader.frame_now`.

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
        self._watched: dict[int, WatchedConnection] = {}
        """By descriptor."""
        self._epoll: select.epoll | None = None
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        """For what any of them brings: see `FrameReader.frame_now`."""
        self._is_running = False
        self._is_awake = False
        """Whether the queue is being served; else the task that serves it sleeps until a socket is readable."""
        self._first = trio.lowlevel.ParkingLot()
        self._queue = deque[WatchedConnection]()
        self._ending = deque[WatchedConnection]()
        """Closed by their clients, in the order in which they will enter the queue."""
        self._last: WatchedConnection | None = None
        """The connection whose request was answered last."""
        self._in_a_row = 0
        """Its requests since another connection brought one."""
        self._handed_over = 0
        """Tasks woken since the last pass."""

    def __len__(self) -> int:
        return len(self._watched)

    def give_buffer_away(self) -> None:
        """What is in the buffer is still needed: the next connection has another one."""
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))

    def watch(self, fd: int, watched: WatchedConnection) -> bool:
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

    def forget(self, fd: int, watched: WatchedConnection) -> None:
        """Before the descriptor is closed. May be called again."""
        if self._watched.get(fd) is watched:
            del self._watched[fd]
            if self._epoll is not None:
                with suppress(OSError):
                    self._epoll.unregister(fd)
        if self._last is watched:
            self._last = None

    def stand(self, watched: WatchedConnection) -> bool:
        """Put a watched connection into the queue, as it may have a request already.

        Returns:
            False if the queue is not being served: it is not in the queue.
        """
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
            time_slice = TimeSlice()
            while True:
                # It is readable for as long as it has an event to tell of.
                await trio.lowlevel.wait_readable(epoll.fileno())
                time_slice.begin()
                self._handed_over = 0
                self._is_awake = True
                await self._serve_until_none_is_ready(epoll, time_slice)
                self._is_awake = False
        finally:
            self._is_running = self._is_awake = False
            left, self._watched, self._queue, self._ending = list(self._watched.values()), {}, deque(), deque()
            if self._epoll is not None:
                self._epoll.close()
                self._epoll = None
            for each in left:
                each.is_queued = False
                each.wake()

    async def _serve_until_none_is_ready(self, epoll: select.epoll, time_slice: TimeSlice) -> None:
        queue, ending, looks = self._queue, self._ending, 0
        while True:
            events = epoll.poll(0, AT_ONCE)
            for fd, event in events:
                watched = self._watched.get(fd)
                if watched is not None:
                    is_ending = event != select.EPOLLIN
                    watched.has_news(is_ending=is_ending)
                    if watched.is_parked and not watched.is_queued:
                        watched.is_queued = True
                        (ending if is_ending else queue).append(watched)
            if queue:
                is_over = self._serve(queue, time_slice)
                looks = LOOKS if self._in_a_row >= ALONE_REQUESTS else 0
                if not is_over:
                    continue
            elif len(events) == AT_ONCE and not time_slice.is_over():
                continue  # there may be requests after all these endings
            elif ending:
                pass
            elif looks:
                looks -= 1
                if not looks:
                    self._in_a_row = ALONE_REQUESTS - REST_REQUESTS
            else:
                return
            await trio.lowlevel.checkpoint()
            time_slice.begin()
            self._handed_over = 0
            for _ in range(min(len(ending), ENDINGS_MAX)):
                queue.append(ending.popleft())

    def _serve(self, queue: deque[WatchedConnection], time_slice: TimeSlice) -> bool:
        """One request of each in the queue, until it is empty or the time slice is over; returns whether that is so."""
        answered: list[tuple[WatchedConnection, list[Part]]] = []
        while queue:
            watched = queue.popleft()
            watched.is_queued = False
            if watched.is_parked:
                parts = watched.take(self.buffer)
                if parts is not None:
                    answered.append((watched, parts))
                elif not watched.is_parked:
                    self._handed_over += 1
            is_over = self._handed_over >= HANDED_OVER_MAX or time_slice.is_over()
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
