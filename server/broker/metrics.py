"""Metrics of the broker, its logs and their cleaner, under Apache Kafka's JMX names.

A gauge has its own name. A meter or timer has several numbers, each as `NAME#ATTRIBUTE`:

    meter    Count, OneMinuteRate (per second)
    timer    Count, Mean, Max (ms)

Values are read when they are requested. The cleaner's gauges are those of the present threads: 0 without threads, and reset by
a change of the threads' options. `remaining…ToRecover` is 0, as recovery is over before the broker serves. The names are those
of any guide to Kafka's monitoring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import trio

from ...storage.data_dirs.manager import LogManager
from ...storage.logs.log import Log
from ..cleaning.cleaning import Cleaning
from ..network.connections import Connections
from ..partitions.appends import Appends
from ..quotas.clients import ClientQuotas
from ..quotas.connections import ConnectionRates
from ..quotas.table import QuotaTable
from ..quotas.validation import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ..runtime.clock import Clock
from ..runtime.meters import Meter, Timer

_MAX_INT = 2**31 - 1
CLIENTS_MAX = 200
"""Largest number of clients with quotas that are reported, the most recently active first; also of addresses, those with the
most connections."""
_QUOTA_TYPES = {
    PRODUCER_BYTE_RATE: ("Produce", "byte-rate"),
    CONSUMER_BYTE_RATE: ("Fetch", "byte-rate"),
    REQUEST_PERCENTAGE: ("Request", "request-time"),
    CONTROLLER_MUTATION_RATE: ("ControllerMutation", "tokens"),
}
"""Group and measured value by key."""
_PLAIN = re.compile(r"[\w%. \t-]*", re.ASCII)


class Sample(NamedTuple):
    """One number at one moment."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, object], ...]
    attribute: str | None
    """Attribute of a meter or timer."""
    value: int | float

    @property
    def jmx_name(self) -> str:
        """`group:type=…,name=…[,tag=value…][#attribute]`."""
        name = mbean(self.group, self.type, self.name, **dict(self.tags))
        return name if self.attribute is None else f"{name}#{self.attribute}"


def mbean(group: str, type: str, name: str, **tags: object) -> str:
    """Format a JMX name; values of tags that need it are quoted, as `ObjectName.quote` does."""
    told = "".join(f",{tag}={_quoted(str(value))}" for tag, value in tags.items())
    return f"{group}:type={type},name={name}{told}"


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = re.sub(r'(["*?\\])', r"\\\1", value).replace("\n", "\\n")
    return f'"{escaped}"'


def collect(
    logs: LogManager, cleaning: Cleaning, appends: Appends, quotas: QuotaTable, connections: Connections, clock: Clock
) -> dict[str, int | float]:
    """Return all metrics of a broker at this moment, by JMX name. On Trio's thread; reads the cleaner's checkpoints from
    disk."""
    return {sample.jmx_name: sample.value for sample in samples(logs, cleaning, appends, quotas, connections, clock)}


def samples(
    logs: LogManager, cleaning: Cleaning, appends: Appends, quotas: QuotaTable, connections: Connections, clock: Clock
) -> Iterator[Sample]:
    """Yield all metrics of a broker, each with its value at that moment: other tasks may run between two of them.

    On Trio's thread; reads the cleaner's checkpoints from disk.
    """
    now_s = trio.current_time()
    yield from _cleaner(cleaning)
    yield from _cleaner_manager(logs, cleaning, clock)
    yield from _meter("kafka.utils", "Throttler", "cleaner-io", cleaning.throttler.meter, now_s)
    for log in list(logs.logs.values()):
        yield from _log(log)
    yield from _meter(
        "kafka.server", "BrokerTopicMetrics", "NoKeyCompactedTopicRecordsPerSec", appends.keyless_refused, now_s
    )
    yield from _timer("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", appends.flusher.timer)
    yield from _client_metrics(quotas.clients)
    yield from _connection_metrics(quotas.connections, connections)
    yield from _authentication_metrics(connections, now_s)
    yield from _log_manager(logs)


def _client_metrics(quotas: ClientQuotas) -> Iterator[Sample]:
    """Yield metrics of clients with recent use and a quota."""
    for using, usage in islice(quotas.usages(), CLIENTS_MAX):
        node = () if using.node_id < 0 else (("node", using.node_id),)
        tags = (("user", using.sharing.user), ("client-id", using.sharing.client_id), *node)
        kind, measured = _QUOTA_TYPES[using.key]
        yield Sample("kafka.server", kind, measured, tags, None, quotas.used(using, usage))
        if not usage.throttled:
            continue
        for attribute, value in (
            ("Count", usage.throttled),
            ("Mean", usage.throttle_ms_total / usage.throttled),
            ("Max", usage.throttle_ms_max),
        ):
            yield Sample("kafka.server", kind, "throttle-time", tags, attribute, value)


def _connection_metrics(rates: ConnectionRates, connections: Connections) -> Iterator[Sample]:
    """Yield metrics of connections to nodes and listeners, and from addresses. Throttle times are means, of connections that
    had to wait."""
    for (node_id, listener), (count, admitted) in connections.counts().items():
        where = ("listener", listener), ("node", node_id)
        yield _socket_sample("connection-count", count, *where)
        yield _socket_sample("connection-creation-total", admitted, *where)
        yield _socket_sample("connection-close-total", admitted - count, *where)
    for (node_id, listener), arrivals, a_second in list(rates.arrivals()):
        if not listener:
            yield _socket_sample("broker-connection-accept-rate", a_second, ("node", node_id))
            continue
        where = ("listener", listener), ("node", node_id)
        yield _socket_sample("connection-accept-rate", a_second, *where)
        for name, number, total_ms in (
            ("connection-accept-throttle-time", arrivals.waited, arrivals.waited_ms_total),
            ("ip-connection-accept-throttle-time", arrivals.refused, arrivals.refused_ms_total),
        ):
            yield _socket_sample(name, total_ms / max(number, 1), *where)
    for (node_id, address), count in connections.addresses(CLIENTS_MAX):
        yield _socket_sample("ip-connection-count", count, ("ip", address), ("node", node_id))
    for node_id, address, a_second in islice(rates.rates(), CLIENTS_MAX):
        yield _socket_sample("connection-accept-rate", a_second, ("ip", address), ("node", node_id))


def _authentication_metrics(connections: Connections, now_s: float) -> Iterator[Sample]:
    """Yield metrics of listeners with authentication, after the first attempt."""
    for node_id, listener, counts in connections.authentications:
        where = ("listener", listener), ("node", node_id)
        for name, meter in (
            ("successful-authentication", counts.succeeded),
            ("failed-authentication", counts.failed),
            ("successful-reauthentication", counts.succeeded_again),
            ("failed-reauthentication", counts.failed_again),
        ):
            yield _socket_sample(f"{name}-total", meter.count, *where)
            yield _socket_sample(f"{name}-rate", meter.one_minute_rate(now_s), *where)
        yield _socket_sample("successful-authentication-no-reauth-total", counts.without_again, *where)
        yield _socket_sample("reauthentication-latency-avg", counts.again.mean_ms, *where)
        yield _socket_sample("reauthentication-latency-max", counts.again.max_ms, *where)
        yield _socket_sample("expired-connections-killed-count", counts.expired, *where)


def _socket_sample(name: str, value: float, *tags: tuple[str, object]) -> Sample:
    return Sample("kafka.server", "socket-server-metrics", name, tags, None, value)


def _gauge(type: str, name: str, value: float, **tags: object) -> Sample:
    return Sample("kafka.log", type, name, tuple(tags.items()), None, value)


def _cleaner(cleaning: Cleaning) -> Iterator[Sample]:
    last = [thread.last_stats for thread in cleaning.threads if thread.last_stats is not None]
    written_bytes, read_bytes = sum(each.bytes_written for each in last), sum(each.bytes_read for each in last)
    fullest = max((each.map_utilization for each in last), default=0.0)
    gauges = {
        "cleaner-recopy-percent": int(100 * written_bytes / max(read_bytes, 1)),
        "max-clean-time-secs": int(max((each.seconds for each in last), default=0.0)),
        "max-buffer-utilization-percent": int(100 * fullest),  # not 0 below 100 (KAFKA-18597)
        "max-compaction-delay-secs": min(cleaning.manager.max_lag_overdue_ms // 1000, _MAX_INT),
        "DeadThreadCount": sum(thread.is_dead for thread in cleaning.threads),
    }
    yield from (_gauge("LogCleaner", name, value) for name, value in gauges.items())


def _cleaner_manager(logs: LogManager, cleaning: Cleaning, clock: Clock) -> Iterator[Sample]:
    manager, now_ms = cleaning.manager, clock.now_ms()
    looked_at_ms = cleaning.looked_at_ms
    idle_ms = 0 if looked_at_ms is None else clock.elapsed_ms() - looked_at_ms
    yield _gauge("LogCleanerManager", "max-dirty-percent", int(100 * manager.max_dirty_ratio))
    yield _gauge("LogCleanerManager", "time-since-last-run-ms", idle_ms)
    for data_dir in logs.data_dirs:
        count = len(manager.uncleanable_partitions(data_dir))
        uncleanable_bytes = manager.uncleanable_bytes(data_dir, now_ms)
        for name, value in {"uncleanable-partitions-count": count, "uncleanable-bytes": uncleanable_bytes}.items():
            yield _gauge("LogCleanerManager", name, value, logDirectory=data_dir)


def _log(log: Log) -> Iterator[Sample]:
    gauges = {
        "Size": log.size_bytes,
        "NumLogSegments": len(log.segments),
        "LogStartOffset": log.log_start_offset,
        "LogEndOffset": log.log_end_offset,
    }
    topic, partition = log.topic_partition
    yield from (_gauge("Log", name, value, topic=topic, partition=partition) for name, value in gauges.items())
    counts = log.counts
    bounds = [("Records", counts.records_min, counts.records_max)]
    if log.config.is_compact:
        bounds += [
            ("LiveKeys", counts.live_keys_min, counts.live_keys_max),
            ("Tombstones", counts.tombstones_min, counts.tombstones_max),
        ]
    tags = ("topic", topic), ("partition", partition)
    for name, at_least, at_most in bounds:
        yield Sample("kafka.log", "Log", name, tags, "Min", at_least)
        yield Sample("kafka.log", "Log", name, tags, "Max", at_most)


def _log_manager(logs: LogManager) -> Iterator[Sample]:
    offline = {data_dir: int(logs.is_offline(data_dir)) for data_dir in logs.data_dirs}
    yield _gauge("LogManager", "OfflineLogDirectoryCount", sum(offline.values()))
    for data_dir, is_offline in offline.items():
        yield _gauge("LogManager", "LogDirectoryOffline", is_offline, logDirectory=data_dir)
        yield _gauge("LogManager", "remainingLogsToRecover", 0, dir=data_dir)
        yield _gauge("LogManager", "remainingSegmentsToRecover", 0, dir=data_dir, threadNum=0)


def _meter(group: str, type: str, name: str, meter: Meter, now_s: float) -> Iterator[Sample]:
    yield Sample(group, type, name, (), "Count", meter.count)
    yield Sample(group, type, name, (), "OneMinuteRate", meter.one_minute_rate(now_s))


def _timer(group: str, type: str, name: str, timer: Timer) -> Iterator[Sample]:
    yield Sample(group, type, name, (), "Count", timer.count)
    yield Sample(group, type, name, (), "Mean", timer.mean_ms)
    yield Sample(group, type, name, (), "Max", timer.max_ms)
