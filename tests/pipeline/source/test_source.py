"""The format "ottla" in a Spark session: a frame has what a consumer reads, and unreadable data raises an error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F

import ottla
import ottla.pipeline
from ottla.pipeline.records.arrow import BATCH_COLUMNS, COLUMNS
from ottla.protocol.records import RecordBatch
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs.log import Log
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.logs.make_log import all_batches, append, make_log
from support.sizes import FULL, some
from support.transactions.transactional_client import TransactionalClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
HEADERS = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("ü", b"\xff")]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("broker") / "data")


@pytest.fixture(scope="module")
def broker(data_dir: str) -> Iterator[ottla.Broker]:
    with ottla.Broker(data_dir, rng=random.Random(1)) as running, RawClient(*address(running)) as client:
        assert create_topic(client, "orders", 3).error_code == 0
        assert create_topic(client, "stamped", message_timestamp_type="LogAppendTime").error_code == 0
        assert create_topic(client, "empty").error_code == 0
        write(running, client)
        for _ in range(2):  # the second call creates the log of `empty`, which has no records
            running.run(running.inner.background_jobs.make_logs)
        yield running


def write(broker: ottla.Broker, client: RawClient) -> None:
    """Write all codecs, headers, nulls; transactions committed, aborted and, at the end of one partition, open."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "log_level": 0})
        for number in range(150):
            producer.produce(
                "stamped" if number % 50 == 0 else "orders",
                key=None if number % 7 == 0 else f"key {number % 10}".encode(),
                value=None if number % 11 == 0 else f"{codec} {number} ".encode() * 20,
                headers=HEADERS[: number % 5],
                partition=0 if number % 50 == 0 else number % 3,
            )
        assert producer.flush(60) == 0
    for name, ends in {"t-1": (True, False, True), "t-2": (False, False), "t-3": (True, None)}.items():
        transactional = TransactionalClient(client, name, version=2)
        transactional.begin()
        for commit in ends:
            transactional.produce("orders", (name, f"{commit}"), (name, None), partition=1)
            if commit is not None:
                transactional.end(commit=commit)


def consumed(broker: ottla.Broker, isolation_level: str) -> set[Row]:
    """Return everything that a stock consumer reads."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level=isolation_level, group_id=None)
    partitions = [TopicPartition("orders", number) for number in range(3)] + [TopicPartition("stamped", 0)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found: set[Row] = set()
    while any(consumer.position(tp) < end for tp, end in ends.items()):
        for tp, records in consumer.poll(1_000).items():
            for each in records:
                headers = tuple(each.headers)
                found.add(
                    (
                        tp.topic,
                        tp.partition,
                        each.offset,
                        each.timestamp,
                        each.timestamp_type,
                        each.key,
                        each.value,
                        headers,
                    )
                )
    consumer.close()
    return found


def collected(frame: DataFrame) -> list[Row]:
    """Return a frame with headers in the form of `consumed`."""
    chosen = frame.select(
        "topic", "partition", "offset", F.unix_millis("timestamp"), "timestampType", "key", "value", "headers"
    )
    return [
        (
            *row[:5],
            *(None if field is None else bytes(field) for field in row[5:7]),
            tuple((name, None if value is None else bytes(value)) for name, value in row[7] or ()),
        )
        for row in chosen.collect()
    ]


def frame_of(spark: SparkSession, path: object, **options: Any) -> DataFrame:
    return spark.read.format("ottla").options(**options).load(str(path))


def test_values_are_json_by_the_schemas_of_a_registry(spark: SparkSession, tmp_path: Path) -> None:
    (schemas := tmp_path / "schemas").mkdir()
    (schemas / "7.avsc").write_text('{"type": "record", "name": "Order", "fields": [{"name": "total", "type": "int"}]}')
    with ottla.Broker(str(tmp_path / "data")) as broker:
        broker.create_topic("totals", configs={"cleanup.policy": "compact"})
        for key, value in (("a", b"\0\0\0\0\7\2"), ("a", b"\0\0\0\0\7\6"), ("b", b"\0\0\0\0\x08")):
            broker.produce("totals", value, key=key)
    frame = frame_of(spark, tmp_path / "data", topic="totals", registry=schemas)
    assert frame.columns[-2:] == ["valueDecoded", "notDecoded"]
    missing = "value: schema 8: not found in the registry"
    found = [(row.offset, row.valueDecoded, row.notDecoded) for row in frame.orderBy("offset").collect()]
    assert found == [(0, '{"total":1}', None), (1, '{"total":3}', None), (2, None, missing)]
    newest = frame_of(spark, tmp_path / "data", topic="totals", registry=schemas, latest=True)
    rows = newest.select(F.from_json("valueDecoded", "total INT").total, "key").orderBy("key").collect()
    assert [tuple(row) for row in rows] == [(3, b"a"), (None, b"b")]
    chosen = spark.read.format("ottla").schema("valueDecoded string").option("topic", "totals")
    assert chosen.option("registry", str(schemas)).load(str(tmp_path / "data")).count() == 3


@pytest.mark.parametrize("isolation_level", some(["read_committed", "read_uncommitted"], 1))
def test_a_live_broker_is_read_as_by_a_consumer(
    spark: SparkSession, broker: ottla.Broker, data_dir: str, isolation_level: str
) -> None:
    frame = frame_of(
        spark,
        data_dir,
        topic="orders,stamped",
        includeHeaders=True,
        isolationLevel=isolation_level,
        maxPartitionBytes=8_000,
    )
    rows = collected(frame)
    expected = consumed(broker, isolation_level)
    assert len(rows) == len(set(rows)) == len(expected)
    assert set(rows) == expected
    aborted = {row[6] for row in rows if row[5] in (b"t-1", b"t-2", b"t-3")}
    assert (b"False" in aborted) == (isolation_level == "read_uncommitted")
    assert frame.rdd.getNumPartitions() > 4


def test_the_schema_equals_that_of_kafkas_connector(spark: SparkSession, broker: ottla.Broker, data_dir: str) -> None:
    """The schema in the documentation of Kafka's connector."""
    columns = ["key binary", "value binary", "topic string", "partition int", "offset bigint", "timestamp timestamp"]
    columns.append("timestampType int")
    assert described(frame_of(spark, data_dir)) == columns
    columns.append("headers array<struct<key:string,value:binary>>")
    assert described(frame_of(spark, data_dir, includeHeaders=True)) == columns
    columns += [f"{name} {COLUMNS[name].spark_type}" for name in BATCH_COLUMNS]
    assert described(frame_of(spark, data_dir, includeHeaders=True, includeBatchColumns=True)) == columns


def described(frame: DataFrame) -> list[str]:
    return [" ".join(pair) for pair in frame.dtypes]


def test_a_schema_chooses_columns(spark: SparkSession, broker: ottla.Broker, data_dir: str) -> None:
    reader = spark.read.format("ottla").option("topic", "orders")
    frame = reader.schema("offset bigint, key binary, partition int, valueSize int").load(data_dir)
    assert frame.columns == ["offset", "key", "partition", "valueSize"]
    rows = {(row[0], None if row[1] is None else bytes(row[1]), *row[2:]) for row in frame.collect()}
    uncommitted = consumed(broker, "read_uncommitted")
    assert rows == {
        (offset, key, partition, None if value is None else len(value))
        for topic, partition, offset, _, _, key, value, _ in uncommitted
        if topic == "orders"
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("offset bigint, size int", "unknown column size; columns are key, value, topic, "),
        ("offset int", "column offset is bigint, not int"),
        (
            "headers array<struct<key:string,value:string>>",
            "column headers is array<struct<key:string,value:binary>>, not",
        ),
    ],
)
def test_an_invalid_schema_is_refused(
    spark: SparkSession, broker: ottla.Broker, data_dir: str, schema: str, why: str
) -> None:
    with pytest.raises(AnalysisException, match=why):
        spark.read.format("ottla").schema(schema).load(data_dir).collect()


def test_an_empty_log_gives_an_empty_frame(spark: SparkSession, broker: ottla.Broker, data_dir: str) -> None:
    assert frame_of(spark, data_dir, topic="empty").collect() == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topic": "nope"}, "has no log of nope"),
        ({"batchsize": "9"}, "unknown option batchsize"),
        ({"maxOffsetsPerTrigger": "9"}, "option maxOffsetsPerTrigger is for streams only"),
    ],
)
def test_invalid_options_are_refused(
    spark: SparkSession, broker: ottla.Broker, data_dir: str, options: dict[str, str], why: str
) -> None:
    with pytest.raises(AnalysisException, match=why):
        frame_of(spark, data_dir, **options).collect()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Return a log of three segments of 60 offsets in all, closed; times rise by 10 ms per batch of two."""
    log = make_log(
        OsFiles(), data_dir=str(tmp_path_factory.mktemp("log")), index_interval_bytes=100, cleanup_policy=("delete",)
    )
    for number in range(30):
        append(
            log,
            (f"k{number}", "v"),
            (None, None),
            timestamp=1_700_000_000_000 + 10 * number,
            codec=number % 5,
            headers=(("h", b"1"),) if number % 2 else (),
            producer_id=number if number % 3 == 0 else -1,
            producer_epoch=2 if number % 3 == 0 else None,
            base_sequence=2**31 - 1 if number % 3 == 0 else None,
            partition_leader_epoch=number // 10,
            roll=number in (9, 19),
        )
    append(log, ("nanoseconds", "v"), timestamp=1_700_000_000_000_000_000)
    log.close(0)
    return log


def data_dir_of(log: Log) -> Path:
    return Path(log.directory).parent


def test_batch_columns_give_a_records_position_and_producer(spark: SparkSession, log: Log) -> None:
    frame = frame_of(spark, data_dir_of(log), includeBatchColumns=True).orderBy("offset")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    rows = frame.collect()
    again = make_log(OsFiles(), data_dir=str(data_dir_of(log)), clean_shutdown=True)
    places = {header.base_offset: (s.base_offset, position) for s in again.segments for position, header in s.headers()}
    expected = [
        {
            "timestampMs": record.timestamp,
            "keySize": None if record.key is None else len(record.key),
            "valueSize": None if record.value is None else len(record.value),
            "sequence": record.sequence,
            "segmentBaseOffset": places[batch.base_offset][0],
            "batchPosition": places[batch.base_offset][1],
            "batchBaseOffset": batch.base_offset,
            "batchLastOffset": batch.last_offset,
            "leaderEpoch": batch.partition_leader_epoch,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "isTransactional": False,
            "compression": codecs[batch.codec],
            "deleteHorizon": None,
        }
        for batch in all_batches(again)
        for record in batch.records()
    ]
    again.release_files()
    assert [{name: row[name] for name in BATCH_COLUMNS} for row in rows] == expected
    assert {row["sequence"] for row in rows} == {-1, 0, 2**31 - 1}
    assert [row["timestamp"] is None for row in rows] == [False] * 60 + [True], "no 64 bits of microseconds hold it"


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("offset").collect())


FILTERS: dict[str, tuple[str, range | list[int]]] = {
    "offsets": ("offset >= 17 and offset < 23", range(17, 23)),
    "offsets, the other way": ("offset > 16 and offset <= 22 and topic = 't'", range(17, 23)),
    "one offset": ("offset = 17 and partition in (0, 4)", [17]),
    "another partition": ("partition = 1", []),
    "another topic": ("topic <> 't' or topic is null", []),
    "since a time": ("timestamp >= timestamp_millis(1700000000100) and timestampMs < 1700000000120", range(20, 24)),
    "up to a time": ("timestamp < timestamp_millis(1700000000020)", range(4)),
    "a time, and what cannot be pushed": ("timestamp > timestamp_millis(1700000000105) and key = 'k11'", [22]),
}


@pytest.mark.parametrize("name", some(FILTERS, 3))
def test_filters_are_pushed_down(spark: SparkSession, log: Log, name: str) -> None:
    condition, expected = FILTERS[name]
    frame = ottla.pipeline.read(spark, str(data_dir_of(log)), includeBatchColumns=True).where(condition)
    assert offsets(frame) == list(expected)


@pytest.mark.needs_sources("HAS_FILTERS")
def test_offsets_and_partitions_pushed_down_are_not_filtered_again(spark: SparkSession, log: Log) -> None:
    frame = ottla.pipeline.read(spark, str(data_dir_of(log)), schema="partition int, offset bigint")
    plan = frame.where("offset > 58 and partition = 0")._jdf.queryExecution().executedPlan().toString()
    assert "BatchScan ottla" in plan
    assert "Filter (" not in plan


def test_a_session_without_push_down_can_read(spark: SparkSession, log: Log) -> None:
    """Spark fails the query of a source that accepts filters while push-down is disabled; queries of Ottla's source work."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert offsets(ottla.pipeline.read(spark, str(data_dir_of(log))).where("offset < 3")) == [0, 1, 2]
        if FULL:
            assert offsets(frame_of(spark, data_dir_of(log)).where("offset < 3")) == [0, 1, 2]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_registering_changes_nothing_else_of_a_session(spark: SparkSession, log: Log) -> None:
    session = spark.newSession()
    before = session.conf.getAll
    ottla.pipeline.register(session)
    ottla.pipeline.register(session)
    assert session.conf.getAll == before
    assert frame_of(session, data_dir_of(log)).columns[0] == "key"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Write a log of twelve batches of five; in the one at offset 20 a bit was flipped."""
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    for number in range(12):
        append(log, *[(f"k{n}", f"{number}") for n in range(5)])
    log.close(0)
    path = Path(log.segments.first.file_paths()[0])
    data = bytearray(path.read_bytes())
    position = position_of(data, 20)
    data[position + 70] ^= 4
    path.write_bytes(data)
    return path


def position_of(data: bytearray, offset: int) -> int:
    at = 0
    while RecordBatch(data, at).last_offset < offset:
        at += RecordBatch(data, at).size_bytes
    return at


def test_damage_is_an_error_with_its_position(spark: SparkSession, damaged: Path) -> None:
    frame = frame_of(spark, damaged.parent.parent)
    with pytest.raises(PythonException) as refused:
        frame.count()
    line = [line for line in str(refused.value).splitlines() if line.strip()]
    assert any(
        "CorruptSourceError: " in each and f"{damaged}, byte " in each and ", offset 20: expected CRC-32C 0x" in each
        for each in line
    ), line


def test_damage_may_be_dropped_and_counted(spark: SparkSession, damaged: Path) -> None:
    options = {"mode": "DROPMALFORMED"}
    assert offsets(frame_of(spark, damaged.parent.parent, **options)) == [*range(20), *range(25, 60)]
    (row,) = ottla.pipeline.malformed(spark, str(damaged.parent.parent)).collect()
    batch = RecordBatch(damaged.read_bytes(), row["position"])
    assert row["file"] == str(damaged)
    assert (row["topic"], row["partition"], row["offset"], row["records"]) == ("t", 0, 20, 5)
    assert row["bytes"] == batch.size_bytes
    assert (row["expected"], row["actual"]) == (f"CRC-32C {batch.crc:#010x}", f"{batch.computed_crc():#010x}")
