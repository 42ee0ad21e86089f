"""The options of group coordination, under the names of the broker options they come from."""

from __future__ import annotations

from dataclasses import dataclass

# A new member has no id yet and cannot send heartbeats; its parked join is given up after this time (KIP-394).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
# How soon at the least a rebalance that nobody rejoined is looked at again, whatever time-outs its members ask for.
REJOIN_RETRY_MS = 100
# A member id is made from the instance id or the client id, which may be as long as a string can be; a longer member id
# could not be sent.
NAME_CHARS_IN_MEMBER_ID = 1024
# Tombstones of one deletion are written in batches of this many, far below any `max.message.bytes` in use.
TOMBSTONES_PER_BATCH = 500


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Defaults are Kafka's."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    """In fact characters, as Kafka counts them."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
