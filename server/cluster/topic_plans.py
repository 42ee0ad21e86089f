"""Plans of topic changes: all checks of a request are here, and nothing is changed.

Replicas of new partitions are placed as by Apache Kafka's controller. Every node of the cluster is used, stopped ones included, but at
least one replica of each partition must be alive to lead it. Leaders rotate over the racks, and followers are in other racks as long
as there are any (KIP-36).
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from math import lcm
from types import MappingProxyType
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import CLUSTER_METADATA_TOPIC
from ..config.changes import check_topic_configs
from ..config.live_config import LiveConfig
from ..partitions.topics import Topic, Topics, flat
from .nodes import Node

MAX_NAME_CHARACTERS = 249
# Kafka's controller refuses more partitions in one request (KAFKA-14735); creating directories takes time.
PARTITIONS_MAX = 10_000

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION unless `name` is a legal topic name."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_CHARACTERS:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_CHARACTERS}"
    elif not _NAME.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


class TopicPlan(NamedTuple):
    """A topic that may be created: `replicas[p]` are the node ids of partition p, the leader first."""

    name: str
    replicas: tuple[Replicas, ...]
    configs: Mapping[str, str]


class Planner:
    """Planner of changes of one broker's topics."""

    def __init__(self, nodes: Sequence[Node], topics: Topics, live_config: LiveConfig, rng: random.Random) -> None:
        self._nodes = nodes
        self._topics = topics
        self._live_config = live_config
        self._rng = rng

    def plan(
        self,
        name: str,
        *,
        num_partitions: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Replicas] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> TopicPlan:
        """Return the plan of a new topic, after all checks.

        Args:
            num_partitions, replication_factor: −1 takes the broker's default; both must be −1 with
                `assignments` (partition → node ids, the preferred leader first).

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, INVALID_CONFIG.
        """
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        check_name(name)
        self.check_free(name)
        check_topic_configs(self._live_config.current, configs or {}, name)
        replicas = (
            self._assigned(assignments, num_partitions, replication_factor)
            if assignments
            else self._spread(num_partitions, replication_factor)
        )
        return TopicPlan(name, replicas, dict(configs or {}))

    def plan_growth(self, topic: Topic, count: int, assignments: Sequence[Replicas] | None) -> tuple[Replicas, ...]:
        """Return the replicas of the partitions that must be added to give `topic` `count` partitions.

        Raises:
            KafkaError: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
        """
        present = len(topic.partitions)
        if count == present:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if count < present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
            )
        new = count - present
        self._check_count(new)
        if assignments is None:
            factor = len(topic.partitions[0].replicas)
            return spread(self._nodes, new, factor, present, has_room=self._live_config.current.has_uncordoned_dirs)
        if len(assignments) != new:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {new} additional partition(s), but only {len(assignments)} assignment(s) were"
                " specified.",
            )
        factor = len(topic.partitions[0].replicas)
        check_assignments(self._nodes, dict(enumerate(assignments, present)), factor)
        return tuple(assignments)

    def check_free(self, name: str, coming: Mapping[str, str] = MappingProxyType({})) -> None:
        """Raise KafkaError TOPIC_ALREADY_EXISTS or INVALID_TOPIC_EXCEPTION unless a new topic may have this name.

        Args:
            coming: Topics that are created with it, by their flat names.
        """
        colliding = self._topics.colliding(name)
        other = coming.get(flat(name)) if colliding is None else colliding.name
        if other == name or self._topics.get(name) is not None:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if other is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _spread(self, num_partitions: int, replication_factor: int) -> tuple[Replicas, ...]:
        config = self._live_config.current
        count = config.num_partitions if num_partitions == -1 else num_partitions
        factor = config.default_replication_factor if replication_factor == -1 else replication_factor
        if factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor must be larger than 0, or -1 to use the default value; it is {factor}.",
            )
        if count <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"Number of partitions was set to an invalid non-positive value: {count}."
            )
        self._check_count(count)
        nodes = self._nodes
        start = self._rng.randrange(len(nodes))
        return spread(nodes, count, factor, start, has_room=config.has_uncordoned_dirs)

    def _assigned(
        self, assignments: Mapping[int, Replicas], num_partitions: int, replication_factor: int
    ) -> tuple[Replicas, ...]:
        if replication_factor != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if num_partitions != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        self._check_count(len(assignments))
        if sorted(assignments) != list(range(len(assignments))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        check_assignments(self._nodes, assignments, len(assignments[0]))
        return tuple(assignments[index] for index in range(len(assignments)))

    @staticmethod
    def _check_count(count: int) -> None:
        if count > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"too many partitions in one request ({count}, limit {PARTITIONS_MAX}).",
            )


Replicas = tuple[int, ...]


def spread(
    nodes: Sequence[Node], count: int, factor: int, start: int, *, has_room: bool = True
) -> tuple[Replicas, ...]:
    """Return `factor` replicas for each of `count` partitions, the leader first; `start` is the first position of the rotation.

    Args:
        has_room: Whether a data directory accepts new partitions; the nodes share the directories.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR (more than the number of nodes, no live node, or no room).
    """
    live = [node for node in nodes if node.is_alive]
    problem = None
    if factor > len(nodes):
        problem = (
            f"The target replication factor of {factor} cannot be reached because only {len(nodes)} broker(s) are"
            " registered or some brokers have all their log directories cordoned."
        )
    elif not live or not has_room:
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    if problem:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {problem}"
        )
    alive = _spread_over_racks(live, count, min(factor, len(live)), start)
    stopped = _spread_over_racks([node for node in nodes if not node.is_alive], count, factor - len(alive[0]), start)
    return tuple(map(tuple.__add__, alive, stopped))


def _spread_over_racks(nodes: Iterable[Node], count: int, factor: int, start: int) -> list[Replicas]:
    """Take one node of each rack in turn; in the next round, the next node of each."""
    by_rack = defaultdict(list)
    for node in nodes:
        by_rack[node.rack or ""].append(node.node_id)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    period = len(racks) * lcm(*map(len, racks)) or 1

    def place(step: int) -> Replicas:
        replicas: list[int] = []
        while len(replicas) < factor:
            rack = racks[step % len(racks)]
            node_id = rack[step // len(racks) % len(rack)]
            if node_id not in replicas:
                replicas.append(node_id)
            step += 1
        return tuple(replicas)

    once = [place(step) for step in range(start, start + min(count, period))]
    return list(islice(cycle(once), count))


def check_assignments(
    nodes: Iterable[Node], assignments: Mapping[int, Replicas], factor: int, *, must_live: bool = True
) -> None:
    """Check a client's assignments (partition → node ids): each must have `factor` valid replicas.

    Args:
        must_live: Whether at least one replica of each partition must be alive.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    alive = {node.node_id: node.is_alive for node in nodes}
    sound: set[Replicas] = set()
    for partition, given in assignments.items():
        if given in sound:
            continue
        problem = None
        # A list that is longer than the number of nodes is wrong in any case; its first entries are enough for the message.
        replicas = given[: len(alive) + 1]
        unknown = set(replicas) - set(alive)
        if not replicas:
            problem = "The manual partition assignment includes an empty replica list."
        elif len(set(replicas)) != len(replicas):
            problem = f"The manual partition assignment includes a broker more than once: {list(replicas)}."
        elif unknown:
            problem = (
                f"The manual partition assignment includes broker {min(unknown)}, but no such broker is registered."
            )
        elif len(replicas) != factor:
            problem = (
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s)."
            )
        elif must_live and not any(alive[node_id] for node_id in replicas):
            problem = (
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in"
                " controlled shutdown."
            )
        if problem:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        sound.add(given)
