"""RemoveRaftVoter, API key 81, version 0 (KIP-853).

Behaviour
- As AddRaftVoter: what is wrong with the request is told first; while kraft.version is 0 voters do not change
  (UNSUPPORTED_VERSION); from 1 on neither who is no voter nor the only one can be removed (VOTER_NOT_FOUND).

Differs from Apache Kafka
- Nor can one of several be removed: INVALID_REQUEST with the reason.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ...storage.disk.checkpoints import uuid_text
from ..services.context import Context
from .add_raft_voter import check_voter, voters


async def handle(ctx: Context, request: Request) -> RemoveRaftVoterResponse:
    body: RemoveRaftVoterRequest = request.body
    try:
        check_voter(ctx, body.cluster_id, body.voter_id, body.voter_directory_id, "Remove")
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    if not ctx.services.config.feature_level("kraft.version"):
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="Cluster doesn't support removing voter because the kraft.version feature is 0",
        )
    present, gone = voters(ctx), f"ReplicaKey(id={body.voter_id}, directoryId={uuid_text(body.voter_directory_id)})"
    if gone in present and len(present) > 1:
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Ottla's controllers are internal; voters cannot be removed",
        )
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.VOTER_NOT_FOUND,
        error_message=f"Cannot remove voter {gone} from the set of voters [{', '.join(present)}]",
    )
