"""Table of all calls of the admin listener."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..control import (
    acls,
    advice,
    broker_state,
    clock,
    compaction,
    connections,
    dry_run,
    erasure,
    explain,
    faults,
    groups,
    latest,
    leases,
    nodes,
    pictures,
    quotas,
    records,
    segments,
    status,
    supervisor,
    topic_configs,
    topics,
    transactions,
    waits,
)
from ..control.cases import load
from ..control.operation import OPERATIONS, Nothing
from ..control.seed import seeding
from ..runtime.threads import in_worker
from .call import Call, Supervisor, Text, call_of
from .calls import CALLS as TEXTS
from .openapi import document
from .routing import RouteTable

AnyCall = Call[Any, Any]


async def _openapi(supervisor: Supervisor, request: Nothing) -> Text:
    return Text(await in_worker(_document, CALLS))


@cache
def _document(calls: tuple[AnyCall, ...]) -> str:
    return json.dumps(document(calls))


_DECLARING = (
    explain,
    dry_run,
    erasure,
    advice,
    acls,
    quotas,
    broker_state,
    status,
    connections,
    nodes,
    pictures,
    load,
    clock,
    compaction,
    segments,
    faults,
    groups,
    waits,
    transactions,
    records,
    latest,
    topics,
    topic_configs,
    supervisor,
    leases,
    seeding,
)
CALLS: tuple[AnyCall, ...] = (
    *TEXTS,
    Call("GET", "/v1/openapi.json", "Get this API as an OpenAPI 3.1 document.", Nothing, Text, _openapi, any_time=True),
    *(call_of(each) for module in _DECLARING for each in OPERATIONS if each.function.__module__ == module.__name__),
)


class CallTable(RouteTable[AnyCall]):
    """Finds the call of a request to the admin listener."""

    def __init__(self, calls: Sequence[AnyCall] = CALLS) -> None:
        super().__init__(calls)
