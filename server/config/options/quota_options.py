"""Broker options of quotas, of connection limits, and of throttled moves between data directories and nodes.

Names, defaults and bounds are Apache Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ....storage.topics.options import MAX_INT, MAX_LONG, Check, OptionType, UpdateMode, at_least, one_of, option
from .security_options import SecurityOptions

_INT = OptionType.INT
_LIST = OptionType.LIST
_LONG = OptionType.LONG
_STRING = OptionType.STRING
_FIXED = UpdateMode.READ_ONLY

PER_LISTENER = frozenset({"max.connections", "max.connection.creation.rate"})
"""Options that apply to one listener as `listener.name.NAME.OPTION`, and without that prefix to the others."""

DYNAMIC_ONLY = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Options that are dynamic only in Apache Kafka, which shows no default for them."""


class ListenerLimits(NamedTuple):
    """Connection limits of one listener."""

    max_connections: int
    max_connection_creation_rate: int


def _per_ip_overrides(text: object) -> bool:
    pairs = [entry.strip().rpartition(":") for entry in str(text).split(",")] if text else []
    # Python does not parse numbers of thousands of digits.
    return all(
        host and limit.isascii() and limit.isdigit() and len(limit) <= 10 and int(limit) <= MAX_INT
        for host, _, limit in pairs
    )


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class QuotaOptions(SecurityOptions):  # a class with slots has one base
    """Typed values of the quota options."""

    controller_quota_window_num: int = option(
        _INT, 11, at_least(1), "Number of samples over which controller_mutation_rate is measured.", update=_FIXED
    )
    controller_quota_window_size_seconds: int = option(
        _INT, 1, at_least(1), "Duration of each sample of controller.quota.window.num.", update=_FIXED
    )
    cordoned_log_dirs: tuple[str, ...] = option(
        _LIST,
        (),
        None,
        "Data directories in which no new partitions are created, some of log.dirs, or * for all.",
        update=UpdateMode.PER_BROKER,
    )
    follower_replication_throttled_rate: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum bytes per second at which this node, as a new replica, catches up during a reassignment with the"
        " partitions in follower.replication.throttled.replicas.",
        hidden=True,
    )
    inter_broker_listener_name: str | None = option(
        _STRING,
        None,
        None,
        "Listener that is exempt from max.connections and max.connection.creation.rate if there are others; by default"
        " the one named like security.inter.broker.protocol.",
        update=_FIXED,
    )
    leader_replication_throttled_rate: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum bytes per second that this node, as a leader, sends to new replicas during a reassignment of the"
        " partitions in leader.replication.throttled.replicas.",
        hidden=True,
    )
    max_connection_creation_rate: int = option(
        _INT,
        MAX_INT,
        at_least(0),
        "Maximum number of new connections per second of a node, and of each of its listeners; others wait.",
    )
    max_connections: int = option(
        _INT,
        MAX_INT,
        at_least(0),
        "Maximum number of open connections of a node, and of each of its listeners; others wait.",
    )
    max_connections_per_ip: int = option(
        _INT, MAX_INT, at_least(0), "Maximum number of open connections from one address to a node; others are closed."
    )
    max_connections_per_ip_overrides: str = option(
        _STRING,
        "",
        Check("must be a list of HOST:NUMBER", _per_ip_overrides),
        "Exceptions to max.connections.per.ip, a comma-separated list of HOST:NUMBER.",
    )
    quota_window_num: int = option(
        _INT,
        11,
        at_least(1),
        "Number of samples over which client quotas and connection rates are measured.",
        update=_FIXED,
    )
    quota_window_size_seconds: int = option(
        _INT, 1, at_least(1), "Duration of each sample of quota.window.num.", update=_FIXED
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum bytes per second for copying partitions between data directories, all together.",
        hidden=True,
    )
    security_inter_broker_protocol: str = option(
        _STRING,
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Security protocol that selects the listener if inter.broker.listener.name is not set.",
        update=_FIXED,
    )
