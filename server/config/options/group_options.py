"""The broker options of share groups and of streams groups. Names, defaults and bounds are Apache Kafka's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ....storage.topics.options import MAX_INT, Check, OptionType, UpdateMode, at_least, between, option
from .quota_options import QuotaOptions

STICKY = "sticky"
"""The assignor of tasks to the members of streams groups."""
DESCRIPTIONS = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The plug-in of Apache Kafka that keeps descriptions of topologies in memory."""

_INT = OptionType.INT
_SHORT = OptionType.SHORT
_FIXED = UpdateMode.READ_ONLY


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class GroupOptions(QuotaOptions):  # a class with slots has one base
    """Typed values of the group options."""

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
    group_streams_acceptable_recovery_lag: int = option(
        OptionType.LONG,
        10_000,
        at_least(0),
        "Number of offsets that a warm-up task may lack to become active; members get it. No member has warm-up tasks, as in"
        " Apache Kafka 4.4.0.",
        update=_FIXED,
        hidden=True,
    )
    group_streams_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "Minimum time between two assignments of a streams group."
    )
    group_streams_assignors: tuple[str, ...] = option(
        OptionType.LIST,
        (STICKY,),
        Check(f"must be {STICKY}", (STICKY,).__eq__),
        "Assignors of tasks to the members of streams groups; exactly one.",
        update=_FIXED,
    )
    group_streams_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Interval at which members of a streams group must send heartbeats.", update=_FIXED
    )
    group_streams_initial_rebalance_delay_ms: int = option(
        _INT,
        3000,
        at_least(0),
        "Time that an empty streams group waits for more members after the first has joined.",
        update=_FIXED,
    )
    group_streams_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Maximum value of group.streams.assignment.interval.ms.", update=_FIXED
    )
    group_streams_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Maximum value of group.streams.heartbeat.interval.ms.", update=_FIXED
    )
    group_streams_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Maximum value of group.streams.session.timeout.ms.", update=_FIXED
    )
    group_streams_max_size: int = option(
        _INT, MAX_INT, at_least(1), "Maximum number of members of one streams group.", update=_FIXED
    )
    group_streams_max_standby_replicas: int = option(
        _INT, 2, at_least(0), "Maximum value of group.streams.num.standby.replicas.", update=_FIXED
    )
    group_streams_max_warmup_replicas: int = option(
        _INT, 20, at_least(0), "Maximum value of group.streams.num.warmup.replicas.", update=_FIXED, hidden=True
    )
    group_streams_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Minimum value of group.streams.assignment.interval.ms.", update=_FIXED
    )
    group_streams_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Minimum value of group.streams.heartbeat.interval.ms.", update=_FIXED
    )
    group_streams_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Minimum value of group.streams.session.timeout.ms.", update=_FIXED
    )
    group_streams_min_task_offset_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Minimum value of group.streams.task.offset.interval.ms.", update=_FIXED, hidden=True
    )
    group_streams_num_standby_replicas: int = option(
        _INT, 0, at_least(0), "Number of standby replicas of each stateful task of a streams group.", update=_FIXED
    )
    group_streams_num_warmup_replicas: int = option(
        _INT,
        2,
        at_least(0),
        "Number of warm-up tasks of a streams group. No member has any, as in Apache Kafka 4.4.0. At 0, a member that leaves and"
        " returns before the next assignment does not get its tasks again.",
        update=_FIXED,
        hidden=True,
    )
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        None,
        "Client tags that members of a streams group must have; a member without one gets the status MISSING_CLIENT_TAGS. They do"
        " not change the assignment, as in Apache Kafka 4.4.0.",
        update=_FIXED,
    )
    group_streams_session_timeout_ms: int = option(
        _INT,
        45_000,
        at_least(1),
        "Time without heartbeats after which a member of a streams group is removed.",
        update=_FIXED,
    )
    group_streams_task_offset_interval_ms: int = option(
        _INT,
        60_000,
        at_least(1),
        "Interval at which members of a streams group send the offsets of their tasks.",
        update=_FIXED,
        hidden=True,
    )
    group_streams_topology_description_plugin_class: str | None = option(
        OptionType.CLASS,
        None,
        Check(f"must be {DESCRIPTIONS}", lambda name: name in (None, DESCRIPTIONS)),
        "Plug-in that keeps descriptions of topologies, which members of streams groups send, in memory; none: no member is asked"
        " for one.",
        update=_FIXED,
    )


def has_twice(text: str) -> bool:
    """Return whether a list has an item twice. Its value does not tell: parsing keeps each item once."""
    items = [item.strip() for item in text.split(",")]
    return len(set(items)) < len(items)


EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"

# ISO 8601 as Java's Duration reads it: days, hours, minutes and seconds, each with a sign of its own.
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS_MAX = 2**63 - 1
_DIGITS_MAX = 20


class ShareReset(NamedTuple):
    """Start of a share group in a topic that it has not read before (`share.auto.offset.reset`).

    For BY_DURATION, `duration_ms` is how far back from now that is.
    """

    kind: str
    duration_ms: int = 0


def read_reset(text: str) -> ShareReset | None:
    """Parse the option's value; None if it is invalid."""
    if text in (EARLIEST, LATEST):
        return ShareReset(text)
    kind, colon, duration = text.partition(":")
    duration_ms = _duration_ms(duration) if kind == BY_DURATION and colon else None
    return None if duration_ms is None else ShareReset(BY_DURATION, duration_ms)


def is_reset(text: object) -> bool:
    return isinstance(text, str) and read_reset(text) is not None


def _duration_ms(text: str) -> int | None:
    """Return whole milliseconds; None for a text that Java does not parse, and for a negative duration."""
    found = _DURATION.fullmatch(text)
    if found is None or found[3] in ("T", "t"):
        return None
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    parts = ((days, 86_400), (hours, 3_600), (minutes, 60), (seconds, 1))
    # Python does not parse numbers of thousands of digits; Java parses none that does not fit.
    if not any(part for part, _ in parts) or any(part and len(part) > _DIGITS_MAX for part, _ in parts):
        return None
    nanos = sum(int(part) * unit for part, unit in parts if part) * 10**9
    nanos += int((fraction or "").ljust(9, "0")) * (-1 if seconds and seconds.startswith("-") else 1)
    nanos = -nanos if sign == "-" else nanos
    return nanos // 10**6 if 0 <= nanos <= _SECONDS_MAX * 10**9 else None
