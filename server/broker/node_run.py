"""Stops and starts of single nodes while the others serve.

A node that stops hands its leaderships over before it closes anything, so its clients learn the new leaders. Decisions are in
the catalog before any client can see them: a leader epoch is never used twice, not even over a restart, which starts all nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from ..cluster.cluster import Cluster
from ..cluster.leadership import Leadership, elect
from ..cluster.placement import Placement, publish_placements, write_placements
from ..config.live_config import LiveConfig
from ..network.connections import Connections
from ..partitions.fetch_sessions import FetchSessions
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import TimeSlice

if TYPE_CHECKING:
    from ..cluster.nodes import Node
    from ..network.listener import Listener
    from ..partitions.topics import Partition

log = logging.getLogger("ottla.nodes")

# Requests in progress get this long to end when their node stops.
STOP_DEADLINE_S = 5.0


class NodeRun:
    """Stops and starts the nodes of a broker, one at a time."""

    def __init__(
        self,
        cluster: Cluster,
        live_config: LiveConfig,
        connections: Connections,
        fetch_sessions: Mapping[int, FetchSessions],
        accept_on: Callable[[Node, list[Listener]], None],
    ) -> None:
        self._cluster = cluster
        self._live_config = live_config
        self._connections = connections
        self._fetch_sessions = fetch_sessions
        self._accept_on = accept_on
        self._one_at_a_time = trio.Lock()

    async def stop(self, node_id: int) -> None:
        node = self._node(node_id)
        async with self._one_at_a_time:
            if not node.is_alive:
                return
            await self._elect(node, is_alive=False)
            node.pause_own_listeners()
            await self._connections.drain(STOP_DEADLINE_S, node.own_listeners)
            self._fetch_sessions[node_id].clear()
            log.info("node %d: stopped", node_id)

    async def start(self, node_id: int) -> None:
        node = self._node(node_id)
        async with self._one_at_a_time:
            if node.is_alive:
                return
            if self._cluster.is_stopping:
                raise ControlError(Kind.UNAVAILABLE, f"node {node_id} cannot start: the broker is stopping")
            node.bind(self._live_config.current.listen_backlog)
            try:
                await self._elect(node, is_alive=True)
            except BaseException:
                node.pause_own_listeners()
                raise
            node.is_registered = True
            self._accept_on(node, node.own_listeners)
            log.info("node %d: started", node_id)

    def _node(self, node_id: int) -> Node:
        node = self._cluster.node(node_id)
        if node is None:
            ids = ", ".join(str(each.node_id) for each in self._cluster.nodes)
            raise ControlError(Kind.NOT_FOUND, f"node {node_id} not found; nodes: {ids}")
        return node

    async def _elect(self, node: Node, *, is_alive: bool) -> None:
        """Elect the leaders of the partitions of `node`: first in the catalog, then in memory.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        cluster = self._cluster
        async with cluster.change_lock:
            live = {*cluster.live_node_ids()} ^ {node.node_id}
            time_slice = TimeSlice()
            placed: dict[Partition, Placement] = {}
            for topic in cluster.topics:  # it does not change while the lock is held
                async for partition in time_slice.each(topic.partitions):
                    if node.node_id in partition.replicas:
                        unclean = partition.log.config.unclean_leader_election_enable
                        present = Leadership(partition.leader, partition.isr)
                        elected = elect(partition.able_replicas, present, live, unclean=unclean, elr=partition.elr)
                        placed[partition] = Placement(partition.replicas, elected, partition.reassigning)
            await write_placements(cluster, placed)
            node.is_alive = is_alive
            await publish_placements(cluster, placed)
            cluster.reconsider()
