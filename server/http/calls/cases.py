"""Hard cases: see `..control.cases`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...control.cases.load import CaseList, LoadedCase, list_cases, load_case
from ..call import Call, Lives, Nothing
from ..fields import Name, TopicName


@dataclass(frozen=True, slots=True)
class LoadRequest:
    name: Name
    """Of the case."""
    topic: TopicName | None = None
    """The topic to create; it has the name of the case unless given."""


async def listed(_: Lives, __: Nothing) -> CaseList:
    return list_cases()


async def load(lives: Lives, request: LoadRequest) -> LoadedCase:
    return await load_case(lives.broker, request.name, request.topic)


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/cases", "The hard cases that can be loaded.", Nothing, CaseList, listed, only_waits=True),
    Call(
        "POST",
        "/v1/cases/{name}",
        "Create a topic whose log is a hard case; the answer says what a right client reads.",
        LoadRequest,
        LoadedCase,
        load,
        statuses=(404, 409),
    ),
)
