"""A topic as a frame with a fixed end: the columns that Spark's connector reads, and those that are sent to Python.

Values are not sent: Spark hashes them (xxhash64 with a random salt of the run), so a record's key and 33 bytes are sent.
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
"""Number of offsets per task. A compacted topic has more offsets than records."""

_COLUMNS = (
    "partition",
    "offset",
    "key",
    "value IS NULL AS deleted",
    "unix_millis(timestamp) AS time",
)
_VALUE = "xxhash64({salt}L, value{headers}) AS value"
# A header's value may be null, which xxhash64 ignores.
_HEADERS = ", size(headers), transform(headers, h -> struct(h.key, h.value IS NULL, h.value))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Range and columns of a topic to read."""

    cluster: WireCluster
    topic: str
    ranges: Mapping[int, Bounds]
    includes_headers: bool = False
    salt: int = 0
    """Salt of the values' hashes; below 2**63."""

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges.values())


def frame_of(spark: SparkSession, scan: Scan) -> DataFrame | None:
    """Return the records: partition, offset, key, deleted, time (Unix milliseconds), value (a hash). None for empty ranges."""
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
    """Yield each partition with its records in order of the offset, from batches of such a frame."""
    for batch in batches:
        if not batch.num_rows:
            continue
        partitions = batch.column("partition")
        found = partitions.unique().to_pylist()
        for partition in found:
            yield partition, batch if len(found) == 1 else batch.filter(pc.equal(partitions, partition))
