"""Dry run of a pass: in a worker thread and throttled like a pass, with a map of the same size."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from traceback import clear_frames
from typing import TYPE_CHECKING

import trio
import trio.from_thread

from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.cleaning.dirtiness import LogToClean, measure_in_pieces
from ...storage.disk.files import AbortedError
from ...storage.logs.log import Log
from ...storage.produce.producer_state import LastRecord
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice, run_cooperatively
from .cleaning import Cleaning
from .threads import CleanerSettings, new_cleaner

if TYPE_CHECKING:
    from ...storage.cleaning.clean_stats import DryPass


async def dry_run(
    cleaning: Cleaning, settings: CleanerSettings, log: Log, now_ms: int, *, is_forced: bool, records_max: int
) -> DryPass:
    """Return what a pass over a log would do now, whether or not it is due. The partition is in progress during the dry run.

    Args:
        log: A log that no other operation holds.
        is_forced: As a forced pass, which rolls the active segment and includes young ones.
        records_max: Maximum number of listed removals.

    Raises:
        AbortedError: Another operation needs the partition, or the broker is stopping.
        ValueError: The cleaner has no memory for any pass.
        Others: as `Cleaner.clean`.
    """
    from ...storage.cleaning.dry_run import forced_in_pieces

    manager, tp, data_dir = cleaning.manager, log.topic_partition, data_dir_of(log)
    manager.begin(tp)
    try:
        if not log.is_surveyed:
            await in_thread(Work.READ, data_dir, log.survey)
        time_slice = TimeSlice()
        measuring = forced_in_pieces if is_forced else measure_in_pieces
        measured = await run_cooperatively(measuring(log, manager.first_dirty_offset(log), now_ms), time_slice)
        last_records: dict[int, LastRecord] = {}
        async for piece in time_slice.each(log.producers.last_records_in_pieces()):
            last_records |= piece
        work = partial(
            _run,
            settings,
            measured.for_worker(last_records),
            now_ms,
            hold=partial(cleaning.throttler.hold, now_s=trio.lowlevel.current_clock().current_time),
            must_stop=lambda: cleaning.is_stopping or manager.is_aborting(tp),
            records_max=records_max,
        )
        return await in_thread(Work.DRY_RUN, data_dir, work)
    finally:
        manager.leave(tp)


def _run(
    settings: CleanerSettings,
    to_clean: LogToClean,
    now_ms: int,
    *,
    hold: Callable[..., float],
    must_stop: Callable[[], bool],
    records_max: int,
) -> DryPass:
    from ...storage.cleaning.dry_run import dry_run as count
    from ...storage.filter.offset_map import SECRET_BYTES

    def checkpoint(moved_bytes: int) -> None:
        trio.from_thread.check_cancelled()  # the caller may be gone
        hold(moved_bytes, must_stop=must_stop)
        if must_stop():
            raise AbortedError("cancelled: another operation needs the partition, or the broker is stopping")

    try:
        return count(
            new_cleaner(settings),
            to_clean,
            now_ms,
            secret=os.urandom(SECRET_BYTES),
            checkpoint=checkpoint,
            records_max=records_max,
        )
    except BaseException as error:
        clear_frames(error.__traceback__)  # its frames would keep the map as long as the error is kept
        raise
