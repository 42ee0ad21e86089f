"""A topic as a frame with a fixed end: what Spark's connector reads of it, and what of that goes to Python.

Values do not: Spark hashes them (xxhash64 under a number drawn for the run), so of a record its key and 33 bytes are handed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from ..spark.tasks import Batches
from .cluster import WireCluster
from .topics import Bounds

OFFSETS_A_TASK = 1 << 22
"""Of offsets, of which a compacted topic has more than records."""

_COLUMNS = (
    "partition",
    "offset",
    "key",
    "value IS NULL AS deleted",
    "unix_millis(timestamp) AS time",
)
_VALUE = "xxhash64({salt}L, value{headers}) AS value"
# A header's value may be null, which xxhash64 passes over as if it were not there.
_HEADERS = ", size(headers), transform(headers, h -> struct(h.key, h.value IS NULL, h.value))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What of a topic is read."""

    cluster: WireCluster
    topic: str
    ranges: Mapping[int, Bounds]
    includes_headers: bool = False
    salt: int = 0
    """Of the values' hashes; below 2**63."""

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges.values())


def frame_of(spark: SparkSession, scan: Scan) -> DataFrame | None:
    """Its records: partition, offset, key, deleted, time (Unix milliseconds), value (a hash). None where there can be none."""
    wanted = {partition: bounds for partition, bounds in scan.ranges.items() if bounds.end > bounds.start}
    if not wanted:
        return None
    tasks = max(spark.sparkContext.defaultParallelism, -(-scan.offsets // OFFSETS_A_TASK))
    options = {
        **scan.cluster.connector_options(),
        "assign": json.dumps({scan.topic: sorted(wanted)}),
        "startingOffsets": json.dumps({scan.topic: {str(each): bounds.start for each, bounds in wanted.items()}}),
        "endingOffsets": json.dumps({scan.topic: {str(each): bounds.end for each, bounds in wanted.items()}}),
        "kafka.isolation.level": "read_committed",
        "includeHeaders": str(scan.includes_headers).lower(),
        "minPartitions": str(tasks),
    }
    headers = _HEADERS if scan.includes_headers else ""
    read = spark.read.format("kafka").options(**options).load()
    return read.selectExpr(*_COLUMNS, _VALUE.format(salt=scan.salt, headers=headers))


def by_partition(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(partition, its records in order of the offset), of batches of such a frame."""
    for batch in batches:
        if not batch.num_rows:
            continue
        partitions = batch.column("partition")
        found = partitions.unique().to_pylist()
        for partition in found:
            yield partition, batch if len(found) == 1 else batch.filter(pc.equal(partitions, partition))
