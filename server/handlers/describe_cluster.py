"""DescribeCluster, API key 60, versions 0-2 (KIP-700, KIP-919, KIP-1073).

Behaviour
- A stopped node is what Apache Kafka calls fenced: listed only where such brokers are asked for.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..services.context import Context
from .authorized_operations import NOT_ASKED, cluster_operations
from .routing import endpoints

BROKERS = 1
CONTROLLERS = 2


async def handle(ctx: Context, request: Request) -> DescribeClusterResponse:
    body: DescribeClusterRequest = request.body
    services = ctx.services
    live = services.cluster.live_node_ids()
    if body.endpoint_type != BROKERS:
        known = body.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"this is a broker endpoint (type {BROKERS}); type {body.endpoint_type} was asked for",
            endpoint_type=BROKERS,
            cluster_id="",
            brokers=(),
        )
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        endpoint_type=BROKERS,
        cluster_id=services.cluster.cluster_id,
        controller_id=services.cluster.controller_id(),
        brokers=tuple(
            DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=node_id not in live)
            for node_id, host, port, rack in endpoints(
                ctx, [node.node_id for node in services.cluster.nodes] if body.include_fenced_brokers else live
            )
        ),
        cluster_authorized_operations=cluster_operations(ctx)
        if body.include_cluster_authorized_operations
        else NOT_ASKED,
    )
