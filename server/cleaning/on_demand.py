"""Passes on demand: one log, as far as it may be cleaned by now, whoever of the cleaner's threads has time for it."""

from __future__ import annotations

from ...storage.logs.log import Log
from ..runtime.errors import ControlError, Kind
from .cleaning import Cleaning
from .demands import Demand, DemandResult


def check(cleaning: Cleaning, wanted: Log) -> None:
    """That `wanted` can be cleaned, now or once the partition is free.

    Raises:
        ControlError: CONFLICT: something about this log would have to change; UNAVAILABLE: it is the cleaner, or the disk.
    """
    tp, config = wanted.topic_partition, wanted.config
    if cleaning.logs.get(tp) is not wanted:
        raise ControlError(Kind.CONFLICT, f"{tp} was deleted")
    if wanted.failure is not None:
        raise ControlError(Kind.UNAVAILABLE, f"{tp} is offline: {wanted.failure}")
    if not config.is_compact:
        policy = ",".join(config.cleanup_policy)
        raise ControlError(
            Kind.CONFLICT,
            f"{tp} is not compacted: cleanup.policy is {policy}; set cleanup.policy=compact on topic {tp.topic}",
        )
    if (mark := cleaning.manager.uncleanable.get(tp)) is not None:
        raise ControlError(
            Kind.CONFLICT,
            f"{tp} is marked uncleanable because a pass failed ({mark.reason}); change any topic config to retry",
        )
    if (why_off := cleaning.why_off()) is not None:
        raise ControlError(Kind.UNAVAILABLE, f"{tp} cannot be cleaned: {why_off}")


async def clean_now(cleaning: Cleaning, wanted: Log, *, is_forced: bool) -> None:
    """Have passes over a log made until all is clean that may be cleaned by now, or none is due.

    Whoever has the partition is waited for; a pass of the cleaner's own counts as well.

    Args:
        is_forced: Whether or not it is due, and young segments too; with nothing dirty, a pass that lets go what has reached
            its delete horizon, if anything has.

    Raises:
        ControlError: As `check`; it is leased; a pass failed. What earlier passes did stays.
    """
    tp = wanted.topic_partition
    up_to: int | None = None
    while True:
        check(cleaning, wanted)
        if (until_ms := cleaning.leased_until_ms.get(tp)) is not None:
            raise ControlError(
                Kind.CONFLICT,
                f"{tp} is leased to an external compaction until {cleaning.clock.wall_at(until_ms)} ms since 1970"
                " by the broker's clock",
            )
        if cleaning.manager.is_held(tp):
            await cleaning.demands.change(cleaning.demands.changes)
            continue
        demand = Demand(wanted, is_forced=is_forced)
        cleaning.demands.add(demand)
        cleaning.look_again()
        served = await demand.over()
        if demand.failure is not None:
            raise ControlError(Kind.UNAVAILABLE, demand.failure)
        up_to = demand.up_to if up_to is None else up_to
        if served is DemandResult.NOT_DUE:
            check(cleaning, wanted)  # it may be no log for the cleaner any more
            return
        if served is DemandResult.PASSED and up_to is not None and cleaning.manager.first_dirty_offset(wanted) >= up_to:
            return
