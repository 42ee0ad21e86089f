"""Parquet files on disk or in a store: opened by path, or by address through `objects`, which retries."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from ..objects.addresses import is_address
from ..objects.object_files import ObjectFiles
from ..objects.ranges import ObjectFile


def opened(path: str, objects: ObjectFiles) -> pq.ParquetFile:
    """Open a file of a snapshot. Raises FileNotFoundError if it does not exist."""
    return (
        pq.ParquetFile(io.BufferedReader(_Raw(objects.open(path)), 1 << 16))
        if is_address(path)
        else pq.ParquetFile(path)
    )


def rows_of_file(path: str, objects: ObjectFiles) -> int:
    with opened(path, objects) as file:
        return int(file.metadata.num_rows)


class _Raw(io.RawIOBase):
    """An object with the interface of Python's files."""

    def __init__(self, file: ObjectFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.read_into(self._at, memoryview(buffer).cast("B"))
        self._at += count
        return count

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size()}[whence]
        self._at = origin + position
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()
