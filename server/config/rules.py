"""Rules between options; those of one alone stand in its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Pairs of options of which the first must not be less than the second.
_NOT_LESS = (
    ("group.consumer.max.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.max.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.max.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
    ("group.consumer.max.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.max.assignment.interval.ms", "group.consumer.min.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms"),
    ("group.consumer.max.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
)


def broken_rules(options: Any) -> Iterator[tuple[str, str]]:
    """The rules between options of consumer groups that `options`, which has them all as attributes, breaks: (option, rule)."""

    def value_of(name: str) -> int:
        value: int = getattr(options, name.replace(".", "_"))
        return value

    for high, low in _NOT_LESS:
        if value_of(high) < value_of(low):
            yield high, f"must be greater than or equal to {low}={value_of(low)}"
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    if value_of(heartbeat) >= value_of(session):
        yield heartbeat, f"must be less than {session}={value_of(session)}"
    if "classic" not in options.group_coordinator_rebalance_protocols:
        yield "group.coordinator.rebalance.protocols", "disabling the 'classic' protocol is not supported"
