"""Responses to heartbeats that are held back while the group is quiet, so that its members learn of a change at once.

A client's rhythm is the time between its heartbeats on a connection. A response is held for a part of it, so the client sends
its next heartbeat at the same time as without this. The first heartbeat is not held, as the rhythm is not known.

Some clients send nothing else before they have the response to a heartbeat, e.g. KafkaJS no fetch. Only clients are held that
are known by name not to wait: all that name their software (KIP-511), except those in `WAITING`, and aiokafka.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from ...protocol.connection import Request
from ..coordination.holds import TICK_MS, HeldResponse
from ..network.dispatcher import Handler
from ..services.context import Context

PART = 0.8
"""Part of the rhythm, and of the interval that the broker requests: some clients give a request no more time than that."""
SESSION_PART = 0.25
HOLD_MS_MAX = 2_500
"""Clients may give every request little time."""
HOLD_MS_MIN = 2 * TICK_MS
WAITING = frozenset({"kafkajs"})
CLIENT_IDS = "aiokafka"
"""Start of the client ids of clients that do not name their software."""


def held(ctx: Context, request: Request, handle: Handler, answer: Any, interval_ms: float) -> Any:
    """Return the answer to a heartbeat; a held one if the group is quiet.

    Args:
        answer: Result of `handle`.
        interval_ms: Interval that a response without news requests; 0 for a response with news, which is not held.
    """
    client, groups = ctx.client, ctx.services.coordinators.groups
    if groups.held is None:
        return answer
    last_s, now_s = client.heartbeat_s, trio.current_time()
    client.heartbeat_s = now_s
    if last_s is None or not interval_ms or _waits(client.software, request.client_id):
        return answer
    found = groups.coordinator.quiet(request.body.group_id, request.body.member_id)
    if found is None:
        return answer
    bell, session_ms = found
    rhythm_ms = min((now_s - last_s) * 1000, interval_ms)
    hold_ms = min(PART * rhythm_ms, SESSION_PART * session_ms, HOLD_MS_MAX)
    if hold_ms < HOLD_MS_MIN:
        return answer
    return HeldResponse(answer, groups.held, bell, hold_ms, partial(handle, ctx, request))


def _waits(software: tuple[str, str] | None, client_id: str | None) -> bool:
    """Whether the client might send nothing else before it has the response."""
    if software is None:
        return client_id is None or not client_id.startswith(CLIENT_IDS)
    return software[0] in WAITING
