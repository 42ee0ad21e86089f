"""Calls that answer with a text: whether it lives, whether it serves, its metrics, its seed. All others are operations of `..control`."""

from __future__ import annotations

import json
from typing import Any

from ..broker.metrics import samples
from ..control.seed.export import export
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import TimeSlice
from ..runtime.worker import in_worker
from .call import Call, Lives, Nothing, Text
from .prometheus import CONTENT_TYPE, exposition

PLAIN = "text/plain; charset=utf-8"


async def healthy(lives: Lives, request: Nothing) -> Text:
    return Text("ok\n")


async def ready(lives: Lives, request: Nothing) -> Text:
    if not lives.is_serving:
        raise ControlError(Kind.UNAVAILABLE, "the broker is starting, stopping or restarting")
    logs = lives.broker.services.logs
    offline = [data_dir for data_dir in logs.data_dirs if logs.is_offline(data_dir)]
    if offline:
        raise ControlError(Kind.UNAVAILABLE, f"offline after a disk error: {', '.join(offline)}")
    return Text("ready\n")


async def metrics(lives: Lives, request: Nothing) -> Text:
    services = lives.broker.services
    broker = lives.broker
    found = samples(
        services.logs, services.cleaning, services.appends, services.quotas, broker.connections, broker.clock
    )
    return Text(await in_worker(exposition, await TimeSlice().map(lambda sample: sample, found)))


async def exported_seed(lives: Lives, request: Nothing) -> Text:
    found = await export(lives.broker)
    return Text(await in_worker(lambda seed: json.dumps(seed, indent=2) + "\n", found))


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/healthz",
        "Whether the process answers at all.",
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
        "Whether the broker serves, with all of its data directories.",
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
        "Prometheus' text format, under the names that the JMX exporter has for Apache Kafka's.",
        Nothing,
        Text,
        metrics,
        content_type=CONTENT_TYPE,
    ),
    Call(
        "GET",
        "/v1/seed",
        "Topics and their configs, as a seed; no records.",
        Nothing,
        Text,
        exported_seed,
        only_waits=True,
    ),
)
