"""Target of a snapshot's files during the job: a folder of a disk, or a place in a store.

An executor writes a file under a name that no other attempt has. The driver, which knows the one valid attempt, finishes it:
on a disk the file gets its name then; in a store it keeps its name, and counts once the manifest names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ...storage.disk.os_files import OsFiles
from ..objects.object_files import ObjectFiles
from ..objects.uploads import upload, written_beside
from .snapshot_folder import FINISHED, UNFINISHED, sync_file


class SnapshotTarget(Protocol):
    """Target that is sent to executors."""

    def write(self, part: int, attempt: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
        """Write these tables to a file, a row group each, and return its place. On an error the file is deleted if possible."""

    def finish(self, part: int, unfinished: str) -> None:
        """Mark the file that counts. Called by the driver."""

    def finished(self) -> dict[int, str]:
        """Return the file that counts for each part. Called by the driver."""


class DiskTarget:
    """A folder that all executors share."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def write(self, part: int, attempt: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
        unfinished = os.path.join(self.directory, f"{UNFINISHED}{part:05}.{attempt}")
        try:
            with pq.ParquetWriter(unfinished, schema) as writer:
                for table in tables:
                    writer.write_table(table)
            sync_file(OsFiles(), unfinished)
        except BaseException:
            with suppress(FileNotFoundError):
                os.remove(unfinished)
            raise
        return unfinished

    def finish(self, part: int, unfinished: str) -> None:
        os.rename(unfinished, os.path.join(self.directory, f"part-{part:05}{FINISHED}"))

    def finished(self) -> dict[int, str]:
        return {
            int(name.removeprefix("part-").removesuffix(FINISHED)): os.path.join(self.directory, name)
            for name in sorted(os.listdir(self.directory))
            if name.endswith(FINISHED)
        }


class StoreTarget:
    """A place in a store that contains nothing else."""

    def __init__(self, address: str, objects: ObjectFiles) -> None:
        self.address = address
        self.objects = objects
        self._finished: dict[int, str] = {}

    def write(self, part: int, attempt: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
        address = f"{self.address}/part-{part:05}.{attempt}{FINISHED}"
        with written_beside() as path:
            with pq.ParquetWriter(path, schema) as writer:
                for table in tables:
                    writer.write_table(table)
            upload(self.objects, path, address)
        return address

    def finish(self, part: int, unfinished: str) -> None:
        self._finished[part] = unfinished

    def finished(self) -> dict[int, str]:
        return dict(sorted(self._finished.items()))
