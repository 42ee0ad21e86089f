"""Responses to heartbeats that are held back while the group is quiet, so that its members learn of a change at once.

A client's rhythm is the time between its heartbeats on a connection, or the interval that the broker has requested. A response
is held for a part of it, so the client sends its next heartbeat at the same time as without this. The first heartbeat is not held,
as the rhythm is not known.

A member that joins gets nothing as long as others have not given up what it will get, and sends nothing else. So its answer waits
for them (`held_join`), half a second at most. In a classic group it is the answer to its SyncGroup (`held_sync`).

Some clients send nothing else before they have the response to a heartbeat, e.g. KafkaJS and sarama no fetch: records would come
late. Only clients are held that are known not to wait, by the name of their software (KIP-511), and aiokafka.

kafka-python does not look at the response to a heartbeat before its fetch ends, so a response with news also ends the fetches of
its client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import trio

from ...protocol.connection import Request
from ...protocol.messages.sync_group import SyncGroupResponse
from ..coordination.holds import TICK_MS, HeldResponse
from ..groups.coordinator import QuietMember
from ..groups.service import GroupService
from ..services.context import Context

RHYTHM_PART = 0.8
INTERVAL_MARGIN_MS = 200
"""Time that is left of the interval that the broker requests: librdkafka waits no longer for a response."""
JOIN_S_MAX, SYNC_MS = 0.5, 200
"""The longest waits of an answer to a member that joins, and of one to a SyncGroup without partitions."""
NO_TOPICS = bytes(4)
"""Number of topics in an assignment of consumers, after its version."""
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
    *,
    has_news: bool = False,
    quiet: QuietMember | None = None,
    claims: Sequence[str] = (),
) -> Any:
    """Return the answer to a heartbeat; a held one if the group is quiet.

    Args:
        answer: Result of the handler.
        groups: The coordinator, which holds responses.
        has_news: Whether the answer has news; then it is not held.
        quiet: The member, if it is known to be quiet.
        claims: Fields in which the member says what it owns. After the wait they may be out of date, e.g. lack what the member was
            about to take over, so they become None for the case that the request is handled again.
    """
    assert groups.held is not None
    client, software = ctx.client, ctx.client.software
    last_s, now_s = client.heartbeat_s, trio.current_time()
    told_ms, client.interval_ms = client.interval_ms, getattr(answer, "heartbeat_interval_ms", 0)
    client.heartbeat_s = now_s
    if told_ms:
        hold_ms = min(RHYTHM_PART * told_ms, told_ms - INTERVAL_MARGIN_MS)
    else:
        hold_ms = 0 if last_s is None else RHYTHM_PART * 1000 * (now_s - last_s)
    # As `_is_known`, without a call: each heartbeat passes here.
    is_known = _is_named(software[0]) if software else (request.client_id or "").startswith(CLIENT_IDS)
    if not hold_ms or not is_known:
        return answer
    if has_news:
        ctx.services.waits.end_for(request.client_id or "", client.client_host)
        return answer
    if quiet is None:
        quiet = groups.coordinator.quiet(request.body.group_id, request.body.member_id)
        if quiet is None:
            return answer
        if quiet.classic is not None:
            client.quiet = request.body, answer, quiet
    hold_ms = min(hold_ms, SESSION_PART * quiet.session_ms, HOLD_MS_MAX)
    if hold_ms < HOLD_MS_MIN:
        return answer
    if claims and any(getattr(request.body, name) is not None for name in claims):
        request.body = replace(request.body, **dict.fromkeys(claims))
    return HeldResponse(answer, groups.held, quiet.bell, 1000 * now_s + hold_ms)


def held_join(ctx: Context, request: Request, answer: Any, groups: GroupService, *, has_part: bool, **once: Any) -> Any:
    """Return the answer to a member that joins; a held one if the member has got nothing yet and waits for others.

    Then the request becomes the member's next heartbeat: after a change it is handled again, and held until the same moment.

    Args:
        answer: Result of the handler.
        groups: The coordinator, which holds responses.
        has_part: Whether the answer gives the member something.
        once: Values of fields that only a request to join may have, as a heartbeat has them.
    """
    assert groups.held is not None
    client, now_s = ctx.client, trio.current_time()
    client.heartbeat_s, client.interval_ms = now_s, answer.heartbeat_interval_ms
    last, client.joining = client.joining, None
    until_s = last[1] if last is not None and last[0] is request else now_s + JOIN_S_MAX
    if has_part or answer.member_epoch <= 0 or not _is_known(ctx, request):
        return answer
    waiting = groups.coordinator.quiet(request.body.group_id, answer.member_id)
    if waiting is None or not waiting.is_waiting:
        return answer
    until_s = min(until_s, now_s + SESSION_PART * waiting.session_ms / 1000)
    if until_s - now_s < HOLD_MS_MIN / 1000:
        return answer
    client.joining = request, until_s
    request.body = replace(request.body, member_id=answer.member_id, member_epoch=answer.member_epoch, **once)
    return HeldResponse(answer, groups.held, waiting.bell, 1000 * until_s)


def held_sync(ctx: Context, request: Request, answer: SyncGroupResponse, groups: GroupService) -> Any:
    """Return the answer to a SyncGroup; a held one if the member gets no partition, and the group has other members.

    With a cooperative assignor (KIP-429) others give up its part now, and begin the next generation then. Without the wait the member
    would learn of that with its next heartbeat. If the group changes, the request is handled again.
    """
    if answer.error_code or answer.assignment[2:6] not in (b"", NO_TOPICS) or not _is_known(ctx, request):
        return answer
    assert groups.held is not None
    quiet = groups.coordinator.quiet(request.body.group_id, request.body.member_id)
    group = None if quiet is None or quiet.classic is None else quiet.classic()
    if quiet is None or group is None or len(group.members) == 1:
        return answer
    hold_ms = min(SYNC_MS, SESSION_PART * quiet.session_ms)
    return HeldResponse(answer, groups.held, quiet.bell, 1000 * trio.current_time() + hold_ms)


async def held_later(answer: Coroutine[Any, Any, Any], hold: Callable[[Any], Any]) -> Any:
    """Return what `hold` makes of the answer that a handler will have."""
    return hold(await answer)


def is_joining(ctx: Context, request: Request) -> bool:
    """Whether the request was one to join before its answer was held."""
    return ctx.client.joining is not None and ctx.client.joining[0] is request


def _is_known(ctx: Context, request: Request) -> bool:
    """Whether the client sends other requests before it has the response."""
    software = ctx.client.software
    return _is_named(software[0]) if software else (request.client_id or "").startswith(CLIENT_IDS)


@lru_cache(NAMES_CACHED)
def _is_named(name: str) -> bool:
    return any(part in name for part in NAMES)
