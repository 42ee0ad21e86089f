"""Compaction of a data directory without a running broker: with storage's cleaner, on the caller's thread.

The directory is opened like a start opens it, with its locks and, after a crash, with recovery, and closed in the state
of a clean stop. Only the named topic is changed. Of the broker's options, only those that clients have set dynamically,
and the given ones, are known.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from functools import partial

from ....protocol.errors import KafkaError
from ....storage.cleaning.cleaner import Cleaner, CleanStats
from ....storage.cleaning.cleaner_manager import CleanerManager
from ....storage.cleaning.dirtiness import is_any_reached
from ....storage.disk import paths
from ....storage.disk.files import AbortedError
from ....storage.disk.health import DataDirectoryError
from ....storage.disk.os_files import OsFiles
from ....storage.filter.offset_map import SECRET_BYTES
from ....storage.logs.log import Log
from ....storage.segment.segment import LogSegment
from ....storage.steps import to_the_end
from ....storage.topics.options import ConfigError
from ...cleaning.threads import CleanerSettings, new_cleaner
from ...cluster.opening import OpenStore, Start, open_store, static_config_with_stored_id
from ...config.live_config import LiveConfig
from ...config.static_config import StaticConfig
from ...control.compaction import Compaction, PartitionCompaction, describe_pass
from ...control.partitions import logs_among
from ...control.segments import roll_one
from ...runtime.clock import Clock
from ...runtime.errors import ControlError, Kind


def compact_stopped(
    data_dirs: str,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    force: bool = False,
    roll: bool = False,
) -> Compaction:
    """Compact a topic on disk like `compaction.compact`; blocks.

    Args:
        data_dirs: A data directory, or several separated by commas, as `log.dirs`.

    Raises:
        ControlError: NOT_FOUND: unknown directory, topic or partition; CONFLICT: a broker runs in it, or the topic is not
            compacted; FAILED: the disk refused, or a segment is damaged. Work on earlier partitions is kept.
    """
    files, clock = OsFiles(), Clock()
    static = _config(files, data_dirs)
    try:
        store = open_store(Start(static, LiveConfig(static).current, files, clock, random.Random()))
    except DataDirectoryError as error:
        is_held = isinstance(error.__cause__, BlockingIOError)
        hint = f"; run it on that broker instead: ottla compact {topic}" if is_held else ""
        raise ControlError(Kind.CONFLICT, f"{error}{hint}") from error
    except OSError as error:
        raise ControlError(Kind.FAILED, str(error)) from error
    try:
        logs = logs_among(store.topics, store.logs.logs, topic, partitions)
        for log in logs:
            _check(log)
        config = LiveConfig(static)
        config.open(store.catalog)
        manager = CleanerManager(files, store.logs.logs)
        manager.correct_checkpoints(store.logs.data_dirs)
        cleaner = new_cleaner(CleanerSettings.from_config(config)._replace(threads=1))
        rows = tuple(_Compacting(manager, cleaner, clock, log, force).run(rolls=roll or force) for log in logs)
    except ValueError as error:
        raise ControlError(Kind.CONFLICT, f"{data_dirs} cannot be cleaned: {error}") from error
    finally:
        _close(store, clock)
    return Compaction(topic=topic, is_forced=force, partitions=rows)


def _config(files: OsFiles, data_dirs: str) -> StaticConfig:
    for each in data_dirs.split(","):
        if not os.path.isdir(each.strip()):
            raise ControlError(Kind.NOT_FOUND, f"directory not found: {each.strip()!r:.300}")
    if not any(files.exists(paths.join(each.strip(), paths.META_PROPERTIES)) for each in data_dirs.split(",")):
        raise ControlError(
            Kind.NOT_FOUND, f"{data_dirs!r:.300} is not a data directory: {paths.META_PROPERTIES} not found"
        )
    try:
        return static_config_with_stored_id(
            files, profile="kafka", flags={"log.dirs": data_dirs, "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
    except ConfigError as error:
        raise ControlError(Kind.INVALID, str(error)) from error


def _check(log: Log) -> None:
    tp = log.topic_partition
    if log.failure is not None:
        raise ControlError(Kind.FAILED, f"{tp} is offline: {log.failure}")
    if not log.config.is_compact:
        policy = ",".join(log.config.cleanup_policy)
        raise ControlError(Kind.CONFLICT, f"{tp} is not compacted: cleanup.policy is {policy}")


def _close(store: OpenStore, clock: Clock) -> None:
    try:
        store.catalog.settle()
    finally:
        store.logs.close(clock.now_ms())


class _Compacting:
    """Compaction of one log."""

    def __init__(self, manager: CleanerManager, cleaner: Cleaner, clock: Clock, log: Log, is_forced: bool) -> None:
        self._manager = manager
        self._cleaner = cleaner
        self._clock = clock
        self._log = log
        self._is_forced = is_forced

    def run(self, *, rolls: bool) -> PartitionCompaction:
        log, manager = self._log, self._manager
        dirty_from, segments = manager.first_dirty_offset(log), len(log.segments)
        has_rolled = rolls and roll_one(log, self._clock.now_ms()).has_rolled
        passes: list[CleanStats] = []
        try:
            while self._pass(passes):
                pass
        except OSError as error:
            raise ControlError(Kind.FAILED, log.fail(error).message) from error
        except KafkaError as error:
            raise ControlError(Kind.FAILED, f"{log.topic_partition} cannot be cleaned: {error.message}") from error
        (found,) = manager.eligibility([log], self._clock.now_ms())
        return describe_pass(
            log,
            passes,
            has_rolled=has_rolled,
            segments_before=segments,
            first_dirty=(dirty_from, manager.first_dirty_offset(log)),
            waits_for=found.waits_for,
            explanation=found.explanation,
        )

    def _pass(self, passes: list[CleanStats]) -> bool:
        """Run one pass; return whether more is to do."""
        log, manager, now_ms = self._log, self._manager, self._clock.now_ms()
        chosen = to_the_end(manager.take(log, now_ms, is_forced=self._is_forced))
        if chosen is None and not manager.is_available(log):
            mark = manager.uncleanable.get(log.topic_partition)
            reason = log.failure if mark is None else mark.reason
            raise ControlError(Kind.FAILED, f"{log.topic_partition} cannot be cleaned: {reason}")
        if chosen is None:
            return False
        try:
            if not chosen.cleanable_bytes:
                aged_up_to_ms = log.config.aged_up_to_ms(now_ms)
                if passes or not is_any_reached(chosen.segments, now_ms, aged_up_to_ms=aged_up_to_ms):
                    return False
            end_offset, stats = self._cleaner.clean(
                chosen,
                now_ms,
                secret=os.urandom(SECRET_BYTES),
                swap=partial(_swap, log, self._clock),
                checkpoint=_never_abort,
            )
            manager.save_end_offset(chosen, end_offset, stats)
        except AbortedError:
            return True  # segments had to be split first
        finally:
            manager.done_cleaning(chosen)
        passes.append(stats)
        return end_offset < chosen.upper_offset


def _swap(log: Log, clock: Clock, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
    log.replace_segments(new, old, clock.elapsed_ms())


def _never_abort(_moved_bytes: int) -> None:
    """Do nothing: the checkpoint of a pass that is never aborted."""
