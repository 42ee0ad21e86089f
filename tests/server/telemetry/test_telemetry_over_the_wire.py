"""A client that pushes metrics, up to their receiver."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.compression import compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.server.telemetry.receivers import ClientMetrics, Directory
from support.broker.conversation import address
from support.broker.raw_client import RawClient

HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="7")
KEYS = {71, 72}


def subscribe(client: RawClient, **texts: str) -> None:
    configs = tuple(AlterableConfig(name=name.replace("_", "."), value=text) for name, text in texts.items())
    resource = AlterConfigsResource(resource_type=16, resource_name="s", configs=configs)
    assert client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses[0].error_code == 0


def push(client: RawClient, told: Any, metrics: bytes, **more: Any) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=metrics, **more
    )
    return ErrorCode(client.ask(request).error_code)


def test_a_function_receives_pushed_metrics_with_their_client() -> None:
    received: list[ClientMetrics] = []
    with ottla.Broker(telemetry=received.append) as broker, RawClient(*address(broker)) as client:
        assert {row.api_key for row in client.ask(HELLO, 3).api_keys} >= KEYS
        subscribe(client, metrics="org.apache.kafka.", match="client_software_name=tests,client_software_version=7")
        told = client.ask(GetTelemetrySubscriptionsRequest())
        assert (told.requested_metrics, told.push_interval_ms) == (("org.apache.kafka.",), 300_000)
        assert (told.accepted_compression_types, told.telemetry_max_bytes) == ((4, 3, 1, 2), 1 << 20)
        again = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id))
        assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(client, told, compress(4, b"metrics"), compression_type=4) is ErrorCode.NONE
        assert push(client, told, b"") is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(client, told, b"last", terminating=True) is ErrorCode.NONE
    first, last = received
    assert (first.otlp, first.is_terminating, first.software_name, first.software_version) == (
        b"metrics",
        False,
        "tests",
        "7",
    )
    assert (last.otlp, last.is_terminating, last.client_id) == (b"last", True, client.client_id)


def test_long_client_names_are_truncated() -> None:
    hello = ApiVersionsRequest(client_software_name="n" * 30_000, client_software_version="1" * 30_000)
    with ottla.Broker() as broker, RawClient(*address(broker)) as client:
        assert client.ask(hello, 3).error_code == ErrorCode.NONE
        [connection] = broker._call(lambda: list(broker.inner.connections))
        assert connection.software == ("n" * 255, "1" * 255)


def test_reports_are_written_into_the_directory(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with ottla.Broker(telemetry=reports) as broker, RawClient(*address(broker)) as client:
        assert reports.is_dir()
        told = client.ask(GetTelemetrySubscriptionsRequest())
        assert push(client, told, b"metrics") is ErrorCode.NONE
    (report,) = reports.glob("*.otlp")
    assert report.read_bytes() == b"metrics"
    facts = json.loads(report.with_suffix(".json").read_text())
    assert (facts["client_address"], facts["software_name"], facts["is_terminating"]) == ("127.0.0.1", None, False)


def test_without_a_receiver_the_apis_are_hidden_but_answered() -> None:
    with ottla.Broker() as broker, RawClient(*address(broker)) as client:
        assert not KEYS & {row.api_key for row in client.ask(HELLO, 3).api_keys}
        told = client.ask(GetTelemetrySubscriptionsRequest())
        assert (told.error_code, told.requested_metrics) == (0, ())
        assert push(client, told, b"metrics") is ErrorCode.NONE


def test_damaged_metrics_and_those_the_receiver_refuses_are_invalid(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(metrics: ClientMetrics) -> None:
        raise RuntimeError(f"no {metrics.otlp!r}")

    with ottla.Broker(telemetry=refuse) as broker:
        for codec, metrics in ((4, b"damaged"), (0, b"metrics")):
            with RawClient(*address(broker)) as client:
                told = client.ask(GetTelemetrySubscriptionsRequest())
                assert push(client, told, metrics, compression_type=codec) is ErrorCode.INVALID_RECORD
    assert sum("were rejected" in record.getMessage() for record in caplog.records) == 2


def test_a_slow_receiver_delays_no_other_client() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: ClientMetrics) -> None:
        begun.set()
        assert go_on.wait(60)

    with (
        ottla.Broker(telemetry=wait) as broker,
        RawClient(*address(broker)) as slow,
        RawClient(*address(broker)) as other,
    ):
        told = slow.ask(GetTelemetrySubscriptionsRequest())
        slow.send(
            PushTelemetryRequest(
                client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=b"m"
            )
        )
        assert begun.wait(60)
        other.ask(HELLO, 3)
        go_on.set()
        assert slow.receive().error_code == 0


def test_the_oldest_reports_of_a_full_directory_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.telemetry.receivers.FILES_MAX", 2)
    receive = Directory(tmp_path)
    for number in range(4):
        receive(ClientMetrics("i", None, None, None, "h", number, False, b"m"))
    assert sorted(path.name for path in tmp_path.glob("*.otlp")) == ["2-i-3.otlp", "3-i-4.otlp"]
    assert len(list(tmp_path.iterdir())) == 4


def test_the_total_size_of_a_directorys_reports_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.telemetry.receivers.FILES_BYTES_MAX", 2_500)
    receive = Directory(tmp_path)
    for number in range(4):
        receive(ClientMetrics("i", None, None, None, "h", number, False, b"m" * 1_000))
    assert sorted(path.name for path in tmp_path.glob("*.otlp")) == ["2-i-3.otlp", "3-i-4.otlp"]


@pytest.mark.parametrize(("given", "told"), [(7, "telemetry"), (b"x", "telemetry")])
def test_an_invalid_receiver_is_refused(given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        ottla.Broker(telemetry=given)
