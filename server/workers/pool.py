"""The processes of other nodes, as the first one has them: started, told what changes, started again when they die, stopped."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.data_dirs.handing import Given
from ...storage.disk.paths import TopicPartition
from ..cluster.placement import Placed as Placements
from ..config.static_config import StaticConfig
from ..handlers import Handlers
from ..handlers.dispatch import ListenerDesk
from ..network.connections import Connections
from ..network.desk import Desk
from ..network.listener import Listener
from ..partitions.topics import Partition
from ..runtime.nursery import Tasks, open_plain_nursery
from ..runtime.turns import Turn
from ..services.context import Services
from .forwarding import take_over
from .handing import PartitionHanding
from .link import Link, LinkLostError
from .markers import SentMarkers
from .owners import Owners
from .placed import Beginning, Placed

if TYPE_CHECKING:
    from ..cluster.nodes import Node

log = logging.getLogger("ottla.workers")

PROGRAM = "ottla.server.commands.worker"
RETRY_S = 1.0
"""Between two starts of a process that does not come up."""
STOP_DEADLINE_S = 30.0
TOLD_AT_ONCE = 256
"""Partitions in one message, each of which takes some microseconds to write and to read."""


class Running(NamedTuple):
    """One process."""

    process: subprocess.Popen[bytes]
    link: Link


class Pool:
    """Those of one life."""

    def __init__(
        self,
        static: StaticConfig,
        nodes: Sequence[Node],
        services: Services,
        owners: Owners,
        handlers: Handlers,
        connections: Connections,
        tasks: Tasks,
    ) -> None:
        self._static = static
        self._nodes = nodes
        self._services = services
        self._owners = owners
        self._handlers = handlers
        self._connections = connections
        self._tasks = tasks
        self._first = nodes[0].node_id
        self._wanted: set[int] = set()
        """Nodes that are to have a process."""
        self._running: dict[int, Running] = {}
        self._ended: dict[int, trio.Event] = {}
        """Set when the last process of a node has ended, and no other follows."""
        self._handing = PartitionHanding(services, owners)
        self._markers = SentMarkers(services.topics, tasks, self._link_of)
        services.cluster.written = self.sync
        services.cluster.moving = self.moving
        services.cluster.moved = self.moved
        services.coordinators.markers.elsewhere = self._markers.send
        services.appends.sent = self._markers.under_way

    async def start(self) -> None:
        """All of them.

        Raises:
            OSError: One does not come up.
        """
        async with open_plain_nursery() as nursery:
            for node in self._nodes[1:]:
                nursery.start_soon(self.start_node, node)

    async def start_node(self, node: Node) -> bool:
        """Start the process of a node, which serves on return; False for the first, which is this one. OSError as `start`."""
        if node.node_id == self._first:
            return False
        self._wanted.add(node.node_id)
        self._ended[node.node_id] = trio.Event()
        try:
            running = await self._begun(node)
        except LinkLostError as error:
            self._wanted.discard(node.node_id)
            raise OSError(f"the process of node {node.node_id} has ended while it started: {error}") from error
        self._tasks.start_soon(self._watch, node, running)
        return True

    async def _watch(self, node: Node, running: Running) -> None:
        """Start it again whenever it dies: its logs are recovered then, and its clients have waited at its port."""
        while True:
            await running.link.lost.wait()
            del self._running[node.node_id]
            code = await trio.to_thread.run_sync(running.process.wait)
            if node.node_id not in self._wanted:
                break
            log.error("the process of node %d has ended with %d; it is started again", node.node_id, code)
            while (again := await self._tried(node)) is None:
                await trio.sleep(RETRY_S)
                if node.node_id not in self._wanted:
                    break
            if again is None:
                break
            running = again
        self._ended[node.node_id].set()

    async def _tried(self, node: Node) -> Running | None:
        try:
            return await self._begun(node)
        except (LinkLostError, OSError) as error:
            log.error("the process of node %d does not come up: %s", node.node_id, error)
            return None

    async def _begun(self, node: Node) -> Running:
        ours, theirs = socket.socketpair()
        door, their_door = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening = {each.name: each.socket.fileno() for each in node.own_listeners if each.socket is not None}
        command = [sys.executable, "-m", PROGRAM, str(theirs.fileno()), str(their_door.fileno())]
        try:
            passed = [theirs.fileno(), their_door.fileno(), *listening.values()]
            process = await trio.to_thread.run_sync(_program, command, passed)
        except OSError:
            ours.close()
            door.close()
            raise
        finally:
            theirs.close()
            their_door.close()
        link = Link(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), {"verify": self._verify})
        desks: dict[str, tuple[Listener, Desk]] = {
            each.name: (each, ListenerDesk(self._handlers, self._services, node, each)) for each in node.own_listeners
        }
        self._tasks.start_soon(link.run)
        self._tasks.start_soon(take_over, door, desks, self._connections, self._tasks.nursery)
        self._tasks.start_soon(_close_with, link, door)
        turn = Turn()
        for topic in list(self._services.topics):
            for at in range(0, len(topic.partitions), TOLD_AT_ONCE):
                if turn.is_over():
                    await turn.next()
                link.tell("know", [Placed.of(each) for each in topic.partitions[at : at + TOLD_AT_ONCE]])
        static = replace(self._static, telemetry=None)
        nodes = [_without_sockets(each) for each in self._nodes]
        await link.call("begin", Beginning(static, node.node_id, nodes, listening, []))
        running = self._running[node.node_id] = Running(process, link)
        # What has changed while it started.
        await self._synced(link)
        self.moved(each for topic in self._services.topics for each in topic.partitions)
        return running

    async def stop(self) -> None:
        """All of them, each with a clean stop."""
        async with trio.open_nursery() as nursery:
            for node in self._nodes[1:]:
                nursery.start_soon(self.stop_node, node)

    async def stop_node(self, node: Node) -> None:
        """End the process of a node, if it has one; it takes no more connections, and ends those that it has."""
        self._wanted.discard(node.node_id)
        running, ended = self._running.get(node.node_id), self._ended.get(node.node_id)
        if running is None or ended is None:
            return
        running.link.tell("stop")
        with trio.move_on_after(STOP_DEADLINE_S):
            await ended.wait()
            return
        log.error("the process of node %d does not stop, and is killed", node.node_id)
        running.process.kill()
        await ended.wait()

    # What they are told

    async def sync(self) -> None:
        """The catalog has changed."""
        async with trio.open_nursery() as nursery:
            for running in tuple(self._running.values()):
                nursery.start_soon(self._synced, running.link)

    async def _synced(self, link: Link) -> None:
        try:
            await link.call("sync")
        except LinkLostError:
            pass  # its next process reads it
        except Exception as error:  # noqa: BLE001 - it is written; what the disk refused there is tried with the next change
            log.error("a node has not taken over a change of the catalog: %s", error)

    def moved(self, partitions: Iterable[Partition]) -> None:
        """It is known who leads these partitions, and which nodes live. What each is told is how it is by then."""
        self._tasks.start_soon(self._place, list(partitions))

    async def _place(self, partitions: Sequence[Partition]) -> None:
        turn = Turn()
        for at in range(0, max(len(partitions), 1), TOLD_AT_ONCE):
            if turn.is_over():
                await turn.next()
            placed = [Placed.of(each) for each in partitions[at : at + TOLD_AT_ONCE]]
            for running in self._running.values():
                running.link.tell("place", placed, self._services.cluster.live_node_ids())

    async def moving(self, placed: Placements) -> None:
        """It is written who is to lead partitions: their logs go to the processes of those nodes, before anybody knows.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: one of the processes has gone, or a disk refused; it may be tried again.
        """
        ways: defaultdict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
        for partition, placement in placed.items():
            name = partition.topic_partition.topic
            before = self._owners.owner(name, partition.leader)
            after = self._owners.owner(name, placement.leadership.leader)
            if before != after:
                ways[before, after].append(partition.topic_partition)
        for (before, after), wanted in ways.items():
            try:
                await self._hand_over(before, after, wanted)
            except (LinkLostError, OSError) as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"node {before} to node {after}: {error}") from error

    async def _hand_over(self, before: int, after: int, wanted: Sequence[TopicPartition]) -> None:
        if before == self._first:
            given: list[Given] = await self._handing.give(wanted, after)
        else:
            given = await self._link(before).call("give", wanted, after)
        if after == self._first:
            await self._handing.take(given)
        else:
            await self._link(after).call("take", given)
        if before == self._first:
            self._handing.forget(wanted)
        else:
            self._link(before).tell("forget", wanted)
        turn = Turn()
        for each in wanted:
            if turn.is_over():
                await turn.next()
            partition = self._services.topics.partition(*each)
            if partition.is_elsewhere:
                past = partition.log
                partition.log = self._owners.standing_for(each, past.topic_id, past.config, after)

    def _link(self, node_id: int) -> Link:
        running = self._running.get(node_id)
        if running is None:
            raise LinkLostError(f"the process of node {node_id} is not there")
        return running.link

    def _link_of(self, partition: Partition) -> Link:
        return self._link(partition.leader)

    # What they ask

    async def _verify(
        self, transactional_id: str, producer: tuple[int, int], partitions: Sequence[TopicPartition], add: bool
    ) -> Mapping[TopicPartition, KafkaError]:
        """The word of the transaction coordinator, once it is on disk; see `TransactionService.verify`."""
        transactions = self._services.coordinators.transactions
        refused = transactions.verify(transactional_id, *producer, partitions, add=add)
        await transactions.settle(transactional_id)
        return refused


def _program(command: Sequence[str], passed: Sequence[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)


async def _close_with(link: Link, door: socket.socket) -> None:
    await link.lost.wait()
    with suppress(OSError):
        trio.lowlevel.notify_closing(door)
        door.close()


def _without_sockets(node: Node) -> Node:
    listeners = [replace(each, socket=None, _reserved=None, tls=None) for each in node.listeners]
    return replace(node, listeners=listeners, by_listener={})
