"""Which nodes get the replicas of new partitions, as Apache Kafka's controller places them.

Every node of the cluster counts, stopped ones too, but at least one replica of each partition must be alive to lead it.
Leaders go round the racks, followers behind them in other racks as long as there are any (KIP-36).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from math import lcm

from ...protocol.errors import ErrorCode, KafkaError
from .nodes import Node

Replicas = tuple[int, ...]


def spread(
    nodes: Sequence[Node], count: int, factor: int, start: int, *, has_room: bool = True
) -> tuple[Replicas, ...]:
    """`factor` replicas for each of `count` partitions, the leader first; `start` turns the wheel for the first one.

    Args:
        has_room: Whether there is a data directory that takes new partitions; the nodes share them.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR (more than there are nodes, or none of them alive, or without room).
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
    alive = _around(live, count, min(factor, len(live)), start)
    stopped = _around([node for node in nodes if not node.is_alive], count, factor - len(alive[0]), start)
    return tuple(map(tuple.__add__, alive, stopped))


def _around(nodes: Iterable[Node], count: int, factor: int, start: int) -> list[Replicas]:
    """One node of each rack in turn; the next time round, the next node of each."""
    by_rack = defaultdict(list)
    for node in nodes:
        by_rack[node.rack or ""].append(node.node_id)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    period = len(racks) * lcm(*map(len, racks)) or 1

    def placed(step: int) -> Replicas:
        replicas: list[int] = []
        while len(replicas) < factor:
            rack = racks[step % len(racks)]
            node_id = rack[step // len(racks) % len(rack)]
            if node_id not in replicas:
                replicas.append(node_id)
            step += 1
        return tuple(replicas)

    once = [placed(step) for step in range(start, start + min(count, period))]
    return list(islice(cycle(once), count))


def check_assignments(
    nodes: Iterable[Node], assignments: Mapping[int, Replicas], factor: int, *, must_live: bool = True
) -> None:
    """Refuse assignments (partition → node ids) that a client made, unless each has `factor` replicas that can be.

    Args:
        must_live: At least one of each must be alive.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    alive = {node.node_id: node.is_alive for node in nodes}
    sound: set[Replicas] = set()
    for partition, given in assignments.items():
        if given in sound:
            continue
        problem = None
        # One more than there are nodes is one too many already: the first of these tell what is wrong.
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
