"""The nodes of this process, their topics, and the catalog that stores both."""

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
    """The state of the cluster. The set of nodes never changes; their liveness, topics and leaders change under
    `change_lock`."""

    def __init__(self, nodes: list[Node], topics: Topics, catalog: Catalog, throttle: ReplicationThrottle) -> None:
        self.nodes = nodes
        self.topics = topics
        self.change_lock = trio.Lock()
        """Lock for changes of the catalog, held from reading the old state to writing the new one."""
        self.watchers: list[Watcher] = []
        self.is_stopping = False
        """Whether the broker stops: it accepts no more requests, and answers those that wait."""
        self.catalog = catalog
        self.changes = 1
        """Number of changes of the catalog, including the start: it stands for the end of Apache Kafka's metadata log."""
        self.throttle = throttle
        self.under_way: dict[TopicPartition, Partition] = {}
        """Partitions that are being reassigned."""
        self.reconsider: Callable[[], None] = lambda: None
        """Function to call after a change that affects how new replicas catch up: of nodes, throttles or reassignments."""
        self.copied_bytes: Callable[[Partition, int], int | None] = lambda partition, node_id: None
        """Function that returns how much a new replica has copied of a partition under reassignment; None if it has copied
        all."""
        self.has_eligible_replicas: Callable[[], bool] = lambda: False
        """Function that returns whether replicas outside of the ISR may be eligible leaders
        (`eligible.leader.replicas.version`)."""
        self._node_by_id = {node.node_id: node for node in nodes}

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    def node(self, node_id: int) -> Node | None:
        """Return the node with this id; None if it does not exist."""
        return self._node_by_id.get(node_id)

    def live_node_ids(self) -> list[int]:
        """Return the ids of the live nodes, ascending."""
        return [node.node_id for node in self.nodes if node.is_alive]

    def controller_id(self) -> int:
        """Return the node to which clients send admin requests: the first live one; −1 if none is alive."""
        return next(iter(self.live_node_ids()), -1)

    def controllers(self) -> dict[int, list[Listener]]:
        """Return the listeners of the controllers that answer, by controller id, in order of ids; empty if no listener belongs
        to a controller."""
        found: dict[int, list[Listener]] = {}
        for node in self.nodes:
            for listener in node.listeners:
                answers = node.is_alive or listener.controller_id != node.node_id
                if listener.controller_id is not None and answers:
                    found.setdefault(listener.controller_id, []).append(listener)
        return dict(sorted(found.items()))

    def quorum_leader(self) -> int:
        """Return the id of the leading controller: the first that answers; without controllers the node of `controller_id`."""
        return next(iter(self.controllers()), self.controller_id())

    def directory_id(self) -> bytes:
        """Return the id of the data directory, which all nodes share: the first one of several; zero if none has an id."""
        return next(map(parse_uuid, sorted(self.catalog.state.directories or ())), ZERO_UUID)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, also while the topic is being
        deleted."""
        entry = self.catalog.topics.get(name)
        if entry is None or self.topics.get(name) is None:
            raise unknown_topic(name)
        return entry.configs

    async def write(self, change: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Run a function that changes the catalog, in a thread of its directory. The caller must hold `change_lock`.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        result = await on_disk(Work.CATALOG, self.catalog.data_dir, change, *arguments)
        self.changes += 1
        return result
