"""Time and bytes that an unauthenticated client may use, for TLS handshake and login together, and the refusal of other
requests."""

from __future__ import annotations

import re
from typing import Any

import trio

from ....protocol.connection import Request, encode_response
from ....protocol.errors import ErrorCode
from ..dispatcher import RequestingClient

BEFORE_S = 10.0
BEFORE_BYTES = 16 << 10


class Allowance:
    """Allowance of one connection, which begins now."""

    def __init__(self) -> None:
        self.until_s = trio.current_time() + BEFORE_S
        self.left_bytes = BEFORE_BYTES

    def spend(self, size_bytes: int) -> None:
        """Count received bytes."""
        self.left_bytes = max(0, self.left_bytes - size_bytes)


async def delay_answer(client: RequestingClient, for_ms: int) -> None:
    """Delay the answer to a client that has failed, so that guessing takes time. Other clients do not wait; it counts as a
    connection."""
    await client.hold(trio.Event(), for_ms / 1000, is_client_needed=False)


PRODUCE_KEY = 0
ELEMENTS_MAX = 100
"""Limit for one request: requests of a login have no array, and some have tagged fields."""


def error_message(request: Request) -> str:
    """Build the error message for the client and for the log."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", request.api.name).upper()
    return f"Unexpected Kafka request of type {name} during SASL authentication."


def refused(request: Request) -> Any:
    """Make Apache Kafka's response to another request during a login: the body, with ILLEGAL_SASL_STATE. None: the request has
    no response, or gets none, as it is too long or none of its names can be repeated."""
    if request.body is None or request.elements > ELEMENTS_MAX:
        return None
    if request.api.key == PRODUCE_KEY and not request.body.acks:
        return None
    from ...faults.answers import RequestView  # hardly any client needs it

    asked = RequestView(request, lambda topic_id: None, lambda topic, partition: False)
    answer = asked.split({}, ErrorCode.ILLEGAL_SASL_STATE, error_message(request)).told
    try:
        encode_response(request, answer)
    except ValueError:  # the request names nothing where the response must name something, as Metadata 10 may
        return None
    return answer
