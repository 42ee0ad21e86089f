"""From columns of positions to Arrow record batches.

The table COLUMNS is everything that a frame can show of a record: the columns of Spark's own Kafka connector under its
names and types, and what the batch knows besides. Keys, values and headers are gathered by Arrow itself: of a binary
array over all unpacked bytes, whose boundaries alternate between wanted and not wanted, every second entry is taken.

    bytes    |.....KEY..VALUE.......KEY..VALUE..|
    array          |0 |1            |2 |3             take 0, 2, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...protocol.compression import Codec
from ...protocol.records import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    sequence_after,
)
from ...storage.disk.paths import TopicPartition
from .batch_window import Bools, Int64s
from .columns import RecordColumns

ROWS_MAX = 65_536
"""Records in one Arrow batch. A tenth of it costs Spark a tenth more time, a thirtieth twice as much."""

_MICROSECONDS_MAX_MS = (2**63 - 1) // 1000
_SEQUENCE_MASK = sequence_after(-1, 0)  # 2**31 - 1, after which comes 0


class _BatchRows(NamedTuple):
    """The slice of a window's records that goes into one Arrow batch."""

    of: TopicPartition
    segment_base_offset: int
    records: RecordColumns
    first: int
    stop: int

    def slice(self, column: NDArray[Any]) -> NDArray[Any]:
        return column[self.first : self.stop]

    def batch_rows(self) -> Int64s:
        return self.slice(self.records.batch)

    def header(self, name: str) -> Int64s:
        """A field of each record's batch header."""
        return self.records.window.column(name)[self.batch_rows()]

    def attribute(self, bit: int) -> Bools:
        has_bit: Bools = self.records.window.headers["attributes"] & bit != 0
        return has_bit[self.batch_rows()]

    def gathered(self, at: Int64s, length: Int64s) -> pa.Array:
        return gather(self.records.data, self.slice(at), self.slice(length))

    def repeated(self, value: Any, type: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, type), self.stop - self.first)


class Column(NamedTuple):
    """A column that the source can fill."""

    spark_type: str
    """As Spark's `simpleString` says it."""
    fill: Callable[[_BatchRows, pa.DataType], pa.Array]
    in_kafkas_schema: bool = False


def gather(data: NDArray[np.uint8], at: Int64s, length: Int64s) -> pa.Array:
    """The bytes at many places as one binary array; a length of -1 is null. Places must not fall."""
    count = len(at)
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = at
    edges[1::2] = at + np.maximum(length, 0)
    edges[-1] = edges[-2] if count else 0
    is_null = length < 0
    validity = None
    if is_null.any():
        validity = pa.py_buffer(np.packbits(np.repeat(~is_null, 2), bitorder="little").tobytes())
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [validity, pa.py_buffer(edges), pa.py_buffer(data)], null_count=-1 if validity else 0
    )
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


def record_batches(
    records: RecordColumns, tp: TopicPartition, segment_base_offset: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The records as Arrow batches of at most ROWS_MAX rows, with exactly this schema: any choice of COLUMNS."""
    for first in range(0, len(records), ROWS_MAX):
        rows = _BatchRows(tp, segment_base_offset, records, first, min(first + ROWS_MAX, len(records)))
        arrays = [COLUMNS[field.name].fill(rows, field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamps(timestamps_ms: Int64s, type: pa.DataType, present: Bools | None = None) -> pa.Array:
    """Milliseconds as Spark's microseconds; null where those do not fit 64 bits (clients do write nanoseconds)."""
    fits = np.abs(timestamps_ms) <= _MICROSECONDS_MAX_MS
    if present is not None:
        fits &= present
    microseconds = np.where(fits, timestamps_ms, 0) * 1000
    return pa.array(microseconds, mask=None if fits.all() else ~fits).view(type)


def _timestamp(rows: _BatchRows, type: pa.DataType) -> pa.Array:
    return _timestamps(rows.slice(rows.records.timestamp_ms), type)


def _delete_horizon(rows: _BatchRows, type: pa.DataType) -> pa.Array:
    return _timestamps(rows.header("base_timestamp"), type, rows.attribute(DELETE_HORIZON_BIT))


def _headers(rows: _BatchRows, type: pa.DataType) -> pa.Array:
    """One list of (key, value) a record, in order and with all that are there twice; null where there is none."""
    headers = rows.records.headers
    counts = rows.slice(headers.counts)
    first = int(headers.counts[: rows.first].sum())
    edges = np.concatenate(([0], np.cumsum(counts)))
    chosen = slice(first, first + int(edges[-1]))
    names = _text(gather(rows.records.data, headers.name_at[chosen], headers.name_length[chosen]))
    values = gather(rows.records.data, headers.value_at[chosen], headers.value_length[chosen])
    struct = pa.StructArray.from_arrays([names, values], fields=list(type.value_type))
    nulls = pa.array(counts == 0) if (counts == 0).any() else None
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), struct, type=type, mask=nulls)


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:  # meant to be UTF-8, but no broker checks; read as `RecordBatch.records` does
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _sequences(rows: _BatchRows, type: pa.DataType) -> pa.Array:
    first = rows.header("base_sequence")
    following = (first + rows.slice(rows.records.offset_delta)) & _SEQUENCE_MASK
    sequences = np.where(first < 0, NO_SEQUENCE, following)
    return pa.array(sequences, type)


@cache
def _codec_texts() -> pa.Array:
    """Made when it is asked for: Arrow's first array of a list imports pandas, which plans and streams do without."""
    return pa.array([codec.name.lower() for codec in Codec])


def _codecs(rows: _BatchRows, type: pa.DataType) -> pa.Array:
    return _codec_texts().take(pa.array(rows.header("attributes") & CODEC_MASK))


def _header_field(name: str) -> Callable[[_BatchRows, pa.DataType], pa.Array]:
    return lambda rows, type: pa.array(rows.header(name), type)


def _lengths(name: str) -> Callable[[_BatchRows, pa.DataType], pa.Array]:
    def fill(rows: _BatchRows, type: pa.DataType) -> pa.Array:
        lengths = rows.slice(getattr(rows.records, name))
        return pa.array(np.maximum(lengths, -1), type, mask=lengths < 0)

    return fill


HEADERS_TYPE = "array<struct<key:string,value:binary>>"

COLUMNS: dict[str, Column] = {
    "key": Column("binary", lambda rows, _: rows.gathered(rows.records.key_at, rows.records.key_length), True),
    "value": Column("binary", lambda rows, _: rows.gathered(rows.records.value_at, rows.records.value_length), True),
    "topic": Column("string", lambda rows, type: rows.repeated(rows.of.topic, type), True),
    "partition": Column("int", lambda rows, type: rows.repeated(rows.of.partition, type), True),
    "offset": Column("bigint", lambda rows, type: pa.array(rows.slice(rows.records.offset), type), True),
    "timestamp": Column("timestamp", _timestamp, True),
    "timestampType": Column("int", lambda rows, type: pa.array(rows.attribute(LOG_APPEND_TIME_BIT)).cast(type), True),
    "headers": Column(HEADERS_TYPE, _headers),
    "timestampMs": Column("bigint", lambda rows, type: pa.array(rows.slice(rows.records.timestamp_ms), type)),
    "keySize": Column("int", _lengths("key_length")),
    "valueSize": Column("int", _lengths("value_length")),
    "sequence": Column("int", _sequences),
    "segmentBaseOffset": Column("bigint", lambda rows, type: rows.repeated(rows.segment_base_offset, type)),
    "batchPosition": Column(
        "bigint",
        lambda rows, type: pa.array(rows.records.window.position + rows.records.window.starts[rows.batch_rows()], type),
    ),
    "batchBaseOffset": Column("bigint", _header_field("base_offset")),
    "batchLastOffset": Column(
        "bigint", lambda rows, type: pa.array(rows.records.window.last_offsets[rows.batch_rows()], type)
    ),
    "leaderEpoch": Column("int", _header_field("leader_epoch")),
    "producerId": Column("bigint", _header_field("producer_id")),
    "producerEpoch": Column("smallint", _header_field("producer_epoch")),
    "isTransactional": Column("boolean", lambda rows, _: pa.array(rows.attribute(TRANSACTIONAL_BIT))),
    "compression": Column("string", _codecs),
    "deleteHorizon": Column("timestamp", _delete_horizon),
}
"""By name. Those of Kafka's connector first; `timestampMs` is what `timestamp` was made of, sizes are in bytes."""

KAFKA_COLUMNS = tuple(name for name, column in COLUMNS.items() if column.in_kafkas_schema)
BATCH_COLUMNS = tuple(name for name in COLUMNS if name not in KAFKA_COLUMNS and name != "headers")
