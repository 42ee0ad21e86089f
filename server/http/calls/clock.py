"""The broker's clock: see `..control.clock`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.clock import ClockMoved, ClockReading, advance, freeze, read, set_to, unfreeze
from ...runtime.clock import NOW_MS_MAX
from ..call import Call, Lives, Nothing
from ..fields import Range


async def reading(lives: Lives, _: Nothing) -> ClockReading:
    return read(lives.broker)


@dataclass(frozen=True, slots=True)
class AdvanceRequest:
    by_ms: Annotated[int, Range(0, NOW_MS_MAX)]


async def advanced(lives: Lives, request: AdvanceRequest) -> ClockMoved:
    return await advance(lives.broker, request.by_ms)


@dataclass(frozen=True, slots=True)
class SetRequest:
    now_ms: Annotated[int, Range(0, NOW_MS_MAX)]
    """Milliseconds since 1970."""


async def set_clock(lives: Lives, request: SetRequest) -> ClockMoved:
    return await set_to(lives.broker, request.now_ms)


async def frozen(lives: Lives, _: Nothing) -> ClockReading:
    return freeze(lives.broker)


async def unfrozen(lives: Lives, _: Nothing) -> ClockReading:
    return unfreeze(lives.broker)


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/clock", "What the broker's clock says.", Nothing, ClockReading, reading),
    Call(
        "PUT",
        "/v1/clock",
        "Set the wall time: ahead as `advance` does, back the wall time alone.",
        SetRequest,
        ClockMoved,
        set_clock,
    ),
    Call(
        "POST",
        "/v1/clock/advance",
        "Let time pass: segments that were open for too long roll, and what becomes due is done.",
        AdvanceRequest,
        ClockMoved,
        advanced,
    ),
    Call("POST", "/v1/clock/freeze", "Let the clock stand still.", Nothing, ClockReading, frozen),
    Call("POST", "/v1/clock/unfreeze", "Let the clock go on from where it stands.", Nothing, ClockReading, unfrozen),
)
