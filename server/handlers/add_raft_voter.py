"""AddRaftVoter, API key 80, versions 0-1 (KIP-853).

Behaviour
- What is wrong with the request is told first. While kraft.version is 0, as where Apache Kafka's voters are those of
  controller.quorum.voters, they do not change (UNSUPPORTED_VERSION).

Differs from Apache Kafka
- Nor do they change from kraft.version 1 on: a known voter is DUPLICATE_VOTER, any other INVALID_REQUEST with the reason.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ...protocol.schema import ZERO_UUID
from ...storage.disk.checkpoints import uuid_text
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context

NAMED_MAX = 100
"""Listeners of the client's that an error names."""


async def handle(ctx: Context, request: Request) -> AddRaftVoterResponse:
    body: AddRaftVoterRequest = request.body
    try:
        check_voter(ctx, body.cluster_id, body.voter_id, body.voter_directory_id, "Add")
        _check_listeners(ctx, body)
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
    if not ctx.services.config.feature_level("kraft.version"):
        return AddRaftVoterResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="Cluster doesn't support adding voter because the kraft.version feature is 0",
        )
    present, added = voters(ctx), f"ReplicaKey(id={body.voter_id}, directoryId={uuid_text(body.voter_directory_id)})"
    if body.voter_id in ctx.services.cluster.controllers():
        return AddRaftVoterResponse(
            error_code=ErrorCode.DUPLICATE_VOTER,
            error_message=f"The voter id for {added} is already part of the set of voters [{', '.join(present)}].",
        )
    return AddRaftVoterResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="Ottla's controllers are internal; voters cannot be added"
    )


def voters(ctx: Context) -> list[str]:
    """The voters as Apache Kafka writes them."""
    cluster = ctx.services.cluster
    directory = uuid_text(cluster.directory_id())
    ids = list(cluster.controllers()) or [cluster.quorum_leader()]
    return [f"ReplicaKey(id={voter_id}, directoryId={directory})" for voter_id in ids]


def check_voter(ctx: Context, cluster_id: str | None, voter_id: int, directory_id: bytes, what: str) -> None:
    """What is asked of a voter that shall come ("Add") or go ("Remove").

    Raises:
        KafkaError: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, INVALID_REQUEST.
    """
    if not ctx.may(AclOperation.ALTER, ResourceType.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    own = ctx.services.cluster.cluster_id
    if cluster_id is not None and cluster_id != own:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
        )
    if voter_id < 0 or directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} voter request didn't include a valid voter")


def _check_listeners(ctx: Context, body: AddRaftVoterRequest) -> None:
    controllers = ctx.services.cluster.controllers()
    default = next((each.name for listeners in controllers.values() for each in listeners), "CONTROLLER")
    names = {each.name.upper() for each in body.listeners[:NAMED_MAX]}
    if default not in names:
        found = ", ".join(
            f"ListenerName({each.name.upper()})={each.host}/<unresolved>:{each.port}"
            for each in body.listeners[:NAMED_MAX]
        )
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{found}}})) for the default listener"
            f" ListenerName({default})",
        )
