"""Which connections have brought something, of those whose sockets stay registered: one look tells of all of them.

Trio registers a socket anew for every wait, and a task goes on for every one that is readable. That is a third of what a small
request costs. So connections that send small requests one after the other are watched here, in an epoll of our own with the
edge as trigger, and one task, the one that `run`s, goes through those that have brought something (`straight`). Their own tasks
stay parked until there is something that may wait.

Only Linux has it. Elsewhere, and while nobody `run`s this, `watch` refuses, and connections wait for themselves.
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
# That the client has closed its side is an event of its own: whoever has read all bytes there were would not hear of it again.
EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if IS_KNOWN else 0

TOGETHER = 16
"""Answers that are sent one behind the other. Clients that are served by one thread are woken by the first of them, and still at
work when the last one comes; sent one by one each would wake it anew, which is half of what a send takes. More would keep the
first of them waiting for longer than the others gain."""


AT_ONCE = 64
"""Connections that one look tells of. To tell of each touches its socket, and of a thousand the first ones are in no near cache any
more when they are come to."""


class Watched(Protocol):
    """A connection, while its socket is registered."""

    @property
    def is_parked(self) -> bool:
        """Whether its own task leaves its requests to this."""

    def arrived(self) -> list[Part] | None:
        """Carry out a request if there is one, or wake the connection's own task. Only while it is parked; never raises.

        Returns:
            The answer, for `send`, before which nobody else has a turn.
        """

    def send(self, answer: list[Part], *, is_ending: bool) -> bool:
        """Send it. Never raises.

        Args:
            is_ending: The client has closed its side, or the connection was reset; what it sent before may still be there.

        Returns:
            Whether there may be something more, of which no event will tell.
        """

    def stirred(self) -> None:
        """Its socket has brought something since it was last asked."""

    def wake(self) -> None:
        """Let its own task go on, if it is parked."""


class Arrivals:
    """See the module. All on Trio's thread."""

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}
        """By descriptor."""
        self._epoll: select.epoll | None = None
        self.buffer = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        """For what any of them brings: see `FrameReader.frame_now`."""
        self._is_running = False
        self._first = trio.lowlevel.ParkingLot()
        self.last: Watched | None = None
        """Whose request was the last that could be answered at once, watched or not."""

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, fd: int, watched: Watched) -> bool:
        """From now on `watched` hears of what comes, and of what is there already if it has not been watched so far.

        False: it cannot be; the connection has to wait for itself.
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

    def forget(self, fd: int) -> None:
        """Before the descriptor is closed, or whenever nobody wants to hear of it any more."""
        if self._watched.pop(fd, None) is not None and self._epoll is not None:
            with suppress(OSError):
                self._epoll.unregister(fd)

    async def run(self) -> None:
        """Answer what comes, in turns, until cancelled."""
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
                unseen: dict[int, int] = {}
                while events := self._with_news(
                    unseen, dict(epoll.poll(0, AT_ONCE))
                ):  # mostly some have brought more meanwhile
                    unseen = await self._go_through(events, turn)
        finally:
            self._is_running = False
            left, self._watched = list(self._watched.values()), {}
            if self._epoll is not None:
                self._epoll.close()
                self._epoll = None
            for each in left:
                each.wake()

    def _with_news(self, unseen: dict[int, int], news: dict[int, int]) -> dict[int, int]:
        """Both. Who is to be looked at again has requests here, which are taken without asking the socket: it would count as drained
        behind them, and what the news is of would lie there until more comes."""
        for fd in unseen.keys() & news.keys():
            if (watched := self._watched.get(fd)) is not None:
                watched.stirred()
        return unseen | news

    async def _go_through(self, events: dict[int, int], turn: Turn) -> dict[int, int]:
        """One request of each in turn, so that nobody waits for all that another has sent. `events` by descriptor.

        Returns:
            Those that are to be looked at again when the turn is over: who never stops must not keep this from looking who else
            has brought something.
        """
        of_fd = self._watched.get
        # A descriptor may be another connection's by the time it is looked at: that finds nothing there.
        waiting = deque(events.items())
        answered: list[tuple[tuple[int, int], Watched, list[Part]]] = []
        while waiting:
            event = waiting.popleft()
            fd = event[0]
            watched = of_fd(fd)
            if watched is not None:
                if not watched.is_parked:
                    # It is at work, or waits for itself: it is told when it wants to be watched again.
                    self.forget(fd)
                elif (answer := watched.arrived()) is not None:
                    answered.append((event, watched, answer))
            is_over = turn.is_over()
            if is_over or len(answered) == TOGETHER or not waiting:
                for event, watched, answer in answered:
                    if watched.send(answer, is_ending=event[1] != select.EPOLLIN):
                        waiting.append(event)
                answered.clear()
                if is_over:
                    await turn.next()
                    break
        return dict(waiting)
