"""The broker options of streams groups. Names, defaults and bounds are Apache Kafka 4.3.1's."""

from __future__ import annotations

from dataclasses import dataclass

from ....storage.topics.options import MAX_INT, OptionType, UpdateMode, at_least, option
from .share_options import ShareOptions

_INT = OptionType.INT
_FIXED = UpdateMode.READ_ONLY


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class StreamsOptions(ShareOptions):  # a class with slots has one base
    """Typed values of these."""

    group_streams_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "Minimum time between two assignments of a streams group."
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
    group_streams_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Minimum value of group.streams.assignment.interval.ms.", update=_FIXED
    )
    group_streams_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Minimum value of group.streams.heartbeat.interval.ms.", update=_FIXED
    )
    group_streams_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Minimum value of group.streams.session.timeout.ms.", update=_FIXED
    )
    group_streams_num_standby_replicas: int = option(
        _INT, 0, at_least(0), "Number of standby replicas of each stateful task of a streams group.", update=_FIXED
    )
    group_streams_session_timeout_ms: int = option(
        _INT,
        45_000,
        at_least(1),
        "Time without heartbeats after which a member of a streams group is removed.",
        update=_FIXED,
    )
