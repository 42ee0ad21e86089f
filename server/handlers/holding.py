"""Responses to heartbeats that are held back while the group is quiet, so that its members learn of a change at once.

A client's rhythm is the time between its heartbeats on a connection. A response is held for a part of it, so the client sends
its next heartbeat at the same time as without this. The first heartbeat is not held, as the rhythm is not known.

A member that joins gets nothing as long as others have not given up what it will get, and sends nothing else. So its answer waits
for them (`held_join`), half a second at most.

Some clients send nothing else before they have the response to a heartbeat, e.g. KafkaJS and sarama no fetch: records would come
late. Only clients are held that are known not to wait, by the name of their software (KIP-511), and aiokafka.

kafka-python does not look at the response to a heartbeat before its fetch ends, so a response with news also ends the fetches of
its client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import lru_cache
from types import CoroutineType
from typing import Any

import trio

from ...protocol.connection import Request
from ..coordination.holds import TICK_MS, HeldResponse
from ..groups.coordinator import QuietMember
from ..groups.service import GroupService
from ..services.context import Context

RHYTHM_PART = 0.8
INTERVAL_MARGIN_MS = 200
"""Time that is left of the interval that the broker requests, for librdkafka: it waits no longer for a response."""
JOIN_MS_MAX = 500
SESSION_PART = 0.25
HOLD_MS_MAX = 2_500
"""Clients may give every request little time."""
HOLD_MS_MIN = 2 * TICK_MS
MARGINS_MS = {
    "apache-kafka-java": 0,
    "kafka-python": 0,
    "kgo": 0,
    "confluent-kafka": INTERVAL_MARGIN_MS,
    "rdkafka": INTERVAL_MARGIN_MS,
}
"""Part of the name of software that sends other requests at the same time -> the margin of the interval. librdkafka's bindings have
names of their own."""
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
    client = ctx.client
    last_s, now_s = client.heartbeat_s, trio.current_time()
    client.heartbeat_s = now_s
    margin_ms = _margin_ms(ctx, request)
    if last_s is None or margin_ms is None:
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
    hold_ms = min(RHYTHM_PART * rhythm_ms, interval_ms - margin_ms, SESSION_PART * quiet.session_ms, HOLD_MS_MAX)
    if hold_ms < HOLD_MS_MIN:
        return answer
    if claims and any(getattr(request.body, name) is not None for name in claims):
        request.body = replace(request.body, **dict.fromkeys(claims))
    return HeldResponse(answer, groups.held, quiet.bell, 1000 * now_s + hold_ms)


def held_join(ctx: Context, request: Request, answer: Any, groups: GroupService, *, has_part: bool, **once: Any) -> Any:
    """Return the answer to a member that joins; a held one if the member has got nothing yet and waits for others.

    Args:
        answer: Result of the handler.
        groups: The coordinator, which holds responses.
        has_part: Whether the answer gives the member something.
        once: Values of the fields that only a request to join may have, for the case that the request is handled again.
    """
    assert groups.held is not None
    client, now_ms = ctx.client, 1000 * trio.current_time()
    client.heartbeat_s = now_ms / 1000
    last, client.joining = client.joining, None
    until_ms = last[1] if last is not None and last[0] is request else now_ms + JOIN_MS_MAX
    if has_part or answer.member_epoch <= 0 or _margin_ms(ctx, request) is None:
        return answer
    waiting = groups.coordinator.quiet(request.body.group_id, answer.member_id)
    if waiting is None or not waiting.is_waiting:
        return answer
    until_ms = min(until_ms, now_ms + SESSION_PART * waiting.session_ms)
    if until_ms - now_ms < HOLD_MS_MIN:
        return answer
    client.joining = request, until_ms
    request.body = replace(request.body, member_id=answer.member_id, member_epoch=answer.member_epoch, **once)
    return HeldResponse(answer, groups.held, waiting.bell, until_ms)


def when_answered(answer: Any, hold: Callable[[Any], Any]) -> Any:
    """Return what `hold` makes of the answer; a coroutine if the handler's result is one."""
    return _later(answer, hold) if isinstance(answer, CoroutineType) else hold(answer)


async def _later(answer: Coroutine[Any, Any, Any], hold: Callable[[Any], Any]) -> Any:
    return hold(await answer)


def joins(ctx: Context, request: Request) -> bool:
    """Whether the request is that of a member that joins, also if it is handled again after a wait."""
    return request.body.member_epoch == 0 or (ctx.client.joining is not None and ctx.client.joining[0] is request)


def _margin_ms(ctx: Context, request: Request) -> int | None:
    """Return the margin of a client that may be held; None for others."""
    software = ctx.client.software
    if software:
        return _margin_of(software[0])
    return 0 if (request.client_id or "").startswith(CLIENT_IDS) else None


@lru_cache(NAMES_CACHED)
def _margin_of(name: str) -> int | None:
    return next((margin_ms for part, margin_ms in MARGINS_MS.items() if part in name), None)
