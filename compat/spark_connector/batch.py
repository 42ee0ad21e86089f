"""Batch queries: which topics, from where to where, in how many pieces, with which columns."""

import json
from collections import Counter

from ..support.clients.steps import CODECS, admin, create_topic
from ..support.suite import Suite
from .connector import Connector, offsets, refused, same, to_rows
from .topics import STEP_MS, Ranges, create_and_fill, fill, rows, timestamp_ms

TOPIC = "events"
RECORDS = 300
ALL: Ranges = {0: (0, RECORDS), 1: (0, RECORDS), 2: (0, RECORDS)}
BETWEEN_MS = STEP_MS // 2
LATER_MS = timestamp_ms(RECORDS)


def times(first: int, second: int, third: int) -> str:
    """Return the JSON form of the times of one offset a partition."""
    return offsets(TOPIC, {0: timestamp_ms(first), 1: timestamp_ms(second), 2: timestamp_ms(third)})


RANGES: dict[str, tuple[dict[str, str], Ranges]] = {
    "no offsets are named": ({}, ALL),
    "from earliest to latest": ({"startingOffsets": "earliest", "endingOffsets": "latest"}, ALL),
    "offsets of each partition, with -2 and -1": (
        {
            "startingOffsets": offsets(TOPIC, {0: 5, 1: -2, 2: 17}),
            "endingOffsets": offsets(TOPIC, {0: 10, 1: -1, 2: 17}),
        },
        {0: (5, 10), 1: (0, RECORDS), 2: (17, 17)},
    ),
    "timestamps of each partition": (
        {"startingOffsetsByTimestamp": times(10, 20, 30), "endingOffsetsByTimestamp": times(40, 20, 31)},
        {0: (10, 40), 1: (20, 20), 2: (30, 31)},
    ),
    "one timestamp for all, between two records": (
        {
            "startingTimestamp": str(timestamp_ms(99) + BETWEEN_MS),
            "endingTimestamp": str(timestamp_ms(199) + BETWEEN_MS),
        },
        {number: (100, 200) for number in ALL},
    ),
    "timestamps win over offsets": (
        {
            "startingTimestamp": str(timestamp_ms(250)),
            "startingOffsets": "earliest",
            "endingOffsetsByTimestamp": times(260, 260, 260),
            "endingOffsets": "latest",
        },
        {number: (250, 260) for number in ALL},
    ),
    "an end behind the last record": ({"endingTimestamp": str(LATER_MS)}, ALL),
    "a start behind the last record, with the strategy latest": (
        {"startingTimestamp": str(LATER_MS), "startingOffsetsByTimestampStrategy": "latest"},
        {},
    ),
    "a group id of our own": ({"kafka.group.id": "compat-spark"}, ALL),
    "a prefix of group ids": ({"groupIdPrefix": "compat-spark"}, ALL),
    "few tries to find the offsets, at short intervals": (
        {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10"},
        ALL,
    ),
    "few records a poll, small fetches": (
        {"kafka.max.poll.records": "7", "kafka.max.partition.fetch.bytes": "1000", "kafka.fetch.max.bytes": "2000"},
        ALL,
    ),
}


def judge(suite: Suite, spark: Connector, *, quick: bool) -> None:
    create_and_fill(spark.broker["kafka.bootstrap.servers"], TOPIC, RECORDS, partitions=3)
    judge_columns(suite, spark)
    some = list(RANGES.items())[2:4] if quick else list(RANGES.items())
    for what, (options, ranges) in some:
        same(suite, f"batch, {what}", rows(TOPIC, ranges), spark.read(subscribe=TOPIC, **options))
    if not quick:
        judge_topics(suite, spark)
        judge_old_planning(suite, spark)
        judge_codecs(suite, spark)
    judge_pieces(suite, spark, quick=quick)
    refused(
        suite,
        "batch, a start behind the last record is refused with the strategy error",
        lambda: spark.read(
            subscribe=TOPIC, startingTimestamp=str(LATER_MS), startingOffsetsByTimestampStrategy="error"
        ),
        "No offset matched from request",
    )


def judge_columns(suite: Suite, spark: Connector) -> None:
    with_headers = spark.read(subscribe=TOPIC, includeHeaders="true")
    same(suite, "batch, all columns and the headers", rows(TOPIC, ALL, headers=True), with_headers)
    frame = spark.load({"subscribe": TOPIC})
    suite.check("batch, no headers unless asked for", "headers" not in frame.columns)
    suite.equal("batch, a count", RECORDS * 3, frame.count())


def judge_topics(suite: Suite, spark: Connector) -> None:
    """Check the three ways to name topics; a pattern meets no internal topic."""
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    other = create_and_fill(bootstrap, "events-2", 20)
    create_topic(bootstrap, "events-3")
    both = [*rows(TOPIC, ALL), *rows("events-2", other)]
    same(suite, "batch, subscribe to two topics", both, spark.read(subscribe=f"{TOPIC}, events-2"))
    same(suite, "batch, subscribePattern", both, spark.read(subscribePattern="ev.*"))
    same(suite, "batch, a pattern that meets nothing", [], spark.read(subscribePattern="nothing-.*"))
    same(suite, "batch, an empty topic", [], spark.read(subscribe="events-3"))
    assigned = [*rows(TOPIC, {0: ALL[0], 2: ALL[2]}), *rows("events-2", other)]
    chosen = json.dumps({TOPIC: [0, 2], "events-2": [0]})
    same(suite, "batch, assign three partitions of two topics", assigned, spark.read(assign=chosen))


def judge_old_planning(suite: Suite, spark: Connector) -> None:
    """Check offsets found by a consumer instead of the admin client; only the consumer joins a group."""
    conf = spark.spark.conf
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    conf.set(name, "true")
    try:
        for what, (options, ranges) in RANGES.items():
            if "group" in what or what.startswith("timestamps"):
                found = spark.read(subscribe=TOPIC, **options)
                same(suite, f"batch, planned by a consumer, {what}", rows(TOPIC, ranges), found)
    finally:
        conf.unset(name)


def judge_codecs(suite: Suite, spark: Connector) -> None:
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    create_topic(bootstrap, "codecs", partitions=len(CODECS))
    ranges: Ranges = {number: (0, 50) for number in range(len(CODECS))}
    for number, codec in enumerate(CODECS):
        fill(bootstrap, "codecs", {number: ranges[number]}, codec=codec)
    found = spark.read(subscribe="codecs", includeHeaders="true")
    same(suite, "batch, every codec", rows("codecs", ranges, headers=True), found)
    create_topic(bootstrap, "log-append-time", message_timestamp_type="LogAppendTime")
    fill(bootstrap, "log-append-time", {0: (0, 10)})
    found = spark.read(subscribe="log-append-time")
    suite.equal("batch, LogAppendTime is timestampType 1", [1] * 10, [each.timestamp_type for each in found])
    suite.check("batch, and the broker's time", all(each.timestamp_ms > timestamp_ms(3_000) for each in found))


def judge_pieces(suite: Suite, spark: Connector, *, quick: bool) -> None:
    """Judge how a query is divided into tasks: the largest share of a task, and the number of tasks.

    The connector rounds each partition's share of minPartitions. It applies maxRecordsPerPartition only if it
    knows both ends of a range before it queries the broker.
    """
    ends = {
        "startingOffsets": offsets(TOPIC, dict.fromkeys(ALL, 0)),
        "endingOffsets": offsets(TOPIC, dict.fromkeys(ALL, RECORDS)),
    }
    cuts = (
        ({"minPartitions": "9"}, 100),
        ({"maxRecordsPerPartition": "50"} | ends, 50),
        ({"minPartitions": "9", "maxRecordsPerPartition": "60"} | ends, 60),
    )
    for options, most in cuts[:1] if quick else cuts:
        what = " and ".join(f"{name}={value}" for name, value in options.items() if name not in ends)
        frame = spark.load({"subscribe": TOPIC, **options})
        sizes = Counter(found[0] for found in frame.selectExpr("spark_partition_id()").collect())
        suite.equal(f"batch, {what}: records per task", {most}, set(sizes.values()))
        same(suite, f"batch, {what}: the rows", rows(TOPIC, ALL), to_rows(frame))


def judge_groups(suite: Suite, bootstrap: str) -> None:
    """Check that queries without a subscription have left no group with members or offsets. Runs last."""
    client = admin(bootstrap)  # kept: a collected client never delivers its answers
    listed = client.list_consumer_groups().result(30).valid
    suite.equal(
        "no group is left that a query joined", [], [each.group_id for each in listed if "EMPTY" not in str(each.state)]
    )
