"""The program of a node in a process of its own: `python -m ottla.server.commands.worker LINK DOOR LEVEL`, descriptors of two
sockets and the least level of what it logs.

Nobody starts it but the first process (`workers.pool`), which says what it is to be, and with which it ends.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

import trio

from ...storage.data_dirs.handing import Given
from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import TopicPartition
from ..broker.life import alive
from ..broker.worker import WorkerBroker
from ..runtime.clock import Clock
from ..workers.forwarding import Door, Forwarding
from ..workers.link import Link
from ..workers.placed import Beginning, Placed
from .serve import STOP_SIGNALS, prepare_process, warm_up
from .serve_command import log_to_standard_error


class Orders:
    """What the first process asks for."""

    def __init__(self) -> None:
        self.beginning: Beginning
        self.broker: WorkerBroker
        self.known: list[Placed] = []
        self.told = trio.Event()
        self.serving = trio.Event()
        self.stop = trio.Event()

    async def begin(self, beginning: Beginning) -> None:
        """Answered when the node serves."""
        self.beginning = beginning
        self.told.set()
        await self.serving.wait()

    async def give(self, wanted: Sequence[TopicPartition], to: int) -> list[Given]:
        """As `PartitionHanding.give`; `take` likewise. They may be asked for while it begins."""
        await self.serving.wait()
        return await self.broker.give(wanted, to)

    async def take(self, given: Sequence[Given]) -> Mapping[TopicPartition, str]:
        await self.serving.wait()
        return await self.broker.take(given)


def main() -> None:
    log_to_standard_error(logging.getLevelNamesMapping()[sys.argv[3]])
    prepare_process()
    for number in STOP_SIGNALS:  # a terminal sends them to both; the first process decides
        signal.signal(number, signal.SIG_IGN)
    link, door = (socket.socket(fileno=int(text)) for text in sys.argv[1:3])
    trio.run(_run, link, door)


async def _run(sock: socket.socket, door: socket.socket) -> None:
    orders = Orders()
    link = Link(
        trio.SocketStream(trio.socket.from_stdlib_socket(sock)),
        {
            "here": lambda: None,
            "know": orders.known.extend,
            "begin": orders.begin,
            "stop": orders.stop.set,
            "sync": lambda: orders.broker.sync(),
            "place": lambda *args: orders.broker.place(*args),
            "give": orders.give,
            "take": orders.take,
            "forget": lambda *args: orders.broker.forget(*args),
            "mark": lambda *args: orders.broker.mark(*args),
        },
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with, link, orders.stop)
        await orders.told.wait()
        beginning = orders.beginning
        beginning.placed.extend(orders.known)
        _listen(beginning, door)
        broker = orders.broker = WorkerBroker(beginning, link, clock=Clock(), files=OsFiles(), rng=random.Random())
        async with alive(broker):
            nursery.start_soon(warm_up, broker.collector)
            nursery.start_soon(broker.collector.run)
            orders.serving.set()
            await orders.stop.wait()
        nursery.cancel_scope.cancel()


async def _end_with(link: Link, stop: trio.Event) -> None:
    """Whoever starts the broker again after its first process has died is to find the data directories free, at once."""
    await link.run()
    if not stop.is_set():
        os._exit(1)


def _listen(beginning: Beginning, sock: socket.socket) -> None:
    door = Door(sock)
    for node in beginning.nodes:
        for listener in node.listeners:
            if node.node_id == beginning.node_id and listener.name in beginning.listening:
                listener.socket = socket.socket(fileno=beginning.listening[listener.name])
                listener.socket.setblocking(False)
                listener.forwarding = Forwarding(door, listener.name)


if __name__ == "__main__":
    main()
