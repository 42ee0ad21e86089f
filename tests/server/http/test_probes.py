"""Probes for the health of a broker, and its metrics as Prometheus reads them."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

import ottla
from ottla.server.broker.metrics import Sample
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.static_config import static_config
from ottla.server.http import calls
from ottla.server.http.call import Nothing, Supervisor
from ottla.server.http.calls import CONTENT_TYPE, exposition
from ottla.server.http.listener import AdminHttp
from ottla.server.runtime import time_slices
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import create_topic, produce
from support.broker.raw_client import RawClient
from support.disk.gated_files import GatedFiles


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), admin="0") as running:
        yield running


def test_the_probes_report_a_live_and_ready_broker(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    assert (admin.get("/healthz"), admin.get("/readyz")) == ("ok\n", "ready\n")


def test_with_an_offline_data_directory_the_broker_is_not_ready(tmp_path: Path) -> None:
    # One of two: without its last one the broker ends.
    with ottla.Broker(f"{tmp_path}/a,{tmp_path}/b", admin="0") as broker:
        admin, logs = AdminCalls.of(broker), broker.inner.services.logs
        gone = f"{tmp_path}/b"
        logs._dir(gone).health.failure = "gone"
        assert admin.ask("GET", "/readyz") == (503, {"error": f"offline after a disk error: {gone}"})
        assert admin.get("/healthz") == "ok\n"


def test_metrics_are_prometheus_text_under_the_names_of_the_jmx_exporter(broker: ottla.Broker) -> None:
    host, port = broker.bootstrap.rsplit(":", 1)
    with RawClient(host, int(port)) as client:
        create_topic(client, "t", partitions=2)
        produce(client, "t", ("k", "v"))
    admin = AdminCalls.of(broker)
    connection = http.client.HTTPConnection(admin.address, timeout=60)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    assert response.getheader("content-type") == CONTENT_TYPE
    families = {each.name: each for each in text_string_to_metric_families(response.read().decode())}
    connection.close()
    ends = {tuple(each.labels.values()): each.value for each in families["kafka_log_log_logendoffset"].samples}
    assert ends == {("t", "0"): 1.0, ("t", "1"): 0.0}
    assert {name: (each.type, each.documentation) for name, each in families.items() if "flush" in name} == {
        "kafka_log_logflushstats_logflushrateandtimems_count": (
            "counter",
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs, Count",
        ),
        "kafka_log_logflushstats_logflushrateandtimems_mean": (
            "gauge",
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs, Mean",
        ),
        "kafka_log_logflushstats_logflushrateandtimems_max": (
            "gauge",
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs, Max",
        ),
    }
    assert families["kafka_server_brokertopicmetrics_nokeycompactedtopicrecords"].type == "counter"
    assert {"kafka_log_logcleaner_max_clean_time_secs", "kafka_utils_throttler_cleaner_io_oneminuterate"} <= {*families}


def test_every_metric_appears_once(broker: ottla.Broker) -> None:
    text = AdminCalls.of(broker).get("/metrics")
    values = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(values) == len(set(values)) == len(broker.metrics())


def test_labels_may_contain_any_text() -> None:
    path = 'a "dir"\\\nof mine'
    text = exposition([Sample("kafka.log", "LogManager", "X", (("logDirectory", path),), None, 1.5)])
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"logDirectory": path}, 1.5)


async def test_metrics_of_many_partitions_are_gathered_in_time_slices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    monkeypatch.setattr(time_slices, "PASS_S", 0)
    async with ottla.open_broker(tmp_path) as broker:
        before = time_slices.passes()
        found = await calls.metrics(cast(Supervisor, SimpleNamespace(broker=broker)), Nothing())
        lines = [line for line in found.text.splitlines() if not line.startswith("#")]
        assert time_slices.passes() - before >= len(lines) - 1


async def test_a_starting_broker_is_live_but_not_ready_and_calls_wait(tmp_path: Path) -> None:
    files, http = GatedFiles("ottla.json"), AdminHttp("0")
    flags = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    answers: list[tuple[str, int]] = []

    async def ask(target: str) -> None:
        answers.append((target, (await trio.to_thread.run_sync(AdminCalls(http.address).ask, "GET", target))[0]))

    async def let_on() -> None:
        await files.reached()
        async with trio.open_nursery() as probes_only:
            for target in ("/healthz", "/readyz"):
                probes_only.start_soon(ask, target)
        assert sorted(answers) == [("/healthz", 200), ("/readyz", 503)]
        nursery.start_soon(ask, "/v1/broker")
        files.let_on()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(let_on)
        async with run_supervisor(static_config(profile="dev", flags=flags), files=files, admin=http):
            while len(answers) < 3:
                await trio.lowlevel.checkpoint()
            await ask("/readyz")
    assert answers[2:] == [("/v1/broker", 200), ("/readyz", 200)]
