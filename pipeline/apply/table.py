"""What a batch is merged into: three kinds of tables, one protocol."""

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

    kind: As `--table-format` has it.
    name: As the user named it.
    """

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    def exists(self, session: SparkSession) -> bool:
        """UsageError: what is there is no table of this kind."""
        ...

    def read(self, session: SparkSession) -> DataFrame:
        """As it is now, which from then on the session's own queries see, too."""
        ...

    def create(self, session: SparkSession, fields: StructType) -> None: ...

    def add_columns(self, session: SparkSession, fields: StructType) -> None: ...

    def states(self, session: SparkSession) -> Iterator[AppliedState]:
        """Those of the table's history as it is now, the newest first; lazily, for it may be long."""
        ...

    def merge(self, rows: DataFrame, columns: Columns, state: AppliedState) -> bool:
        """Bring rows (`newest`) in by `merge_sql.merge`, and the state with them: both or nothing. Returns whether the state is
        there; it need not be where no row has changed.

        Raises:
            StoreLockedError: Another program was quicker; nothing has changed.
        """
        ...

    def insert_missing(self, rows: DataFrame, keys: Sequence[str]) -> None:
        """Add the rows whose keys are not there."""
        ...

    def forget_places(self, session: SparkSession, state: AppliedState) -> None:
        """`merge_sql.forget_places`, and the state with it."""
        ...


def another_is_at_work(name: str, reason: str) -> StoreLockedError:
    return StoreLockedError(
        f"{name}: another program is applying a topic to this table ({reason}): expected one at a time"
    )


def no_rows(session: SparkSession, fields: StructType) -> DataFrame:
    """A frame of these columns, which takes no Python worker to make."""
    from pyspark.sql import functions as f

    return session.range(0).select(*(f.lit(None).cast(each.dataType).alias(each.name) for each in fields))
