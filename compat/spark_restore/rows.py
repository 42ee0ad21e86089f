"""Rows that are known by arithmetic: written as the files of a snapshot, and compared with the records of a log.

Row i of partition p has the key `p`, 15 hexadecimal digits of i, a value of 16 digits of i and 84 bytes, the time 1 000 + i in
milliseconds, and a header if i is a multiple of 16.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

FILES = 2
"""Files of a partition."""
ROWS_AT_ONCE = 50_000
TAIL = b" a value of a hundred bytes.".ljust(84, b".")
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHIFTS = np.arange(60, -4, -4, dtype=np.uint64)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COMPARED = ("key", "value", "timestampMs", "headers")


def write_rows(directory: Path, rows: int, partitions: int) -> None:
    from ottla.pipeline.snapshot.snapshot import SCHEMA

    directory.mkdir()
    each = rows // partitions
    for number in range(partitions * FILES):
        partition, part = divmod(number, FILES)
        first, end = part * each // FILES, (part + 1) * each // FILES
        with pq.ParquetWriter(directory / f"part-{number:05}.parquet", SCHEMA) as writer:
            for start in range(first, end, ROWS_AT_ONCE):
                table = expected(partition, start, min(end, start + ROWS_AT_ONCE))
                writer.write_table(table.select(SCHEMA.names).cast(SCHEMA))


def expected(partition: int, first: int, end: int) -> pa.Table:
    """Return the rows [first, end) of a partition."""
    count = end - first
    numbers = np.arange(first, end, dtype=np.uint64)
    digits = _DIGITS[(numbers[:, None] >> _SHIFTS) & np.uint64(15)]
    values = np.concatenate((digits, np.broadcast_to(np.frombuffer(TAIL, np.uint8), (count, len(TAIL)))), axis=1)
    keys = digits.copy()
    keys[:, 0] = _DIGITS[partition]
    times = pa.array((1_000 + numbers).astype(np.int64))
    has_header = numbers % np.uint64(16) == 0
    edges = np.concatenate(([0], np.cumsum(has_header))).astype(np.int32)
    header = pa.array([{"key": "h", "value": b"every 16th"}] * int(edges[-1]), _HEADERS.value_type)
    return pa.table(
        {
            "key": _binary(keys),
            "value": _binary(values),
            "topic": pa.array(["rows"] * count),
            "partition": pa.array(np.full(count, partition, np.int32)),
            "offset": pa.array(numbers.astype(np.int64)),
            "timestamp": pc.multiply(times, 1_000).cast(pa.timestamp("us", tz="UTC")),
            "timestampMs": times,
            "headers": pa.ListArray.from_arrays(edges, header, type=_HEADERS, mask=pa.array(~has_header)),
        }
    )


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    """Return each row's bytes."""
    count, width = rows.shape
    edges = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(rows))]
    )


def tables_in(data_dir: Path, topic: str, partition: int) -> Iterator[pa.Table]:
    """Yield the committed records of a partition in a data directory."""
    from ottla.pipeline.snapshot.snapshot import SCHEMA
    from ottla.pipeline.source.reading import LogReader
    from ottla.pipeline.source.split_reader import Wanted, read_split
    from ottla.pipeline.stores.stores import opened_store
    from ottla.storage.disk.paths import TopicPartition

    schema = pa.schema([SCHEMA.field(name) for name in COMPARED])
    with LogReader(opened_store(str(data_dir)), committed=True).opened(TopicPartition(topic, partition)) as log:
        for task in log.tasks(log.start_offset, log.end_offset, max_bytes=128 << 20, since_ms=None):
            for batch in read_split(task.split, Wanted(schema, task.aborted)):
                yield pa.Table.from_batches([batch])


def faults_of(tables: Iterable[pa.Table], partition: int, rows: int) -> Iterator[str]:
    """Yield the differences from the rows of a partition, of which there must be exactly these, in their order."""
    place = 0
    for table in tables:
        wanted = expected(partition, place, place + table.num_rows)
        for name in COMPARED:
            if table[name].combine_chunks() != wanted[name].combine_chunks():
                yield f"partition {partition}: another {name} at a row from {place} to {place + table.num_rows}"
        place += table.num_rows
    if place != rows:
        yield f"partition {partition}: {place} records instead of {rows}"
