"""The speed at which new replicas catch up."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ottla.server.cluster.replication_throttle import NewReplica, ReplicationThrottle
from ottla.storage.topics.config import LogConfig
from ottla.storage.topics.options import MAX_LONG
from support.noted import each_case


def throttle(rates: dict[int, tuple[int, int]], stopped: tuple[int, ...] = ()) -> ReplicationThrottle:
    """Return the throttle of nodes 0 to 4, with these rates as a leader and as a follower."""

    def of(node_id: int) -> Any:
        leader, follower = rates.get(node_id, (MAX_LONG, MAX_LONG))
        return SimpleNamespace(leader_replication_throttled_rate=leader, follower_replication_throttled_rate=follower)

    nodes: Any = [SimpleNamespace(node_id=node_id, is_alive=node_id not in stopped) for node_id in range(5)]
    live_config: Any = SimpleNamespace(node_config=of, watchers=[])
    return ReplicationThrottle(nodes, live_config)


def new_replica(
    node_id: int, *, leader: int = 0, leaders: str = "*", followers: str = "*", index: int = 0
) -> NewReplica:
    config = replace(
        LogConfig(),
        leader_replication_throttled_replicas=tuple(filter(None, leaders.split(","))),
        follower_replication_throttled_replicas=tuple(filter(None, followers.split(","))),
    )
    partition: Any = _Partition(index=index, leader=leader, log=SimpleNamespace(config=config))
    return NewReplica(partition, node_id)


class _Partition(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]

    @property
    def present_leader(self) -> Any:
        return self.leader


@each_case(
    "rates, replica, rate",
    [
        ({}, new_replica(1), math.inf),
        ({0: (100, 7)}, new_replica(1), 100),
        ({0: (100, 7)}, new_replica(1, leaders=""), math.inf),
        ({1: (7, 100)}, new_replica(1), 100),
        ({1: (7, 100)}, new_replica(1, followers=""), math.inf),
        ({0: (50, 7), 1: (7, 100)}, new_replica(1), 50),
        ({0: (500, 7), 1: (7, 100)}, new_replica(1), 100),
        ({0: (500, 7), 1: (7, 100)}, new_replica(1, leaders="0:0", followers="0:1,0:2"), 100),
        ({0: (500, 7), 1: (7, 100)}, new_replica(1, leaders="0:0", followers="1:1,0:2"), 500),
        ({0: (500, 7), 1: (7, 100)}, new_replica(1, index=3, leaders="0:0", followers="0:1"), math.inf),
        ({1: (7, 0)}, new_replica(1), 0),
        ({}, new_replica(1, leader=-1), 0),
        ({}, new_replica(4), 0),
    ],
)
def test_the_lower_rate_of_those_that_count_holds(
    rates: dict[int, tuple[int, int]], replica: NewReplica, rate: float
) -> None:
    assert throttle(rates, stopped=(4,)).rate(replica) == rate


def test_those_that_catch_up_at_the_same_time_share() -> None:
    first, second, other, free = (
        new_replica(1),
        new_replica(1, leader=2),
        new_replica(3),
        new_replica(3, leader=2, leaders="", followers=""),
    )
    shared = throttle({0: (90, 0), 1: (0, 100), 2: (MAX_LONG, 0)}).rates([first, second, other, free])
    assert shared == {first: 45, second: 50, other: 45, free: math.inf}


def test_who_cannot_be_reached_takes_no_share() -> None:
    lively, stopped = new_replica(1), new_replica(4)
    assert throttle({0: (90, 0)}, stopped=(4,)).rates([lively, stopped]) == {lively: 90, stopped: 0}


def test_a_list_that_names_every_replica_of_a_topic_is_gone_through_once() -> None:
    compared = [0]

    class Entry(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared[0] += 1
            return str.__eq__(self, other)

    count = 300
    config = replace(
        LogConfig(),
        leader_replication_throttled_replicas=tuple(Entry(f"{index}:0") for index in range(count)),
        follower_replication_throttled_replicas=tuple(Entry(f"{index}:1") for index in range(count)),
    )
    partitions: list[Any] = [
        _Partition(index=index, leader=0, log=SimpleNamespace(config=config)) for index in range(count)
    ]
    rates = throttle({0: (count, 7), 1: (7, count)}).rates(NewReplica(each, 1) for each in partitions)
    assert set(rates.values()) == {1.0}
    assert compared[0] < 10 * count


def test_rates_come_in_pieces() -> None:
    replicas = [new_replica(1, index=index) for index in range(50)]
    steps = throttle({0: (100, 7)}).rates_in_pieces(replicas)
    assert len(list(steps)) >= len(replicas)
