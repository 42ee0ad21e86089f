"""The format "ottla" as a stream: micro-batches between offsets, which Spark keeps in its checkpoint.

    {"orders": {"0": 4711, "1": 12}}       the next offset of each partition, in the form of Spark's Kafka connector

A limit (`maxOffsetsPerTrigger`) is shared out by how far each partition is behind, so that all arrive together. Under
Trigger.AvailableNow a run ends where the logs ended when it began. A partition that is new since the last batch is read
from its beginning.

Before PySpark 4.2 a stream is told neither where it is nor a limit: it takes all that there is, and remembers for itself how far
it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from ...storage.disk.paths import OFFSET_MAX, TopicPartition
from ..errors import UsageError
from ..stores.log_tails import Tail
from ..stores.reading_files import ReadingFiles
from ..stores.store import Store
from ..stores.stores import Stores
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
from .reading import OpenLog, opened, partitions_of, starting_offset, within

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. Partitions are found anew for every micro-batch; of each is kept what was known of its end."""

    def __init__(self, options: ReadOptions, schema: pa.Schema, files: ReadingFiles | None = None) -> None:
        """
        Args:
            files: As of `partitions_of`.

        Raises:
            UsageError: An option that has no meaning in a stream.
        """
        if (options.ending_offsets, options.ending_timestamp_ms, options.ending_timestamps_ms) != (None, None, None):
            raise UsageError("a stream has no end: options ending… are of batch reads only")
        if options.max_offsets_per_trigger is not None and not HAS_READ_LIMITS:
            raise UsageError(
                "option maxOffsetsPerTrigger needs PySpark 4.2 or newer, which asks sources for so much at a time"
            )
        self.options = options
        self.schema = schema
        self._target: Offsets | None = None
        self._reached: Offsets = {}
        """What was said last, for a Spark that does not say where the stream is."""
        self._files = files
        self._tails: dict[TopicPartition, Tail] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tails": {}}  # tasks have no use for them

    def initialOffset(self) -> Json:
        store, chosen = partitions_of(self.options, self._files)
        found: Offsets = {}
        for tp in chosen:
            with opened(store, tp, committed=self.options.is_committed) as log:
                found[tp] = starting_offset(self.options, log, default=LATEST)
        return as_json(found)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {tp: end for tp, (_, end) in self._bounds().items()}

    def reportLatestOffset(self) -> Json:
        return as_json({tp: end for tp, (_, end) in self._bounds().items()})

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        starts = self._reached if start is None else by_partition(start)
        bounds = self._bounds()
        begins = {tp: starts.get(tp, first) for tp, (first, _) in bounds.items()}
        ends = {tp: end for tp, (_, end) in bounds.items()}
        if self._target is not None:
            ends = {tp: min(ends[tp], self._target.get(tp, begins[tp])) for tp in ends}
        # Never back: a log that was cut is an error of the next batch, not a reason to read something again.
        ends = {tp: max(end, begins[tp]) for tp, end in ends.items()}
        if isinstance(limit, ReadMaxRows):
            ends = share(begins, ends, limit.max_rows)
        self._reached = starts | ends
        return as_json(self._reached)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        starts, ends = by_partition(start), by_partition(end)
        store, chosen = partitions_of(self.options, self._files)
        found: list[InputPartition] = []
        for tp, end_offset in ends.items():
            if starts.get(tp, -1) >= end_offset:
                continue
            if tp not in chosen:
                if self.options.fail_on_data_loss:
                    raise UsageError(
                        f"{tp}, of which offsets {starts.get(tp, 0)} to {end_offset} are due, is not there"
                    )
                continue
            with self._opened(store, tp, from_offset=starts.get(tp, 0)) as log:
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
        return read_task(partition.task, self.options, self.schema)

    def _bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """Where each log begins and ends now."""
        store, chosen = partitions_of(self.options, self._files)
        found = {}
        for tp in chosen:
            with self._opened(store, tp, from_offset=OFFSET_MAX) as log:
                found[tp] = (log.start_offset, log.end_offset)
        return found

    def _opened(
        self, store: Store | Stores, tp: TopicPartition, *, from_offset: int
    ) -> AbstractContextManager[OpenLog]:
        committed = self.options.is_committed
        return opened(store, tp, committed=committed, tails=self._tails, from_offset=from_offset)


def share(begins: Offsets, ends: Offsets, offsets_max: int) -> Offsets:
    """New ends, so that about `offsets_max` offsets are left: to each partition its share of what there is.

    Each partition that has something gets one offset at least, so a stream always moves.
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
    """In the form of the checkpoint; `by_partition` is the reverse."""
    found: Json = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found
