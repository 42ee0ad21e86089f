"""How many buckets keys are shared out in, and the finer ones that a task makes of one of these.

What tasks of one stage have for tasks of the next is a row for each source and bucket. Buckets that grow with the data alone are as
many as the data, and so are the sources: their product grows with its square. So there are two sizes of buckets:

    V                        bytes of all entries; S sources; C tasks that the cluster runs at once; M bytes that a task may hold
    coarse                   max(ceil(V / max(M, S × WORTH_A_ROW_BYTES)), min(C, V / (S × ROW_BYTES_MIN)))    a task each
    fine                     ceil(V / M / coarse)                                                            of each of them
    rows of an exchange      S × coarse <= V / ROW_BYTES_MIN + S: linear in the data

A coarse bucket is what goes to a task; it may be larger than what the task holds. Then it puts the entries by on its own disk, in fine
ones, and takes those one after the other (`Parted`). M is 32 MiB where there are less than 512 sources for it, and then none is fine.
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
"""What a row costs by itself is some percent of the work with so many bytes."""
ROW_BYTES_MIN = 4 << 10
"""Rows may become so small for the sake of tasks enough."""

Column = NDArray[Any]


class Buckets(NamedTuple):
    """See the module."""

    coarse: int
    fine: int
    """Of each of the coarse ones."""

    def of(self, high: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The fine buckets of these 64 bits of hashes, of all: in their order, and bucket // fine is the coarse one."""
        return (high >> np.uint64(32)) * np.uint64(self.coarse * self.fine) >> np.uint64(32)


def buckets_for(entries_bytes: int, sources: int, held_bytes: int, at_once: int = 1) -> Buckets:
    """How many there are for so many bytes of entries.

    Args:
        sources: Tasks, or what tasks go through one after the other, that give a row for each bucket.
        held_bytes: As many bytes as a task may hold of a fine bucket.
        at_once: Tasks that the cluster runs at a time.

    What comes of the entries does not depend on it.
    """
    sources = max(1, sources)
    worth_a_task = max(held_bytes, sources * WORTH_A_ROW_BYTES)
    coarse = max(1, -(-entries_bytes // worth_a_task), min(at_once, entries_bytes // (sources * ROW_BYTES_MIN)))
    return Buckets(coarse, max(1, -(-entries_bytes // (held_bytes * coarse))))


class Parted:
    """Rows of some columns, put by in parts: in memory while they are few, else in a file that nobody sees.

    Memory: three times `held_bytes`, besides the part that is taken.
    """

    def __init__(self, parts: int, held_bytes: int) -> None:
        """
        Args:
            parts: How many; with one nothing goes to disk, for it would have to be held anyway.
            held_bytes: From so many bytes on what has been added is written.
        """
        self._parts = parts
        self._held_bytes = held_bytes
        self._added: list[tuple[Column, ...]] = []
        self._added_bytes = 0
        self._file: IO[bytes] | None = None
        self._kinds: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        """Of each part where in the file its pieces begin, and how many rows they have."""

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
        """The columns of each part that has rows, once. Errors are those of the disk."""
        if self._file is None:
            for rows, columns in self._taken():
                if rows.start < rows.stop:
                    yield tuple(column[rows] for column in columns)
            return
        self._write()
        with self._file:
            for pieces in self._pieces:
                if pieces:
                    yield self._read(pieces, self._file)

    def _taken(self) -> Iterator[tuple[slice, list[Column]]]:
        """The rows of each part that has some, among the columns of what was added, which is forgotten."""
        if not self._added:
            return
        part_of, *columns = (np.concatenate(each) for each in zip(*self._added, strict=True))
        self._added, self._added_bytes = [], 0
        if self._parts > 1:
            part_of = part_of.astype(np.uint16 if self._parts < 1 << 16 else np.uint32)
            order = np.argsort(part_of, kind="stable")  # of 16 bits it takes a step a row
            part_of, columns = part_of[order], [column[order] for column in columns]
        edges = np.searchsorted(part_of, np.arange(self._parts + 1, dtype=part_of.dtype))
        edges[-1] = len(part_of)
        for part in range(self._parts):
            yield slice(int(edges[part]), int(edges[part + 1])), columns

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="ottla-", dir=_spark_directory())  # noqa: SIM115 `each` closes it
        for part, (rows, columns) in enumerate(self._taken()):
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
                    raise OSError(errno.EIO, "cut while it was used", f"a temporary file in {tempfile.gettempdir()}")
                into.append(column)
        return tuple(np.concatenate(each) for each in found)


def _spark_directory() -> str | None:
    """A disk that Spark has for what tasks put by (`spark.local.dir`), which it tells its Python workers of; else the system's."""
    given = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(each)]
    return given[os.getpid() % len(given)] if given else None
