"""Rows of a stored snapshot, or of Parquet files with its columns, partition by partition.

The footers of all files say which row groups have rows of a partition. Its rows have one order: that of file names, then of rows
in a file, which is the order of offsets in files written by `snapshot`. So a place in it is a number of rows, and
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
from ..objects.addresses import is_address, normalize
from ..objects.object_files import ObjectFiles
from .manifest import MANIFEST, parse_manifest, read_manifest
from .parquet_files import opened
from .snapshot_folder import FINISHED

BATCH_ROWS, BATCH_BYTES = 10_000, 16 << 20
"""Limits of a batch of rows, by the average size in its row group."""
FOOTERS_AT_ONCE = 16


class RowGroup(NamedTuple):
    """A row group of a file."""

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
    """All rows of one partition. It can be sent to another process."""

    partition: int
    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    objects: ObjectFiles

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)

    def batches(self, from_row: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows from a place on, each batch with the place after it."""
        place = 0
        for path, of_file in groupby(self.groups, lambda group: group.path):
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
                    for read in file.iter_batches(group.batch_rows(), row_groups=[group.number], columns=self.columns):
                        skipped = min(max(0, from_row - place), read.num_rows)
                        place += read.num_rows
                        batch = read.slice(skipped)
                        if group.is_mixed:
                            batch = batch.filter(pc.equal(batch["partition"], self.partition))
                        if skipped < read.num_rows:
                            yield place, batch


class StoredSnapshot:
    """A snapshot, one of its files, or other Parquet files with its columns."""

    def __init__(self, path: str, objects: ObjectFiles | None = None) -> None:
        """
        Raises:
            UsageError: The manifest is invalid.
            OSError, ValueError: As PyArrow.
        """
        self._objects = ObjectFiles() if objects is None else objects
        if is_address(path):
            path = normalize(path)
            names = self._objects.list(path)
            self.manifest = None
            if MANIFEST in names:
                file = self._objects.open(f"{path}/{MANIFEST}")
                self.manifest = parse_manifest(f"{path}/{MANIFEST}", file.read_at(0, file.size()).decode())
            self._files = _parquet_files(path, names)
        elif os.path.isdir(path):
            self.manifest = read_manifest(OsFiles(), path)
            self._files = _parquet_files(path, os.listdir(path))
        else:
            self.manifest, self._files = None, [path]
        with opened(self._files[0], self._objects) as file:
            self.schema: pa.Schema = file.schema_arrow
            """Its columns, by the first file."""

    def parts(self, columns: Sequence[str] | None = None) -> list[StoredPart]:
        """Return the partitions that have rows, in their order.

        Args:
            columns: Columns to read, with `partition`, `offset`, `key` and `value`; default: all.
        """
        names = tuple(self.schema.names if columns is None else columns)
        groups: dict[int, list[RowGroup]] = {}
        with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footers") as pool:
            for found in pool.map(lambda path: self._groups_in(path, names), self._files):
                for partition, group in found:
                    groups.setdefault(partition, []).append(group)
        return [StoredPart(number, tuple(own), names, self._objects) for number, own in sorted(groups.items())]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all partitions."""
        for part in self.parts():
            for _, batch in part.batches():
                yield batch

    def _groups_in(self, path: str, names: Iterable[str]) -> list[tuple[int, RowGroup]]:
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
                group = RowGroup(path, number, meta.num_rows, meta.total_byte_size, len(partitions) > 1, identity)
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


def _parquet_files(directory: str, names: Sequence[str]) -> Sequence[str]:
    found = [f"{directory}/{name}" for name in sorted(names) if name.endswith(FINISHED)]
    if not found:
        raise FileNotFoundError(2, "no Parquet files in it", directory)
    return found
