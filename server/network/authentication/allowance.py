"""What a client may spend before it is known, TLS handshake and login together; and how it is refused what it may not ask yet."""

from __future__ import annotations

import re
from typing import Any

import trio

from ....protocol.connection import Request, encode_response
from ....protocol.errors import ErrorCode
from ..desk import RequestingClient

BEFORE_S = 10.0
BEFORE_BYTES = 16 << 10


class Allowance:
    """Of one connection, from now on."""

    def __init__(self) -> None:
        self.until_s = trio.current_time() + BEFORE_S
        self.left_bytes = BEFORE_BYTES

    def spend(self, size_bytes: int) -> None:
        """So much has come."""
        self.left_bytes = max(0, self.left_bytes - size_bytes)


async def let_wait(client: RequestingClient, for_ms: int) -> None:
    """Keep a client that has failed waiting: guessing is to take time. Nobody else waits, and it counts as a connection."""
    await client.hold(trio.Event(), for_ms / 1000, is_client_needed=False)


PRODUCE_KEY = 0
ELEMENTS_MAX = 100
"""Of a request: none that belongs to a login has an array, and some have tags."""


def words(request: Request) -> str:
    """For the client and for the log."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", request.api.name).upper()
    return f"Unexpected Kafka request of type {name} during SASL authentication."


def refused(request: Request) -> Any:
    """What Apache Kafka answers to a request in the midst of a login: the body, with ILLEGAL_SASL_STATE. None: it has no answer, or is given none as it is too long, or none of its names can be repeated."""
    if request.body is None or request.elements > ELEMENTS_MAX:
        return None
    if request.api.key == PRODUCE_KEY and not request.body.acks:
        return None
    from ...faults.answers import RequestView  # hardly any client wants it

    asked = RequestView(request, lambda topic_id: None, lambda topic, partition: False)
    answer = asked.split({}, ErrorCode.ILLEGAL_SASL_STATE, words(request)).told
    try:
        encode_response(request, answer)
    except ValueError:  # it names nothing where the answer has to name something, as Metadata 10 may
        return None
    return answer
