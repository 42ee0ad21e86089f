"""PushTelemetry (key 72, version 0): a client's metrics, as OpenTelemetry's MetricsData (KIP-714)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryRequest:
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
