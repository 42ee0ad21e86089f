"""The format "ottla" as a stream: micro-batches between offsets, which Spark keeps in its checkpoint.

    {"orders": {"0": 4711, "1": 12}}       the next offset of each partition, in the form of Spark's Kafka connector

A limit (`maxOffsetsPerTrigger`) is divided by the lag of each partition, so that all catch up together. Under
Trigger.AvailableNow a run ends where the logs ended when it began. A new partition is read
from its beginning.

Before PySpark 4.2 Spark passes a stream neither its position nor a limit: it reads everything, and remembers its own position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from ..stores.log_tails import Tail
from ..stores.reading_files import ReadingFiles
from .batch_reader import SplitPartition, read_task
from .data_source_api import (
    HAS_READ_LIMITS,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from .read_options import LATEST, ReadOptions, by_partition
from .reading import Bounds, LogReader, partitions_of, starting_offset, within

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream; see the module. Each micro-batch finds its partitions again, and reuses their known ends."""

    def __init__(self, options: ReadOptions, schema: pa.Schema, files: ReadingFiles | None = None) -> None:
        """
        Args:
            files: See `partitions_of`.

        Raises:
            UsageError: An option is not supported in a stream.
        """
        if (options.ending_offsets, options.ending_timestamp_ms, options.ending_timestamps_ms) != (None, None, None):
            raise UsageError("a stream has no end: options ending… are for batch reads only")
        if options.max_offsets_per_trigger is not None and not HAS_READ_LIMITS:
            raise UsageError("option maxOffsetsPerTrigger needs PySpark 4.2 or newer, which passes sources a limit")
        self.options = options
        self.schema = schema
        self._target: Offsets | None = None
        self._reached: Offsets = {}
        """Offsets that were returned last, for a Spark that does not pass the stream's position."""
        self._files = files
        self._tails: dict[TopicPartition, Tail] = {}
        self._bounds: dict[TopicPartition, Bounds] = {}
        """Bounds as of the last look."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tails": {}, "_bounds": {}}  # tasks do not need them

    def initialOffset(self) -> Json:
        store, chosen = partitions_of(self.options, self._files)
        logs = LogReader(store, committed=self.options.is_committed)
        found: Offsets = {}
        for tp in chosen:
            with logs.opened(tp) as log:
                found[tp] = starting_offset(self.options, log, default=LATEST)
        return as_json(found)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {tp: each.end_offset for tp, each in self._look().items()}

    def reportLatestOffset(self) -> Json:
        return as_json({tp: each.end_offset for tp, each in (self._bounds or self._look()).items()})

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        starts = self._reached if start is None else by_partition(start)
        bounds = self._look()
        begins = {tp: starts.get(tp, each.start_offset) for tp, each in bounds.items()}
        ends = {tp: each.end_offset for tp, each in bounds.items()}
        if self._target is not None:
            ends = {tp: min(ends[tp], self._target.get(tp, begins[tp])) for tp in ends}
        # Offsets never go back: a truncated log is an error of the next batch, not a reason to read records again.
        ends = {tp: max(end, begins[tp]) for tp, end in ends.items()}
        if isinstance(limit, ReadMaxRows):
            ends = share(begins, ends, limit.max_rows)
        self._reached = starts | ends
        return as_json(self._reached)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        starts, ends = by_partition(start), by_partition(end)
        due = {tp: end_offset for tp, end_offset in ends.items() if starts.get(tp, -1) < end_offset}
        if not due:
            return []
        store, chosen = partitions_of(self.options, self._files)
        there = frozenset(chosen)
        logs = LogReader(store, committed=self.options.is_committed, tails=self._tails)
        found: list[InputPartition] = []
        for tp, end_offset in due.items():
            if tp not in there:
                if self.options.fail_on_data_loss:
                    raise UsageError(f"{tp} not found, of which offsets {starts.get(tp, 0)} to {end_offset} are due")
                continue
            with logs.opened(tp, from_offset=starts.get(tp, 0)) as log:
                from_offset = within(self.options, log, starts.get(tp, log.start_offset), "the stream's checkpoint")
                up_to_offset = within(self.options, log, end_offset, "the stream's checkpoint")
                found += [
                    SplitPartition(task)
                    for task in log.tasks(
                        from_offset, up_to_offset, max_bytes=self.options.max_partition_bytes, since_ms=None
                    )
                ]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SplitPartition):
            return iter(())
        return read_task(partition.value, self.options, self.schema)

    def _look(self) -> dict[TopicPartition, Bounds]:
        """Return the bounds of each log."""
        store, chosen = partitions_of(self.options, self._files)
        logs = LogReader(store, committed=self.options.is_committed, tails=self._tails)
        self._bounds = {tp: logs.bounds(tp, self._bounds.get(tp)) for tp in chosen}
        return self._bounds


def share(begins: Offsets, ends: Offsets, offsets_max: int) -> Offsets:
    """Return new ends with about `offsets_max` offsets in all: each partition gets a share proportional to its lag.

    Each partition with new offsets gets at least one, so a stream always advances.
    """
    behind = {tp: ends[tp] - begins[tp] for tp in ends}
    total = sum(behind.values())
    if total <= offsets_max:
        return ends
    return {
        tp: begins[tp] + (min(count, max(1, offsets_max * count // total)) if count else 0)
        for tp, count in behind.items()
    }


def as_json(offsets: Offsets) -> Json:
    """Return offsets in the form of the checkpoint; `by_partition` is the reverse."""
    found: Json = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found
