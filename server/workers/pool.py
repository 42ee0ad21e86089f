"""The processes of other nodes, as the first one has them: started, told what changes, started again when they die, stopped."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import KafkaError
from ...storage.disk.paths import TopicPartition
from ..config.static_config import StaticConfig
from ..handlers import Handlers
from ..handlers.dispatch import ListenerDesk
from ..network.connections import Connections
from ..network.desk import Desk
from ..network.listener import Listener
from ..partitions.topics import NO_LEADER, Partition
from ..runtime.nursery import Tasks, open_plain_nursery
from ..runtime.turns import Turn
from ..services.context import Services
from .forwarding import take_over
from .handing import PartitionHanding
from .keeper import Keeper
from .link import Link, LinkLostError
from .markers import SentMarkers
from .moves import Moves
from .owners import Owners
from .placed import Beginning, Placed
from .process import NodeProcess, begun

if TYPE_CHECKING:
    from ..cluster.nodes import Node

log = logging.getLogger("ottla.workers")

TOLD_AT_ONCE = 256
"""Partitions in one message, each of which takes some microseconds to write and to read."""


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
        self._links: dict[int, Link] = {}
        """To the processes that serve."""
        self._starting: dict[int, Link] = {}
        """Likewise, and to those that are to serve."""
        self._keepers = {each.node_id: Keeper(partial(self._begun, each), tasks) for each in nodes[1:]}
        self._moves = Moves(owners, services, PartitionHanding(services, owners), self._link, self.moved, tasks)
        self._markers = SentMarkers(services.topics, tasks, self._link_of)
        services.cluster.written = self.sync
        services.cluster.moving = self._moves.moving
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
        await self._keepers[node.node_id].start()
        return True

    async def stop(self) -> None:
        """All of them, each with a clean stop."""
        async with trio.open_nursery() as nursery:
            for node in self._nodes[1:]:
                nursery.start_soon(self.stop_node, node)

    async def stop_node(self, node: Node) -> None:
        """End the process of a node, if it has one; it takes no more connections, and ends those that it has."""
        if node.node_id != self._first:
            await self._keepers[node.node_id].stop()

    async def _begun(self, node: Node) -> NodeProcess:
        """A process of a node, which serves.

        Raises:
            OSError, LinkLostError: It does not; it is no more then. One line that names it.
        """
        listening = {each.name: each.socket.fileno() for each in node.own_listeners if each.socket is not None}
        desks: dict[str, tuple[Listener, Desk]] = {
            each.name: (each, ListenerDesk(self._handlers, self._services, node, each)) for each in node.own_listeners
        }

        def serve_door(door: socket.socket) -> None:
            self._tasks.start_soon(take_over, door, desks, self._connections, self._tasks.nursery)

        served = {"verify": self._verify}
        process = await begun(node.node_id, served, [*listening.values()], serve_door, self._tasks)
        self._tasks.start_soon(self._forgotten, process)
        link = self._starting[node.node_id] = process.link
        try:
            await self._told_all(link)
            static = replace(self._static, telemetry=None)
            nodes = [_without_sockets(each) for each in self._nodes]
            await link.call("begin", Beginning(static, node.node_id, nodes, listening, []))
        except BaseException as error:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.ended()
            if isinstance(error, LinkLostError):
                raise LinkLostError(f"{process.what_was()} has not come up") from error
            raise
        self._links[node.node_id] = link
        # What has changed while it started.
        await self._synced(link)
        self.moved(each for topic in self._services.topics for each in topic.partitions)
        self._moves.try_again()
        return process

    async def _forgotten(self, process: NodeProcess) -> None:
        """Once it has gone."""
        await process.link.lost.wait()
        for links in self._links, self._starting:
            if links.get(process.node_id) is process.link:
                del links[process.node_id]

    async def _told_all(self, link: Link) -> None:
        """Who leads what. What is on its way nobody leads: it is told when it has come."""
        turn = Turn()
        for topic in list(self._services.topics):
            for at in range(0, len(topic.partitions), TOLD_AT_ONCE):
                if turn.is_over():
                    await turn.next()
                placed = [Placed.of(each) for each in topic.partitions[at : at + TOLD_AT_ONCE]]
                away = self._moves.on_their_way
                link.tell("know", [each._replace(leader=NO_LEADER) if each.where in away else each for each in placed])

    # What they are told

    async def sync(self) -> None:
        """The catalog has changed."""
        async with trio.open_nursery() as nursery:
            for link in tuple(self._links.values()):
                nursery.start_soon(self._synced, link)

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
            for link in self._links.values():
                link.tell("place", placed, self._services.cluster.live_node_ids())

    def _link(self, node_id: int) -> Link:
        """To the process of a node, which may be one that only begins. LinkLostError: there is none."""
        link = self._links.get(node_id) or self._starting.get(node_id)
        if link is None:
            raise LinkLostError(f"the process of node {node_id} is not there")
        return link

    def _link_of(self, partition: Partition) -> Link:
        """To the process that serves it."""
        if partition.leader not in self._links:
            raise LinkLostError(f"the process of node {partition.leader} is not there")
        return self._links[partition.leader]

    # What they ask

    async def _verify(
        self, transactional_id: str, producer: tuple[int, int], partitions: Sequence[TopicPartition], add: bool
    ) -> Mapping[TopicPartition, KafkaError]:
        """The word of the transaction coordinator, once it is on disk; see `TransactionService.verify`."""
        transactions = self._services.coordinators.transactions
        refused = transactions.verify(transactional_id, *producer, partitions, add=add)
        await transactions.settle(transactional_id)
        return refused


def _without_sockets(node: Node) -> Node:
    listeners = [replace(each, socket=None, _reserved=None, tls=None) for each in node.listeners]
    return replace(node, listeners=listeners, by_listener={})
