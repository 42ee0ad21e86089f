"""Calls that return a text: liveness, readiness, metrics, and the seed. All others are operations of `..control`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ..broker.metrics import Sample, mbean, samples
from ..control.seed.seed import export
from ..runtime.errors import ControlError, Kind
from ..runtime.threads import in_worker
from ..runtime.time_slices import TimeSlice
from .call import Call, Nothing, Supervisor, Text

PLAIN = "text/plain; charset=utf-8"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def healthy(supervisor: Supervisor, request: Nothing) -> Text:
    return Text("ok\n")


async def ready(supervisor: Supervisor, request: Nothing) -> Text:
    if not supervisor.is_serving:
        raise ControlError(Kind.UNAVAILABLE, "the broker is starting, stopping or restarting")
    logs = supervisor.broker.services.logs
    offline = [data_dir for data_dir in logs.data_dirs if logs.is_offline(data_dir)]
    if offline:
        raise ControlError(Kind.UNAVAILABLE, f"offline after a disk error: {', '.join(offline)}")
    return Text("ready\n")


async def metrics(supervisor: Supervisor, request: Nothing) -> Text:
    services = supervisor.broker.services
    broker = supervisor.broker
    found = samples(
        services.logs, services.cleaning, services.appends, services.quotas, broker.connections, broker.clock
    )
    return Text(await in_worker(exposition, await TimeSlice().map(lambda sample: sample, found)))


async def exported_seed(supervisor: Supervisor, request: Nothing) -> Text:
    found = await export(supervisor.broker)
    return Text(await in_worker(lambda seed: json.dumps(seed, indent=2) + "\n", found))


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/healthz",
        "Check that the process responds.",
        Nothing,
        Text,
        healthy,
        any_time=True,
        without_token=True,
        content_type=PLAIN,
    ),
    Call(
        "GET",
        "/readyz",
        "Check that the broker is serving, with all of its data directories.",
        Nothing,
        Text,
        ready,
        statuses=(503,),
        any_time=True,
        without_token=True,
        content_type=PLAIN,
    ),
    Call(
        "GET",
        "/metrics",
        "Metrics in Prometheus' text format, named as by the JMX exporter for Apache Kafka.",
        Nothing,
        Text,
        metrics,
        content_type=CONTENT_TYPE,
    ),
    Call(
        "GET",
        "/v1/seed",
        "Export topics and their configs as a seed, without records.",
        Nothing,
        Text,
        exported_seed,
        only_waits=True,
    ),
)

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def exposition(samples: Iterable[Sample]) -> str:
    """Return the metrics in Prometheus' text format 0.0.4.

    Their names are those that common rules of the JMX exporter give Apache Kafka's metrics:

            kafka.log:type=Log,name=Size,topic=t,partition=0                  kafka_log_log_size{topic="t",partition="0"}       gauge
            kafka.server:type=BrokerTopicMetrics,name=XPerSec  Count          kafka_server_brokertopicmetrics_x_total           counter
            kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs  Count    kafka_log_logflushstats_logflushrateandtimems_count   counter
              another attribute, e.g. Max                                     …_logflushrateandtimems_max                       gauge

    For a worker thread: ten thousand partitions have 40 000 lines. Reference:
    https://prometheus.io/docs/instrumenting/exposition_formats, the exporter's example configuration for Kafka.
    """
    families: dict[str, list[str]] = {}
    for sample in samples:
        name, kind = _name_and_kind(sample)
        lines = families.get(name)
        if lines is None:
            lines = families[name] = [
                f"# HELP {name} {_help(sample)}".replace("\\", "\\\\").replace("\n", "\\n"),
                f"# TYPE {name} {kind}",
            ]
        labels = ",".join(
            f'{label.replace("-", "_")}="{str(value).translate(_ESCAPED)}"' for label, value in sample.tags
        )
        lines.append(f"{name}{{{labels}}} {sample.value}" if labels else f"{name} {sample.value}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _name_and_kind(sample: Sample) -> tuple[str, str]:
    name, attribute = sample.name, sample.attribute
    stem, per_sec, _ = name.partition("PerSec")
    if attribute == "Count":
        words, kind = ([stem, "total"] if per_sec else [name, "count"]), "counter"
    else:
        words, kind = ([name] if attribute is None else [name, attribute]), "gauge"
    text = "_".join([sample.group, sample.type, *words]).lower()
    return re.sub(r"[^a-z0-9_]", "_", text), kind


def _help(sample: Sample) -> str:
    attribute = "" if sample.attribute is None else f", {sample.attribute}"
    return mbean(sample.group, sample.type, sample.name) + attribute
