"""The broker's clock, moved by hand: due work is done as if the time had passed.

    advance   both times move ahead; segments that have been open for too long roll; due jobs run
    set_to    ahead: `advance`; back: the wall time alone, as an operator may set it
    freeze    both stand still, and every wait with them, until they are moved or unfrozen

**Rolls.** An append rolls a segment by the timestamps of records, as in Apache Kafka, and clients' clocks do not move
with this one. So a move ahead also rolls each active segment whose first record arrived more than `segment.ms` ago by
this clock (less `segment.jitter.ms`' share; on a compacted topic `max.compaction.lag.ms`, if that is less). For a
segment that an earlier run of the broker began, the timestamp of its first batch is used, or without one the start of
this run.

**Work that is done on return.** Segments have rolled before the clock moves. Then all tasks whose time has come run:
timeouts of members and transactions, expiry of offsets and producers, retention, and a round of every cleaner thread,
which cleans all logs that are due. `advance` returns when this work is complete, or after `SETTLED_WITHIN_S` if
something takes longer, e.g. a pass over a large log: the result says which.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated

import trio
import trio.lowlevel

from ...protocol.errors import KafkaError
from ...storage.disk.files import WouldWaitError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.rolling import open_until_ms
from ..broker.broker import Broker
from ..runtime.clock import NOW_MS_MAX, Clock
from ..runtime.errors import ControlError, Kind
from ..runtime.threads import load_cold
from ..runtime.time_slices import TimeSlice
from .operation import Range, operation

log = logging.getLogger("ottla.control")

SETTLED_WITHIN_S = 5.0
"""How long a move of the clock waits for the work that became due, in seconds."""
_IDLE_WITHIN_S = 0.1
"""How long it waits for a moment in which no task has anything to do, in seconds; a broker under load has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The state of the clock."""

    now_ms: int
    """The broker's wall time, in milliseconds since 1970."""
    is_frozen: bool
    """Whether the clock is frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMoved(ClockReading):
    """The result of a clock move, and the state of the clock."""

    rolled: tuple[TopicPartition, ...]
    """Partitions whose active segment was rolled, as it had been open for too long."""
    is_settled: bool
    """Whether all work that became due is complete; False: some was still in progress after five seconds."""


@operation("GET", "/v1/clock")
def read(broker: Broker) -> ClockReading:
    """Show the broker's clock."""
    return ClockReading(now_ms=broker.clock.now_ms(), is_frozen=broker.clock.is_frozen)


@operation("POST", "/v1/clock/freeze")
def freeze(broker: Broker) -> ClockReading:
    """Stop the clock.

    `advance` and `set` still move it.
    """
    broker.clock.freeze()
    return read(broker)


@operation("POST", "/v1/clock/unfreeze")
def unfreeze(broker: Broker) -> ClockReading:
    """Let the clock run again, from its current time."""
    broker.clock.unfreeze()
    return read(broker)


@operation("POST", "/v1/clock/advance")
async def advance(broker: Broker, by_ms: Annotated[int, Range(0, NOW_MS_MAX)]) -> ClockMoved:
    """Move the clock forward: segments that were open for too long roll, and due timers fire.

    Raises:
        ControlError: INVALID: not a number, negative, or after the year 9999. The clock is unchanged.
    """
    if not _is_number(by_ms) or by_ms < 0:
        raise ControlError(
            Kind.INVALID, f"advance: expected 0 ms or more, found {by_ms!r:.40}; use set() to move the clock back"
        )
    async with broker.clock.moving:
        now_ms = broker.clock.now_after(by_ms)
        _check(now_ms, "advance")
        rolled = await _roll_old(broker, now_ms)
        broker.clock.advance(by_ms)
        return await _done(broker, rolled)


@operation("PUT", "/v1/clock")
async def set_to(broker: Broker, now_ms: Annotated[int, Range(0, NOW_MS_MAX)]) -> ClockMoved:
    """Set the wall time. Forward works like `advance`; backward changes the wall time only.

    Moving the clock backward does not delay timers.

    Args:
        now_ms: Milliseconds since 1970.

    Raises:
        ControlError: INVALID: not a number, before 1970 or after the year 9999. The clock is unchanged.
    """
    _check(now_ms, "set")
    clock = broker.clock
    async with clock.moving:
        rolled = await _roll_old(broker, now_ms) if now_ms > clock.now_ms() else ()
        clock.advance(now_ms - clock.now_ms())
        return await _done(broker, rolled)


def _is_number(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _check(now_ms: int, what: str) -> None:
    if not _is_number(now_ms) or not 0 <= now_ms <= NOW_MS_MAX:
        raise ControlError(
            Kind.INVALID,
            f"{what}: expected a time from 0 to {NOW_MS_MAX} ms since 1970 (the end of the year 9999), found {now_ms!r:.40}",
        )


async def _roll_old(broker: Broker, now_ms: int) -> tuple[TopicPartition, ...]:
    rolled, time_slice = [], TimeSlice()
    async for each in time_slice.each(list(broker.services.logs.logs.values())):
        if each.failure is None:
            try:
                if await _roll_if_old(each, now_ms):
                    rolled.append(each.topic_partition)
            except OSError as error:
                log.error("%s was not rolled: %s", each.topic_partition, each.fail(error).message)
            except KafkaError as error:
                log.error("%s was not rolled: %s", each.topic_partition, error.message)
    return tuple(rolled)


async def _roll_if_old(each: Log, now_ms: int) -> bool:
    try:
        until_ms = open_until_ms(each, at_once=True)
    except WouldWaitError as cold:
        await load_cold(cold, each)
        until_ms = open_until_ms(each)
    if until_ms is None or until_ms >= now_ms:
        return False
    each.roll(now_ms)
    return True


async def _done(broker: Broker, rolled: tuple[TopicPartition, ...]) -> ClockMoved:
    broker.services.cleaning.repeat_rounds()
    is_settled = await _settled(broker.clock)
    return ClockMoved(
        now_ms=broker.clock.now_ms(), is_frozen=broker.clock.is_frozen, rolled=rolled, is_settled=is_settled
    )


async def _settled(clock: Clock) -> bool:
    with trio.move_on_after(SETTLED_WITHIN_S):
        while True:
            with trio.move_on_after(_IDLE_WITHIN_S):
                await idle()
            if not clock.has_jobs:
                return True
            await clock.at_rest()
    return False


class _Others(trio.abc.Instrument):
    """Counts the scheduler's steps of all tasks except one."""

    def __init__(self, mine: trio.lowlevel.Task) -> None:
        self._mine = mine
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._mine:
            self.steps += 1


async def idle() -> None:
    """Return once a pass of the scheduler had no step of any other task; work of other threads is not awaited.

    Keeps the scheduler running until then. `trio.testing.wait_all_tasks_blocked` does the same, but imports pytest.
    """
    others = _Others(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(others)
    try:
        steps, quiet = others.steps, 0
        # Twice: tasks run in any order within a pass, so a task that is woken may run after us in the next pass.
        while quiet < 2:
            await trio.lowlevel.checkpoint()
            quiet = quiet + 1 if steps == others.steps else 0
            steps = others.steps
    finally:
        trio.lowlevel.remove_instrument(others)
