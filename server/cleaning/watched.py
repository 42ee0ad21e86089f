"""Watched passes: the one in progress and the last completed one of each partition."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...storage.cleaning.dirtiness import LogToClean
from ...storage.disk.paths import TopicPartition

if TYPE_CHECKING:
    from ...storage.cleaning.clean_stats import CleanStats
    from ...storage.cleaning.progress import PassProgress
    from ...storage.pictures.log_picture import Horizon, PassPicture, RunningPass

log = logging.getLogger("ottla.cleaner")


@dataclass(slots=True, eq=False)
class ActivePass:
    """A pass in progress."""

    begun_at_ms: int
    is_forced: bool
    first_dirty_offset: int
    upper_offset: int
    progress: PassProgress
    picture: PassPicture | None = None
    """State before and after the pass, once it is completed."""

    def complete(self, end_offset: int, stats: CleanStats, now_ms: int) -> None:
        """Make the picture of the completed pass.

        In the pass's thread, which loads the modules for it. Raises nothing: the pass is done, with or without a
        picture.
        """
        try:
            from ...storage.pictures.passes import pass_done

            self.picture = pass_done(
                self.progress.done,
                stats,
                first_dirty_offset=self.first_dirty_offset,
                upper_offset=end_offset,
                ended_at_ms=now_ms,
            )
        except Exception:
            log.exception("a pass completed, but its picture cannot be drawn")


class ActivePasses:
    """Passes of one broker; see the module. On Trio's thread."""

    def __init__(self) -> None:
        self._running: dict[TopicPartition, ActivePass] = {}
        self._last: dict[TopicPartition, PassPicture] = {}
        self._horizons: dict[TopicPartition, Horizon] = {}

    @contextmanager
    def watching(self, chosen: LogToClean, now_ms: int, *, is_forced: bool) -> Iterator[ActivePass]:
        """Register a pass over this log while the block runs."""
        from ...storage.cleaning.progress import PassProgress

        watched = ActivePass(now_ms, is_forced, chosen.first_dirty_offset, chosen.upper_offset, PassProgress())
        partition = chosen.log.topic_partition
        self._running[partition] = watched
        try:
            yield watched
        finally:
            del self._running[partition]

    def note_completed(self, partition: TopicPartition, watched: ActivePass) -> None:
        """Keep a pass as the last completed one."""
        if watched.picture is not None:
            self._last[partition] = watched.picture
        self._horizons.pop(partition, None)  # the pass may have set or used up any horizon

    def forget(self, partition: TopicPartition) -> None:
        """Forget a deleted partition."""
        self._last.pop(partition, None)
        self._horizons.pop(partition, None)

    def note_horizon(self, partition: TopicPartition, horizon: Horizon | None) -> None:
        """Record the earliest delete horizon of a log, found by a reader of the whole log."""
        if horizon is not None:
            self._horizons[partition] = horizon

    def horizon(self, partition: TopicPartition) -> Horizon | None:
        """Return the earliest delete horizon if the whole log was read since the last pass, else None."""
        return self._horizons.get(partition)

    def last(self, partition: TopicPartition) -> PassPicture | None:
        """Return the picture of the last completed pass."""
        return self._last.get(partition)

    def running(self, partition: TopicPartition) -> RunningPass | None:
        """Return the progress of the pass over this partition; None if none is in progress."""
        watched = self._running.get(partition)
        if watched is None:
            return None
        from ...storage.pictures.log_picture import RunningPass

        progress = watched.progress
        phase, group = progress.phase, progress.group
        bytes_read = min(progress.bytes_read, progress.bytes_to_read)
        return RunningPass(
            phase=phase,
            begun_at_ms=watched.begun_at_ms,
            is_forced=watched.is_forced,
            first_dirty_offset=watched.first_dirty_offset,
            upper_offset=watched.upper_offset,
            map_offset=max(progress.map_offset, watched.first_dirty_offset),
            map_bytes=progress.map_bytes,
            map_bytes_read=min(progress.map_bytes_read, progress.map_bytes),
            group=0 if group is None else group.number,
            group_count=progress.group_count,
            group_base_offset=0 if group is None else group.base_offset,
            group_end_offset=0 if group is None else group.end_offset,
            group_bytes=0 if group is None else group.size_bytes,
            group_bytes_read=0 if group is None else max(0, min(bytes_read - group.begun_at_bytes, group.size_bytes)),
            bytes_to_read=progress.bytes_to_read,
            bytes_read=bytes_read,
            bytes_written=progress.bytes_written,
        )
