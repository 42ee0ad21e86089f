"""What processes tell each other of partitions and nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...storage.disk.paths import TopicPartition
from ..cluster.nodes import Node
from ..config.static_config import StaticConfig
from ..partitions.topics import Partition


class Placed(NamedTuple):
    """Who leads a partition."""

    where: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    topic_id: bytes | None
    """Of its topic: another one may have the name by the time this is looked at."""

    @classmethod
    def of(cls, partition: Partition) -> Placed:
        return cls(
            partition.topic_partition,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            partition.elr,
            partition.log.topic_id,
        )

    def put(self, partition: Partition) -> None:
        """Have it known here."""
        partition.leader, partition.leader_epoch = self.leader, self.leader_epoch
        partition.replicas, partition.isr, partition.elr = self.replicas, self.isr, self.elr


class Beginning(NamedTuple):
    """What the process of a node begins with."""

    static: StaticConfig
    node_id: int
    nodes: list[Node]
    """Without sockets."""
    listening: dict[str, int]
    """The descriptors of its listeners, by name."""
    placed: list[Placed]
    """Of all partitions there are, which were told before: the catalog may say already what is only about to be."""


class Marker(NamedTuple):
    """The end of a transaction in one partition, as `Markers.write_own` takes it."""

    where: TopicPartition
    facts: dict[str, Any]
