"""The wait for the cleaner: HTTP tells milliseconds, `control.compaction` takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.compaction import TIMEOUT_S_MAX, Compacted, wait_until_compacted
from ...control.operation import Range, TopicName
from ..call import Call, Lives


@dataclass(frozen=True, slots=True)
class WaitRequest:
    topic: TopicName
    timeout_ms: Annotated[int, Range(0, int(TIMEOUT_S_MAX * 1_000))] = 10_000
    """Of real time, whatever the broker's clock does."""


async def waited(lives: Lives, request: WaitRequest) -> Compacted:
    return await wait_until_compacted(lives.broker, request.topic, request.timeout_ms / 1_000)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/topics/{topic}/compacted",
        "Wait until clean passes have covered what lies in closed segments now.",
        WaitRequest,
        Compacted,
        waited,
        statuses=(404, 409, 504),
        only_waits=True,
    ),
)
