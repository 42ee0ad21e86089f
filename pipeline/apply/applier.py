"""Application of a batch of records: the function that Structured Streaming's `foreachBatch` calls.

    decode -> count -> undecodable ones: fail, or put into a table of their own -> newest of each key -> MERGE, with the state

A batch may come again, whole or in other pieces, with this checkpoint or another: records below the offsets of the table's
state are skipped (`state`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructField, StructType

from ..errors import CorruptSourceError, UsageError
from .formats import Format, ddl
from .merge_sql import DELETED, OFFSET, PARTITION, PLACE, TIMESTAMP, Columns
from .newest import BAD, KEY, VALUE, BatchContents, contents, newest
from .state import AppliedState, standing
from .table import Table, another_is_at_work
from .topics import check_topic_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ASIDE = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, reason STRING"
ASIDE_KEYS = ("topic", "partition", "offset")


@dataclass(slots=True)
class Applied:
    """Number of records and batches that were applied. Skipped ones are not counted."""

    batches: int = 0
    records: int = 0
    undecodable: int = 0


@dataclass
class Applier:
    """Callable that applies batches to a table.

    table, key, value: The target, and the formats of keys and values.
    topic: Records of other topics are skipped.
    topic_id: The topic's id when the stream began, if known.
    topic_id_now: Returns the topic's id, called once in each batch: a topic that was deleted and created again has another.
        None disables the check.
    aside: Table for records that cannot be decoded; None makes them an error.
    keeps_deleted: See `Columns`.
    adds_columns: Missing columns are added to the table; otherwise they are an error.
    begun_at: The state from which this stream began, with its starting offsets; None if the stream has a checkpoint of its own.
    """

    table: Table
    key: Format
    value: Format
    topic: str
    topic_id: str | None = None
    topic_id_now: Callable[[], str | None] | None = None
    aside: Table | None = None
    keeps_deleted: bool = False
    adds_columns: bool = False
    begun_at: AppliedState | None = None
    say: Callable[[str], None] = lambda line: None
    applied: Applied = field(default_factory=Applied)
    _last_id: str | None = None
    _checked: StructType | None = None
    _is_ready: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Apply one batch of the columns topic, partition, offset, timestamp, key, value.

        Raises:
            CorruptSourceError: A record has no key or cannot be decoded, and no table for those is given.
            StoreLockedError: Another program applies to this table; this batch may come again.
            UsageError: The table lacks a column, or has it of another type.
            SourceChangedError: The topic was deleted and created again; nothing of this batch is in the table.
        """
        session = frame.sparkSession
        if not self._is_ready:
            self.prepare(session)
        stands = self._stands(session, batch)
        records = frame.where(f.col("topic") == self.topic).where(unapplied(stands.offsets))
        decoded = self._decoded(records).persist()
        try:
            found = contents(decoded)
            # Checked after the records were read: an unchanged id was also valid during the read.
            self.check_topic_id()
            if not found.records:
                return
            self._check(session)
            self._put_aside(decoded, found)
            values = [each.name for each in self._values()]
            rows = newest(decoded.where(f.col(BAD).isNull()), values)
            state = stands.after(secrets.token_hex(8), found.next_offsets, topic_id=self.topic_id)
            columns = Columns(self.key.fields.names, values, self.keeps_deleted)
            if self.table.merge(rows, columns, state):
                self._last_id = state.id
        finally:
            decoded.unpersist()
        self.applied.batches += 1
        self.applied.records += found.records
        self.applied.undecodable += found.bad_records
        aside = f", {found.bad_records} of them undecodable" if found.bad_records else ""
        self.say(f"{self.table.name}: {found.records} records{aside}, up to {offsets_text(state.offsets)}")

    def prepare(self, session: SparkSession, *, creates: bool = False) -> None:
        """Check that the table and the one for undecodable records exist with their columns. The latter is created if missing.

        Raises:
            UsageError: A table or a column is missing, or has another type.
        """
        if not self.table.exists(session):
            if not creates:
                raise UsageError(f"{self.table.name}: expected a table, found none (--create makes it)")
            self.table.create(session, self.wanted_fields())
        self._check(session)
        if self.aside is not None:
            if not self.aside.exists(session):
                self.aside.create(session, ddl(ASIDE))
            if missing := set(ddl(ASIDE).names) - set(self.aside.read(session).columns):
                raise UsageError(
                    f"{self.aside.name}: expected the columns {ASIDE}, found no {', '.join(sorted(missing))}"
                )
        self._is_ready = True

    def check_topic_id(self) -> None:
        """Check the topic's id. Raises SourceChangedError if it has changed, and the errors of `topic_id_now`."""
        if self.topic_id_now is not None:
            check_topic_id(self.topic, self.topic_id, self.topic_id_now())

    def state(self, session: SparkSession) -> AppliedState:
        """Return the table's state; for a table without one, that of the places of its rows."""
        found, _ = standing(self.table.states(session))
        if found is not None:
            self._check_topic(found)
            return found
        rows = self.table.read(session).groupBy(PARTITION).agg(f.max(OFFSET).alias("last")).collect()
        offsets = {row[PARTITION]: row["last"] + 1 for row in rows if row[PARTITION] is not None}
        return AppliedState.first(secrets.token_hex(8), self.topic, self.topic_id, offsets)

    def wanted_fields(self) -> StructType:
        """Return the columns that a table needs, in the order in which a new table has them."""
        places = ddl(", ".join(f"{name} {kind}" for name, kind in PLACE.items()))
        deleted = [StructField(DELETED, BooleanType())] if self.keeps_deleted else []
        return StructType([*self.key.fields, *self._values(), *places, *deleted])

    def _values(self) -> list[StructField]:
        """Return the value's fields without those that the key also has; the key's field counts."""
        keys = {name.lower() for name in self.key.fields.names}
        found = [each for each in self.value.fields if each.name.lower() not in keys]
        ours, taken = {name.lower() for name in (*PLACE, DELETED)}, set[str]()
        for each in (*self.key.fields, *found):
            name = each.name.lower()
            if name in ours:
                raise UsageError(
                    f"column {each.name}: expected another name, as Ottla adds a column of this name to the table"
                )
            if name in taken:
                raise UsageError(f"column {each.name}: expected it once, found it twice (letter case does not count)")
            taken.add(name)
        return found

    def _check(self, session: SparkSession) -> None:
        """Compare the table's columns with what it needs. Raises UsageError."""
        if self._checked == self.value.fields:
            return
        there = {each.name.lower(): each for each in self.table.read(session).schema}
        missing = [each for each in self.wanted_fields() if each.name.lower() not in there]
        for each in self.wanted_fields():
            has = there.get(each.name.lower())
            if has is not None and not takes(has, each):
                raise UsageError(
                    f"{self.table.name}: column {each.name}: expected {each.dataType.simpleString()}, as the records have"
                    f" it, found {has.dataType.simpleString()}"
                )
        if not missing:
            self._checked = self.value.fields
            return
        names = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in missing)
        if not self.adds_columns:
            raise UsageError(
                f"{self.table.name}: expected the columns {names}, found none of them (--add-columns adds them)"
            )
        self.table.add_columns(session, StructType([StructField(each.name, each.dataType) for each in missing]))
        self._checked = self.value.fields
        self.say(f"{self.table.name}: columns added: {names}")

    def _check_topic(self, found: AppliedState) -> None:
        if found.topic != self.topic:
            raise UsageError(f"{self.table.name}: expected a table of topic {self.topic}, found one of {found.topic}")

    def _stands(self, session: SparkSession, batch: int) -> AppliedState:
        """Return the table's state before this batch.

        Raises:
            StoreLockedError: Another program has committed since the last batch. Or two did before, and this stream's
                checkpoint follows neither.
        """
        found, is_chain = standing(self.table.states(session))
        if found is not None:
            self._check_topic(found)
            expected = self._last_id or (self.begun_at and self.begun_at.id)
            if expected not in (None, found.id):
                raise another_is_at_work(self.table.name, "it has committed since the last batch")
            if not is_chain and self.begun_at is None and batch:
                raise another_is_at_work(
                    self.table.name, f"two have; begin with a new checkpoint, at {offsets_text(found.offsets)}"
                )
        if self.begun_at is not None and self._last_id is None:
            return self.begun_at
        return found or self.state(session)

    def _decoded(self, records: DataFrame) -> DataFrame:
        has_key = f.col("key").isNotNull()
        key, bad_key = self.key.decoded(records, "key")
        value, bad_value = self.value.decoded(records, "value")
        null_field = f.lit(None).cast("string")
        for each in self.key.fields:
            null_field = f.coalesce(
                null_field, f.when(key.getField(each.name).isNull(), f.lit(f"no {each.name} in its key"))
            )
        why_key = f.coalesce(f.when(~has_key, f.lit("no key")), prefixed("key", bad_key), null_field)
        why = f.coalesce(why_key, f.when(f.col("value").isNotNull(), prefixed("value", bad_value)))
        return records.select(
            key.alias(KEY),
            f.when(f.col("value").isNotNull(), value).alias(VALUE),
            f.col("partition").alias(PARTITION),
            f.col("offset").alias(OFFSET),
            f.col("timestamp").alias(TIMESTAMP),
            why.alias(BAD),
            *((f.col("key").alias("raw_key"), f.col("value").alias("raw_value")) if self.aside is not None else ()),
        )

    def _put_aside(self, decoded: DataFrame, found: BatchContents) -> None:
        if not found.bad_records:
            return
        if self.aside is None:
            partition, offset, why = found.bad[0]
            more = f", and {found.bad_records - 1} more in this batch" if found.bad_records > 1 else ""
            raise CorruptSourceError(
                f"{self.topic}-{partition}, offset {offset}: expected a record that can be decoded, found {why}{more}"
                " (--undecodable-to TABLE puts them aside)"
            )
        bad = decoded.where(f.col(BAD).isNotNull()).select(
            f.lit(self.topic).alias("topic"),
            f.col(PARTITION).alias("partition"),
            f.col(OFFSET).alias("offset"),
            f.col(TIMESTAMP).alias("timestamp"),
            f.col("raw_key").alias("key"),
            f.col("raw_value").alias("value"),
            f.col(BAD).alias("reason"),
        )
        self.aside.insert_missing(bad, ASIDE_KEYS)


def unapplied(offsets: Mapping[int, int]) -> Column:
    """Return the condition for records that are not in the table yet."""
    if not offsets:
        return f.lit(True)
    of_partition = f.create_map(*(f.lit(number) for each in sorted(offsets.items()) for number in each))
    return f.col("offset") >= f.coalesce(of_partition[f.col("partition")], f.lit(0))


def prefixed(what: str, why: Column) -> Column:
    return f.concat(f.lit(f"a {what} that is "), why)


WIDER = {
    "smallint": {"tinyint"},
    "int": {"tinyint", "smallint"},
    "bigint": {"tinyint", "smallint", "int"},
    "double": {"float"},
}
"""Types of a table's column that can hold those of a record, as some formats have no small types."""


def takes(there: StructField, wanted: StructField) -> bool:
    """Return whether a column can hold a record's field. Nullability of nested fields does not matter."""
    has, needs = there.dataType.simpleString().lower(), wanted.dataType.simpleString().lower()
    return has == needs or needs in WIDER.get(has, ())


def offsets_text(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in sorted(offsets.items())[:8]) + (
        f" and {len(offsets) - 8} partitions more" if len(offsets) > 8 else ""
    )
