"""The options of group coordination, under the names of the broker options they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ..config.broker_config import BrokerConfig
from ..config.group_configs import GroupConfig

# A new member has no id yet and cannot send heartbeats; its parked join is given up after this time (KIP-394).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
# How soon at the least a rebalance that nobody rejoined is looked at again, whatever time-outs its members ask for.
REJOIN_RETRY_MS = 100
# Ids that a group has given out and that were not used yet, at most: the oldest makes room, and whoever comes with it asks
# again. Apache Kafka keeps each for a session time-out, which its client chooses: half an hour.
MAX_PENDING_IDS = 10_000
# A member id is made from the instance id or the client id, which may be as long as a string can be; a longer member id
# could not be sent.
NAME_CHARS_IN_MEMBER_ID = 1024
# Topics that the members of a consumer group may subscribe to by name, in lists that differ, and as many that their regular
# expressions may match: whoever joins with news has all of them looked up, 0.2 us each.
GROUP_NAMES_MAX = 50_000
# Topics, and partitions of them, together, that a member of a consumer group may say it owns, and so be given: what a request may
# have (100 000 elements) beside the 10 000 topics that it may subscribe to.
OWNED_MAX = 90_000
# Assignment strategies that a member may offer; clients offer one to three.
PROTOCOLS_MAX = 1_000
# What the members of a classic group offer, in largest batches of its partition: each generation is written down with the
# metadata of one strategy, so a group that offers more could not be, however they are chosen.
PROTOCOL_BATCHES_MAX = 8
# How many offsets are looked at, and deleted, before others get their turn: some milliseconds.
PLACES_A_PIECE = 512
# Offsets of an ended transaction that are made real, or dropped, in the turn of its marker, or in one piece of a job, but for
# those of one group, which change together: 0.2 us each.
ENDED_AT_ONCE = 2_048
MEMBERS_A_PIECE = 200
# How long after a target assignment that was too large there is another one, which costs as much: the members' heartbeats go on.
ASSIGN_AGAIN_MS = 10_000


@dataclass(slots=True)
class GroupSettings:
    """Intervals between assignments may change while the broker runs."""

    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_assignment_interval_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    """No matter the case."""
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_max_size: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_size: int
    group_streams_num_standby_replicas: int
    group_streams_session_timeout_ms: int
    offset_metadata_max_bytes: int
    """In fact characters, as Kafka counts them."""
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)
    """What is set of single groups, by group id; the broker changes it while it runs."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """What a broker with these options has its groups coordinated by."""
        return cls(
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_max_size=config.group_max_size,
            group_consumer_assignors=config.group_consumer_assignors,
            group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            group_consumer_max_size=config.group_consumer_max_size,
            group_consumer_migration_policy=config.group_consumer_migration_policy,
            group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            group_share_assignment_interval_ms=config.group_share_assignment_interval_ms,
            group_share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
            group_share_max_size=config.group_share_max_size,
            group_share_session_timeout_ms=config.group_share_session_timeout_ms,
            group_streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
            group_streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
            group_streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
            group_streams_max_size=config.group_streams_max_size,
            group_streams_num_standby_replicas=config.group_streams_num_standby_replicas,
            group_streams_session_timeout_ms=config.group_streams_session_timeout_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_minutes=config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )

    def of_group(self, group_id: str, name: str) -> int:
        """What holds in a group of an option that may be set of single groups, by its name there: `consumer.session.timeout.ms`."""
        own = self.groups.get(group_id)
        value = None if own is None else own.values.get(name)
        if value is None:
            value = getattr(self, f"group_{name}".replace(".", "_"))
        assert isinstance(value, int)
        return value

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def may_upgrade(self) -> bool:
        """A classic group with members may become a consumer group."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """A consumer group whose members are all classic ones may become a classic group."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "downgrade")
