"""Stopping and starting single nodes while the others serve.

A node that stops hands its leaderships over before it closes anything, so its clients are told where to go on. What is
decided is in the catalog before any client can see it: a leader epoch is never given twice, not even over a restart,
which starts all nodes. A leader that is stopped with nobody to follow it stays in the catalog, for the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from ..storage.catalog import TopicEntry
from .disk import on_disk
from .leadership import Leadership, elect
from .topics import NO_LEADER, Partition

if TYPE_CHECKING:
    from .broker import Broker
    from .nodes import Node

# Requests in progress get this long to end when their node stops.
STOP_DEADLINE_S = 5.0


class NodeError(Exception):
    """Why a node cannot be stopped or started, in one line."""


class NodeLife:
    """Stops and starts the nodes of a broker, one at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._one_at_a_time = trio.Lock()

    async def stop(self, node_id: int) -> None:
        """As `Broker.stop_node`."""
        node = self._node(node_id)
        async with self._one_at_a_time:
            if not node.is_alive:
                return
            await self._become(node, is_alive=False)
            node.close()
            await self._broker.connections.drain(STOP_DEADLINE_S, [node])
            node.fetch_sessions.clear()

    async def start(self, node_id: int) -> None:
        """As `Broker.start_node`."""
        broker, node = self._broker, self._node(node_id)
        async with self._one_at_a_time:
            if node.is_alive:
                return
            if broker.stopping:
                raise NodeError(f"node {node_id} cannot start: the broker stops")
            node.bind(broker.config.socket_listen_backlog_size)
            try:
                await self._become(node, is_alive=True)
            except BaseException:
                node.close()
                raise
            broker.accept_on(node)

    def _node(self, node_id: int) -> Node:
        node = self._broker.node(node_id)
        if node is None:
            raise NodeError(f"there is no node {node_id}")
        return node

    async def _become(self, node: Node, *, is_alive: bool) -> None:
        """Decide who leads the partitions of `node` from now on: first in the catalog, then for everyone.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        broker = self._broker
        async with broker.admin.lock:
            live = {*broker.live_node_ids(), node.node_id} if is_alive else {*broker.live_node_ids()} - {node.node_id}
            elected = {
                partition: elect(
                    partition.replicas,
                    Leadership(partition.leader, partition.isr),
                    live,
                    unclean=partition.log.config.unclean_leader_election_enable,
                )
                for topic in broker.topics
                for partition in topic.partitions
                if node.node_id in partition.replicas
            }
            moved = {partition: new for partition, new in elected.items() if new.leader != partition.leader}
            if moved:
                await on_disk(broker.catalog.put_topics, self._entries(moved))
            node.is_alive = is_alive
            for partition, new in elected.items():
                partition.leader, partition.isr = new
                partition.leader_epoch += partition in moved
        for partition in moved:
            broker.leader_moved(partition)

    def _entries(self, moved: Mapping[Partition, Leadership]) -> list[TopicEntry]:
        """What the catalog shall say of the topics with partitions that are led anew."""
        entries = []
        for topic in {partition.topic for partition in moved}:
            entry = self._broker.catalog.topics[topic.name]
            partitions = list(entry.partitions)
            for partition in topic.partitions:
                if partition in moved:
                    stored, leader = partitions[partition.index], moved[partition].leader
                    partitions[partition.index] = replace(
                        stored,
                        leader=stored.leader if leader == NO_LEADER else leader,
                        leader_epoch=partition.leader_epoch + 1,
                    )
            entries.append(replace(entry, partitions=tuple(partitions)))
        return entries
