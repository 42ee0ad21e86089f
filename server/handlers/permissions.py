"""Permissions that clients need, and their errors without them.

APIs that need an operation on the cluster, whatever their requests name, are listed in CLUSTER_OPERATIONS: `guarded` checks it
before their handlers see the request. The handlers check all other permissions, for each resource when they process it. The
operations are those of Apache Kafka 4.4.0, checked in its order if a client could see the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ...protocol.apis import Api
from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.schema import fields_of
from ..network.dispatcher import Handler
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..services.context import Context

Row = TypeVar("Row")
Check: TypeAlias = Callable[[Context, AclOperation, ResourceType, str], None]
"""Type of `check` and `check_without_words`."""


class OnCluster(NamedTuple):
    """Permission for a whole request: one of these operations on the cluster, from a version on."""

    any_of: tuple[AclOperation, ...]
    since: int = 0


CLUSTER_OPERATIONS: dict[str, OnCluster] = {
    # From version 4 on the request is for brokers, with several transactions.
    "AddPartitionsToTxn": OnCluster((AclOperation.CLUSTER_ACTION,), since=4),
    "AlterPartitionReassignments": OnCluster((AclOperation.ALTER,)),
    "AlterReplicaLogDirs": OnCluster((AclOperation.ALTER,)),
    "DeleteShareGroupState": OnCluster((AclOperation.CLUSTER_ACTION,)),
    "DescribeLogDirs": OnCluster((AclOperation.DESCRIBE,)),
    "ElectLeaders": OnCluster((AclOperation.ALTER,)),
    "InitializeShareGroupState": OnCluster((AclOperation.CLUSTER_ACTION,)),
    "ListConfigResources": OnCluster((AclOperation.DESCRIBE_CONFIGS,)),
    "ListPartitionReassignments": OnCluster((AclOperation.DESCRIBE,)),
    "ReadShareGroupState": OnCluster((AclOperation.CLUSTER_ACTION,)),
    "ReadShareGroupStateSummary": OnCluster((AclOperation.CLUSTER_ACTION,)),
    "UnregisterBroker": OnCluster((AclOperation.ALTER,)),
    "UnregisterController": OnCluster((AclOperation.ALTER,)),
    "UpdateFeatures": OnCluster((AclOperation.ALTER,)),
    "WriteShareGroupState": OnCluster((AclOperation.CLUSTER_ACTION,)),
    "WriteTxnMarkers": OnCluster((AclOperation.ALTER, AclOperation.CLUSTER_ACTION)),
}
"""Needed operations by API. An API whose response has more places for an error than `error_code` and `error_message` has a
function `refused(ctx, request, error)` next to its `handle`."""

_REFUSALS: dict[ResourceType, tuple[ErrorCode, str]] = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""Apache Kafka's code and message by resource type."""


def refusal(resource_type: ResourceType) -> KafkaError:
    """Make the error for a missing permission; it does not name the resource."""
    return KafkaError(*_REFUSALS[resource_type])


def request_refusal(request: Request, operation: AclOperation) -> KafkaError:
    """Make the error for a client that may not send a request at all, as it lacks an operation on the cluster."""
    code, _ = _REFUSALS[ResourceType.CLUSTER]
    return KafkaError(code, f"Request {request.api.name} needs {operation.name} permission.")


def check(ctx: Context, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
    """Check that the client may do this to that resource.

    Raises:
        KafkaError: TOPIC_, GROUP_, CLUSTER_ or TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    if not ctx.may(operation, resource_type, name):
        raise refusal(resource_type)


def check_without_words(ctx: Context, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
    """Check as `check` does, for responses in which Apache Kafka returns only the code."""
    if not ctx.may(operation, resource_type, name):
        raise KafkaError(_REFUSALS[resource_type][0])


async def permitted(
    ctx: Context,
    operation: AclOperation,
    resource_type: ResourceType,
    rows: Iterable[Row],
    name_of: Callable[[Row], str],
    time_slice: TimeSlice,
) -> list[Row]:
    """Return the rows whose resource the client may do this to; for lists that leave out the others."""
    if ctx.services.authorizer is None:
        return list(rows)
    found = []
    async for row in time_slice.each(rows):
        if ctx.may(operation, resource_type, name_of(row), is_attempt=False):
            found.append(row)
    return found


def seeing(ctx: Context) -> Callable[[str], bool] | None:
    """Return a function that says whether the client may describe a topic; None without an authorizer."""
    if ctx.services.authorizer is None:
        return None
    return partial(ctx.may, AclOperation.DESCRIBE, ResourceType.TOPIC, is_attempt=False)


def guarded(api: Api, module: Any) -> Handler:
    """Return the handler of `module`, for requests that their clients may send."""
    handler: Handler = module.handle
    needed = CLUSTER_OPERATIONS.get(api.name)
    if needed is None:
        return handler
    refused = getattr(module, "refused", _refused)

    def handle(ctx: Context, request: Request) -> Any:
        if request.version < needed.since or _may_any(ctx, needed.any_of):
            return handler(ctx, request)
        return refused(ctx, request, request_refusal(request, needed.any_of[-1]))

    return handle


def _may_any(ctx: Context, operations: Sequence[AclOperation]) -> bool:
    """Return whether the client may do one of the operations. The last one is reported as missing."""
    last = len(operations) - 1
    return any(ctx.may(one, ResourceType.CLUSTER, is_attempt=at == last) for at, one in enumerate(operations))


async def _refused(_: Context, request: Request, error: KafkaError) -> Any:
    response = request.api.response
    has_message = any(each.name == "error_message" for each in fields_of(response))
    return response(error_code=error.code, **({"error_message": error.message} if has_message else {}))
