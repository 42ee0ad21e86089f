"""`latest=true` of the format "ottla": the rows of `latest`, from a source without a shuffle.

    spark.read.format("ottla").option("topic", "users").option("latest", "true").load("/data")

Each task has a partition, and for more than KEYS_A_TASK records a share of its keys, by their hashes: it reads the keys of the
whole partition, then the records that it has chosen. So a partition of a billion records has 240 tasks, each of which reads all
its keys. `pipeline.latest` is faster there, as it reads them once and moves 29 bytes per key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ...storage.disk.paths import TopicPartition
from ..errors import SourceChangedError, UsageError
from ..records.key_hashes import hashed
from ..source.batch_reader import BatchReader
from ..source.data_source_api import EqualNullSafe, EqualTo, Filter, InputPartition, IsNotNull
from ..source.decoded import with_decoded
from ..source.read_options import ReadOptions
from ..source.reading import partitions_of, store_of
from ..stores.store import Store
from ..stores.stores import Stores
from .latest import read_part, round_that_sees_all
from .snapshot import NEWEST, NewestRows, chosen, every_key, rows_at_most
from .snapshot_rounds import ROUNDS_MAX, Round, first_round

KEYS_A_TASK = 1 << 22
"""Number of keys that a task holds: 41 bytes each, and about 130 during the merge, 550 MB."""

_NOT_WITH_LATEST = {
    "starting_offsets": "startingOffsets",
    "ending_offsets": "endingOffsets",
    "starting_timestamp_ms": "startingTimestamp",
    "ending_timestamp_ms": "endingTimestamp",
    "starting_timestamps_ms": "startingOffsetsByTimestamp",
    "ending_timestamps_ms": "endingOffsetsByTimestamp",
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
}


class LatestPartition(InputPartition):
    """Work of one task: a share of the keys of a partition."""

    def __init__(self, of: TopicPartition, share: int, shares: int) -> None:
        super().__init__(None)
        self.of = of
        self.share = share
        self.shares = shares


class LatestReader(BatchReader):
    """Reader for `latest=true`; see the module."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """
        Raises:
            UsageError: An option cannot be combined with it.
        """
        for field, name in _NOT_WITH_LATEST.items():
            if getattr(options, field) is not None:
                raise UsageError(
                    f"option {name}: not supported with latest=true, which reads up to the end of the committed data"
                )
        if options.drops_malformed:
            raise UsageError("option mode: expected FAILFAST with latest=true: a dropped record might be the latest")
        super().__init__(options, schema)
        self.key: bytes | None = None

    def partitions(self) -> list[InputPartition]:
        store, found = partitions_of(self.options)
        rows = {tp: 0 for tp in found if not self.narrowing.excludes(tp)}
        if rows and self.key is None:
            # Only the reads wait until they see all, each for its own partition: all of them may never be seen at once.
            for split in (task.split for task in first_round(store, [*rows]).tasks):
                rows[split.of] += rows_at_most(split)
        shares = {tp: max(1, -(-count // KEYS_A_TASK)) for tp, count in rows.items()}
        return [LatestPartition(tp, share, shares[tp]) for tp in rows for share in range(shares[tp])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LatestPartition):
            return iter(())  # Spark's placeholder for a read without partitions
        store, options = store_of(self.options), self.options

        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            return latest_of(store, partition.of, schema, share=partition.share, shares=partition.shares, key=self.key)

        return with_decoded(self.schema, options.registry, options.decoded_parts, read)


class PushDownLatestReader(LatestReader):
    """`LatestReader` that applies Spark's filters on topic, partition and key, which never change a key's newest record."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, given: Filter) -> bool:
        column = ".".join(getattr(given, "attribute", ()))
        if column == "key":
            if isinstance(given, IsNotNull):
                return True
            value = getattr(given, "value", None)
            if (
                isinstance(given, (EqualTo, EqualNullSafe))
                and isinstance(value, (bytes, bytearray))
                and self.key is None
            ):
                self.key = bytes(value)
                return True
            return False
        return column in ("topic", "partition") and self.narrowing.take(given)


def latest_of(
    store: Store | Stores,
    tp: TopicPartition,
    schema: pa.Schema,
    *,
    share: int = 0,
    shares: int = 1,
    key: bytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the newest record of each key of a partition that has a value, in this process.

    Args:
        share, shares: Only keys of this share of the hashes.
        key: Only this key.

    Raises:
        As `latest`; SourceChangedError also during the read.
    """
    for _ in range(ROUNDS_MAX):
        of = round_that_sees_all(store, [tp])
        parts = sorted(chosen(_rows(of, tp, share, shares, key)), key=lambda each: each[0])
        if of.is_undisturbed():
            break
    else:
        raise SourceChangedError(
            f"{store.data_dir}: segments of {tp} were replaced in each of {ROUNDS_MAX} attempts to read its keys: its cleaner is faster"
        )
    for number, offsets in parts:
        yield from read_part(of.tasks[number], offsets, schema)


def _rows(of: Round, tp: TopicPartition, share: int, shares: int, key: bytes | None) -> Iterator[NewestRows]:
    only = None if key is None else hashed(pa.array([key], pa.binary()), NEWEST, salt=tp.partition.to_bytes(4))[0]
    for rows in every_key(of):
        if only is not None:
            yield rows[(rows["high"] == only["high"]) & (rows["low"] == only["low"])]
        else:
            yield rows[(rows["high"] >> np.uint64(32)) * np.uint64(shares) >> np.uint64(32) == share]
