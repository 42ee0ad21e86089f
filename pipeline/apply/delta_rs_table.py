"""Delta Lake without jars, by the package `deltalake` (delta-rs), for tables that fit into the driver's memory.

The rows of a batch come to the driver, which merges them. Commits carry the state as those of `sql_tables.DeltaTable` do, so
later runs may use `--table-format delta`, and the other way round if delta-rs supports the table's features.

A commit is not tried again after another one: of two concurrent writers the second is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from ..errors import PipelineError, UsageError
from .merge_sql import DELETED, NEWER, PLACE, Columns
from .sql_tables import states_of_history
from .state import AppliedState
from .table import another_is_at_work, no_rows

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaRsTable:
    kind = "delta-rs"

    def __init__(self, name: str) -> None:
        self.name = name
        self._place = name if ":" in name.partition("/")[0] else os.path.abspath(name)

    def exists(self, session: SparkSession) -> bool:
        with self._errors():
            from deltalake import DeltaTable

            if DeltaTable.is_deltatable(self._place):
                return True
        # What a killed `create` has left is only the log's folder.
        if os.path.isdir(self._place) and set(os.listdir(self._place)) - {"_delta_log"}:
            raise UsageError(f"{self.name}: expected a Delta table, or an empty folder, found other files")
        return False

    def fields(self, session: SparkSession) -> StructType:
        return from_arrow_schema(self._schema())

    def read(self, session: SparkSession) -> DataFrame:
        table = self._opened()
        with self._errors():
            rows = table.to_pyarrow_table()
        return session.createDataFrame(rows.cast(_schema_of(table)))

    def count(self, session: SparkSession) -> int:
        return self._count(self._opened())

    def create(self, session: SparkSession, fields: StructType) -> None:
        with self._errors():
            from deltalake import DeltaTable

            DeltaTable.create(self._place, _arrow_schema(session, fields))

    def add_columns(self, session: SparkSession, fields: StructType) -> None:
        table = self._opened()
        with self._errors():
            from deltalake import Schema

            table.alter.add_columns(list(Schema.from_arrow(_arrow_schema(session, fields)).fields))

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        with self._errors():
            rows = self._opened().history()
        defaults: dict[str, Any] = {"userMetadata": None, "operationParameters": {}}
        return states_of_history([{**defaults, **row} for row in rows])

    def merge(self, rows: DataFrame, columns: Columns, state: AppliedState) -> bool:
        table = self._opened()
        every = {quoted(name): f"s.{quoted(name)}" for name in (*columns.keys, *columns.updated_columns)}
        sets = {quoted(name): f"s.{quoted(name)}" for name in columns.updated_columns}
        living = "TRUE" if columns.keeps_deleted else f"NOT s.{DELETED}"
        source = self._arrow(rows, table, extra={DELETED: pa.bool_()})
        with self._errors():
            merger = table.merge(source, _same(columns.keys), "s", "t", commit_properties=_commit(state))
            if not columns.keeps_deleted:
                merger = merger.when_matched_delete(f"s.{DELETED} AND {NEWER}")
            merger = merger.when_matched_update(sets, f"{living} AND {NEWER}")
            merger.when_not_matched_insert(every, living).execute()
            if not any(each.id == state.id for each in self.states(rows.sparkSession)):  # no row has changed
                table.create_write_transaction([], "append", table.schema(), commit_properties=_commit(state))
        return True

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        if creates and not self.exists(rows.sparkSession):
            self.create(rows.sparkSession, rows.schema)
        table = self._opened()
        if self._count(table):
            raise another_is_at_work(self.name, "it has rows now")
        source = self._arrow(rows, table)
        with self._errors():
            from deltalake import write_deltalake

            write_deltalake(table, source, mode="append", schema_mode="merge", commit_properties=_commit(state))
        return int(source.num_rows)

    def insert_missing(self, rows: DataFrame, keys: Sequence[str]) -> None:
        table = self._opened()
        source = self._arrow(rows, table)
        with self._errors():
            merger = table.merge(source, _same(keys), "s", "t", commit_properties=_commit(None))
            merger.when_not_matched_insert_all().execute()

    def forget_places(self, session: SparkSession, state: AppliedState) -> None:
        table = self._opened()
        with self._errors():
            table.update(updates=dict.fromkeys(PLACE, "NULL"), commit_properties=_commit(state))

    def _opened(self) -> DeltaTable:
        """Open the newest version. Raises UsageError if the table does not exist."""
        with self._errors():
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError

            try:
                return DeltaTable(self._place)
            except TableNotFoundError:
                raise UsageError(f"{self.name}: expected a table, found none") from None

    def _count(self, table: DeltaTable) -> int:
        """Return the number of rows by the files' footers, as a table's log need not have it."""
        with self._errors():
            return int(table.to_pyarrow_dataset().count_rows())

    def _schema(self) -> pa.Schema:
        return _schema_of(self._opened())

    def _arrow(self, rows: DataFrame, table: DeltaTable, extra: Mapping[str, pa.DataType] | None = None) -> pa.Table:
        """Collect rows, with the types of the table's columns."""
        found = rows.toArrow()
        known = {field.name.lower(): field for field in _schema_of(table)}
        kinds = {
            name: known[name.lower()].type if name.lower() in known else (extra or {})[name]
            for name in found.column_names
        }
        return found.cast(pa.schema(list(kinds.items())))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert delta-rs' errors to one line.

        Raises:
            UsageError: The package is missing.
            StoreLockedError: Another commit came first.
            PipelineError: Another error.
        """
        try:
            from deltalake.exceptions import CommitFailedError, DeltaError
        except ImportError as missing:
            raise UsageError(
                "--table-format delta-rs: deltalake is missing: pip install 'ottla[delta-rs]'"
            ) from missing
        try:
            yield
        except CommitFailedError as error:
            raise another_is_at_work(self.name, "its commit came first") from error
        except (DeltaError, OSError) as error:
            raise PipelineError(f"{self.name}: {' '.join(str(error).split())}") from error


def quoted(name: str) -> str:
    """Quote a column for delta-rs, which takes unquoted names in lower case."""
    return '"' + name.replace('"', '""') + '"'


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)


def _arrow_schema(session: SparkSession, fields: StructType) -> pa.Schema:
    return pa.schema([(each.name, _in_utc(each.type)) for each in no_rows(session, fields).toArrow().schema])


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with the time zone that Delta's timestamps have, as Spark uses that of the session."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _in_utc(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    return kind


def _schema_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _commit(state: AppliedState | None) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    if state is None:
        return CommitProperties(max_commit_retries=0)
    number: Any = Transaction(f"ottla-apply:{state.generation}", state.sequence)
    return CommitProperties({"userMetadata": state.to_json()}, max_commit_retries=0, app_transactions=[number])
