"""AlterShareGroupOffsets, API key 91, version 0.

Behaviour
- Share groups are not served: UNSUPPORTED_VERSION with its words, as of Apache Kafka where the feature `share.version` is 0. No right is asked
  for before.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ..services.context import Context
from .share_groups import SHARE_GROUPS_ARE_OFF


async def handle(_: Context, request: Request) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=SHARE_GROUPS_ARE_OFF)
