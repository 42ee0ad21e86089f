"""ShareAcknowledge, API key 79, versions 1-2.

Behaviour
- Share groups are not served: UNSUPPORTED_VERSION, as of Apache Kafka where the feature `share.version` is 0. No right is asked
  for before.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from ..services.context import Context


async def handle(_: Context, request: Request) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
