"""DescribeCluster, API key 60, versions 0-2 (KIP-700, KIP-919, KIP-1073).

Behaviour
- A broker's listener lists brokers, a controller's listener controllers; a request for the other kind gets an error.
- At a controller the client must be allowed to alter the cluster; brokers answer all clients.
- A stopped node counts as fenced: it is listed only if the request includes fenced brokers.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import NOT_ASKED, cluster_operations
from .permissions import request_refusal
from .routing import endpoints

BROKERS = 1
CONTROLLERS = 2
_KINDS = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


async def handle(ctx: Context, request: Request) -> DescribeClusterResponse:
    body: DescribeClusterRequest = request.body
    services = ctx.services
    live = services.cluster.live_node_ids()
    own = BROKERS if ctx.listener.controller_id is None else CONTROLLERS
    if own == CONTROLLERS and not ctx.may(AclOperation.ALTER, ResourceType.CLUSTER):
        error = request_refusal(request, AclOperation.ALTER)
        return DescribeClusterResponse(error_code=error.code, error_message=error.message)
    if body.endpoint_type != own:
        return _refused(own, body.endpoint_type)
    if own == CONTROLLERS:
        return _controllers(ctx, body)
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        endpoint_type=BROKERS,
        cluster_id=services.cluster.cluster_id,
        controller_id=services.cluster.controller_id(),
        brokers=tuple(
            DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=node_id not in live)
            for node_id, host, port, rack in endpoints(
                ctx,
                [node.node_id for node in services.cluster.nodes if node.is_registered]
                if body.include_fenced_brokers
                else live,
            )
        ),
        cluster_authorized_operations=cluster_operations(ctx)
        if body.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refused(own: int, asked: int) -> DescribeClusterResponse:
    if asked in _KINDS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = f"The request was sent to an endpoint of type {_KINDS[own]}, but we wanted an endpoint of type {_KINDS[asked]}"
    else:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="")


def _controllers(ctx: Context, body: DescribeClusterRequest) -> DescribeClusterResponse:
    """List the controllers, at the listener with the name of the client's listener, or at their first one."""
    cluster = ctx.services.cluster
    found = []
    for controller_id, listeners in cluster.controllers().items():
        at = next((each for each in listeners if each.name == ctx.listener.name), listeners[0])
        found.append(DescribeClusterBroker(broker_id=controller_id, host=at.advertised_host, port=at.advertised_port))
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.quorum_leader(),
        brokers=tuple(found),
        cluster_authorized_operations=cluster_operations(ctx)
        if body.include_cluster_authorized_operations
        else NOT_ASKED,
    )
