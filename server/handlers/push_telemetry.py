"""PushTelemetry, API key 72, version 0 (KIP-714).

Behaviour
- Apache Kafka's checks in its order: the id, a push after the last one (INVALID_REQUEST), the interval
  (THROTTLING_QUOTA_EXCEEDED, except for a last push), the subscription (UNKNOWN_SUBSCRIPTION_ID), the codec, the size.
- Reports go to the receiver one at a time; a report that it cannot read is INVALID_RECORD.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ..services.context import Context
from .get_telemetry_subscriptions import known_of


async def handle(ctx: Context, request: Request) -> PushTelemetryResponse:
    body: PushTelemetryRequest = request.body
    services = ctx.services
    known = known_of(ctx, request, body.client_instance_id)
    instances = await services.telemetry.instances()
    code = await instances.push(
        body.client_instance_id,
        known,
        ctx.client,
        services.clock.elapsed_ms(),
        subscription_id=body.subscription_id,
        is_terminating=body.terminating,
        codec=body.compression_type,
        size_bytes=len(body.metrics),
        size_bytes_max=services.config.current.telemetry_max_bytes,
    )
    if code is ErrorCode.NONE and body.metrics:
        facts = {
            "client_instance_id": known["client_instance_id"],
            "client_id": request.client_id,
            "software_name": known["client_software_name"],
            "software_version": known["client_software_version"],
            "client_address": ctx.client.client_host,
            "received_ms": services.clock.now_ms(),
            "is_terminating": body.terminating,
        }
        code = await services.telemetry.receive(body.compression_type, body.metrics, facts)
    return PushTelemetryResponse(error_code=code)
