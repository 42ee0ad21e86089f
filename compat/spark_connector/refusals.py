"""The connector's own refusals, so that they are not mistaken for a broker's answers; and a topic that does not exist."""

from functools import partial

from ..support.suite import Suite
from .connector import Connector, offsets, refused
from .topics import create_and_fill

TOPIC = "refusals"
BATCH: dict[str, tuple[dict[str, str], str]] = {
    "no topic": ({}, "One of the following options must be specified"),
    "two ways to name topics": ({"subscribe": TOPIC, "subscribePattern": TOPIC}, "Only one of the following options"),
    "an empty subscription": ({"subscribe": " "}, "No topics to subscribe to"),
    "an empty pattern": ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
    "assign without JSON": ({"assign": TOPIC}, "No topicpartitions to assign"),
    "a start at latest": ({"subscribe": TOPIC, "startingOffsets": "latest"}, "starting offset can't be latest"),
    "a start at -1": (
        {"subscribe": TOPIC, "startingOffsets": offsets(TOPIC, {0: -1, 1: 0, 2: 0})},
        "can't be latest",
    ),
    "an end at earliest": ({"subscribe": TOPIC, "endingOffsets": "earliest"}, "ending offset can't be earliest"),
    "an end at -2": (
        {"subscribe": TOPIC, "endingOffsets": offsets(TOPIC, {0: -2, 1: 0, 2: 0})},
        "earliest",
    ),
    "offsets of some partitions only": (
        {"subscribe": TOPIC, "startingOffsets": offsets(TOPIC, {0: 1})},
        "don't match what are assigned",
    ),
    "minPartitions=0": ({"subscribe": TOPIC, "minPartitions": "0"}, "minPartitions must be positive"),
    "maxRecordsPerPartition=0": ({"subscribe": TOPIC, "maxRecordsPerPartition": "0"}, "must be positive"),
    "kafka.auto.offset.reset": ({"subscribe": TOPIC, "kafka.auto.offset.reset": "earliest"}, "is not supported"),
    "kafka.key.deserializer": ({"subscribe": TOPIC, "kafka.key.deserializer": "x"}, "is not supported"),
    "kafka.value.deserializer": ({"subscribe": TOPIC, "kafka.value.deserializer": "x"}, "is not supported"),
    "kafka.enable.auto.commit": ({"subscribe": TOPIC, "kafka.enable.auto.commit": "true"}, "is not supported"),
    "kafka.interceptor.classes": ({"subscribe": TOPIC, "kafka.interceptor.classes": "x"}, "is not supported"),
    "a topic that is not there": ({"subscribe": "not-there"}, "UnknownTopicOrPartition"),
}
STREAM: dict[str, tuple[dict[str, str], str]] = {
    "endingOffsets": ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    "endingOffsetsByTimestamp": (
        {"endingOffsetsByTimestamp": offsets(TOPIC, {0: 0, 1: 0, 2: 0})},
        "ending timestamp not valid in streaming queries",
    ),
    "minOffsetsPerTrigger above maxOffsetsPerTrigger": (
        {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        "is higher than the maxOffsetsPerTrigger",
    ),
}
SINK: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no topic": (["value"], {}, "topic"),
    "no value": (["key"], {"topic": TOPIC}, "value"),
    "a value that is a number": (["1 AS value"], {"topic": TOPIC}, "value"),
    "a null topic": (["value", "CAST(null AS STRING) AS topic"], {}, "null topic"),
    "kafka.key.serializer": (["value"], {"topic": TOPIC, "kafka.key.serializer": "x"}, "is not supported"),
    "kafka.value.serializer": (["value"], {"topic": TOPIC, "kafka.value.serializer": "x"}, "is not supported"),
    "a partition that is not there": (
        ["value", "9 AS partition"],
        {"topic": TOPIC, "kafka.max.block.ms": "2000"},
        "not present in metadata",
    ),
}


def judge(suite: Suite, spark: Connector) -> None:
    create_and_fill(spark.broker["kafka.bootstrap.servers"], TOPIC, 5, partitions=3)
    for what, (options, words) in BATCH.items():
        refused(suite, f"refused in a batch: {what}", partial(spark.read, **options), words)
    for what, (options, words) in STREAM.items():
        into = f"refused-{len(what)}"
        refused(suite, f"refused in a stream: {what}", partial(run_stream, spark, options, into), words)
    for what, (columns, options, words) in SINK.items():
        frame = spark.spark.sql("SELECT 'k' AS key, 'v' AS value").selectExpr(*columns)
        refused(suite, f"refused by the sink: {what}", partial(spark.write, frame, **options), words)
    for mode in ("overwrite", "ignore"):
        writer = spark.spark.sql("SELECT 'v' AS value").write.mode(mode).format("kafka")
        writer = writer.options(topic=TOPIC, **spark.broker)
        refused(suite, f"refused by the sink: mode {mode}", writer.save, "not allowed for Kafka")


def run_stream(spark: Connector, options: dict[str, str], name: str) -> None:
    spark.run(spark.stream(subscribe=TOPIC, **options), name)
