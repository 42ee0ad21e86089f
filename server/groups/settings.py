"""Options of group coordination, under the names of the broker options that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ..config.broker_config import BrokerConfig
from ..config.group_configs import OF_THE_BROKER, GroupConfig

# A new member has no id yet and cannot send heartbeats; its parked join is dropped after this time (KIP-394).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
# Minimum time before a rebalance that no member rejoined is checked again, whatever time-outs its members ask for.
REJOIN_RETRY_MS = 100
# Maximum number of ids that a group has given out and that were not used yet. The oldest is dropped for a new one; a client
# that sends a dropped id must ask again. Apache Kafka keeps each for a session time-out, which its client chooses, up to half
# an hour.
MAX_PENDING_IDS = 10_000
# A member id is made from the instance id or the client id, which may be as long as a string can be. A longer member id could
# not be sent.
NAME_CHARS_IN_MEMBER_ID = 1024
# Maximum number of topics that the members of a consumer group subscribe to by name, in different lists, and of topics that
# their regular expressions match. A member that joins or changes has all of them looked up, 0.2 us each.
GROUP_NAMES_MAX = 50_000
# Maximum number of topics and partitions, together, that a member of a consumer group may claim to own, and so be assigned. A
# request may have 100 000 elements, and 10 000 of these are topics to subscribe to.
OWNED_MAX = 90_000
# Maximum number of assignment strategies per member; clients offer one to three.
PROTOCOLS_MAX = 1_000
# Maximum size of the protocols of a classic group's members, in largest batches of its partition. Each generation is written
# with the metadata of one strategy, so a group with more could not be written, whichever strategy is chosen.
PROTOCOL_BATCHES_MAX = 8
# Number of offsets that are checked and deleted in one piece, which takes some milliseconds.
PLACES_A_PIECE = 512
# Maximum number of offsets of an ended transaction that are applied or dropped at its marker, or in one piece of a job; 0.2 us
# each. Offsets of one group change together, also if they are more.
ENDED_AT_ONCE = 2_048
MEMBERS_A_PIECE = 200
# Maximum number of members of a group whose answers wait until others have given something up: each change lets all of them try
# again.
WAITING_MAX = 100
# Wait after a target assignment that was too large before the next one, which takes as long; heartbeats continue.
ASSIGN_AGAIN_MS = 10_000
# Heartbeat interval of members that have not reached their target, where heartbeats are held. librdkafka waits no longer for a
# response, and may have to join again without it. In larger groups it is longer: all members together send
# UNSETTLED_HEARTBEATS_PER_S.
UNSETTLED_MS = 150
UNSETTLED_HEARTBEATS_PER_S = 500


@dataclass(slots=True)
class GroupSettings:
    """Options of group coordination. `defaults` may change while the broker runs."""

    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    """Value of `group.consumer.migration.policy`, in any case of letters."""
    group_consumer_regex_refresh_interval_ms: int
    group_share_max_size: int
    group_streams_max_size: int
    group_streams_topology_description_plugin_class: str | None
    offset_metadata_max_bytes: int
    """Maximum length, in fact in characters, as Kafka counts them."""
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    ottla_hold_heartbeats: bool
    defaults: Mapping[str, Any]
    """Values of the options that may be set for single groups, by the group option's name, e.g. `consumer.session.timeout.ms`."""
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)
    """Options that are set for single groups, by group id; the broker changes the table while it runs."""

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Self:
        """Return the settings of a broker with these options."""
        return cls(
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_max_size=config.group_max_size,
            group_consumer_assignors=config.group_consumer_assignors,
            group_consumer_max_size=config.group_consumer_max_size,
            group_consumer_migration_policy=config.group_consumer_migration_policy,
            group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            group_share_max_size=config.group_share_max_size,
            group_streams_max_size=config.group_streams_max_size,
            group_streams_topology_description_plugin_class=config.group_streams_topology_description_plugin_class,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_minutes=config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            defaults=group_defaults(config),
            ottla_hold_heartbeats=config.ottla_hold_heartbeats,
        )

    def of_group(self, group_id: str) -> Mapping[str, Any]:
        """Return the values of a group's options, by name."""
        own = self.groups.get(group_id)
        return self.defaults if own is None else {**self.defaults, **own.values}

    @property
    def keeps_topology_descriptions(self) -> bool:
        """Whether descriptions of the topologies of streams groups are stored."""
        return self.group_streams_topology_description_plugin_class is not None

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group with only classic members may become a classic group."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "downgrade")


def group_defaults(config: BrokerConfig) -> dict[str, Any]:
    """Return the values of options in groups that do not set them."""
    return {name: config.value(option) for name, option in OF_THE_BROKER.items()}
