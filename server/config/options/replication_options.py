"""The broker options of data directories, and of what moves between them and between nodes.

A part of `BrokerOptions`; names, defaults and bounds are Apache Kafka 4.3.1's.
"""

from dataclasses import dataclass

from ....storage.topics.options import MAX_LONG, OptionType, UpdateMode, at_least, option
from .security_options import SecurityOptions

_LIST = OptionType.LIST
_LONG = OptionType.LONG


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicationOptions(SecurityOptions):  # a class with slots has one base
    """Typed values of these."""

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
    leader_replication_throttled_rate: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum bytes per second that this node, as a leader, sends to new replicas during a reassignment of the"
        " partitions in leader.replication.throttled.replicas.",
        hidden=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum bytes per second for copying partitions between data directories, all together.",
        hidden=True,
    )


DYNAMIC_ONLY = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Options that Apache Kafka has as dynamic ones only: what it shows of them has no default."""
