"""Folder of a snapshot's files during the job.

An executor writes a file under a name that no other attempt has. The driver, which knows the one valid attempt, gives it its
name then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from ...storage.disk.os_files import OsFiles
from .snapshot_folder import FINISHED, UNFINISHED, remove_unfinished, sync_file, sync_folder


class SnapshotTarget:
    """A folder that all executors share. It is sent to them."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def write(self, part: int, attempt: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
        """Write these tables to a file, a row group each, and return its path. On an error the file is deleted if possible."""
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
        """Mark the file that counts. Called by the driver."""
        os.rename(unfinished, os.path.join(self.directory, f"part-{part:05}{FINISHED}"))

    def finished(self) -> dict[int, str]:
        """Return the file that counts for each part. Called by the driver."""
        return {
            int(name.removeprefix("part-").removesuffix(FINISHED)): os.path.join(self.directory, name)
            for name in sorted(os.listdir(self.directory))
            if name.endswith(FINISHED)
        }

    def close(self, schema: pa.Schema) -> None:
        """Sync the folder. One without files gets a file without rows."""
        remove_unfinished(OsFiles(), self.directory)
        if not self.finished():
            self.finish(0, self.write(0, "none", schema, [schema.empty_table()]))
        sync_folder(OsFiles(), self.directory)
