"""GetTelemetrySubscriptions (key 71, version 0): which metrics a client shall send, and how (KIP-714)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: tuple[Int8, ...] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: tuple[String, ...] = ()
