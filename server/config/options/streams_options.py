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
