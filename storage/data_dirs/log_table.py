"""Table of the open logs of a broker, and the closing of those of one data directory at a stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView

from ...protocol.errors import KafkaError
from ..disk.files import OfEach
from ..disk.paths import TopicPartition
from ..logs.log import Log
from .data_dir import DataDir


class LogTable(Mapping[TopicPartition, Log]):
    """The open logs. Each change replaces the inner table, so one thread may change it while another iterates."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, Log] = {}
        self._changing = threading.Lock()

    def __getitem__(self, topic_partition: TopicPartition) -> Log:
        return self._logs[topic_partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def values(self) -> ValuesView[Log]:
        return self._logs.values()

    def items(self) -> ItemsView[TopicPartition, Log]:
        return self._logs.items()

    def add(self, logs: Iterable[Log]) -> None:
        """Add these logs."""
        with self._changing:
            self._logs = {**self._logs, **{log.topic_partition: log for log in logs}}

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remove these partitions. KeyError if one is missing; then none is removed."""
        with self._changing:
            logs = dict(self._logs)
            for each in topic_partitions:
                del logs[each]
            self._logs = logs


def close_dir(data_dir: DataDir, logs: LogTable, now_ms: int, of_each: OfEach, note: Callable[[str], None]) -> None:
    """Close all logs that can be closed, write checkpoints, and the mark of a clean stop: a log that cannot must cost the others no more than the mark of a clean stop."""

    def close(log: Log) -> bool:
        if data_dir.health.failure is not None:
            return False
        try:
            log.close(now_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this log's
            note(f"cannot close {log.topic_partition}: {_text(error)}")
            return False
        return True

    mine = [log for log in logs.values() if log.data_dir == data_dir.path and not log.is_left_alone]
    is_clean = all(list(of_each(close, mine)))
    if data_dir.health.failure is not None:
        return
    try:
        data_dir.checkpoint_recovery_points(logs)
        data_dir.checkpoint_log_starts(logs)
        data_dir.checkpoint_high_watermarks(logs)
        if is_clean:
            data_dir.mark_clean(logs)
    except Exception as error:  # noqa: BLE001 - the other directories are to be closed, and all to be given back
        note(f"cannot close data directory {data_dir.path}: {_text(error)}")


def _text(error: Exception) -> str:
    return error.message if isinstance(error, KafkaError) else str(error) or type(error).__name__
