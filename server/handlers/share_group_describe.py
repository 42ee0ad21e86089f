"""ShareGroupDescribe, API key 77, version 1.

Behaviour
- A group that is asked for twice is answered once.
- Share groups are not served: UNSUPPORTED_VERSION for each group, as of Apache Kafka where the feature `share.version` is 0. No right
  is asked for before.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> ShareGroupDescribeResponse:
    body: ShareGroupDescribeRequest = request.body
    groups = await ctx.turn.map(
        lambda group_id: DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION),
        await ctx.turn.once(body.group_ids),
    )
    return ShareGroupDescribeResponse(groups=tuple(groups))
