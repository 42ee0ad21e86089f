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
        _INT, 1000, at_least(0), "How often a share group is assigned anew at most."
    )
    group_share_assignors: tuple[str, ...] = option(
        OptionType.LIST,
        ("simple",),
        Check("must be simple", ("simple",).__eq__),
        "The assignor of share groups, just one.",
        update=_FIXED,
    )
    group_share_delivery_count_limit: int = option(
        _INT, 5, between(2, 10), "How often a record is delivered to a share group at most.", update=_FIXED
    )
    group_share_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "How often members of a share group are told to send heartbeats.", update=_FIXED
    )
    group_share_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Highest value of group.share.assignment.interval.ms.", update=_FIXED
    )
    group_share_max_delivery_count_limit: int = option(
        _INT, 10, between(5, 25), "Highest value of group.share.delivery.count.limit.", update=_FIXED
    )
    group_share_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Highest value of group.share.heartbeat.interval.ms.", update=_FIXED
    )
    group_share_max_partition_max_record_locks: int = option(
        _INT, 4000, between(2000, 10_000), "Highest value of group.share.partition.max.record.locks.", update=_FIXED
    )
    group_share_max_record_lock_duration_ms: int = option(
        _INT, 60_000, between(30_000, 3_600_000), "Highest value of group.share.record.lock.duration.ms.", update=_FIXED
    )
    group_share_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Highest value of group.share.session.timeout.ms.", update=_FIXED
    )
    group_share_max_share_sessions: int = option(
        _INT, 2_000, at_least(1), "Most share sessions at one node.", update=_FIXED
    )
    group_share_max_size: int = option(_INT, 200, between(1, 1000), "Most members of one share group.", update=_FIXED)
    group_share_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Lowest value of group.share.assignment.interval.ms.", update=_FIXED
    )
    group_share_min_delivery_count_limit: int = option(
        _INT, 2, between(2, 5), "Lowest value of group.share.delivery.count.limit.", update=_FIXED
    )
    group_share_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Lowest value of group.share.heartbeat.interval.ms.", update=_FIXED
    )
    group_share_min_partition_max_record_locks: int = option(
        _INT, 100, between(100, 2000), "Lowest value of group.share.partition.max.record.locks.", update=_FIXED
    )
    group_share_min_record_lock_duration_ms: int = option(
        _INT, 15_000, between(1000, 30_000), "Lowest value of group.share.record.lock.duration.ms.", update=_FIXED
    )
    group_share_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Lowest value of group.share.session.timeout.ms.", update=_FIXED
    )
    group_share_partition_max_record_locks: int = option(
        _INT,
        2000,
        between(100, 10_000),
        "Most records of a partition that members of a share group have at a time.",
        update=_FIXED,
    )
    group_share_record_lock_duration_ms: int = option(
        _INT,
        30_000,
        between(1000, 3_600_000),
        "How long a member of a share group has a record before it may be delivered to another.",
        update=_FIXED,
    )
    group_share_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "When a silent member of a share group counts as failed.", update=_FIXED
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = option(
        _INT,
        300_000,
        at_least(1),
        "How long the state of a share partition stays without a new snapshot at most, so that the log before it can go.",
        update=_FIXED,
        hidden=True,
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = option(
        _INT, 500, between(0, 500), "Updates of a share partition's state between two snapshots of it.", update=_FIXED
    )
    share_coordinator_state_topic_min_isr: int = option(
        _SHORT,
        2,
        at_least(1),
        "Replicas of __share_group_state that must be in sync for a write; at most its replicas count.",
        update=_FIXED,
    )
    share_coordinator_state_topic_num_partitions: int = option(
        _INT, 50, at_least(1), "Partitions of __share_group_state.", update=_FIXED
    )
    share_coordinator_state_topic_prune_interval_ms: int = option(
        _INT,
        300_000,
        at_least(1),
        "How often what is not needed any more is deleted from __share_group_state.",
        update=_FIXED,
        hidden=True,
    )
    share_coordinator_state_topic_replication_factor: int = option(
        _SHORT, 3, at_least(1), "Replicas of __share_group_state; at most the number of nodes counts.", update=_FIXED
    )
    share_coordinator_state_topic_segment_bytes: int = option(
        _INT, 100 << 20, at_least(1), "Segment size of __share_group_state.", update=_FIXED
    )
