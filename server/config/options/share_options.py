"""The broker options of share groups. Names, defaults and bounds are Apache Kafka 4.3.1's."""

from __future__ import annotations

from dataclasses import dataclass

from ....storage.topics.options import Check, OptionType, UpdateMode, at_least, between, option
from .quota_options import QuotaOptions

_INT = OptionType.INT
_SHORT = OptionType.SHORT
_FIXED = UpdateMode.READ_ONLY


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareOptions(QuotaOptions):  # a class with slots has one base
    """Typed values of these."""

    group_share_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "Minimum time between two assignments of a share group."
    )
    group_share_assignors: tuple[str, ...] = option(
        OptionType.LIST,
        ("simple",),
        Check("must be simple", ("simple",).__eq__),
        "Assignor of share groups; exactly one.",
        update=_FIXED,
    )
    group_share_delivery_count_limit: int = option(
        _INT, 5, between(2, 10), "Maximum number of deliveries of a record to a share group.", update=_FIXED
    )
    group_share_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Interval at which members of a share group must send heartbeats.", update=_FIXED
    )
    group_share_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Maximum value of group.share.assignment.interval.ms.", update=_FIXED
    )
    group_share_max_delivery_count_limit: int = option(
        _INT, 10, between(5, 25), "Maximum value of group.share.delivery.count.limit.", update=_FIXED
    )
    group_share_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Maximum value of group.share.heartbeat.interval.ms.", update=_FIXED
    )
    group_share_max_partition_max_record_locks: int = option(
        _INT, 4000, between(2000, 10_000), "Maximum value of group.share.partition.max.record.locks.", update=_FIXED
    )
    group_share_max_record_lock_duration_ms: int = option(
        _INT, 60_000, between(30_000, 3_600_000), "Maximum value of group.share.record.lock.duration.ms.", update=_FIXED
    )
    group_share_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Maximum value of group.share.session.timeout.ms.", update=_FIXED
    )
    group_share_max_share_sessions: int = option(
        _INT, 2_000, at_least(1), "Maximum number of share sessions of one node.", update=_FIXED
    )
    group_share_max_size: int = option(
        _INT, 200, between(1, 1000), "Maximum number of members of one share group.", update=_FIXED
    )
    group_share_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Minimum value of group.share.assignment.interval.ms.", update=_FIXED
    )
    group_share_min_delivery_count_limit: int = option(
        _INT, 2, between(2, 5), "Minimum value of group.share.delivery.count.limit.", update=_FIXED
    )
    group_share_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Minimum value of group.share.heartbeat.interval.ms.", update=_FIXED
    )
    group_share_min_partition_max_record_locks: int = option(
        _INT, 100, between(100, 2000), "Minimum value of group.share.partition.max.record.locks.", update=_FIXED
    )
    group_share_min_record_lock_duration_ms: int = option(
        _INT, 15_000, between(1000, 30_000), "Minimum value of group.share.record.lock.duration.ms.", update=_FIXED
    )
    group_share_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Minimum value of group.share.session.timeout.ms.", update=_FIXED
    )
    group_share_partition_max_record_locks: int = option(
        _INT,
        2000,
        between(100, 10_000),
        "Maximum number of records of a partition that a share group may have acquired at a time.",
        update=_FIXED,
    )
    group_share_record_lock_duration_ms: int = option(
        _INT,
        30_000,
        between(1000, 3_600_000),
        "Duration of the acquisition lock of a record, after which it may be delivered to another member.",
        update=_FIXED,
    )
    group_share_session_timeout_ms: int = option(
        _INT,
        45_000,
        at_least(1),
        "Time without heartbeats after which a member of a share group is removed.",
        update=_FIXED,
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = option(
        _INT,
        300_000,
        at_least(1),
        "Maximum time between two snapshots of the state of a share partition, so that older segments can be deleted.",
        update=_FIXED,
        hidden=True,
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = option(
        _INT,
        500,
        between(0, 500),
        "Number of updates of a share partition's state between two snapshots.",
        update=_FIXED,
    )
    share_coordinator_state_topic_min_isr: int = option(
        _SHORT,
        2,
        at_least(1),
        "Replicas of __share_group_state that must be in sync for a write; limited to its replication factor.",
        update=_FIXED,
    )
    share_coordinator_state_topic_num_partitions: int = option(
        _INT, 50, at_least(1), "Number of partitions of __share_group_state.", update=_FIXED
    )
    share_coordinator_state_topic_prune_interval_ms: int = option(
        _INT,
        300_000,
        at_least(1),
        "Interval at which obsolete records are deleted from __share_group_state.",
        update=_FIXED,
        hidden=True,
    )
    share_coordinator_state_topic_replication_factor: int = option(
        _SHORT,
        3,
        at_least(1),
        "Replication factor of __share_group_state; limited to the number of nodes.",
        update=_FIXED,
    )
    share_coordinator_state_topic_segment_bytes: int = option(
        _INT, 100 << 20, at_least(1), "Segment size of __share_group_state.", update=_FIXED
    )
