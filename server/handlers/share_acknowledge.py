"""ShareAcknowledge, API key 79, versions 1-2.

Behaviour
- Takes a member's acknowledgements of acquired records, partition by partition. In each partition all are accepted or none.
- It belongs to a share session, as the next request of it; with the epoch -1 as its last, which releases the records that the
  member still holds.
- Acknowledgements are in the log when the response is sent, and on disk if `flush.messages` requires it.
- Served unless the feature `share.version` is 0; else UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ...protocol.messages.share_fetch import NodeEndpoint
from ..services.context import Context
from ..sharing.share_sessions import FINAL_EPOCH, SharedPartition
from .share_sessions import Acknowledging, CurrentLeaders, checked


async def handle(ctx: Context, request: Request) -> ShareAcknowledgeResponse:
    body: ShareAcknowledgeRequest = request.body
    try:
        whose = checked(ctx, body)
        shares = ctx.services.coordinators.share_leaders
        session = shares.sessions[ctx.node.node_id].acknowledge(whose, body.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    acknowledging = Acknowledging(ctx, request, whose)
    await acknowledging.run()
    if body.share_session_epoch == FINAL_EPOCH:
        await shares.end_session(ctx.node.node_id, session)
    await acknowledging.settle()
    leaders, time_slice = CurrentLeaders(ctx), ctx.time_slice
    topics: dict[bytes, list[PartitionData]] = {}
    async for place, refused in time_slice.each(acknowledging.answers.items()):
        topics.setdefault(place.topic_id, []).append(_row(place, refused, leaders))
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.config_of(whose.group_id).record_lock_duration_ms,
        responses=tuple(
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(rows))
            for topic_id, rows in topics.items()
        ),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def _row(place: SharedPartition, error: KafkaError | None, leaders: CurrentLeaders) -> PartitionData:
    current = leaders.leader_of(place, error)
    return PartitionData(
        partition_index=place.partition,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message or None,
        current_leader=LeaderIdAndEpoch()
        if current is None
        else LeaderIdAndEpoch(leader_id=current[0], leader_epoch=current[1]),
    )
