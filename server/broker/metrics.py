"""What the broker measures of its logs and their cleaner, under Apache Kafka 4.3.1's JMX names.

A gauge stands under its name. A meter or timer has several numbers, each as `NAME#ATTRIBUTE`:

    meter    Count, OneMinuteRate (a second)
    timer    Count, Mean, Max (ms)

Values are read when they are asked for. The cleaner's gauges are those of the present threads: 0 where there are
none, and anew after a change of the threads' options. `remaining…ToRecover` is 0, for recovery is over before the broker
serves. Whoever wants these numbers elsewhere finds the names in any guide to Kafka's monitoring.
"""

from __future__ import annotations

import re

import trio

from ...storage.data_dirs.manager import LogManager
from ...storage.logs.log import Log
from ..cleaning.cleaning import Cleaning
from ..partitions.appends import Appends
from ..runtime.clock import Clock
from ..runtime.meters import Meter, Timer

Metrics = dict[str, int | float]

_MAX_INT = 2**31 - 1
_PLAIN = re.compile(r"[\w%. \t-]*", re.ASCII)


def mbean(group: str, type: str, name: str, **tags: object) -> str:
    """A JMX name; values of tags that need it are quoted, as `ObjectName.quote` does."""
    told = "".join(f",{tag}={_quoted(str(value))}" for tag, value in tags.items())
    return f"{group}:type={type},name={name}{told}"


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = re.sub(r'(["*?\\])', r"\\\1", value).replace("\n", "\\n")
    return f'"{escaped}"'


def collect(logs: LogManager, cleaning: Cleaning, appends: Appends, clock: Clock) -> Metrics:
    """All metrics of a broker at this moment. On Trio's thread; reads the cleaner's checkpoints from disk."""
    now_s = trio.current_time()
    found = _cleaner(cleaning) | _cleaner_manager(logs, cleaning, clock)
    found |= _meter(mbean("kafka.utils", "Throttler", "cleaner-io"), cleaning.throttler.meter, now_s)
    for log in logs.logs.values():
        found |= _log(log)
    keyless = mbean("kafka.server", "BrokerTopicMetrics", "NoKeyCompactedTopicRecordsPerSec")
    found |= _meter(keyless, appends.keyless_refused, now_s)
    found |= _timer(mbean("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs"), appends.flusher.timer)
    return found | _log_manager(logs)


def _cleaner(cleaning: Cleaning) -> Metrics:
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
    return {mbean("kafka.log", "LogCleaner", name): value for name, value in gauges.items()}


def _cleaner_manager(logs: LogManager, cleaning: Cleaning, clock: Clock) -> Metrics:
    manager, now_ms = cleaning.manager, clock.now_ms()
    looked_at_ms = cleaning.looked_at_ms
    idle_ms = 0 if looked_at_ms is None else clock.elapsed_ms() - looked_at_ms
    found: Metrics = {
        mbean("kafka.log", "LogCleanerManager", "max-dirty-percent"): int(100 * manager.max_dirty_ratio),
        mbean("kafka.log", "LogCleanerManager", "time-since-last-run-ms"): idle_ms,
    }
    for data_dir in logs.data_dirs:
        count = len(manager.uncleanable_partitions(data_dir))
        uncleanable_bytes = manager.uncleanable_bytes(data_dir, now_ms)
        for name, value in {"uncleanable-partitions-count": count, "uncleanable-bytes": uncleanable_bytes}.items():
            found[mbean("kafka.log", "LogCleanerManager", name, logDirectory=data_dir)] = value
    return found


def _log(log: Log) -> Metrics:
    gauges = {
        "Size": log.size_bytes,
        "NumLogSegments": len(log.segments),
        "LogStartOffset": log.log_start_offset,
        "LogEndOffset": log.log_end_offset,
    }
    topic, partition = log.topic_partition
    return {mbean("kafka.log", "Log", name, topic=topic, partition=partition): value for name, value in gauges.items()}


def _log_manager(logs: LogManager) -> Metrics:
    offline = {data_dir: int(logs.is_offline(data_dir)) for data_dir in logs.data_dirs}
    found: Metrics = {mbean("kafka.log", "LogManager", "OfflineLogDirectoryCount"): sum(offline.values())}
    for data_dir, is_offline in offline.items():
        found[mbean("kafka.log", "LogManager", "LogDirectoryOffline", logDirectory=data_dir)] = is_offline
        found[mbean("kafka.log", "LogManager", "remainingLogsToRecover", dir=data_dir)] = 0
        found[mbean("kafka.log", "LogManager", "remainingSegmentsToRecover", dir=data_dir, threadNum=0)] = 0
    return found


def _meter(name: str, meter: Meter, now_s: float) -> Metrics:
    return {f"{name}#Count": meter.count, f"{name}#OneMinuteRate": meter.one_minute_rate(now_s)}


def _timer(name: str, timer: Timer) -> Metrics:
    return {f"{name}#Count": timer.count, f"{name}#Mean": timer.mean_ms, f"{name}#Max": timer.max_ms}
