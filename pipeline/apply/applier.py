"""Application of a batch of records: the function that Structured Streaming's `foreachBatch` calls.

    decode -> count -> undecodable ones: fail, or put into a table of their own -> newest of each key -> MERGE, with the state

A batch may come again, whole or in other pieces, with this checkpoint or another: records below the offsets of the table's
state are skipped (`state`).

A table without rows is filled by `load` instead: one pass over all records, one commit, no MERGE.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructField, StructType

from ..errors import CorruptSourceError, UsageError
from .debezium import Enveloped, reason_column
from .formats import Format, ddl
from .merge_sql import DELETED, OFFSET, PARTITION, PLACE, TIMESTAMP, Columns
from .newest import BAD, KEY, MOVED, VALUE, BatchContents, columns_of, contents, newest, newest_of_one_partition
from .state import AppliedState, standing
from .table import Table, another_is_at_work
from .topics import check_topic_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ASIDE = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, reason STRING"
ASIDE_KEYS = ("topic", "partition", "offset")
UNDECODABLE = "ottla: a record cannot be decoded"


@dataclass(slots=True)
class Applied:
    """Number of records and batches that were applied. Skipped ones are not counted, nor those that a first load's rows replace."""

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
    is_missing: bool = False
    """Whether the table does not exist yet. A load creates it with its rows; everything else by `create`."""
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
        self.create(session)
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
            columns = self._columns()
            rows = columns_of(newest(decoded.where(f.col(BAD).isNull())), columns.values)
            state = stands.after(secrets.token_hex(8), found.next_offsets, topic_id=self.topic_id)
            if self.table.merge(rows, columns, state):
                self._last_id = state.id
        finally:
            decoded.unpersist()
        self._count(found.records, found.bad_records, state)

    def has_no_rows(self, session: SparkSession) -> bool:
        """Return whether the table has neither rows nor records of the topic, so that `load` can fill it."""
        assert self.begun_at is not None
        return self.is_missing or not (self.begun_at.offsets or self.table.count(session))

    def load(self, records: DataFrame, ends: Mapping[int, int]) -> None:
        """Fill a table without rows with the newest record of each key, in one commit. A missing table is created by it.

        The records are read once. They are read once more for `aside`, and to find the first undecodable one. Without `aside`
        the value of a superseded record is not decoded.

        Args:
            records: All records of the topic below these ends.
            ends: Partition -> the offset up to which the table is then filled.

        Raises:
            SourceChangedError: The topic was recreated. If that happened during the read, the rows are in the table, with the
                old topic's id.
            Others: See `__call__`.
        """
        assert self.begun_at is not None
        stands, session = self.begun_at, records.sparkSession
        undecodable = 0
        records = records.where(f.col("topic") == self.topic)
        decoded = None if self.aside is None else self._decoded(records)
        if decoded is not None:
            found = contents(decoded)
            self._put_aside(decoded, found)
            undecodable = found.bad_records
        self.check_topic_id()
        state = stands.after(secrets.token_hex(8), ends, topic_id=self.topic_id)

        def insert(choose: Callable[[DataFrame], DataFrame]) -> int:
            if decoded is None:
                # Deletions go before values are decoded. Spark would move a later filter there, and decode once for each of its terms.
                chosen = self._living(choose(_failing(self._with_keys(records))))
                rows = _failing(self._with_values(chosen.withColumn(BAD, f.lit(None).cast("string")), records))
            else:
                rows = self._living(choose(decoded.where(f.col(BAD).isNull())))
            self._check(session)  # after decoding, which may find new columns
            columns = self._columns()
            found = columns_of(rows, columns.values)
            found = found if self.keeps_deleted else found.drop(DELETED)
            return self.table.load(found, columns, state, creates=self.is_missing)

        try:
            try:
                loaded = insert(newest_of_one_partition)
            except (PySparkException, Py4JJavaError) as error:  # Delta's writer hides the former in the latter
                if MOVED not in str(error):
                    raise
                loaded = insert(newest)
        except (PySparkException, Py4JJavaError) as error:  # Delta's writer hides the former in the latter
            if UNDECODABLE in str(error):
                every = self._decoded(records)
                self._put_aside(every, contents(every))
            raise
        self._last_id, self.is_missing = state.id, False
        self.check_topic_id()
        self._count(loaded + undecodable, undecodable, state)

    def _living(self, newest_records: DataFrame) -> DataFrame:
        """Return the records of which a table without rows gets one."""
        return newest_records if self.keeps_deleted else newest_records.where(f.col(VALUE).isNotNull())

    def _columns(self) -> Columns:
        return Columns(self.key.fields.names, [each.name for each in self._values()], self.keeps_deleted)

    def _count(self, records: int, undecodable: int, state: AppliedState) -> None:
        """Add a commit to the sums, and report it."""
        self.applied.batches += 1
        self.applied.records += records
        self.applied.undecodable += undecodable
        aside = f", {undecodable} of them undecodable" if undecodable else ""
        self.say(f"{self.table.name}: {records} records{aside}, up to {offsets_text(state.offsets)}")

    def prepare(self, session: SparkSession, *, creates: bool = False) -> None:
        """Check that the table and the one for undecodable records exist with their columns. The latter is created if missing.

        Args:
            creates: A missing table is no error.

        Raises:
            UsageError: A table or a column is missing, or has another type.
        """
        self.is_missing = not self.table.exists(session)
        if self.is_missing and not creates:
            raise UsageError(f"{self.table.name}: expected a table, found none (--create makes it)")
        self._check(session)
        if self.aside is not None:
            if not self.aside.exists(session):
                self.aside.create(session, ddl(ASIDE))
            if missing := set(ddl(ASIDE).names) - set(self.aside.fields(session).names):
                raise UsageError(
                    f"{self.aside.name}: expected the columns {ASIDE}, found no {', '.join(sorted(missing))}"
                )
        self._is_ready = True

    def create(self, session: SparkSession) -> None:
        """Create a missing table without rows."""
        if self.is_missing and not self.table.exists(session):  # another stream may have created it since
            self.table.create(session, self.wanted_fields())
        self.is_missing = False

    def check_topic_id(self) -> None:
        """Check the topic's id. Raises SourceChangedError if it has changed, and the errors of `topic_id_now`."""
        if self.topic_id_now is not None:
            check_topic_id(self.topic, self.topic_id, self.topic_id_now())

    def state(self, session: SparkSession) -> AppliedState:
        """Return the table's state; for a table without one, that of the places of its rows."""
        offsets: dict[int, int] = {}
        if not self.is_missing:
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
        wanted = self.wanted_fields()
        if self.is_missing or self._checked == self.value.fields:
            return
        there = {each.name.lower(): each for each in self.table.fields(session)}
        missing = [each for each in wanted if each.name.lower() not in there]
        for each in wanted:
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
        """Return decoded records, and for `aside` their bytes."""
        return self._with_values(self._with_keys(records), records)

    def _with_keys(self, records: DataFrame) -> DataFrame:
        """Return KEY, the reason BAD why it cannot be decoded, the place, and VALUE in bytes."""
        raw = {"raw_key": f.col("key"), "raw_value": f.col("value")} if self.aside is not None else {}
        records = records.withColumns(raw) if raw else records
        envelopes = [each.envelope for each in (self.key, self.value) if isinstance(each, Enveloped)]
        for envelope in envelopes:
            records = envelope.opened(records)
        records = records.withColumn("parsed", self.key.parsed(records, "key"))
        has_key = f.col("key").isNotNull()
        key, bad_key = self.key.decoded("key", f.col("parsed"))
        null_field = f.lit(None).cast("string")
        for each in self.key.fields:
            null_field = f.coalesce(
                null_field, f.when(key.getField(each.name).isNull(), f.lit(f"no {each.name} in its key"))
            )
        reasons = [f.when(~has_key, f.lit("no key")), prefixed("key", bad_key), null_field]
        why = f.coalesce(*reasons, *(prefixed(each.what, f.col(reason_column(each.what))) for each in envelopes))
        return records.select(
            key.alias(KEY),
            f.col("value").alias(VALUE),
            f.col("partition").alias(PARTITION),
            f.col("offset").alias(OFFSET),
            f.col("timestamp").alias(TIMESTAMP),
            why.alias(BAD),
            *raw,
        )

    def _with_values(self, keyed: DataFrame, records: DataFrame) -> DataFrame:
        """Decode the values of `_with_keys`.

        Args:
            records: Those from which they were made.
        """
        keyed = keyed.withColumn("parsed", self.value.parsed(records, VALUE))
        value, bad_value = self.value.decoded(VALUE, f.col("parsed"))
        has_value = f.col(VALUE).isNotNull()
        why = f.coalesce(BAD, f.when(has_value, prefixed("value", bad_value)))
        return keyed.withColumns({VALUE: f.when(has_value, value), BAD: why}).drop("parsed")

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


def _failing(records: DataFrame) -> DataFrame:
    """Let Spark fail with UNDECODABLE at a record that has a reason BAD."""
    failed = f.raise_error(f.lit(UNDECODABLE)).cast(records.schema[VALUE].dataType)
    return records.withColumn(VALUE, f.when(f.col(BAD).isNull(), f.col(VALUE)).otherwise(failed)).drop(BAD)


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
