"""Rows of a stored snapshot, or of Parquet files with its columns, partition by partition.

The footers of all files say which row groups have rows of a partition. Its rows have one order: that of layers, then of file names,
then of rows in a file, which is the order of offsets in files written by `snapshot`. So a place in it is a number of rows, and
a reader can continue from a place without reading what is before it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...storage.disk.os_files import OsFiles
from ..errors import SourceChangedError, UsageError
from ..objects.addresses import is_address
from ..objects.object_files import ObjectFiles
from .manifest import layer_directories, read_manifest
from .parquet_files import opened
from .snapshot_folder import FINISHED
from .store_snapshot import find

BATCH_ROWS, BATCH_BYTES = 10_000, 16 << 20
"""Limits of a batch of rows, by the average size in its row group."""
FOOTERS_AT_ONCE = 16


class RowGroup(NamedTuple):
    """A row group of a file, with the file's layer."""

    layer: int
    path: str
    number: int
    rows: int
    size_bytes: int
    is_mixed: bool
    """Whether it also has rows of other partitions."""
    identity: str
    """Hexadecimal digits that differ between row groups with other sizes or statistics."""

    def batch_rows(self) -> int:
        return max(1, min(BATCH_ROWS, BATCH_BYTES * self.rows // max(1, self.size_bytes)))


class StoredPart(NamedTuple):
    """All rows of one partition. It can be sent to another process.

    Memory: about 150 bytes for each key that a layer after the first has changed.
    """

    partition: int
    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    log_start_offset: int | None
    """Log start of a layered snapshot, in which not all rows count; None for one whose rows all count."""
    objects: ObjectFiles

    @property
    def row_count(self) -> int:
        """Number of rows, including those that do not count."""
        return sum(group.rows for group in self.groups)

    def batches(self, from_row: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows that count, from a place on, each batch with the place after it."""
        newest_layers: dict[bytes, int] = {}
        for group, _, batch in self._read([each for each in self.groups if each.layer], ["partition", "key"]):
            newest_layers.update(dict.fromkeys(batch["key"].to_pylist(), group.layer))
        for group, place, batch in self._read(self.groups, self.columns, from_row):
            if (start := self.log_start_offset) is not None:
                rows = zip(batch["key"].to_pylist(), batch["offset"].to_pylist(), strict=True)
                is_newest = [
                    offset >= start and newest_layers.get(key, group.layer) == group.layer for key, offset in rows
                ]
                batch = batch.filter(pc.and_(pa.array(is_newest, pa.bool_()), batch["value"].is_valid()))
            yield place, batch

    def _read(
        self, groups: Sequence[RowGroup], columns: Sequence[str], from_row: int = 0
    ) -> Iterator[tuple[RowGroup, int, pa.RecordBatch]]:
        """Yield the partition's rows of some row groups, with the place after them."""
        place = 0
        for path, of_file in groupby(groups, lambda group: group.path):
            with ExitStack() as files:
                file: pq.ParquetFile | None = None
                for group in of_file:
                    if place + group.rows <= from_row:
                        place += group.rows
                        continue
                    if file is None:
                        file = files.enter_context(opened(path, self.objects))
                    if _identity(file.metadata, group.number) != group.identity:
                        raise SourceChangedError(f"{path}: expected the file that was there before, found another one")
                    for read in file.iter_batches(group.batch_rows(), row_groups=[group.number], columns=columns):
                        skipped = min(max(0, from_row - place), read.num_rows)
                        place += read.num_rows
                        batch = read.slice(skipped)
                        if group.is_mixed:
                            batch = batch.filter(pc.equal(batch["partition"], self.partition))
                        if skipped < read.num_rows:
                            yield group, place, batch


class StoredSnapshot:
    """A snapshot, one of its files, or other Parquet files with its columns."""

    def __init__(self, path: str, objects: ObjectFiles | None = None) -> None:
        """
        Raises:
            UsageError: The snapshot does not exist.
            OSError, ValueError: As PyArrow.
        """
        self._objects = ObjectFiles() if objects is None else objects
        if is_address(path):
            found = find(self._objects, path)
            if found is None:
                raise UsageError(f"{path}: expected a snapshot, found none")
            self.manifest, self._layers = found.manifest, found.layers
        else:
            self.manifest = read_manifest(OsFiles(), path) if os.path.isdir(path) else None
            self._layers = [_files_in(each) for each in layer_directories(path, self.manifest)]
        with opened(self._layers[0][0], self._objects) as file:
            self.schema: pa.Schema = file.schema_arrow
            """Its columns, by the first file."""

    def parts(self, columns: Sequence[str] | None = None) -> list[StoredPart]:
        """Return the partitions that have rows, in their order.

        Args:
            columns: Columns to read, with `partition`, `offset`, `key` and `value`; default: all.
        """
        names = tuple(self.schema.names if columns is None else columns)
        groups: dict[int, list[RowGroup]] = {}
        files = [(layer, path) for layer, paths in enumerate(self._layers) for path in paths]
        with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footers") as pool:
            for found in pool.map(lambda file: self._groups_in(file[0], file[1], names), files):
                for partition, group in found:
                    groups.setdefault(partition, []).append(group)
        spans = {} if self.manifest is None else self.manifest.partitions
        starts = {number: span.log_start_offset for number, span in spans.items()}
        return [
            StoredPart(
                number, tuple(own), names, starts.get(number, 0) if len(self._layers) > 1 else None, self._objects
            )
            for number, own in sorted(groups.items())
        ]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that count of all partitions."""
        for part in self.parts():
            for _, batch in part.batches():
                yield batch

    def _groups_in(self, layer: int, path: str, names: Iterable[str]) -> list[tuple[int, RowGroup]]:
        """Return the row groups of a file that have rows, for each partition that is in them."""
        found = []
        with opened(path, self._objects) as file:
            if missing := {"partition", *names}.difference(file.schema_arrow.names):
                raise UsageError(
                    f"{path}: expected the columns of the first file, found no {', '.join(sorted(missing))}"
                )
            for number in range(file.num_row_groups):
                meta = file.metadata.row_group(number)
                if not meta.num_rows:
                    continue
                columns = (meta.column(column) for column in range(meta.num_columns))
                known = next(column.statistics for column in columns if column.path_in_schema == "partition")
                if known is not None and known.has_min_max and known.min == known.max and not known.null_count:
                    partitions = [known.min]
                else:
                    partitions = pc.unique(file.read_row_group(number, ["partition"])["partition"]).to_pylist()
                if None in partitions:
                    raise UsageError(
                        f"{path}: expected a partition in each row, found none in one of row group {number}"
                    )
                identity = _identity(file.metadata, number)
                group = RowGroup(
                    layer, path, number, meta.num_rows, meta.total_byte_size, len(partitions) > 1, identity
                )
                found += [(partition, group) for partition in partitions]
        return found


def digest(manifest_text: str, parts: Iterable[StoredPart]) -> str:
    """Return 16 hexadecimal digits that differ between snapshots, and not between copies of one."""
    found = hashlib.sha256(manifest_text.encode())
    for part in parts:
        for group in part.groups:
            name = os.path.basename(group.path)
            found.update(f"{part.partition} {tuple(group._replace(path=name))}\n".encode())
    return found.hexdigest()[:16]


def _identity(footer: pq.FileMetaData, number: int) -> str:
    """Return the `identity` of a row group; empty if there is none of this number."""
    if number >= footer.num_row_groups:
        return ""
    meta, found = footer.row_group(number), hashlib.sha256()
    for column in map(meta.column, range(meta.num_columns)):
        known = column.statistics
        bounds = (known.min_raw, known.max_raw) if known is not None and known.has_min_max else None
        sizes = (column.num_values, column.total_compressed_size, column.total_uncompressed_size)
        found.update(f"{column.path_in_schema} {sizes} {bounds}\n".encode())
    return found.hexdigest()[:16]


def _files_in(path: str) -> Sequence[str]:
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(FINISHED)]
    if not found:
        raise FileNotFoundError(2, "no Parquet files in it", path)
    return found
