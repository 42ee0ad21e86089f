"""Connections with requests to handle, in the order in which their sockets became readable.

    a socket becomes readable   its connection enters the queue
    take                        one request of the first connection is handled
    send                        its response is sent

One task serves the queue. The first connection has waited longest and is next. The task handles one of its requests, and puts
it at the end again if it has sent more. So a connection waits for at most one request of each other connection. After a time
slice the other tasks run.

A connection that its client has closed also enters the queue, but at most ENDINGS_MAX of those in a pass of the scheduler: when
thousands of clients disconnect at once, the others do not wait for all of them.

A request that has to wait is left to the connection's own task, which is woken. The connection leaves the queue until that task
is done. A woken task works in the next pass of the scheduler, so at most HANDED_OVER_MAX are woken between two passes.

Sockets stay registered in an edge-triggered epoll of our own. Trio registers a socket for each wait, which is a third of the
cost of a small request. Only Linux has epoll. Elsewhere, and while `run` does not run, each connection waits by itself.
"""

from __future__ import annotations

import os
import select
from collections import deque
from contextlib import ExitStack, suppress
from typing import Protocol

import trio

from ..runtime.time_slices import TimeSlice
from .frames import INITIAL_BUFFER_BYTES
from .transport import Part

IS_KNOWN = hasattr(select, "epoll")
# The close by the client must be an event of its own: after all bytes have been read no other event occurs.
EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if IS_KNOWN else 0

TOGETHER = 16
"""Responses that are sent one after the other. Clients in one thread are woken by the first of them, and still at work when the
last one arrives; if they were sent one by one each would wake the thread again, which is half the cost of a send. With more,
the first would wait longer than the others gain."""

AT_ONCE = 64
"""Connections that one call of epoll returns. To return a connection touches its socket; of a thousand, the first ones would no
longer be in a near cache when they are served."""

HANDED_OVER_MAX = 32
"""Tasks of connections that are woken between two passes of the scheduler."""

ENDINGS_MAX = 16
"""Connections closed by their clients that enter the queue in one pass. To end one takes 0.15 ms."""

ALONE_REQUESTS = 50
"""Requests in a row, without one of another client, after which a client counts as alone."""
LOOKS = 75
"""Polls for the next request of a client that is alone, before the task sleeps: sleeping and waking take longer, on both sides."""
POLLS = 25
"""Polls after which other tasks run: a pass of the scheduler takes as long as 15, and the request would wait for its end."""
REST_REQUESTS = 32
"""After LOOKS polls that found nothing, the task sleeps at once for this many requests: the client is slow."""


class WatchedConnection(Protocol):
    """A connection, as this module uses it."""

    is_queued: bool
    """Whether it is in the queue. Only this module sets it."""

    is_parked: bool
    """Whether its requests are left to this module; then its own task is parked."""

    def has_news(self, *, is_ending: bool) -> None:
        """Note that its socket has become readable, or that its client has closed it, after which no further event comes."""

    def take(self, buffer: memoryview) -> list[Part] | None:
        """Handle the next request if it is there; work that has to wait is left to the connection's own task. Never raises.

        Args:
            buffer: Buffer that it may read into: see `FrameReader.frame_now`.

        Returns:
            The response, for `send`, before which no other task runs; an empty list if the request has none. None: nothing has
            been received, or the connection's own task has been woken.
        """

    def send(self, parts: list[Part]) -> bool:
        """Send a response; returns whether there may be another request already. Never raises."""

    def wake(self) -> None:
        """Wake the connection's own task, if it is parked."""


class ReadyConnections:
    """Queue of ready connections. All on Trio's thread."""

    def __init__(self) -> None:
        self._watched: dict[int, WatchedConnection] = {}
        """Connections by descriptor."""
        self._epoll: select.epoll | None = None
        self._waker = -1
        """Descriptor in `_epoll` that wakes the task."""
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        """Shared receive buffer of all connections: see `FrameReader.frame_now`."""
        self._is_running = False
        self._is_awake = False
        """Whether the queue is being served; otherwise the task that serves it sleeps until a socket is readable."""
        self._first = trio.lowlevel.ParkingLot()
        self._queue = deque[WatchedConnection]()
        self._ending = deque[WatchedConnection]()
        """Connections that their clients have closed, in the order in which they will enter the queue."""
        self._last: WatchedConnection | None = None
        """The connection whose request was answered last."""
        self._in_a_row = 0
        """Number of its requests since the last request of another connection."""
        self._handed_over = 0
        """Tasks woken since the last pass of the scheduler."""

    def __len__(self) -> int:
        return len(self._watched)

    def give_buffer_away(self) -> None:
        """Replace the buffer: its content is still needed."""
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))

    def watch(self, fd: int, watched: WatchedConnection) -> bool:
        """Begin to call `has_news` of `watched` for new bytes, and for present ones if it was not watched before.

        Returns False if it cannot be watched; the connection must wait by itself.
        """
        if self._watched.get(fd) is watched:
            return True
        if not self._is_running:
            return False
        try:
            if self._epoll is None:
                self._open()
            self._epoll.register(fd, EVENTS)  # type: ignore[union-attr]  # it is open
        except OSError:  # out of descriptors, memory or watches
            return False
        self._watched[fd] = watched
        return True

    def _open(self) -> None:
        with ExitStack() as opened:
            waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            opened.callback(os.close, waker)
            epoll = select.epoll()
            opened.callback(epoll.close)
            epoll.register(waker, select.EPOLLIN | select.EPOLLET)
            self._epoll, self._waker = epoll, waker
            opened.pop_all()
        self._first.unpark_all()

    def forget(self, fd: int, watched: WatchedConnection) -> None:
        """Stop watching, before the descriptor is closed. May be called again."""
        if self._watched.get(fd) is watched:
            del self._watched[fd]
            if self._epoll is not None:
                with suppress(OSError):
                    self._epoll.unregister(fd)
        if self._last is watched:
            self._last = None

    def enqueue(self, watched: WatchedConnection) -> bool:
        """Put a watched connection into the queue, as it may have a request already.

        Returns:
            False if the queue is not being served; nothing was added.
        """
        if self._is_awake and not watched.is_queued:
            watched.is_queued = True
            self._queue.append(watched)
        return self._is_awake

    def serve_soon(self, watched: WatchedConnection) -> None:
        """Put a connection into the queue, and wake the task that serves it; if it does not run, wake the connection's own task."""
        if watched.is_queued or self.enqueue(watched):
            return
        if self._is_running and self._epoll is not None:
            watched.is_queued = True
            self._queue.append(watched)
            os.eventfd_write(self._waker, 1)
        else:
            watched.wake()

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
                # The epoll descriptor is readable while events are pending.
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
                os.close(self._waker)
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
                continue  # there may be requests after all these closed connections
            elif ending:
                pass
            elif looks:
                looks -= 1
                if looks % POLLS and not time_slice.is_over():
                    continue
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
        """Handle one request of each queued connection until the queue is empty or the time slice is over; returns whether it
        is over."""
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
                if len(answered) == 1 and answered[0][0] is self._last:
                    self._in_a_row += 1
                elif answered:
                    self._last, self._in_a_row = answered[-1][0], 0
                for each, parts in answered:
                    if each.send(parts) and not each.is_queued:
                        each.is_queued = True
                        queue.append(each)
                answered.clear()
                if is_over:
                    return True
        return False
