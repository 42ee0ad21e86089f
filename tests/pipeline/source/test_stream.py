"""The format "ottla" as a stream: limits, restarts from a checkpoint, transactions that end later, truncated logs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from pyspark.errors import StreamingQueryException
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from ottla.pipeline.errors import PipelineError, UsageError
from ottla.pipeline.source import data_source_api
from ottla.pipeline.source.read_options import ReadOptions, by_partition
from ottla.pipeline.source.source import OttlaSource
from ottla.pipeline.source.stream import Json, StreamReader, as_json, share
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.logs.make_log import Producer, append, make_log
from support.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = StructType().add("topic", StringType()).add("partition", IntegerType()).add("offset", LongType())
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize(
    ("behind", "limit", "given"),
    [
        ((100, 50, 0), 1_000, (100, 50, 0)),
        ((100, 50, 0), 150, (100, 50, 0)),
        ((100, 50, 0), 30, (20, 10, 0)),
        ((1_000_000, 1, 1), 10, (9, 1, 1)),
        ((3, 3, 3), 1, (1, 1, 1)),
    ],
)
def test_a_limit_is_divided_by_the_lag_of_each_partition(
    behind: tuple[int, ...], limit: int, given: tuple[int, ...]
) -> None:
    tps = (A0, A1, B0)
    begins = dict(zip(tps, (7, 0, 5), strict=True))
    ends = {tp: begins[tp] + count for tp, count in zip(tps, behind, strict=True)}
    assert share(begins, ends, limit) == {tp: begins[tp] + count for tp, count in zip(tps, given, strict=True)}


def test_every_limit_reaches_the_end() -> None:
    rng = random.Random(1)
    for _ in range(100):
        begins = {tp: 0 for tp in (A0, A1, B0)}
        ends = {tp: rng.choice((0, 1, 5, 1_000)) for tp in begins}
        for _ in range(1_100):
            begins = share(begins, ends, rng.randint(1, 50))
        assert begins == ends


def test_offsets_in_a_checkpoint_look_like_those_of_kafkas_connector() -> None:
    offsets = {B0: 2, A0: 1, A1: 0}
    assert as_json(offsets) == {"a": {"0": 1, "1": 0}, "b": {"0": 2}}
    assert by_partition(as_json(offsets)) == offsets


def test_a_stream_has_no_end() -> None:
    with pytest.raises(UsageError, match="a stream has no end"):
        StreamReader(ReadOptions(path="/data", ending_timestamp_ms=1), None)


@pytest.mark.skipif(data_source_api.HAS_READ_LIMITS, reason="this PySpark asks for so much at a time")
def test_a_spark_without_limit_support_gets_no_limit() -> None:
    with pytest.raises(UsageError, match=r"maxOffsetsPerTrigger needs PySpark 4\.2"):
        StreamReader(ReadOptions(path="/data", max_offsets_per_trigger=5), None)


def test_a_spark_without_stream_positions_gets_all_available_records(tmp_path: Path) -> None:
    """PySpark 4.0 asks in this way; a truncated log does not move the stream back."""
    log = make_log(OsFiles(), tp=A0, data_dir=str(tmp_path))
    append(log, ("k", "1"), ("l", "1"))
    stream = StreamReader(ReadOptions(path=str(tmp_path)), None)
    assert stream.latestOffset() == {"a": {"0": 2}}
    append(log, ("m", "1"))
    assert stream.latestOffset() == {"a": {"0": 3}}
    log.release_files()
    (segment,) = (tmp_path / "a-0").glob("*.log")
    segment.write_bytes(b"")
    assert stream.latestOffset() == {"a": {"0": 3}}


class Job:
    """A query that notes the offsets of each micro-batch, run repeatedly until it has caught up."""

    def __init__(self, spark: SparkSession, directory: Path, **options: Any) -> None:
        self.spark = spark
        self.directory = directory
        self.options = {"startingOffsets": "earliest", **options}

    def run(self) -> list[list[tuple[str, int, int]]]:
        """Return the micro-batches since the last run."""
        found: list[list[tuple[str, int, int]]] = []

        def note(frame: DataFrame, number: int) -> None:
            found.append(sorted(tuple(row) for row in frame.select("topic", "partition", "offset").collect()))

        query = (
            self.spark.readStream.format("ottla")
            .schema("topic string, partition int, offset bigint")
            .options(**self.options)
            .load(str(self.directory / "data"))
            .writeStream.foreachBatch(note)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .start()
        )
        query.awaitTermination()
        return found


class Stepped(Job):
    """The query of `Job` without Spark: its calls of the source, in its order."""

    reached: Json | None = None

    def run(self) -> list[list[tuple[str, int, int]]]:
        options = {**self.options, "path": str(self.directory / "data")}
        reader = OttlaSource(options).streamReader(SCHEMA)
        assert isinstance(reader, StreamReader)
        if self.reached is None:
            self.reached = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        found: list[list[tuple[str, int, int]]] = []
        while (end := reader.latestOffset(self.reached, reader.getDefaultReadLimit())) != self.reached:
            batches = [each for part in reader.partitions(self.reached, end) for each in reader.read(part)]
            found.append(sorted(tuple(row.values()) for each in batches for row in each.to_pylist()))
            self.reached = end
        return found


A_JOB = size(Stepped, Job)
"""The kind of job: a Spark query takes two seconds to start, and short runs have those of `pipeline/apply/test_query.py`."""


def numbers(found: list[list[tuple[str, int, int]]]) -> list[int]:
    return [offset for batch in found for _, _, offset in batch]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Yield a log that is open, as in a broker: 40 records in batches of two."""
    log = make_log(OsFiles(), tp=A0, data_dir=str(tmp_path / "data"))
    for number in range(20):
        append(log, ("k", str(number)), ("l", str(number)), roll=number == 9)
    yield log
    log.release_files()


@pytest.mark.needs_sources("HAS_READ_LIMITS")
def test_micro_batches_respect_their_limit_and_a_restart_continues(
    spark: SparkSession, tmp_path: Path, log: Log
) -> None:
    job = A_JOB(spark, tmp_path, maxOffsetsPerTrigger="15")
    batches = job.run()
    assert [len(batch) for batch in batches] == [15, 15, 10]
    assert numbers(batches) == list(range(40))
    append(log, ("m", "1"))
    other = make_log(OsFiles(), tp=B0, data_dir=str(tmp_path / "data"))
    append(other, ("n", "1"), ("o", "2"))
    assert job.run() == [[("a", 0, 40), ("b", 0, 0), ("b", 0, 1)]], "a new partition from its beginning"
    assert numbers(job.run()) == []
    other.release_files()


def test_an_open_transaction_is_waited_for(spark: SparkSession, tmp_path: Path, log: Log) -> None:
    producer = Producer(log, 7, transactional=True)
    producer.write("p", "q")
    append(log, ("r", "1"))
    job = A_JOB(spark, tmp_path, isolationLevel="read_committed", startingOffsets='{"a": {"0": 38}}')
    assert numbers(job.run()) == [38, 39]
    producer.abort()
    assert numbers(job.run()) == [42]
    producer.write("s")
    producer.commit()
    assert numbers(job.run()) == [44]


@pytest.mark.needs_sources("HAS_READ_LIMITS")
def test_a_log_start_past_the_checkpoint_is_data_loss(spark: SparkSession, tmp_path: Path, log: Log) -> None:
    job = A_JOB(spark, tmp_path, startingOffsets='{"a": {"0": 5}}', endingOffsets="latest")
    with pytest.raises(Exception, match="a stream has no end"):
        job.run()
    job = A_JOB(spark, tmp_path, startingOffsets='{"a": {"0": 5}}', maxOffsetsPerTrigger="3")
    assert numbers(job.run()) == list(range(5, 40))
    for number in range(5):
        append(log, ("k", str(number)))
    log.roll(0)
    append(log, ("k", "last"))
    log.advance_log_start(45)
    for segment in list(log.segments)[:-1]:
        segment.delete_files()
    with pytest.raises(
        size(PipelineError, StreamingQueryException), match="offset 40 of a-0 is outside the readable range 45 to 46"
    ):
        job.run()
    job.options["failOnDataLoss"] = "false"
    assert numbers(job.run()) == [45]
