"""`cleaner-offset-checkpoint`, one file a data directory: up to where each of its logs is clean.

Losing one is safe, the next pass cleans everything again; so a file that cannot be understood is noted and begun anew,
where Apache Kafka takes the data directory offline. A disk that fails does that here too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from . import paths
from .checkpoints import CorruptCheckpointError, OffsetCheckpoint
from .files import Files
from .log import Log
from .paths import TopicPartition


def data_dir_of(log: Log) -> str:
    """The data directory that a log's directory lies in."""
    return paths.parent(log.directory)


class CleanerCheckpoints:
    """The files of all data directories. What writes waits for the disk, and may run in any thread."""

    def __init__(self, files: Files, logs: Mapping[TopicPartition, Log], note: Callable[[str], None]) -> None:
        self._files = files
        self._logs = logs
        self._note = note
        self._guard = threading.Lock()  # one reads and replaces a file at a time
        self._dropped: set[tuple[str, TopicPartition]] = set()
        """Entries that no longer hold, and that the disk would not let go: a new partition of the name is all dirty."""

    def of(self, logs: Iterable[Log]) -> tuple[dict[TopicPartition, int], set[str]]:
        """What stands for these logs, read anew, and the directories that could not be read.

        A log's entry is that of its own directory: another one may remember a partition of that name from before.
        """
        asked = [(data_dir_of(log), log) for log in logs]
        entries: dict[str, dict[TopicPartition, int]] = {}
        unread: set[str] = set()
        for data_dir, log in {data_dir: log for data_dir, log in asked if log.failure is None}.items():
            try:
                entries[data_dir] = self._read(data_dir)
            except OSError as error:
                self._note(log.fail(error).message)
                unread.add(data_dir)
        found = {
            log.topic_partition: entries[data_dir][log.topic_partition]
            for data_dir, log in asked
            if log.topic_partition in entries.get(data_dir, ())
        }
        return found, unread

    def drop_strays(self, data_dir: str) -> None:
        """Drop the entries of partitions that are not here: their names are free, and who gets one is all dirty.

        Raises:
            OSError: The disk refused; the file is as before. If it could be read they do not count any more all the same.
        """
        with self._guard:
            offsets = self._read(data_dir)
            kept = {tp: at for tp, at in offsets.items() if self._is_here(data_dir, tp)}
            if len(kept) < len(offsets):
                self._dropped |= {(data_dir, tp) for tp in offsets if tp not in kept}
                self._write(data_dir, kept)

    def set(self, data_dir: str, tp: TopicPartition, offset: int | None) -> None:
        """Set or (None) drop one partition's entry; entries of partitions that are gone go with it.

        Raises:
            OSError: The disk refused; the file is as before. What was to be dropped does not count any more all the same.
        """
        with self._guard:
            if offset is None:
                self._dropped.add((data_dir, tp))
            offsets = {known: at for known, at in self._read(data_dir).items() if self._is_here(data_dir, known)}
            offsets.pop(tp, None)
            if offset is not None:
                offsets[tp] = offset
            self._write(data_dir, offsets)

    def _is_here(self, data_dir: str, tp: TopicPartition) -> bool:
        log = self._logs.get(tp)
        return log is not None and data_dir_of(log) == data_dir

    def _write(self, data_dir: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._file(data_dir).write(offsets)
        self._dropped = {each for each in self._dropped if each[0] != data_dir}

    def _read(self, data_dir: str) -> dict[TopicPartition, int]:
        try:
            found = self._file(data_dir).read()
        except CorruptCheckpointError as error:
            self._note(f"{error}; begun anew, so all of its logs are cleaned from their start")
            self._file(data_dir).write({})
            return {}
        return {tp: at for tp, at in found.items() if (data_dir, tp) not in self._dropped}

    def _file(self, data_dir: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._files, paths.join(data_dir, paths.CLEANER_CHECKPOINT))
