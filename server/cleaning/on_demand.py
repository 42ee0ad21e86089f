"""Passes on demand over one log, by the first cleaner thread that is free, up to the end of its cleanable part."""

from __future__ import annotations

from ...storage.logs.log import Log
from ..runtime.errors import ControlError, Kind
from .clean_requests import CleanOutcome, CleanRequest
from .cleaning import Cleaning


def check(cleaning: Cleaning, wanted: Log) -> None:
    """Check that `wanted` can be cleaned, now or once the partition is free.

    Raises:
        ControlError: CONFLICT: something about this log must change first; UNAVAILABLE: the cleaner or the disk prevents it.
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


async def clean_now(
    cleaning: Cleaning, wanted: Log, *, is_forced: bool, erased_keys: frozenset[bytes] = frozenset()
) -> None:
    """Run passes over a log until everything is clean that may be cleaned by now, or none is due.

    The call waits for other operations on the partition; a pass that the cleaner started itself counts as well.

    Args:
        is_forced: Clean even if the log is not due, including young segments. If nothing is dirty, run a pass that removes
            what has reached its delete horizon, if anything has.
        erased_keys: Keys whose tombstones in the dirty part are removed at once.

    Raises:
        ControlError: As `check`; the partition is leased; a pass failed. The work of earlier passes stays.
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
            await cleaning.clean_requests.change(cleaning.clean_requests.changes)
            continue
        clean_request = CleanRequest(wanted, is_forced=is_forced, erased_keys=erased_keys)
        cleaning.clean_requests.add(clean_request)
        cleaning.look_again()
        served = await clean_request.wait()
        if clean_request.failure is not None:
            raise ControlError(Kind.UNAVAILABLE, clean_request.failure)
        up_to = clean_request.up_to if up_to is None else up_to
        if served is CleanOutcome.NOT_DUE:
            check(cleaning, wanted)  # the log may have left the cleaner since
            return
        if served is CleanOutcome.PASSED and up_to is not None and cleaning.manager.first_dirty_offset(wanted) >= up_to:
            return
