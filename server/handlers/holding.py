"""Responses to heartbeats that are held back while the group is quiet, so that its members learn of a change at once.

A client's rhythm is the time between its heartbeats on a connection. A response is held for a part of it, so the client sends
its next heartbeat at the same time as without this. The first heartbeat is not held, as the rhythm is not known.

Some clients send nothing else before they have the response to a heartbeat, e.g. KafkaJS and sarama no fetch: records would come
late. Only clients are held that are known not to wait, by the name of their software (KIP-511), and aiokafka.

kafka-python does not look at the response to a heartbeat before its fetch ends, so a response with news also ends the fetches of
its client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import trio

from ...protocol.connection import Request
from ..coordination.holds import TICK_MS, HeldResponse
from ..groups.coordinator import QuietMember
from ..groups.service import GroupService
from ..services.context import Context

RHYTHM_PART = 0.8
INTERVAL_MARGIN_MS = 200
"""Time that is left of the interval that the broker requests: librdkafka waits no longer for a response."""
SESSION_PART = 0.25
HOLD_MS_MAX = 2_500
"""Clients may give every request little time."""
HOLD_MS_MIN = 2 * TICK_MS
NAMES = ("apache-kafka-java", "confluent-kafka", "kafka-python", "kgo", "rdkafka")
"""Parts of the names of software that sends other requests at the same time; librdkafka's bindings have names of their own."""
NAMES_CACHED = 64
CLIENT_IDS = "aiokafka"
"""Start of the client ids of clients that do not name their software."""


def held(
    ctx: Context,
    request: Request,
    answer: Any,
    groups: GroupService,
    interval_ms: float,
    quiet: QuietMember | None = None,
    *,
    claims: Sequence[str] = (),
) -> Any:
    """Return the answer to a heartbeat; a held one if the group is quiet.

    Args:
        answer: Result of the handler.
        groups: The coordinator, which holds responses.
        interval_ms: Interval that a response without news requests; 0 for a response with news, which is not held.
        quiet: The member, if it is known to be quiet.
        claims: Fields in which the member says what it owns. After the wait they may be out of date, e.g. lack what the member was
            about to take over, so they become None for the case that the request is handled again.
    """
    assert groups.held is not None
    client, software = ctx.client, ctx.client.software
    last_s, now_s = client.heartbeat_s, trio.current_time()
    client.heartbeat_s = now_s
    is_known = _is_known(software[0]) if software else (request.client_id or "").startswith(CLIENT_IDS)
    if last_s is None or not is_known:
        return answer
    if not interval_ms:
        ctx.services.waits.end_for(request.client_id or "", client.client_host)
        return answer
    if quiet is None:
        quiet = groups.coordinator.quiet(request.body.group_id, request.body.member_id)
        if quiet is None:
            return answer
        if quiet.classic is not None:
            client.quiet = request.body, answer, quiet
    rhythm_ms = (now_s - last_s) * 1000
    hold_ms = min(
        RHYTHM_PART * rhythm_ms, interval_ms - INTERVAL_MARGIN_MS, SESSION_PART * quiet.session_ms, HOLD_MS_MAX
    )
    if hold_ms < HOLD_MS_MIN:
        return answer
    if claims and any(getattr(request.body, name) is not None for name in claims):
        request.body = replace(request.body, **dict.fromkeys(claims))
    return HeldResponse(answer, groups.held, quiet.bell, 1000 * now_s + hold_ms)


@lru_cache(NAMES_CACHED)
def _is_known(name: str) -> bool:
    return any(part in name for part in NAMES)
