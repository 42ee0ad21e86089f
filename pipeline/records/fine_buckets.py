"""Number of buckets into which keys are divided, and the finer ones that a task makes of one of these.

Tasks of one stage send the next stage a row for each source and bucket. If both buckets and sources grew with the data, their
product would grow with its square. So buckets have two sizes:

    V                        bytes of all entries; S sources; C tasks that the cluster runs at once; M bytes a task may hold
    coarse                   max(ceil(V / max(M, S × WORTH_A_ROW_BYTES)), min(C, V / (S × ROW_BYTES_MIN)))    a task each
    fine                     ceil(V / M / coarse)                                                            of each of them
    rows of an exchange      S × coarse <= V / ROW_BYTES_MIN + S: linear in the data

A task receives a coarse bucket, which may be larger than its limit. Then it spills the entries to its own disk in fine buckets,
and processes those one after the other (`Parted`). With an M of 32 MiB and fewer than 512
sources no bucket is divided into fine ones.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WORTH_A_ROW_BYTES = 64 << 10
"""Bytes of data for each row. A row's own overhead is some percent of the work on them."""
ROW_BYTES_MIN = 4 << 10
"""Least bytes of a row. Rows may shrink to this size to make enough tasks."""

Column = NDArray[Any]


class Buckets(NamedTuple):
    """Number of coarse buckets, and of fine ones in each; see the module."""

    coarse: int
    fine: int
    """Number of fine buckets in each coarse one."""

    def bucket_numbers(self, high: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the fine buckets for these 64 bits of hashes, numbered over all, in order. bucket // fine is the coarse one."""
        return (high >> np.uint64(32)) * np.uint64(self.coarse * self.fine) >> np.uint64(32)


def buckets_for(entries_bytes: int, sources: int, held_bytes: int, at_once: int = 1) -> Buckets:
    """Return the number of buckets for entries of this size.

    The result of a job does not depend on it.

    Args:
        sources: Tasks, or the pieces that tasks process one after the other, that send a row for each bucket.
        held_bytes: Bytes that a task may hold of a fine bucket.
        at_once: Tasks that the cluster runs at a time.
    """
    sources = max(1, sources)
    worth_a_task = max(held_bytes, sources * WORTH_A_ROW_BYTES)
    coarse = max(1, -(-entries_bytes // worth_a_task), min(at_once, entries_bytes // (sources * ROW_BYTES_MIN)))
    return Buckets(coarse, max(1, -(-entries_bytes // (held_bytes * coarse))))


class Parted:
    """Rows of some columns, stored in parts: in memory while they are few, else in an unnamed temporary file.

    Memory: three times `held_bytes`, plus the part that is being read.
    """

    def __init__(self, parts: int, held_bytes: int) -> None:
        """
        Args:
            parts: Number of parts. A single one is never written to disk, as it would have to be held in memory anyway.
            held_bytes: Size of added rows from which they are written to disk.
        """
        self._parts = parts
        self._held_bytes = held_bytes
        self._added: list[tuple[Column, ...]] = []
        self._added_bytes = 0
        self._file: IO[bytes] | None = None
        self._kinds: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        """Position in the file and number of rows of each piece, by part."""

    def add(self, part_of: NDArray[np.integer[Any]], columns: Sequence[Column]) -> None:
        """Add rows.

        Args:
            part_of: Their parts. Within a part rows stay in the order in which they are added.
            columns: One value, or some, for each row; the same types each time.
        """
        self._added.append((part_of, *columns))
        self._added_bytes += sum(column.nbytes for column in columns)
        if self._parts > 1 and self._added_bytes >= self._held_bytes:
            self._write()

    def each(self) -> Iterator[tuple[Column, ...]]:
        """Yield the columns of each part that has rows, once. Errors are those of the disk."""
        if self._file is None:
            for rows, columns in self._take_parts():
                if rows.start < rows.stop:
                    yield tuple(column[rows] for column in columns)
            return
        self._write()
        with self._file:
            for pieces in self._pieces:
                if pieces:
                    yield self._read(pieces, self._file)

    def _take_parts(self) -> Iterator[tuple[slice, list[Column]]]:
        """Yield the rows of each part that has some, with the columns of all added rows, which are cleared."""
        if not self._added:
            return
        part_of, *columns = (np.concatenate(each) for each in zip(*self._added, strict=True))
        self._added, self._added_bytes = [], 0
        if self._parts > 1:
            part_of = part_of.astype(np.uint16 if self._parts < 1 << 16 else np.uint32)
            order = np.argsort(part_of, kind="stable")  # with 16 bits the sort takes one step per row
            part_of, columns = part_of[order], [column[order] for column in columns]
        edges = np.searchsorted(part_of, np.arange(self._parts + 1, dtype=part_of.dtype))
        edges[-1] = len(part_of)
        for part in range(self._parts):
            yield slice(int(edges[part]), int(edges[part + 1])), columns

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="ottla-", dir=_spark_directory())  # noqa: SIM115 `each` closes it
        for part, (rows, columns) in enumerate(self._take_parts()):
            if rows.start == rows.stop:
                continue
            self._kinds = [(column.dtype, column.shape[1:]) for column in columns]
            self._pieces[part].append((self._file.tell(), rows.stop - rows.start))
            for column in columns:
                self._file.write(np.ascontiguousarray(column[rows]).data)

    def _read(self, pieces: Sequence[tuple[int, int]], file: IO[bytes]) -> tuple[Column, ...]:
        found: list[list[Column]] = [[] for _ in self._kinds]
        for position, rows in pieces:
            file.seek(position)
            for into, (kind, shape) in zip(found, self._kinds, strict=True):
                column = np.empty((rows, *shape), kind)
                if file.readinto(column.reshape(-1).view(np.uint8).data) < column.nbytes:  # type: ignore[attr-defined]
                    raise OSError(errno.EIO, "truncated while in use", f"a temporary file in {tempfile.gettempdir()}")
                into.append(column)
        return tuple(np.concatenate(each) for each in found)


def _spark_directory() -> str | None:
    """Return a disk for spilled data from `spark.local.dir`, which Spark passes to its Python workers; None is the system's."""
    given = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(each)]
    return given[os.getpid() % len(given)] if given else None
