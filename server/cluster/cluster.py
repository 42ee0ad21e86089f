"""The nodes of this process, the topics over which they stand, and the catalog in which that is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from ...protocol.schema import ZERO_UUID
from ...storage.disk.checkpoints import parse_uuid
from ...storage.disk.paths import TopicPartition
from ...storage.topics.catalog import Catalog
from ..network.listener import Listener
from ..partitions.topics import Partition, Topics, Watcher, unknown_topic
from ..runtime.threads import Arguments, Result, Work, on_disk
from .nodes import Node
from .replication_throttle import ReplicationThrottle


class Cluster:
    """Who holds what. The set of nodes stays; which of them live, topics and leaders change under `change_lock`."""

    def __init__(self, nodes: list[Node], topics: Topics, catalog: Catalog, throttle: ReplicationThrottle) -> None:
        self.nodes = nodes
        self.topics = topics
        self.change_lock = trio.Lock()
        """Held by whoever changes the catalog, from reading what there is to writing what shall be."""
        self.watchers: list[Watcher] = []
        self.is_stopping = False
        """The broker stops: no more requests are taken, and those that wait are answered."""
        self.catalog = catalog
        self.changes = 1
        """How many there have been of the catalog, with the start: where the end of Apache Kafka's metadata log would be."""
        self.throttle = throttle
        self.under_way: dict[TopicPartition, Partition] = {}
        """The partitions that are being reassigned."""
        self.reconsider: Callable[[], None] = lambda: None
        """To be called when something changes by which new replicas catch up: nodes, throttles, what is under way."""
        self.copied_bytes: Callable[[Partition, int], int | None] = lambda partition, node_id: None
        """How much a new replica has by now of a partition that is being reassigned; None for one that has all of it."""
        self.has_eligible_replicas: Callable[[], bool] = lambda: False
        """Whether replicas outside of the ISR may be eligible leaders (`eligible.leader.replicas.version`)."""
        self._node_by_id = {node.node_id: node for node in nodes}

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    def node(self, node_id: int) -> Node | None:
        """The node with this id, if there is one."""
        return self._node_by_id.get(node_id)

    def live_node_ids(self) -> list[int]:
        """Ids of the nodes that serve, ascending."""
        return [node.node_id for node in self.nodes if node.is_alive]

    def controller_id(self) -> int:
        """The node that clients are told to send admin requests to, the first live one; −1 if none lives."""
        return next(iter(self.live_node_ids()), -1)

    def controllers(self) -> dict[int, list[Listener]]:
        """By id the listeners of controllers that answer, in order of ids; none where no listener is a controller's."""
        found: dict[int, list[Listener]] = {}
        for node in self.nodes:
            for listener in node.listeners:
                answers = node.is_alive or listener.controller_id != node.node_id
                if listener.controller_id is not None and answers:
                    found.setdefault(listener.controller_id, []).append(listener)
        return dict(sorted(found.items()))

    def quorum_leader(self) -> int:
        """The controller that leads: the first that answers, the node that clients are told is the controller without any."""
        return next(iter(self.controllers()), self.controller_id())

    def directory_id(self) -> bytes:
        """The id of the data directory, which all nodes share; of several the first; zero where none was ever given."""
        return next(map(parse_uuid, sorted(self.catalog.state.directories or ())), ZERO_UUID)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The overrides of a topic. KafkaError UNKNOWN_TOPIC_OR_PARTITION, also in the moment in which it goes."""
        entry = self.catalog.topics.get(name)
        if entry is None or self.topics.get(name) is None:
            raise unknown_topic(name)
        return entry.configs

    async def write(self, change: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Do what changes the catalog, in a thread of its directory. For the holder of `change_lock`.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        result = await on_disk(Work.CATALOG, self.catalog.data_dir, change, *arguments)
        self.changes += 1
        return result
