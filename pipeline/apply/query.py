"""Stream of the command `apply`: from the table's position to the topic's current end, or without end.

Its checkpoint is deleted afterwards, as the table stores the progress. No second state can get lost, belong to another table,
or be ahead of the table.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.types import StructType

from ..errors import PipelineError, SourceChangedError, UsageError
from ..records.versions import check_goes_by_offset
from ..source.data_source_api import HAS_READ_LIMITS
from ..spark.failures import failures_translated
from ..spark.interrupts import interrupts_deferred
from ..stores.stores import opened_store
from . import debezium
from .applier import Applied, Applier, offsets_text
from .debezium import Enveloped
from .delta_rs_table import DeltaRsTable
from .formats import BinaryFormat, Format, FormatSpec, JsonFormat, TextFormat, parsed_ddl, sampled_json, schema_text
from .merge_sql import DELETED, PLACE
from .options import table_format
from .packages import check_packages
from .sql_tables import DeltaTable, IcebergTable, confs
from .table import Table
from .topics import (
    TopicNow,
    check_topic_id,
    starting_offsets,
    topic_id_of_directory,
    topic_id_of_kafka,
    topic_of_directory,
    topic_of_kafka,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: Mapping[str, Callable[[str], Table]] = {"delta": DeltaTable, "delta-rs": DeltaRsTable, "iceberg": IcebergTable}


def table(kind: str, name: str) -> Table:
    """Return a table. Raises UsageError for an unknown kind, or an invalid name."""
    try:
        return KINDS[table_format(kind)](name)
    except ArgumentTypeError as error:
        raise UsageError(f"--table-format: {error}") from None


TEXT_KEYS, JSON_VALUES = FormatSpec("string", "key"), FormatSpec("json", "value")
BATCH_BYTES, BATCH_SHARE = 1 << 30, 0.1
"""Size of a batch: as many bytes of the log, or as many records as this share of the table's rows, if that is more."""
BATCH_OFFSETS = 1_000_000
"""Number of offsets of a batch if the size of the log is unknown."""
SLACK = 1.01
BYTES_A_TASK, TASKS_MAX = 128 << 20, 20_000
"""Bytes of the log for each task of a first load, and a limit, as the exchange has a block for each pair of tasks."""
LOOK_EVERY_S = 1
"""Interval of checks for an interrupt while the stream runs, in seconds."""
KAFKA_DEFAULTS = {"isolation.level": "read_committed", "max.poll.records": "10000"}


@dataclass(frozen=True)
class ApplyJob:
    """Options of `ottla-spark apply`; see its help.

    kafka: Options of Kafka's clients, with `bootstrap.servers`; or
    data_dir: A data directory for the format `ottla`.
    max_offsets: Approximate number of offsets of a batch after the first load; None follows from sizes (`batch_offsets`).
    every_s: Seconds between batches of a continuous stream; None stops at the topic's end.
    """

    topic: str
    table: str
    table_format: str
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them
    data_dir: str | None = None
    key: FormatSpec = TEXT_KEYS
    value: FormatSpec = JSON_VALUES
    creates: bool = False
    adds_columns: bool = False
    keeps_deleted: bool = False
    undecodable_to: str | None = None
    takes_losses: bool = False
    topic_made_anew: bool = False
    max_offsets: int | None = None
    every_s: float | None = None
    say: Callable[[str], None] = lambda line: None


def applier(
    session: SparkSession,
    job: ApplyJob,
    topic_id_now: Callable[[], str | None] | None = None,
    topic_id: str | None = None,
) -> Applier:
    """Return the function for `foreachBatch`.

    Args:
        topic_id_now: Returns the topic's current id.
        topic_id: The id before the stream began.

    Raises:
        SourceChangedError: The table has records of a topic of another id, unless `job.topic_made_anew`.
        UsageError: Jars or the table are missing, or a schema is invalid.
        PipelineError: The registry does not answer.
    """
    with usage_errors():
        target = table(job.table_format, job.table)
        if job.undecodable_to is not None and os.path.abspath(job.undecodable_to) == os.path.abspath(job.table):
            raise UsageError(f"--undecodable-to: expected another table than --table, found {job.undecodable_to}")
        check_packages(session, [job.table_format, *decoders(job)])
        if not job.creates and not target.exists(session):
            raise UsageError(f"{target.name}: expected a table, found none (--create makes it)")
        key = format_of(session, job, job.key)
        made = Applier(
            target,
            key,
            format_of(session, job, job.value, values_of(session, target, key.fields.names)),
            job.topic,
            topic_id=topic_id,
            topic_id_now=topic_id_now,
            aside=None if job.undecodable_to is None else table(job.table_format, job.undecodable_to),
            keeps_deleted=job.keeps_deleted,
            adds_columns=job.adds_columns,
            say=job.say,
        )
        made.prepare(session, creates=job.creates)
        if not job.topic_made_anew:
            check_topic_id(job.topic, made.state(session).topic_id, made.topic_id)
        return made


def decoders(job: ApplyJob) -> list[str]:
    """Return the formats of keys and values, without those of envelopes."""
    return [each.name.removeprefix(f"{debezium.JSON}-") for each in (job.key, job.value)]


def topic_id_of(session: SparkSession, job: ApplyJob) -> Callable[[], str | None]:
    """Return a function that asks for the id of a job's topic.

    Raises UsageError if the job has no source, or Kafka's jar is missing.
    """
    if job.data_dir is not None:
        data_dir = job.data_dir
        return lambda: topic_id_of_directory(data_dir, job.topic)
    if "bootstrap.servers" not in job.kafka:
        raise UsageError(
            "applier: expected kafka={'bootstrap.servers': …} or data_dir=…, found neither: each batch checks there whether the"
            " topic was deleted and created again"
        )
    check_packages(session, [job.table_format, "kafka", *decoders(job)])
    return lambda: topic_id_of_kafka(session, job.topic, job.kafka)


def apply(session: SparkSession, job: ApplyJob) -> Applied:
    """Apply the topic's records that are not in the table yet.

    Raises:
        PipelineError: As `applier`, `starting_offsets` and the batches do. Applied records stay, and another call continues.
    """
    with usage_errors():
        topic_id_now = topic_id_of(session, job)
        if job.data_dir is None:
            now = topic_of_kafka(session, job.topic, {**KAFKA_DEFAULTS, **job.kafka})
        else:
            now = topic_of_directory(job.data_dir, job.topic)
        check_goes_by_offset(job.topic, now.strategy, "apply")
        made = applier(session, job, topic_id_now, now.topic_id)
        begun = begin(session, made, now, job)
        if now.offsets_from(begun) and made.has_no_rows(session):
            load(session, made, now, begun, job)
            begun = now.ends()
        made.create(session)
        if job.every_s is None and not now.offsets_from(begun):
            return made.applied
        with tempfile.TemporaryDirectory(prefix="ottla-apply-", ignore_cleanup_errors=True) as checkpoint:
            reader = session.readStream
            if job.data_dir is None or HAS_READ_LIMITS:
                reader = reader.option("maxOffsetsPerTrigger", str(batch_offsets(session, made, now, begun, job)))
            writer = records_of(reader, job, begun).writeStream.foreachBatch(made)
            writer = writer.option("checkpointLocation", Path(checkpoint).as_uri()).queryName(
                f"ottla apply {job.topic}"
            )
            often: dict[str, Any] = {"availableNow": True}
            if job.every_s is not None:
                often = {"processingTime": f"{job.every_s} seconds"}
            with interrupts_deferred() as is_interrupted:
                query = writer.trigger(**often).start()
                try:
                    while not query.awaitTermination(LOOK_EVERY_S):
                        if is_interrupted():
                            break
                except StreamingQueryException:
                    # A recreated topic matters more than its missing offsets.
                    try:
                        made.check_topic_id()
                    except SourceChangedError:
                        raise
                    except (PipelineError, OSError):
                        pass
                    raise
                finally:
                    query.stop()
        # Batches have a session of their own. This look shows their result to the caller's session.
        made.table.fields(session)
        return made.applied


def load(session: SparkSession, made: Applier, now: TopicNow, begun: Mapping[int, int], job: ApplyJob) -> None:
    """Run the first load, up to the topic's ends as they are now."""
    size = "" if now.size_bytes is None else f", {now.size_bytes / 1e6:.0f} MB"
    job.say(
        f"{job.table}: first load of {job.topic}: {now.offsets_from(begun)} offsets of {len(now.spans)} partitions{size}, up"
        f" to {offsets_text(now.ends())}"
    )
    tasks = min(TASKS_MAX, math.ceil((now.size_bytes or 0) / BYTES_A_TASK))
    reader = session.read
    if job.data_dir is None and tasks > len(now.spans):  # otherwise Spark's connector has one task for each partition
        reader = reader.option("minPartitions", str(tasks))
    shuffled = max(tasks, int(session.conf.get("spark.sql.shuffle.partitions") or 0))
    with confs(session, {"spark.sql.shuffle.partitions": str(shuffled)}):
        made.load(records_of(reader, job, begun, now.ends()), now.ends())


def batch_offsets(session: SparkSession, made: Applier, now: TopicNow, begun: Mapping[int, int], job: ApplyJob) -> int:
    """Return the limit of a batch, in offsets, of what is in the topic now.

    A MERGE reads the whole table, and may write it again. So a batch has at least a share of the table's rows, which makes
    the costs linear in the records.
    """
    limit = job.max_offsets
    if limit is None:
        there = sum(end - first for first, end in now.spans.values())
        limit = BATCH_BYTES * there // now.size_bytes if now.size_bytes else BATCH_OFFSETS
        limit = max(limit, int(made.table.count(session) * BATCH_SHARE), 1)
    return equal_batches(now.offsets_from(begun), limit, len(now.spans))


def equal_batches(offsets: int, limit: int, partitions: int) -> int:
    """Return the limit with which Spark cuts these offsets into equal batches, so that no small one is left over."""
    if offsets > limit:
        limit = math.ceil(offsets / math.ceil(offsets / (limit * SLACK)))
    # Some records may come before Spark looks at the ends, and its limit of each partition is rounded.
    return math.ceil(limit * SLACK) + partitions


def begin(session: SparkSession, made: Applier, now: TopicNow, job: ApplyJob) -> dict[int, int]:
    """Return the starting offset of each partition. In a recreated or shorter topic, new records replace all rows."""
    state = made.state(session)
    stands = state
    if job.topic_made_anew and state.topic_id is not None and state.topic_id != now.topic_id:
        stands = state.from_the_beginning(secrets.token_hex(8), now.topic_id)
    offsets = starting_offsets(now, stands, takes_losses=job.takes_losses)
    lowered = {each: offset for each, offset in offsets.items() if 0 <= offset < stands.offsets.get(each, 0)}
    if lowered:
        stands = replace(stands.after(secrets.token_hex(8), {}), offsets={**stands.offsets, **lowered})
    if stands is not state:
        made.table.forget_places(session, stands)
        is_there = any(each.id == stands.id for each in made.table.states(session))
        stands = stands if is_there else replace(state, offsets=stands.offsets, topic_id=stands.topic_id)
    made.begun_at = stands
    return offsets


def records_of(
    reader: Any, job: ApplyJob, starting: Mapping[int, int] | None = None, ends: Mapping[int, int] | None = None
) -> DataFrame:
    """Return the topic's records between these offsets, with a reader of batches or of streams; all by default."""
    for name, given in (("startingOffsets", starting), ("endingOffsets", ends)):
        if given is not None:
            reader = reader.option(name, json.dumps({job.topic: {str(each): offset for each, offset in given.items()}}))
    reader = reader.option("failOnDataLoss", str(not job.takes_losses).lower())
    if job.data_dir is None:
        reader = reader.format("kafka").option("subscribe", job.topic)
        for name, value in {**KAFKA_DEFAULTS, **job.kafka}.items():
            reader = reader.option(f"kafka.{name}", value)
    else:
        reader = reader.format("ottla").option("topic", job.topic).option("isolationLevel", "read_committed")
        # Spark plans a Python source in another process, in the working directory of the JVM's start.
        reader = reader.option("path", opened_store(job.data_dir).data_dir)
    found: DataFrame = reader.load()
    return found


def format_of(session: SparkSession, job: ApplyJob, spec: FormatSpec, known: StructType | None = None) -> Format:
    """Return the format of keys or values.

    Args:
        known: The table's columns, if it exists: JSON needs no schema then.
    """
    if spec.name == "string":
        return TextFormat(spec)
    if spec.name == "binary":
        return BinaryFormat(spec)
    if spec.name in {"avro", debezium.AVRO}:
        from .avro_format import AvroFormat

        if spec.name == "avro":
            return AvroFormat(spec, job.topic, adds_columns=job.adds_columns)
        if spec.what == "key":
            raise UsageError(
                f"--key-format: expected avro, as Debezium's keys in Avro have no envelope, found {spec.name}"
            )
        envelopes = AvroFormat(spec, job.topic, adds_columns=job.adds_columns, part=debezium.change_schema)
        return debezium.avro_changes(envelopes)
    if spec.name == "protobuf":
        from .protobuf_format import ProtobufFormat

        return ProtobufFormat(spec, session)
    option, text = f"--{spec.what}-schema", schema_text(spec)
    envelope = debezium.json_changes(spec) if spec.name == debezium.JSON else None
    spec = spec if envelope is None else debezium.row_spec(spec)
    if text is not None and text.strip().lower() == "infer":
        records = records_of(session.read, job)
        records = records if envelope is None else envelope.opened(records)
        known = sampled_json(records, spec.what, spec)
    elif text is not None:
        known = parsed_ddl(text, option)
    if known is None:
        raise UsageError(f"{option}: expected columns such as `city STRING, orders BIGINT`, or infer, found none")
    if not known.fields:
        raise UsageError(f"{option}: expected columns such as `city STRING, orders BIGINT`, found a table without any")
    found = JsonFormat(known, spec)
    return found if envelope is None else Enveloped(envelope, found)


def values_of(session: SparkSession, target: Table, keys: Sequence[str]) -> StructType | None:
    """Return the existing value columns of a table; None if it does not exist."""
    if not target.exists(session):
        return None
    ours = {name.lower() for name in (*keys, *PLACE, DELETED)}
    return StructType([each for each in target.fields(session) if each.name.lower() not in ours])


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise UsageError for requests that Spark rejects before it runs anything: an invalid name, path or column."""
    with failures_translated():
        try:
            yield
        except AnalysisException as error:
            line = next(iter(str(error).splitlines()), "refused")
            raise UsageError(line) from error
