"""The passes that are watched: the one that is under way, and the last that came to its end, of each partition."""

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
class WatchedPass:
    """A pass that is under way."""

    begun_at_ms: int
    is_forced: bool
    first_dirty_offset: int
    upper_offset: int
    progress: PassProgress
    picture: PassPicture | None = None
    """Before and after, once it has come to its end."""

    def ended(self, end_offset: int, stats: CleanStats, now_ms: int) -> None:
        """It has. In the thread of the pass, as what it takes is loaded then. Raises nothing: the pass is done, drawn or not."""
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


class WatchedPasses:
    """See the module. On Trio's thread."""

    def __init__(self) -> None:
        self._running: dict[TopicPartition, WatchedPass] = {}
        self._last: dict[TopicPartition, PassPicture] = {}
        self._horizons: dict[TopicPartition, Horizon] = {}

    @contextmanager
    def watching(self, chosen: LogToClean, now_ms: int, *, is_forced: bool) -> Iterator[WatchedPass]:
        """A pass over this log, as long as it is under way."""
        from ...storage.cleaning.progress import PassProgress

        watched = WatchedPass(now_ms, is_forced, chosen.first_dirty_offset, chosen.upper_offset, PassProgress())
        partition = chosen.log.topic_partition
        self._running[partition] = watched
        try:
            yield watched
        finally:
            del self._running[partition]

    def passed(self, partition: TopicPartition, watched: WatchedPass) -> None:
        """Note a pass that has ended."""
        if watched.picture is not None:
            self._last[partition] = watched.picture
        self._horizons.pop(partition, None)  # it may have set or used up any

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition that was deleted."""
        self._last.pop(partition, None)
        self._horizons.pop(partition, None)

    def note_horizon(self, partition: TopicPartition, horizon: Horizon | None) -> None:
        """Somebody has looked at the whole log, and this is the earliest delete horizon in it."""
        if horizon is not None:
            self._horizons[partition] = horizon

    def horizon(self, partition: TopicPartition) -> Horizon | None:
        """The earliest delete horizon, if somebody has looked since the last pass."""
        return self._horizons.get(partition)

    def last(self, partition: TopicPartition) -> PassPicture | None:
        """Before and after of the last pass."""
        return self._last.get(partition)

    def running(self, partition: TopicPartition) -> RunningPass | None:
        """How far the pass over this partition is; None if none is under way."""
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
