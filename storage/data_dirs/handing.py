"""A log goes from one process to another that works in a data directory beside: closed here, renamed and opened there.

Whatever dies in between, its directory is in one of both places and found by the next start of all, and how far up its records were
deleted is written down in both until the other one has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..disk import paths
from ..disk.health import Health
from ..disk.paths import TopicPartition
from ..logs.log import Log
from ..logs.log_parts import LastStop
from ..topics.config import LogConfig
from .data_dir import DataDir
from .log_table import LogTable
from .opener import LogOpener
from .partition_dirs import put_aside


class Given(NamedTuple):
    """What the other process is told of a log."""

    where: TopicPartition
    data_dir: str
    is_clean: bool
    """Whether it could be closed; else it is recovered."""
    recovery_point: int
    log_start_offset: int
    clean_up_to: int | None = None
    """The cleaner's checkpoint."""


class Handing:
    """The logs of one data directory, as they go and come. Made by `LogManager.handing`."""

    def __init__(self, data_dir: DataDir, opener: LogOpener, logs: LogTable) -> None:
        self._data_dir = data_dir
        self._opener = opener
        self._logs = logs

    def let_go(self, logs: Sequence[Log]) -> None:
        """Nothing is appended to them or read from them any more: their calls answer NOT_LEADER_OR_FOLLOWER. On the owner's thread,
        when nobody else works on them."""
        self._logs.remove(log.topic_partition for log in logs)
        health = Health("another process has it", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for log in logs:
            self._data_dir.not_served[log.topic_partition] = log.log_start_offset
            log.retire(health)

    def give(self, log: Log, now_ms: int, clean_up_to: int | None) -> Given:
        """Close one that was let go. Blocks; for a worker thread."""
        try:
            log.close_retired(now_ms)
            is_clean = True
        except (OSError, KafkaError) as error:
            self._opener.note(f"{log.topic_partition} could not be closed: {error}")
            is_clean = False
        return Given(log.topic_partition, log.data_dir, is_clean, log.recovery_point, log.log_start_offset, clean_up_to)

    def forget(self, given: Iterable[TopicPartition]) -> None:
        """The other process has them: what was written down for the next start goes with the next checkpoint."""
        for each in given:
            self._data_dir.not_served.pop(each, None)

    def expect(self, given: Iterable[Given]) -> None:
        """Write down what is to be known of logs that come. Blocks likewise. OSError: the disk refused."""
        for each in given:
            self._data_dir.not_served[each.where] = each.log_start_offset
        self._data_dir.checkpoint_log_starts(self._logs)

    def take(self, given: Given, config: LogConfig, topic_id: bytes | None, now_ms: int, elapsed_ms: int) -> Log:
        """Bring one that is expected here, and open it. Blocks likewise.

        Raises:
            OSError, KafkaError: The disk refused, or it cannot be read.
        """
        files, data_dir, opener = self._opener.files, self._data_dir, self._opener
        name = paths.partition_dir_name(*given.where)
        place = paths.join(data_dir.path, name)
        if given.data_dir != data_dir.path:
            if files.exists(place):
                aside = put_aside(files, given.where, place, opener.rng)
                opener.note(f"{place} is in the way of {given.where}; it is kept as {aside}")
            files.rename(paths.join(given.data_dir, name), place)
            files.sync_dir(data_dir.path)
            files.sync_dir(given.data_dir)
        stop = LastStop(given.is_clean, given.recovery_point, given.log_start_offset)
        return opener.open(data_dir, given.where, config, now_ms, elapsed_ms, stop, topic_id=topic_id)

    def enter(self, logs: Iterable[Log]) -> None:
        """They are served here from now on. On the owner's thread."""
        taken = list(logs)
        self._logs.add(taken)
        self.forget(log.topic_partition for log in taken)
