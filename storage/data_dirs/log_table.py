"""Table of the open logs of a broker."""

from __future__ import annotations

import threading
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView

from ..disk.paths import TopicPartition
from ..logs.log import Log


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
