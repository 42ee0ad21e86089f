"""The three kinds of configuration. Options of the brokers are the same for all; what differs is those of groups, and what is done."""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.config.options.group_options import DESCRIPTIONS

OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.max.size": "6",
    "group.streams.topology.description.plugin.class": DESCRIPTIONS,
    # All groups in one: what one of them knows of topics and configs, all do (`surroundings`).
    "offsets.topic.num.partitions": "1",
}
SESSION_S = 60.0
"""A member's session time-out, unless its group has one."""
SESSION = "streams.session.timeout.ms"
DELAY = "streams.initial.rebalance.delay.ms"
INTERVAL = "streams.assignment.interval.ms"
HEARTBEAT = "streams.heartbeat.interval.ms"
STANDBYS = "streams.num.standby.replicas"
WARMUPS = "streams.num.warmup.replicas"
TAGS = "streams.rack.aware.assignment.tags"


class Kind(NamedTuple):
    """One kind of configuration.

    Attributes:
        topologies: Names of the topologies of members, one for each group.
        weights: The frequency of each action in `World`.
        begins: Configs that a group starts with, and the values to choose from.
        changes: Configs that change during its life.
        rebalance_ms: The time in which members must give up tasks.
    """

    topologies: tuple[str, ...]
    weights: dict[str, int]
    begins: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    changes: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    rebalance_ms: tuple[int, ...] = (60_000,)
    endpoints: float = 0.25
    """The share of members with an endpoint, among those that join when all topics exist."""
    statics: float = 0.0
    """The share of static members."""


KINDS = {
    "active": Kind(
        topologies=("plain", "plain", "counted", "counted", "lacking", "unlike", "late", "fixed"),
        weights={"join": 12, "beat": 60, "news": 3, "leave": 5, "look": 12, "commit": 6, "bad": 5, "describe": 4},
    ),
    "standbys": Kind(
        topologies=("stores", "stores", "counted", "fixed"),
        begins=((STANDBYS, ("1", "1", "2", None)),),
        changes=(
            (STANDBYS, ("0", "1", "2", "3", None)),
            (HEARTBEAT, ("5000", "6000", "20000", None)),
            (WARMUPS, ("0", "3", "21", None)),
            (TAGS, ("zone", "zone,cluster", "rack, zone", "zone,zone", "", None)),
            ("streams.acceptable.recovery.lag", ("0", "5000000000", "-1", None)),
            ("streams.task.offset.interval.ms", ("15000", "70000", "14999", None)),
            ("streams.assignor.name", ("sticky", "other", None)),
        ),
        weights={"join": 14, "beat": 70, "news": 5, "leave": 6, "look": 10, "commit": 4, "bad": 2, "configure": 4},
        endpoints=0.6,
    ),
    "static": Kind(
        topologies=("stores", "plain", "counted"),
        # At 0, Apache Kafka keeps no tasks that a refused member could take from another (../DIFFERENCES.md).
        begins=(
            (WARMUPS, ("0", "0", None)),
            (STANDBYS, ("1", None)),
            (SESSION, ("6000", "60000", "60000")),
            (INTERVAL, (None, None, "3000")),
            (TAGS, (None, "zone")),
        ),
        changes=((STANDBYS, ("0", "1", None)),),
        weights={
            "join": 10,
            "beat": 60,
            "news": 6,
            "leave": 3,
            "away": 9,
            "return": 12,
            "conflict": 4,
            "look": 10,
            "commit": 4,
            "configure": 1,
            "pause": 1,
        },
        endpoints=0.4,
        statics=0.7,
        rebalance_ms=(2_000, 60_000),
    ),
    "expiry": Kind(
        topologies=("plain", "counted", "own", "own", "own joined", "stores"),
        begins=(
            (SESSION, ("4000", "6000", "9000")),
            (DELAY, (None, None, "1500")),
            (INTERVAL, (None, None, None, "3000")),
            (STANDBYS, (None, "1")),
        ),
        changes=(
            (SESSION, ("3000", "6000", "900", "70000", None)),
            (STANDBYS, ("0", "1", None)),
            (DELAY, ("0", "1000", "-1", None)),
            (INTERVAL, ("0", "2000", "16000", None)),
            (HEARTBEAT, ("500", "1000", "400", None)),
        ),
        weights={
            "join": 16,
            "beat": 60,
            "news": 3,
            "leave": 6,
            "look": 10,
            "describe": 2,
            "commit": 6,
            "read": 4,
            "delete offsets": 2,
            "bad": 2,
            "configure": 3,
            "topic": 5,
            "delete": 2,
            "classic": 3,
            "other": 2,
            "pause": 3,
        },
        rebalance_ms=(2_000, 5_000, 60_000),
        endpoints=0.15,
    ),
}
