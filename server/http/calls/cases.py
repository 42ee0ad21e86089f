"""Hard cases: see `..control.cases`."""

from __future__ import annotations

from typing import Any

from ...control.cases.load import CaseList, list_cases
from ..call import Call, Lives, Nothing


async def listed(_: Lives, __: Nothing) -> CaseList:
    return list_cases()


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/cases", "The hard cases that can be loaded.", Nothing, CaseList, listed, only_waits=True),
)
