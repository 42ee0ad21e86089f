"""`cleaner-offset-checkpoint`, one file a data directory: up to where each of its logs is clean.

Losing the file is safe: the next pass cleans everything again. So a file that cannot be parsed is reported and replaced,
where Apache Kafka takes the data directory offline. A failing disk takes it offline here, as it does there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, OffsetCheckpoint
from ..disk.files import Files
from ..disk.paths import TopicPartition
from ..logs.log import Log


def data_dir_of(log: Log) -> str:
    """Return the data directory that contains a log's directory."""
    return log.data_dir


class CleanerCheckpoints:
    """The checkpoint files of all data directories. Methods that write wait for the disk, and may run in any thread."""

    def __init__(self, files: Files, logs: Mapping[TopicPartition, Log], note: Callable[[str], None]) -> None:
        self._files = files
        self._logs = logs
        self._note = note
        self._guard = threading.Lock()  # one reads and replaces a file at a time
        self._damaged: set[str] = set()
        """Data directories whose file cannot be parsed, and for which that was reported."""
        self._dropped: set[tuple[str, TopicPartition]] = set()
        """Entries that are no longer valid, but that the disk refused to delete: a new partition of the name is all dirty."""
        self._parsed: dict[str, tuple[str, Mapping[TopicPartition, int]]] = {}
        """Last text of each file and its parsed entries: selecting a log needs them often, and parsing ten thousand
        entries takes 20 ms.
        """

    def read_entries(self, logs: Iterable[Log]) -> tuple[dict[TopicPartition, int], set[str]]:
        """Read the entries of these logs from the disk, and return the directories that could not be read.

        A log's entry is the one in its own directory: another directory may have an old entry of that name.
        """
        asked = [(data_dir_of(log), log) for log in logs]
        entries: dict[str, Mapping[TopicPartition, int]] = {}
        unread: set[str] = set()
        for data_dir, log in {data_dir: log for data_dir, log in asked if log.failure is None}.items():
            try:
                entries[data_dir] = self._read_all(data_dir)
            except OSError as error:
                self._note(log.fail(error).message)
                unread.add(data_dir)
        found = {
            log.topic_partition: entries[data_dir][log.topic_partition]
            for data_dir, log in asked
            if log.topic_partition in entries.get(data_dir, ()) and (data_dir, log.topic_partition) not in self._dropped
        }
        return found, unread

    def drop_strays(self, data_dir: str) -> None:
        """Delete the entries of partitions that are not here.

        Their names are free, and a new partition of the name is all dirty.

        Raises:
            OSError: The disk refused; the file is unchanged. If it could be read, the entries are ignored all the same.
        """
        with self._guard:
            self._drop(data_dir, lambda tp: not self._is_here(data_dir, tp))

    def drop(self, data_dir: str, tps: Iterable[TopicPartition]) -> None:
        """Delete the entries of these partitions, and of all that no longer exist. Writes nothing if there are none.

        Raises:
            OSError: The disk refused; the file is unchanged. The entries are ignored all the same.
        """
        gone = set(tps)
        with self._guard:
            self._dropped |= {(data_dir, tp) for tp in gone}
            self._drop(data_dir, lambda tp: tp in gone or not self._is_here(data_dir, tp))

    def _drop(self, data_dir: str, is_gone: Callable[[TopicPartition], bool]) -> None:
        offsets = self._read_all(data_dir)
        gone = {(data_dir, tp) for tp in offsets if is_gone(tp) or (data_dir, tp) in self._dropped}
        self._dropped |= gone
        if gone:
            self._write(data_dir, {tp: at for tp, at in offsets.items() if (data_dir, tp) not in gone})
        else:
            self._dropped = {each for each in self._dropped if each[0] != data_dir}

    def set(self, log: Log, offset: int) -> None:
        """Set a log's entry. Entries of deleted partitions are removed, and this one is not set if its log was deleted.

        Raises:
            OSError: The disk refused; the file is unchanged.
        """
        data_dir = data_dir_of(log)
        with self._guard:
            if self._logs.get(log.topic_partition) is log:
                offsets = {known: at for known, at in self._read(data_dir).items() if self._is_here(data_dir, known)}
                self._write(data_dir, {**offsets, log.topic_partition: offset})

    def _is_here(self, data_dir: str, tp: TopicPartition) -> bool:
        log = self._logs.get(tp)
        return log is not None and data_dir_of(log) == data_dir

    def _write(self, data_dir: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._parsed[data_dir] = self._file(data_dir).write(offsets), offsets  # so no later read parses it
        self._dropped = {each for each in self._dropped if each[0] != data_dir}
        self._damaged.discard(data_dir)

    def _read(self, data_dir: str) -> dict[TopicPartition, int]:
        """Read the entries that are still valid."""
        return {tp: at for tp, at in self._read_all(data_dir).items() if (data_dir, tp) not in self._dropped}

    def _read_all(self, data_dir: str) -> Mapping[TopicPartition, int]:
        file, text = self._file(data_dir), ""
        try:
            text = file.read_text()
            known = self._parsed.get(data_dir)
            if known is None or known[0] != text:
                self._parsed[data_dir] = known = text, file.parse(text)
            return known[1]
        except CorruptCheckpointError as error:
            self._parsed[data_dir] = text, {}
            if data_dir not in self._damaged:
                self._damaged.add(data_dir)  # the next write replaces the file
                self._note(f"{error}; created again, so all logs in this directory are cleaned from their start")
            return {}

    def _file(self, data_dir: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._files, paths.join(data_dir, paths.CLEANER_CHECKPOINT))
