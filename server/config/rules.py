"""Rules between options. Bounds of a single option are in its declaration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ...storage.topics.options import Value, format_value
from .options.group_options import has_twice
from .options.known_options import BROKER_OPTIONS

# Pairs of options of which the first must not be less than the second.
_NOT_LESS = (
    *(
        (f"group.{kind}.{high}{what}", f"group.{kind}.{low}{what}")
        for kind in ("consumer", "share", "streams")
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
        for high, low in (("max.", "min."), ("", "min."), ("max.", ""))
    ),
    *(
        (f"group.share.{high}{what}", f"group.share.{low}{what}")
        for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
        for high, low in (("max.", ""), ("", "min."))
    ),
    ("group.streams.max.standby.replicas", "group.streams.num.standby.replicas"),
    ("group.streams.max.warmup.replicas", "group.streams.num.warmup.replicas"),
    ("group.streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"),
)

_DEDUPE_BUFFER_BYTES_MIN = 1 << 20
"""Minimum dedupe buffer of one cleaner thread, exclusive."""


def check_rules(config: Any) -> None:
    """Raise ConfigError if a rule is broken; names value, option and bound.

    `config` is a BrokerConfig, whose module imports this one.
    """
    broken = chain(_broken_of_nodes(config), _broken_of_groups(config), _broken_of_logs(config))
    for name, value, rule in broken:
        raise BROKER_OPTIONS[name].error(format_value(value), rule)


def _broken_of_nodes(config: Any) -> Iterator[tuple[str, Value, str]]:
    """Return (option, value, rule) of each broken rule between options of the node, its directories and its connections."""
    if not config.data_dirs or "" in config.data_dirs:
        yield "log.dirs", "", "must contain at least one directory"
    if "*" not in config.cordoned_log_dirs and len(config.cordoned_dirs) < len(config.cordoned_log_dirs):
        rule = f"each must be one of log.dirs={','.join(config.data_dirs)}, or *"
        yield "cordoned.log.dirs", config.cordoned_log_dirs, rule
    if "broker" not in config.process_roles:
        yield "process.roles", config.process_roles, "must contain broker"
    if config.broker_id not in (-1, config.node_id):
        yield "broker.id", config.broker_id, f"must be node.id={config.node_id}"
    if config.inter_broker_listener_name is not None and config.is_set("security.inter.broker.protocol"):
        rule = "must not be set together with inter.broker.listener.name"
        yield "security.inter.broker.protocol", config.security_inter_broker_protocol, rule
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        rule = f"must be -1 or at least socket.request.max.bytes={config.socket_request_max_bytes}"
        yield "queued.max.request.bytes", config.queued_max_request_bytes, rule
    if not config.max_connections_per_ip and not config.max_connections_per_ip_overrides:
        yield "max.connections.per.ip", 0, "must be at least 1 unless max.connections.per.ip.overrides is set"


def _broken_of_groups(options: Any) -> Iterator[tuple[str, Value, str]]:
    """Return (option, value, rule) of each broken rule between options of groups."""

    def value_of(name: str) -> int:
        value: int = getattr(options, name.replace(".", "_"))
        return value

    for high, low in _NOT_LESS:
        if value_of(high) < value_of(low):
            yield high, value_of(high), f"must be greater than or equal to {low}={value_of(low)}"
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if value_of(heartbeat) >= value_of(session):
            yield heartbeat, value_of(heartbeat), f"must be less than {session}={value_of(session)}"
    tags = "group.streams.rack.aware.assignment.tags"
    text = next((texts[tags] for _, texts in options.layers if tags in texts), "")
    if has_twice(text):
        yield tags, text, "must not contain duplicate tag keys"
    if options.group_min_session_timeout_ms > options.group_max_session_timeout_ms:
        bound = f"must not exceed group.max.session.timeout.ms={options.group_max_session_timeout_ms}"
        yield "group.min.session.timeout.ms", options.group_min_session_timeout_ms, bound
    if "classic" not in options.group_coordinator_rebalance_protocols:
        protocols = options.group_coordinator_rebalance_protocols
        yield "group.coordinator.rebalance.protocols", protocols, "disabling the 'classic' protocol is not supported"


def _broken_of_logs(config: Any) -> Iterator[tuple[str, Value, str]]:
    """Return (option, value, rule) of each broken rule between options of the cleaner and of the logs that it cleans."""
    if config.log_cleaner_threads < 1:  # Kafka takes 0, and then divides by it.
        yield "log.cleaner.threads", config.log_cleaner_threads, "must be at least 1"
    elif config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads <= _DEDUPE_BUFFER_BYTES_MIN:
        rule = (
            f"must be greater than {_DEDUPE_BUFFER_BYTES_MIN} for each of"
            f" log.cleaner.threads={config.log_cleaner_threads}"
        )
        yield "log.cleaner.dedupe.buffer.size", config.log_cleaner_dedupe_buffer_size, rule
    if config.log_defaults.retention_ms == 0:  # Only a topic may have it.
        yield "log.retention.ms", 0, "must be -1, which is unlimited, or at least 1"
    lag_min, lag_max = config.log_defaults.min_compaction_lag_ms, config.log_defaults.max_compaction_lag_ms
    if lag_min > lag_max:
        yield (
            "log.cleaner.min.compaction.lag.ms",
            lag_min,
            f"must not exceed log.cleaner.max.compaction.lag.ms={lag_max}",
        )
