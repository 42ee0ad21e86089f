"""The declaration of a fault, whose fields are those of the request."""

from __future__ import annotations

from typing import Any

from ...control.faults import FaultState, declare
from ...faults.declaration import Declaration
from ..call import Call, Lives


async def declared(lives: Lives, request: Declaration) -> FaultState:
    return await declare(lives.broker, request)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "POST",
        "/v1/faults",
        "Declare a fault: which requests, and what becomes of them; or what is wrong with a disk.",
        Declaration,
        FaultState,
        declared,
        statuses=(404,),
    ),
)
