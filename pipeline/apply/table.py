"""Target of a batch: three kinds of tables, one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import StoreLockedError
from .merge_sql import Columns
from .state import AppliedState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Table(Protocol):
    """A table in some format. Sessions are arguments: a batch of a stream has one of its own.

    kind: The value of `--table-format`.
    name: As the user named it.
    """

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    def exists(self, session: SparkSession) -> bool:
        """Return whether the table exists. Raises UsageError if something else has its place."""
        ...

    def fields(self, session: SparkSession) -> StructType:
        """Return the table's columns."""
        ...

    def read(self, session: SparkSession) -> DataFrame:
        """Return the current rows, and refresh the table for the session's own queries."""
        ...

    def count(self, session: SparkSession) -> int:
        """Return the number of rows, by the table's metadata where possible."""
        ...

    def create(self, session: SparkSession, fields: StructType) -> None: ...

    def add_columns(self, session: SparkSession, fields: StructType) -> None: ...

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        """Yield the states of the table's history, the newest first; lazily, as it may be long."""
        ...

    def merge(self, rows: DataFrame, columns: Columns, state: AppliedState) -> bool:
        """Merge rows (`newest`) with `merge_sql.merge` and store the state, both or neither.

        Returns whether the state is stored; it need not be if no row has changed.

        Raises:
            StoreLockedError: Another program committed first; nothing has changed.
        """
        ...

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        """Insert rows into a table without rows and store the state, both or neither. Returns the number of rows.

        Args:
            rows: One for each key, without deletions unless the table keeps them, and with DELETED only then.
            creates: The table does not exist, and is created in the same commit.

        Raises:
            StoreLockedError: Another program committed first; nothing has changed, or the history shows both commits.
        """
        ...

    def insert_missing(self, rows: DataFrame, keys: Sequence[str]) -> None:
        """Add the rows whose keys are not in the table."""
        ...

    def forget_places(self, session: SparkSession, state: AppliedState) -> None:
        """Run `merge_sql.forget_places`, and store the state with it."""
        ...


def another_is_at_work(name: str, reason: str) -> StoreLockedError:
    return StoreLockedError(
        f"{name}: another program is applying a topic to this table ({reason}): expected one at a time"
    )


def no_rows(session: SparkSession, fields: StructType) -> DataFrame:
    """Return an empty frame of these columns, made without a Python worker."""
    from pyspark.sql import functions as f

    return session.range(0).select(*(f.lit(None).cast(each.dataType).alias(each.name) for each in fields))
