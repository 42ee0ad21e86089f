"""How records are delivered to the members of a share group: what is set of the group, else the broker's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..config.broker_config import BrokerConfig
from ..config.group_configs import GROUP_OPTIONS, GroupConfig
from ..config.options.share_resets import ShareReset, read_reset
from .share_partition import ShareLimits


class ShareGroupConfig(NamedTuple):
    """
    Attributes:
        reset: Where the group begins in a partition that it has not read before.
        reads_committed: It gets no records of transactions that are open or aborted.
        may_renew: Members may ask for more time for a record.
    """

    delivery_count_limit: int
    partition_max_record_locks: int
    record_lock_duration_ms: int
    session_timeout_ms: int
    reset: ShareReset
    reads_committed: bool
    may_renew: bool

    @property
    def limits(self) -> ShareLimits:
        """Of each of the group's share partitions."""
        return ShareLimits(
            self.partition_max_record_locks, self.delivery_count_limit, self.record_lock_duration_ms, self.may_renew
        )


def share_group_config(config: BrokerConfig, groups: Mapping[str, GroupConfig], group_id: str) -> ShareGroupConfig:
    """What this group has now; it need not exist.

    Args:
        groups: `LiveConfig.groups`.
    """
    own = groups[group_id].values if group_id in groups else {}

    def value_of(name: str, of_all: Any) -> Any:
        return own.get(name, of_all)

    reset = read_reset(value_of("share.auto.offset.reset", GROUP_OPTIONS["share.auto.offset.reset"].default))
    assert reset is not None
    return ShareGroupConfig(
        delivery_count_limit=value_of("share.delivery.count.limit", config.group_share_delivery_count_limit),
        partition_max_record_locks=value_of(
            "share.partition.max.record.locks", config.group_share_partition_max_record_locks
        ),
        record_lock_duration_ms=value_of("share.record.lock.duration.ms", config.group_share_record_lock_duration_ms),
        session_timeout_ms=value_of("share.session.timeout.ms", config.group_share_session_timeout_ms),
        reset=reset,
        reads_committed=value_of("share.isolation.level", "read_uncommitted") == "read_committed",
        may_renew=value_of("share.renew.acknowledge.enable", True),
    )
