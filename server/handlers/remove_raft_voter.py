"""RemoveRaftVoter, API key 81, version 0 (KIP-853).

Behaviour
- As AddRaftVoter: what is wrong with the request is told first, then that voters do not change (UNSUPPORTED_VERSION).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ..services.context import Context
from .add_raft_voter import check_voter


async def handle(ctx: Context, request: Request) -> RemoveRaftVoterResponse:
    body: RemoveRaftVoterRequest = request.body
    try:
        check_voter(ctx, body.cluster_id, body.voter_id, body.voter_directory_id, "Remove")
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support removing voter because the kraft.version feature is 0",
    )
