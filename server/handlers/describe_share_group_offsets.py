"""DescribeShareGroupOffsets, API key 90, versions 0-1.

Behaviour
- A group that is asked for twice is answered once.
- Share groups are not served: UNSUPPORTED_VERSION for each group, as of Apache Kafka where the feature `share.version` is 0. No right
  is asked for before.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> DescribeShareGroupOffsetsResponse:
    body: DescribeShareGroupOffsetsRequest = request.body
    groups = await ctx.turn.map(
        lambda group_id: DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION
        ),
        await ctx.turn.once(group.group_id for group in body.groups),
    )
    return DescribeShareGroupOffsetsResponse(groups=tuple(groups))
