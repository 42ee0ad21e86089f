"""Readers for a batch read of the format "ottla": on the driver they make splits, in a task they read one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from ..records.batch_window import Damage
from .data_source_api import DataSourceReader, Filter, InputPartition
from .decoded import with_decoded
from .push_down import Narrowing
from .read_options import ReadOptions
from .reading import LogReader, Task, offset_range, partitions_of, without_collector
from .split_reader import Wanted, fail_fast, read_split

NAMED_DAMAGES_MAX = 20
"""Number of dropped batches of one task that the executor's log names. All are counted."""

_log = logging.getLogger(__name__)


class SplitPartition(InputPartition):
    """Work of one task. It has no constructor of its own, as a plan makes hundreds of thousands."""

    value: Task


class BatchReader(DataSourceReader):
    """Reader with the options of the format. On the driver it makes splits, in a task it reads one."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        with without_collector():
            return [SplitPartition(task) for task in tasks(self.options, self.narrowing)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SplitPartition):
            return iter(())  # Spark's placeholder for a read without partitions
        return read_task(partition.value, self.options, self.schema, since_ms=self.narrowing.since_ms)


class PushDownReader(BatchReader):
    """`BatchReader` that uses Spark's filters on topic, partition, offset and timestamp."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            if not self.narrowing.take(each):
                yield each


def tasks(options: ReadOptions, narrowing: Narrowing) -> Iterator[Task]:
    """Yield the splits of all partitions."""
    store, chosen = partitions_of(options)
    logs = LogReader(store, committed=options.is_committed)
    for tp in chosen:
        if narrowing.excludes(tp):
            continue
        with logs.opened(tp) as log:
            from_offset, up_to_offset = offset_range(options, log)
            from_offset = max(from_offset, narrowing.from_offset)
            up_to_offset = min(up_to_offset, narrowing.up_to_offset)
            yield from log.tasks(
                from_offset, up_to_offset, max_bytes=options.max_partition_bytes, since_ms=narrowing.since_ms
            )


def read_task(
    task: Task, options: ReadOptions, schema: pa.Schema, *, since_ms: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the records of one split with these options."""

    def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return _read_bytes(task, options, Wanted(schema, task.aborted, since_ms))

    return with_decoded(schema, options.registry, options.decoded_parts, read)


def _read_bytes(task: Task, options: ReadOptions, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    if not options.drops_malformed:
        yield from read_split(task.split, wanted, on_damage=fail_fast)
        return
    dropped: list[Damage] = []
    yield from read_split(task.split, wanted, on_damage=dropped.append)
    for damage in dropped[:NAMED_DAMAGES_MAX]:
        _log.warning("dropped: %s", damage)
    if dropped:
        records, size_bytes = sum(each.record_count for each in dropped), sum(each.size_bytes for each in dropped)
        _log.warning(
            "dropped from %s: %d batches, %d records, %d bytes", task.split.log_path, len(dropped), records, size_bytes
        )
