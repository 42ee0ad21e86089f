"""Structured Streaming: the start of a query, the size of its batches, topics and partitions that are added later."""

import time
from dataclasses import replace

from confluent_kafka.admin import NewPartitions

from ..support.clients.steps import admin, create_topic
from ..support.suite import Suite
from .connector import Connector, offsets, refused, same, wait_until
from .topics import Ranges, Row, create_and_fill, fill, rows, timestamp_ms

RECORDS = 120


def judge(suite: Suite, spark: Connector, *, quick: bool) -> None:
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    ranges = create_and_fill(bootstrap, "stream", RECORDS, partitions=3)
    judge_limits(suite, spark, ranges)
    if quick:
        return
    judge_checkpoint(suite, spark)
    judge_starts(suite, spark, ranges)
    judge_pieces(suite, spark, ranges)
    judge_waiting(suite, spark)
    judge_growth(suite, spark)
    judge_copy(suite, spark)


def judge_limits(suite: Suite, spark: Connector, ranges: Ranges) -> None:
    most = 90
    options = {"subscribe": "stream", "startingOffsets": "earliest", "includeHeaders": "true", "minPartitions": "6"}
    done = spark.run(spark.stream(maxOffsetsPerTrigger=str(most), **options), "limits")
    taken = [batch["numInputRows"] for batch in done]
    suite.check(f"stream, maxOffsetsPerTrigger={most}", max(taken) <= most and sum(taken) == 3 * RECORDS, taken)
    same(suite, "stream, every row once", rows("stream", ranges, headers=True), spark.table("limits"))
    behind = [int(batch["sources"][0]["metrics"]["maxOffsetsBehindLatest"]) for batch in done]
    suite.equal("stream, its lag", [RECORDS - 30 * (number + 1) for number in range(len(done))], behind)


def judge_checkpoint(suite: Suite, spark: Connector) -> None:
    """Run three queries one after the other, each from the end of the one before."""
    topic = "checkpoint"
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    create_and_fill(bootstrap, topic, 10, partitions=2)
    frame = spark.stream(subscribe=topic, startingOffsets="earliest")
    for end in (10, 25, 25):
        spark.run(frame, topic)
        same(
            suite,
            f"stream, from its checkpoint to offset {end}",
            rows(topic, {0: (0, end), 1: (0, end)}),
            spark.table(topic),
        )
        if end == 10:
            fill(bootstrap, topic, {0: (10, 25), 1: (10, 25)})


def judge_starts(suite: Suite, spark: Connector, ranges: Ranges) -> None:
    one_time = str(timestamp_ms(100))
    for number, (what, options, wanted) in enumerate(
        (
            ("earliest", {"startingOffsets": "earliest"}, ranges),
            (
                "offsets with -2 and -1",
                {"startingOffsets": offsets("stream", {0: 50, 1: -2, 2: -1})},
                {0: (50, RECORDS), 1: (0, RECORDS)},
            ),
            ("a timestamp", {"startingTimestamp": one_time}, {each: (100, RECORDS) for each in ranges}),
            (
                "timestamps of each partition",
                {"startingOffsetsByTimestamp": offsets("stream", {each: timestamp_ms(10 * each) for each in ranges})},
                {each: (10 * each, RECORDS) for each in ranges},
            ),
            (
                "a timestamp behind the last record, strategy latest",
                {"startingTimestamp": str(timestamp_ms(RECORDS)), "startingOffsetsByTimestampStrategy": "latest"},
                {},
            ),
        )
    ):
        name = f"start-{number}"
        spark.run(spark.stream(subscribe="stream", **options), name)
        same(suite, f"stream, a start at {what}", rows("stream", wanted), spark.table(name))

    too_late = {"startingTimestamp": str(timestamp_ms(RECORDS)), "startingOffsetsByTimestampStrategy": "error"}
    refused(
        suite,
        "stream, a start at a timestamp behind the last record, strategy error",
        lambda: spark.run(spark.stream(subscribe="stream", **too_late), "start-refused"),
        "No offset matched from request",
    )


def judge_pieces(suite: Suite, spark: Connector, ranges: Ranges) -> None:
    """Check the tasks of one batch, by the most records that each may have."""
    frame = spark.stream(subscribe="stream", startingOffsets="earliest", maxRecordsPerPartition="40")
    spark.run(frame.selectExpr("*", "spark_partition_id() AS task"), "pieces")
    same(suite, "stream, maxRecordsPerPartition=40: every row once", rows("stream", ranges), spark.table("pieces"))
    written = spark.spark.read.parquet(str(spark.work / "pieces")).groupBy("task").count().collect()
    sizes = [row["count"] for row in written]
    suite.equal("stream, maxRecordsPerPartition=40: records per task", [40] * 3 * (RECORDS // 40), sizes)


def judge_waiting(suite: Suite, spark: Connector) -> None:
    """Check that a query starts at latest, waits for enough records, and does not wait for ever."""
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    topic, start = "waiting", 20
    create_and_fill(bootstrap, topic, start)
    patient = {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "1h"}
    query = spark.start(spark.stream(subscribe=topic, startingOffsets="latest", **patient), topic)
    try:
        wait_until(lambda: (spark.work / f"{topic}.checkpoint" / "commits" / "0").exists(), query)
        fill(bootstrap, topic, {0: (start, start + 30)})
        time.sleep(3)
        same(suite, "stream, 30 of minOffsetsPerTrigger=50: it waits", [], spark.table(topic))
        fill(bootstrap, topic, {0: (start + 30, start + 60)})
        wait_until(lambda: len(spark.table(topic)) >= 60, query)
        wanted = rows(topic, {0: (start, start + 60)})
        same(suite, "stream, 60 of 50: they come, all those since latest", wanted, spark.table(topic))
    finally:
        query.stop()
    fill(bootstrap, topic, {0: (start + 60, start + 65)})
    patient["maxTriggerDelay"] = "2s"
    query = spark.start(spark.stream(subscribe=topic, **patient), topic)
    try:
        came = wait_until(lambda: len(spark.table(topic)) >= 65, query)
        suite.check("stream, 5 of 50: they come after maxTriggerDelay", came)
    finally:
        query.stop()


def judge_growth(suite: Suite, spark: Connector) -> None:
    """Check that a topic that a pattern meets later, and an added partition, are read from their beginning."""
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    first = create_and_fill(bootstrap, "growth-1", 10)
    query = spark.start(spark.stream(subscribePattern="growth-.*", startingOffsets="earliest"), "growth")
    try:
        wait_until(lambda: len(spark.table("growth")) == 10, query)
        second = create_and_fill(bootstrap, "growth-2", 15)
        client = admin(bootstrap)
        client.create_partitions([NewPartitions("growth-1", 2)])["growth-1"].result(30)
        fill(bootstrap, "growth-1", {1: (0, 5)})
        wait_until(lambda: len(spark.table("growth")) >= 30, query)
        wanted = [*rows("growth-1", first | {1: (0, 5)}), *rows("growth-2", second)]
        same(suite, "stream, a later topic and a later partition", wanted, spark.table("growth"))
    finally:
        query.stop()


def judge_copy(suite: Suite, spark: Connector) -> None:
    """Copy from the connector's source to its sink: keys, values, headers, partitions, and each partition's order."""
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    create_and_fill(bootstrap, "copy-from", 40, partitions=2)
    create_topic(bootstrap, "copy-to", partitions=2)
    source = spark.stream(
        subscribe="copy-from", startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger="30"
    )
    chosen = source.select("key", "value", "partition", "headers")
    for end in (40, 60):
        spark.run(chosen, "copy", topic="copy-to", includeHeaders="true")
        wanted = [content(each) for each in rows("copy-from", {0: (0, end), 1: (0, end)}, headers=True)]
        found = [content(each) for each in spark.read(subscribe="copy-to", includeHeaders="true")]
        suite.equal(f"stream to sink, to offset {end}: every record once and in order", wanted, found)
        if end == 40:
            fill(bootstrap, "copy-from", {0: (40, 60), 1: (40, 60)})


def content(row: Row) -> Row:
    """Return the row but for its topic and time."""
    return replace(row, topic="", timestamp_ms=0)
