"""Delta Lake and Apache Iceberg, by SQL: what they share, and how each stores a state with a commit.

Delta      the user metadata of the commit, read with DESCRIBE HISTORY; and a transaction of the state's generation and
           sequence (`txnAppId`, `txnVersion`): a second commit with the same number does nothing.
Iceberg    a property of the snapshot, read from its ancestors.

The history is checked after a MERGE: it must end with the state that was written, or with the one before if no row has
changed and so nothing was committed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

from ..errors import UsageError
from . import merge_sql
from .formats import sql_type
from .merge_sql import Columns, quoted
from .state import PROPERTY, AppliedState, standing
from .table import another_is_at_work, no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RECENT = 32
"""Number of commits that are read first, as few other commits are between two of `apply`."""
ROWS = "numOutputRows"
"""Delta's name of the number of rows that a commit has written."""

_PART = re.compile(r"[^\s`.;]+|`(?:[^`]|``)+`")
_CONFLICT = re.compile(
    r"Concurrent\w{1,60}Exception|DELTA_(?:CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED|PATH_EXISTS)|ALREADY_EXISTS"
    r"|AlreadyExistsException|CommitFailedException|Found conflicting files"
)


class SqlTable:
    """A table that Spark's SQL can merge into."""

    kind: ClassVar[str]
    min_parts: ClassVar[int] = 1
    commits_no_change: ClassVar[bool]
    """Whether a MERGE that changes no row still commits, and so always stores its state."""

    def __init__(self, name: str) -> None:
        """Check the name. Raises UsageError if it is not that of a table."""
        parts = _PART.findall(name)
        if ".".join(parts) != name or len(parts) < self.min_parts:
            raise UsageError(f"--table: expected {self._expected()}, found {name!r}")
        self.name = name
        self.sql = ".".join(part if part.startswith("`") else quoted(part) for part in parts)

    def _expected(self) -> str:
        return "a name such as catalog.schema.table"

    def exists(self, session: SparkSession) -> bool:
        if not session.catalog.tableExists(self.sql):
            return False
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {self.sql}").where("col_name = 'Provider'").collect()
        provider = rows[0]["data_type"].lower() if rows else self.kind
        if provider != self.kind:
            raise UsageError(f"{self.name}: expected a {self.kind} table, found one of {provider}")
        return True

    def fields(self, session: SparkSession) -> StructType:
        return self.read(session).schema

    def read(self, session: SparkSession) -> DataFrame:
        return session.table(self.sql)

    def count(self, session: SparkSession) -> int:
        return self.read(session).count()

    def create(self, session: SparkSession, fields: StructType) -> None:
        self._create_with(no_rows(session, fields))

    def add_columns(self, session: SparkSession, fields: StructType) -> None:
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in fields)
        session.sql(f"ALTER TABLE {self.sql} ADD COLUMNS ({columns})")

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        raise NotImplementedError

    def merge(self, rows: DataFrame, columns: Columns, state: AppliedState) -> bool:
        with _view(rows) as source:
            return self._commit(rows.sparkSession, merge_sql.merge(self.sql, source, columns), state)

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        session = rows.sparkSession
        if creates:
            self._write(session, lambda: self._create_with(rows), state)
            return self._loaded(session, state)
        self._check_empty(self.read(session))
        # Unlike an INSERT, a MERGE reads the table, so that of two first loads the second is refused.
        with _view(rows) as source:
            self._commit(session, merge_sql.merge(self.sql, source, columns, only_inserts=True), state)
        return self._loaded(session, state)

    def _loaded(self, session: SparkSession, state: AppliedState) -> int:
        """Return the number of rows that the load with this state has inserted."""
        return self.count(session)

    def _create_with(self, rows: DataFrame) -> None:
        """Create the table with these rows, in one commit."""
        rows.writeTo(self.sql).using(self.kind).create()

    def _check_empty(self, table: DataFrame) -> None:
        if table.limit(1).collect():
            raise another_is_at_work(self.name, "it has rows now")

    def forget_places(self, session: SparkSession, state: AppliedState) -> None:
        self._commit(session, merge_sql.forget_places(self.sql), state)

    def insert_missing(self, rows: DataFrame, keys: Sequence[str]) -> None:
        with _view(rows) as source:
            rows.sparkSession.sql(merge_sql.insert_missing(self.sql, source, keys, rows.columns))

    def _write(self, session: SparkSession, statement: str | Callable[[], object], state: AppliedState) -> None:
        try:
            with confs(session, self._confs(state)):
                session.sql(statement) if isinstance(statement, str) else statement()
        except (PySparkException, Py4JJavaError) as error:  # PySpark does not know all of Delta's errors
            if _CONFLICT.search(str(error)):
                raise another_is_at_work(self.name, "its commit came first") from error
            raise

    def _commit(self, session: SparkSession, statement: str | Callable[[], object], state: AppliedState) -> bool:
        """Write, and check in the history that the state is there, or that no row has changed."""
        self._write(session, statement, state)
        found, is_chain = standing(self.states(session))
        is_there = found is not None and found.id == state.id
        is_unchanged = not self.commits_no_change and (found is None or found.id == state.base)
        if not is_chain or not (is_there or is_unchanged):
            raise another_is_at_work(self.name, "it has committed during this batch")
        return is_there

    def _confs(self, state: AppliedState) -> Mapping[str, str]:
        raise NotImplementedError


class DeltaTable(SqlTable):
    kind = "delta"
    commits_no_change = True  # as it contains a transaction

    def __init__(self, name: str) -> None:
        self._is_path = "/" in name
        super().__init__("delta.path" if self._is_path else name)
        if self._is_path:
            self._place = name if ":" in name.partition("/")[0] else os.path.abspath(name)
            self.name, self.sql = name, f"delta.{quoted(self._place)}"

    def create(self, session: SparkSession, fields: StructType) -> None:
        """Create the table.

        Raises UsageError for a catalog that ends with the session, as the next run would not find the table.
        """
        parts = _PART.findall(self.name)
        catalog = parts[0].strip("`") if len(parts) > 2 else session.catalog.currentCatalog()
        kept = session.conf.get("spark.sql.catalogImplementation", "in-memory")
        if not self._is_path and catalog == "spark_catalog" and kept == "in-memory":
            raise UsageError(
                f"{self.name}: expected a path such as ./{self.name}, or a catalog that outlives the session"
                " (--conf spark.sql.catalogImplementation=hive), found Spark's in-memory catalog"
            )
        super().create(session, fields)

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        # What a killed load has left would keep Spark from creating a table with rows again. It may be the second attempt.
        if creates and not self._is_path and not self.exists(rows.sparkSession):
            self.create(rows.sparkSession, rows.schema)
        return super().load(rows, columns, state, creates=creates and self._is_path)

    def _loaded(self, session: SparkSession, state: AppliedState) -> int:
        # A count is a job of fifty tasks, for which Delta reads its whole log.
        (commit,) = session.sql(f"DESCRIBE HISTORY {self.sql} LIMIT 1").collect()
        rows = rows_written(commit, state)
        return super()._loaded(session, state) if rows is None else rows

    def _create_with(self, rows: DataFrame) -> None:
        if not self._is_path:
            super()._create_with(rows)
            return
        # Without a commit, only the log's directory says that the files of a killed load are Delta's.
        jvm: Any = rows.sparkSession.sparkContext._jvm
        path = jvm.org.apache.hadoop.fs.Path
        place, log = path(self._place), path(self._place, "_delta_log")
        files = place.getFileSystem(rows.sparkSession._jsparkSession.sessionState().newHadoopConf())
        if files.exists(place) and len(files.listStatus(place)) and not files.exists(log):
            raise UsageError(f"{self.name}: expected a Delta table, or an empty folder, found other files")
        files.mkdirs(log)
        rows.write.format(self.kind).save(self._place)

    def _expected(self) -> str:
        return "a name such as schema.table, or a path"

    def exists(self, session: SparkSession) -> bool:
        if not self._is_path:
            return super().exists(session)
        try:
            session.sql(f"DESCRIBE DETAIL {self.sql}").collect()
        except AnalysisException:
            return False
        return True

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        rows = session.sql(f"DESCRIBE HISTORY {self.sql} LIMIT {RECENT}").collect()
        found = list(states_of_history(rows))
        yield from found
        if len(rows) == RECENT:
            every = session.sql(f"DESCRIBE HISTORY {self.sql}").collect()
            yield from list(states_of_history(every))[len(found) :]

    def _confs(self, state: AppliedState) -> Mapping[str, str]:
        return {
            "spark.databricks.delta.commitInfo.userMetadata": state.to_json(),
            "spark.databricks.delta.write.txnAppId": f"ottla-apply:{state.generation}",
            "spark.databricks.delta.write.txnVersion": str(state.sequence),
        }


def states_of_history(newest_first: Sequence[Any]) -> Iterator[AppliedState]:
    """Yield the states of a Delta table's history, following RESTORE, up to the table's last creation.

    Args:
        newest_first: Rows of DESCRIBE HISTORY.
    """
    upto: int | None = None
    generation = ""
    for row in newest_first:
        if upto is not None and row["version"] > upto:
            continue
        operation, parameters = row["operation"] or "", row["operationParameters"] or {}
        if operation == "RESTORE":
            upto = _restored_to(newest_first, parameters)
            # RESTORE keeps the transactions of the commits that it reverts, so their numbers are used up.
            generation = generation or f"restored-{row['version']}"
            continue
        if (found := AppliedState.from_json(row["userMetadata"])) is not None:
            yield replace(found, generation=generation) if generation else found
        if operation.startswith(("CREATE", "REPLACE")):
            return


def rows_written(commit: Any, state: AppliedState) -> int | None:
    """Return the number of rows that a commit has written; None if it is not that of this state, or does not say.

    Args:
        commit: Row of DESCRIBE HISTORY.
    """
    found, rows = AppliedState.from_json(commit["userMetadata"]), (commit["operationMetrics"] or {}).get(ROWS)
    return int(rows) if found is not None and found.id == state.id and rows is not None else None


def _restored_to(rows: Sequence[Any], parameters: Mapping[str, str]) -> int:
    """Return the version that a RESTORE has restored; -1 if it is unknown, so that nothing before it counts."""
    version, time = parameters.get("version"), parameters.get("timestamp")
    if version is not None and version != "null":
        return int(version)
    return next((row["version"] for row in rows if time and str(row["timestamp"]) <= time), -1)


class IcebergTable(SqlTable):
    kind = "iceberg"
    commits_no_change = False

    def exists(self, session: SparkSession) -> bool:
        name = self.name.partition(".")[0].strip("`")
        if session.conf.get(f"spark.sql.catalog.{name}", None) is None:
            conf = f"--conf spark.sql.catalog.{name}=org.apache.iceberg.spark.SparkCatalog"
            raise UsageError(
                f"{self.name}: expected a catalog {name}, found none: add {conf} and the options of Iceberg's catalog type"
            )
        return super().exists(session)

    min_parts = 2

    def read(self, session: SparkSession) -> DataFrame:
        session.catalog.refreshTable(self.sql)  # as for `states`
        return super().read(session)

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        session = rows.sparkSession
        if creates:
            return super().load(rows, columns, state, creates=True)
        if self._head(session) is None:  # the commit is compared with a first snapshot
            self.read(session).limit(0).writeTo(self.sql).append()
        head, table = self._head(session), self.read(session)
        # It is read at `head`, or at a later snapshot. With rows that came after `head` the commit conflicts.
        self._check_empty(table)
        has = {name.lower() for name in rows.columns}
        whole = rows.select(
            *(
                (f.col(quoted(each.name)) if each.name.lower() in has else f.lit(None))
                .cast(each.dataType)
                .alias(each.name)
                for each in table.schema
            )
        )
        # Iceberg appends two INSERTs at a time. An overwrite of all rows, which are none, is checked against later snapshots.
        writer = whole.writeTo(self.sql).option("isolation-level", "serializable")
        writer = writer.option("validate-from-snapshot-id", str(head))
        self._commit(session, lambda: writer.overwrite(f.lit(True)), state)
        return self._loaded(session, state)

    def _head(self, session: SparkSession) -> int | None:
        heads = session.sql(f"SELECT snapshot_id FROM {self.sql}.refs WHERE name = 'main'").collect()
        return heads[0]["snapshot_id"] if heads else None

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        session.catalog.refreshTable(self.sql)  # a catalog caches a table for half a minute
        key = f"summary['{PROPERTY}']"
        rows = session.sql(f"SELECT snapshot_id, parent_id, {key} AS state FROM {self.sql}.snapshots").collect()
        by_id = {row["snapshot_id"]: row for row in rows}
        at = self._head(session)
        while at in by_id:
            if (found := AppliedState.from_json(by_id[at]["state"])) is not None:
                yield found
            at = by_id[at]["parent_id"]

    def _confs(self, state: AppliedState) -> Mapping[str, str]:
        return {f"spark.sql.iceberg.snapshot-property.{PROPERTY}": state.to_json()}


@contextmanager
def confs(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set options of a session for one statement, so that later commits do not carry them."""
    before = {name: session.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)


@contextmanager
def _view(rows: DataFrame) -> Iterator[str]:
    name = f"ottla_apply_{secrets.token_hex(8)}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
