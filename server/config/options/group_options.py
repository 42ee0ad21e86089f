"""The broker options of share groups and of streams groups. Names, defaults and bounds are Apache Kafka 4.3.1's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ....storage.topics.options import MAX_INT, Check, OptionType, UpdateMode, at_least, between, option
from .quota_options import QuotaOptions

_INT = OptionType.INT
_SHORT = OptionType.SHORT
_FIXED = UpdateMode.READ_ONLY


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class GroupOptions(QuotaOptions):  # a class with slots has one base
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
    group_streams_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "How often a streams group is assigned anew at most."
    )
    group_streams_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "How often members of a streams group are told to send heartbeats.", update=_FIXED
    )
    group_streams_initial_rebalance_delay_ms: int = option(
        _INT,
        3000,
        at_least(0),
        "How long a streams group without members waits for more of them when the first has come.",
        update=_FIXED,
    )
    group_streams_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Highest value of group.streams.assignment.interval.ms.", update=_FIXED
    )
    group_streams_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Highest value of group.streams.heartbeat.interval.ms.", update=_FIXED
    )
    group_streams_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Highest value of group.streams.session.timeout.ms.", update=_FIXED
    )
    group_streams_max_size: int = option(
        _INT, MAX_INT, at_least(1), "Most members of one streams group.", update=_FIXED
    )
    group_streams_max_standby_replicas: int = option(
        _INT, 2, at_least(0), "Highest value of group.streams.num.standby.replicas.", update=_FIXED
    )
    group_streams_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Lowest value of group.streams.assignment.interval.ms.", update=_FIXED
    )
    group_streams_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Lowest value of group.streams.heartbeat.interval.ms.", update=_FIXED
    )
    group_streams_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Lowest value of group.streams.session.timeout.ms.", update=_FIXED
    )
    group_streams_num_standby_replicas: int = option(
        _INT, 0, at_least(0), "How many standbys each task with state has in a streams group.", update=_FIXED
    )
    group_streams_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "When a silent member of a streams group counts as failed.", update=_FIXED
    )


EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"

# ISO 8601 as Java's Duration reads it: days, hours, minutes and seconds, each with a sign of its own.
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS_MAX = 2**63 - 1
_DIGITS_MAX = 20


class ShareReset(NamedTuple):
    """Where a share group begins in a partition that it has not read before (`share.auto.offset.reset`).

    `duration_ms` says for BY_DURATION how far back from now that is.
    """

    kind: str
    duration_ms: int = 0


def read_reset(text: str) -> ShareReset | None:
    """What the option's value means; None: nothing."""
    if text in (EARLIEST, LATEST):
        return ShareReset(text)
    kind, colon, duration = text.partition(":")
    duration_ms = _duration_ms(duration) if kind == BY_DURATION and colon else None
    return None if duration_ms is None else ShareReset(BY_DURATION, duration_ms)


def is_reset(text: object) -> bool:
    return isinstance(text, str) and read_reset(text) is not None


def _duration_ms(text: str) -> int | None:
    """Whole milliseconds; None for what Java does not read, and for what is negative."""
    found = _DURATION.fullmatch(text)
    if found is None or found[3] in ("T", "t"):
        return None
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    parts = ((days, 86_400), (hours, 3_600), (minutes, 60), (seconds, 1))
    # Python reads no number of thousands of digits; Java none that does not fit.
    if not any(part for part, _ in parts) or any(part and len(part) > _DIGITS_MAX for part, _ in parts):
        return None
    nanos = sum(int(part) * unit for part, unit in parts if part) * 10**9
    nanos += int((fraction or "").ljust(9, "0")) * (-1 if seconds and seconds.startswith("-") else 1)
    nanos = -nanos if sign == "-" else nanos
    return nanos // 10**6 if 0 <= nanos <= _SECONDS_MAX * 10**9 else None
