"""The metrics in Prometheus' text format 0.0.4, named as the usual rules of the JMX exporter name Apache Kafka's.

    kafka.log:type=Log,name=Size,topic=t,partition=0                  kafka_log_log_size{topic="t",partition="0"}       gauge
    kafka.server:type=BrokerTopicMetrics,name=XPerSec  Count          kafka_server_brokertopicmetrics_x_total           counter
    kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs  Count    kafka_log_logflushstats_logflushrateandtimems_count   counter
      another attribute, e.g. Max                                     …_logflushrateandtimems_max                       gauge

Reference: https://prometheus.io/docs/instrumenting/exposition_formats, the exporter's example configuration for Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..broker.metrics import Sample, mbean

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def exposition(samples: Iterable[Sample]) -> str:
    """The text. For a worker thread: of ten thousand partitions it has 40 000 lines."""
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
