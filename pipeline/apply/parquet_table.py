"""Table in a folder of Parquet files, for users without Delta or Iceberg. Each batch makes a new version of it.

    TABLE/data/0000000007-<id>/…   the rows of a version
    TABLE/versions/0000000007.json {"data": "0000000007-<id>", "state": …}; the highest number is the table

A version is complete before it has a number, and a number is given once: of two concurrent writers the second is refused.
All rows are written again each time, so it is for tables of megabytes. The folder must be on a file system with hard links
that the driver and all workers see under this path.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ...storage.disk.own_files import make_directory, open_file
from ..errors import UsageError
from .merge_sql import DELETED, NEWER, PLACE, Columns, quoted
from .state import AppliedState
from .table import another_is_at_work, no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KEPT = 2
"""Number of versions that are kept. Readers of one may finish while the next is made."""


class ParquetTable:
    kind = "parquet"

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = Path(os.path.abspath(name))
        self._known: tuple[Path, StructType] | None = None
        """The folder of a version, which never changes, and its columns, which Spark would have to read in a job."""

    def newest(self) -> Path | None:
        """Return the folder with the files of the newest version; for readers without Spark."""
        found = self._versions()
        return None if not found else self._data(found[-1])

    def read(self, session: SparkSession) -> DataFrame:
        """Read the newest version. Raises UsageError if the table does not exist."""
        if (folder := self.newest()) is None:
            raise UsageError(f"{self.name}: expected a table, found none")
        if self._known is not None and self._known[0] == folder:
            return session.read.schema(self._known[1]).parquet(folder.as_uri())
        rows = session.read.parquet(folder.as_uri())
        self._known = folder, rows.schema
        return rows

    def exists(self, session: SparkSession) -> bool:
        if self._versions():
            return True
        if self._path.exists() and any(self._path.iterdir()) and not (self._path / "versions").is_dir():
            raise UsageError(f"{self.name}: expected a parquet table, or an empty folder, found other files")
        return False

    def create(self, session: SparkSession, fields: StructType) -> None:
        self._write(no_rows(session, fields), None, 0)

    def add_columns(self, session: SparkSession, fields: StructType) -> None:
        rows = self.read(session).withColumns({each.name: f.lit(None).cast(each.dataType) for each in fields})
        self._write(rows, self._state(), self._next())

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        if (found := self._state()) is not None:
            yield found

    def merge(self, rows: DataFrame, columns: Columns, state: AppliedState) -> bool:
        number, table = self._next(), self.read(rows.sparkSession)
        same = [f.col(f"s.{quoted(key)}") == f.col(f"t.{quoted(key)}") for key in columns.keys]
        places = table.select(*map(quoted, columns.keys), *PLACE)
        wins = rows.alias("s").join(places.alias("t"), same, "left").where(NEWER).select("s.*").persist()
        try:
            kept = table.alias("t").join(wins.alias("s"), same, "left_anti")
            now = wins if columns.keeps_deleted else wins.where(~f.col(DELETED))
            now = now.select(*map(quoted, [*columns.keys, *columns.updated_columns]))
            self._write(
                kept.unionByName(now, allowMissingColumns=True).select(*map(quoted, table.columns)), state, number
            )
        finally:
            wins.unpersist()
        return True

    def insert_missing(self, rows: DataFrame, keys: Sequence[str]) -> None:
        number, table = self._next(), self.read(rows.sparkSession)
        missing = rows.join(table.select(*map(quoted, keys)), list(keys), "left_anti")
        self._write(table.unionByName(missing, allowMissingColumns=True), self._state(), number)

    def forget_places(self, session: SparkSession, state: AppliedState) -> None:
        number, rows = self._next(), self.read(session)
        self._write(rows.withColumns({name: f.lit(None).cast(kind) for name, kind in PLACE.items()}), state, number)

    def _versions(self) -> list[Path]:
        return sorted((self._path / "versions").glob("[0-9]" * 10 + ".json"))

    def _data(self, version: Path) -> Path:
        return self._path / "data" / str(json.loads(version.read_text())["data"])

    def _next(self) -> int:
        return int(self._versions()[-1].stem) + 1

    def _state(self) -> AppliedState | None:
        found = self._versions()
        return AppliedState.from_json(json.loads(found[-1].read_text())["state"]) if found else None

    def _write(self, rows: DataFrame, state: AppliedState | None, number: int) -> None:
        """Write a version. Raises StoreLockedError if its number is taken."""
        name = f"{number:010}-{secrets.token_hex(8)}"
        folder = self._path / "data" / name
        rows.write.parquet(folder.as_uri())
        versions = self._path / "versions"
        make_directory(str(versions))
        draft = versions / f".{name}"
        with open(open_file(str(draft), os.O_WRONLY, create=True), "w", encoding="utf-8") as file:
            json.dump({"data": name, "state": None if state is None else state.to_json()}, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, versions / f"{number:010}.json")
        except FileExistsError:
            shutil.rmtree(folder, ignore_errors=True)
            raise another_is_at_work(self.name, f"version {number} exists") from None
        finally:
            draft.unlink()
        self._known = folder, rows.schema
        self._drop_old()

    def _drop_old(self) -> None:
        """Delete old versions, and attempts at numbers that are taken. Later numbers belong to running writers."""
        versions = self._versions()
        for each in versions[:-KEPT]:
            each.unlink(missing_ok=True)
        kept = {self._data(each).name for each in versions[-KEPT:]}
        for folder in (self._path / "data").iterdir():
            if folder.name not in kept and folder.name.partition("-")[0] <= versions[-1].stem:
                shutil.rmtree(folder, ignore_errors=True)
