"""Rates at which new replicas catch up: Apache Kafka's replication throttles (KIP-73).

    topic    leader.replication.throttled.replicas      PARTITION:NODE, or *: leaders to which their node's rate applies
             follower.replication.throttled.replicas    the same for new replicas
    node     leader.replication.throttled.rate          bytes a second, shared by these partitions that the node leads
             follower.replication.throttled.rate        the same, shared by these new replicas on the node

The lower of both rates applies. If neither is set, new replicas catch up at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...storage.steps import Steps, to_the_end
from ...storage.topics.options import MAX_LONG
from ..config.live_config import LiveConfig
from ..partitions.topics import NO_LEADER, Partition
from .nodes import Node

LISTS_MAX = 100
"""Maximum number of lists that are kept for the next call."""


class NewReplica(NamedTuple):
    """A new replica that must still catch up."""

    partition: Partition
    node_id: int


class ReplicationThrottle:
    """The replication throttle of one broker."""

    def __init__(self, nodes: Iterable[Node], live_config: LiveConfig) -> None:
        self._nodes = {node.node_id: node for node in nodes}
        self._live_config = live_config
        self._rates: dict[int, tuple[float, float]] = {}
        """Rates by node: as a leader, as a follower. Computing the options of a node takes a millisecond."""
        self._listed: dict[int, tuple[tuple[str, ...], frozenset[str]]] = {}
        """Identity of a topic's list -> the list, and its entries. Kafka's tool lists each replica of a topic, and each replica
        needs a look-up."""
        live_config.watchers.append(self._rates.clear)

    def rates(self, replicas: Iterable[NewReplica]) -> dict[NewReplica, float]:
        """Return the rate in bytes a second of each of these replicas, which catch up at the same time; infinity without a
        throttle.

        It is 0 for a replica whose node is stopped, or whose partition has no leader.
        """
        return to_the_end(self.rates_in_pieces(replicas))

    def rates_in_pieces(self, replicas: Iterable[NewReplica]) -> Steps[dict[NewReplica, float]]:
        """Compute `rates`, a replica at a time: ten thousand may catch up. `replicas` must not change during that."""
        limits: dict[NewReplica, list[tuple[int, bool]] | None] = {}
        sharing: Counter[tuple[int, bool]] = Counter()
        for replica in replicas:
            limits[replica] = its = list(self._limits(replica)) if self._is_reachable(replica) else None
            for limit in its or ():
                sharing[limit] += 1
            yield
        found: dict[NewReplica, float] = {}
        for replica, its in limits.items():
            if its is None:
                found[replica] = 0.0
            else:
                found[replica] = min((self._rate(*limit) / sharing[limit] for limit in its), default=math.inf)
            yield
        return found

    def rate(self, replica: NewReplica) -> float:
        """Return `rates` of one replica alone."""
        return self.rates([replica])[replica]

    def _is_reachable(self, replica: NewReplica) -> bool:
        node = self._nodes.get(replica.node_id)
        return node is not None and node.is_alive and replica.partition.present_leader != NO_LEADER

    def _limits(self, replica: NewReplica) -> Iterable[tuple[int, bool]]:
        """Iterate over the limits that a replica shares with others: node, and whether as a follower. Nodes without a limit are
        left out."""
        partition, config = replica.partition, replica.partition.log.config
        for listed, node_id, is_follower in (
            (config.leader_replication_throttled_replicas, partition.leader, False),
            (config.follower_replication_throttled_replicas, replica.node_id, True),
        ):
            if not listed or self._rate(node_id, is_follower) == math.inf:
                continue
            if listed == ("*",) or f"{partition.index}:{node_id}" in self._entries(listed):
                yield node_id, is_follower

    def _entries(self, listed: tuple[str, ...]) -> frozenset[str]:
        known = self._listed.get(id(listed))
        if known is None:
            if len(self._listed) >= LISTS_MAX:
                self._listed.clear()
            known = self._listed[id(listed)] = listed, frozenset(listed)
        return known[1]

    def _rate(self, node_id: int, is_follower: bool) -> float:
        if node_id not in self._rates:
            config = self._live_config.node_config(node_id)
            both = config.leader_replication_throttled_rate, config.follower_replication_throttled_rate
            leader, follower = (math.inf if rate == MAX_LONG else float(rate) for rate in both)
            self._rates[node_id] = leader, follower
        return self._rates[node_id][is_follower]
