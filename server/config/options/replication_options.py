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
        "Data directories in which no new partitions are made, some of log.dirs, or * for all.",
        update=UpdateMode.PER_BROKER,
    )
    follower_replication_throttled_rate: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Bytes a second at which this node, as a new replica, catches up with the partitions that"
        " follower.replication.throttled.replicas lists: so long a reassignment is under way.",
        hidden=True,
    )
    leader_replication_throttled_rate: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Bytes a second that this node, as a leader, gives to new replicas of the partitions that"
        " leader.replication.throttled.replicas lists: so long a reassignment is under way.",
        hidden=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Bytes a second that partitions on their way to another data directory are copied at, all of them together.",
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
