"""`docs/metrics.md`, made from a broker that has all of its metrics.

cd tests && python -m support.texts.metrics_page      rewrites it
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ottla
from ottla.server.broker.metrics import Sample, samples
from ottla.server.http.calls import exposition

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
INTRODUCTION = """\
# Metrics

`broker.metrics()` returns all metrics under Apache Kafka's JMX names, with `#` before the attribute. `GET /metrics` of the
[admin listener](admin.md) returns them for Prometheus, under the names that the JMX exporter's usual rules derive from the JMX names. Dashboards
for Kafka's logs and cleaner therefore find them. Values are read at the time of the request.

`cd tests && python -m support.texts.metrics_page` makes this page from a broker's own answer.
"""
MEANINGS = {
    "DeadThreadCount": "threads of the cleaner that have died",
    "LogDirectoryOffline": "1 for a data directory that is out of use",
    "LiveKeys": "bounds of the number of keys whose newest record has a value; compacted logs only",
    "LogEndOffset": "the offset that the next record gets",
    "LogFlushRateAndTimeMs": "syncs of logs, and how long they took",
    "LogStartOffset": "the first offset that can be read",
    "NoKeyCompactedTopicRecordsPerSec": "records without a key that compacted topics have refused",
    "NumLogSegments": "segments of the log",
    "OfflineLogDirectoryCount": "data directories that are out of use",
    "Records": "bounds of the number of records, without transaction markers; equal if it is exact",
    "Size": "bytes of the log",
    "Tombstones": "bounds of the number of records without a value; compacted logs only",
    "broker-connection-accept-rate": "connections a second that the node has taken",
    "byte-rate": "bytes a second of a client that falls under a quota",
    "cleaner-io": "bytes that the cleaner has read and written",
    "cleaner-recopy-percent": "what the last passes wrote, in percent of what they read",
    "connection-accept-rate": "connections a second that the listener has taken, or that came from the address",
    "connection-accept-throttle-time": "how long connections had to wait for a rate of listeners, mean",
    "connection-close-total": "connections that have ended",
    "connection-count": "connections that there are",
    "connection-creation-total": "connections that there have been",
    "expired-connections-killed-count": "connections that ended as their login was over",
    "failed-authentication-rate": "logins a second that failed",
    "failed-authentication-total": "logins that failed",
    "failed-reauthentication-rate": "further logins a second that failed",
    "failed-reauthentication-total": "further logins that failed",
    "ip-connection-accept-throttle-time": "how long connections beyond an address's rate were kept waiting, mean",
    "ip-connection-count": "connections from the address",
    "max-buffer-utilization-percent": "how full the offset map of a last pass was",
    "max-clean-time-secs": "how long the longest of the last passes took",
    "max-compaction-delay-secs": "how long a log waits beyond its max.compaction.lag.ms, the longest",
    "max-dirty-percent": "the dirty ratio of the dirtiest log",
    "reauthentication-latency-avg": "how long further logins took, mean",
    "reauthentication-latency-max": "how long further logins took, the longest",
    "remainingLogsToRecover": "0: recovery is over before the broker serves",
    "remainingSegmentsToRecover": "0: recovery is over before the broker serves",
    "request-time": "percent of the broker's thread that a client uses that falls under a quota",
    "successful-authentication-no-reauth-total": "logins of clients that cannot log in again",
    "successful-authentication-rate": "logins a second",
    "successful-authentication-total": "logins",
    "successful-reauthentication-rate": "further logins a second",
    "successful-reauthentication-total": "further logins",
    "throttle-time": "how often a client was throttled, and for how long",
    "time-since-last-run-ms": "since the cleaner last looked for work",
    "tokens": "changes of partitions that a client under a quota may still make",
    "uncleanable-bytes": "bytes of logs that the cleaner leaves alone after a failed pass",
    "uncleanable-partitions-count": "such logs",
}
QUOTAS = {
    "user=<default>": {
        "producer_byte_rate": 1,
        "consumer_byte_rate": 1e9,
        "request_percentage": 1e6,
        "controller_mutation_rate": 1e6,
    },
    "ip=<default>": {"connection_creation_rate": 1e6},
}


def page() -> str:
    """Return the whole text."""
    return "\n".join([INTRODUCTION, *_tables(), ""])


def _tables() -> Iterator[str]:
    family = ""
    rows = {_row(sample): sample for sample in every_sample()}
    for row, sample in sorted(rows.items(), key=lambda pair: (pair[1].group, pair[1].type, pair[0])):
        if family != f"{sample.group}:type={sample.type}":
            family = f"{sample.group}:type={sample.type}"
            yield f"\n## {family}\n"
            yield "| name | attribute | tags | for Prometheus | kind | what it is |"
            yield "|---|---|---|---|---|---|"
        yield row


def _row(sample: Sample) -> str:
    name, kind = exposition([sample]).splitlines()[1].removeprefix("# TYPE ").split()
    tags = ", ".join(f"`{tag}`" for tag, _ in sample.tags)
    return f"| `{sample.name}` | {sample.attribute or ''} | {tags} | `{name}` | {kind} | {MEANINGS[sample.name]} |"


def every_sample() -> list[Sample]:
    """Return the samples of a broker with a throttled user."""
    with ottla.Broker(users={"alice": "secret"}, quotas=QUOTAS) as broker:
        broker.create_topic("orders", partitions=1, configs={"cleanup.policy": "compact"})
        broker.records("orders")
        broker.produce("orders", "paid", key="1")  # last, because it is throttled

        async def taken() -> list[Sample]:
            inner, its = broker.inner, broker.inner.services
            return list(samples(its.logs, its.cleaning, its.appends, its.quotas, inner.connections, inner.clock))

        return broker.run(taken)


if __name__ == "__main__":
    PAGE.write_text(page())
