"""GetTelemetrySubscriptions, API key 71, version 0 (KIP-714).

Behaviour
- Advertised if there is a receiver for metrics, but always answered, as in Apache Kafka.
- Returns the metrics of all subscriptions that match the client, with the shortest of their intervals. A client that asks again
  before the interval is over gets THROTTLING_QUOTA_EXCEEDED, unless subscriptions have changed or it uses another connection.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ...storage.disk.checkpoints import uuid_text
from ..services.context import Context

ACCEPTED_CODECS = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy, in Apache Kafka's order of preference."""


async def handle(ctx: Context, request: Request) -> GetTelemetrySubscriptionsResponse:
    body: GetTelemetrySubscriptionsRequest = request.body
    services, client = ctx.services, ctx.client
    instances = await services.telemetry.instances()
    instance_id, instance = await instances.ask(
        body.client_instance_id,
        known_of(ctx, request, body.client_instance_id),
        client,
        services.clock.elapsed_ms(),
    )
    if isinstance(instance, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=instance)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=ACCEPTED_CODECS,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=services.config.current.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


def known_of(ctx: Context, request: Request, instance_id: bytes) -> dict[str, str | None]:
    """Return the client's properties that subscriptions may match (`telemetry.subscriptions.MATCHED_BY`)."""
    client = ctx.client
    name, version = client.software or (None, None)
    return {
        "client_id": request.client_id,
        "client_instance_id": uuid_text(instance_id),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": client.client_host,
        "client_source_port": client.client_port,
    }
