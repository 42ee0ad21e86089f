"""What Apache Kafka answers to a request that comes in the midst of a login: ILLEGAL_SASL_STATE, in the request's own answer."""

from __future__ import annotations

import re
from typing import Any

from ....protocol.connection import Request, encode_response
from ....protocol.errors import ErrorCode

PRODUCE_KEY = 0
ELEMENTS_MAX = 100
"""Of a request: none that belongs to a login has an array, and some have tags."""


def words(request: Request) -> str:
    """For the client and for the log."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", request.api.name).upper()
    return f"Unexpected Kafka request of type {name} during SASL authentication."


def refused(request: Request) -> Any:
    """The answer's body. None: it has no answer, or is given none as it is too long, or none of its names can be repeated."""
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
