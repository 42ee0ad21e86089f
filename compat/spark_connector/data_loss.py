"""Records that are deleted before a query has read them: an error with failOnDataLoss=true, skipped with false."""

from confluent_kafka import TopicPartition

from ..support.clients.steps import admin
from ..support.suite import Suite
from .connector import Connector, offsets, refused, same
from .topics import create_and_fill, fill, rows

LOST = ("data may have been lost", "data may have been missed", "OffsetOutOfRange", "out of range")


def judge(suite: Suite, spark: Connector, *, quick: bool) -> None:
    judge_moved_start(suite, spark)
    if not quick:
        judge_emptied(suite, spark)
        judge_new_topic(suite, spark)


def delete_records(spark: Connector, topic: str, before: int) -> None:
    """Delete the records of partition 0 before this offset; -1 for its end."""
    client = admin(spark.broker["kafka.bootstrap.servers"])
    place = TopicPartition(topic, 0, before)
    client.delete_records([place])[place].result(30)


def judge_moved_start(suite: Suite, spark: Connector) -> None:
    """Check a query that has read 30 of 100 records when the first 60 are deleted."""
    bootstrap, topic = spark.broker["kafka.bootstrap.servers"], "moved-start"
    create_and_fill(bootstrap, topic, 30)
    spark.run(spark.stream(subscribe=topic, startingOffsets="earliest"), topic)
    fill(bootstrap, topic, {0: (30, 100)})
    delete_records(spark, topic, 60)
    kept = rows(topic, {0: (60, 100)})
    below = offsets(topic, {0: 10})
    same(suite, "moved start, batch from earliest", kept, spark.read(subscribe=topic))
    refused(
        suite,
        "moved start, batch from below it: failOnDataLoss=true fails",
        lambda: spark.read(subscribe=topic, startingOffsets=below, failOnDataLoss="true"),
        *LOST,
    )
    found = spark.read(subscribe=topic, startingOffsets=below, failOnDataLoss="false")
    same(suite, "moved start, batch from below it: failOnDataLoss=false reads the rest", kept, found)
    counted = spark.metrics(subscribe=topic, startingOffsets=below, failOnDataLoss="false")
    suite.check("moved start, skipped records are in the connector's metrics", all(counted.values()), counted)
    unharmed = spark.metrics(subscribe=topic)
    suite.equal("moved start, the rest is not", {"offsetOutOfRange": 0, "dataLoss": 0}, unharmed)
    gone = {"startingOffsets": below, "endingOffsets": offsets(topic, {0: 40})}
    found = spark.read(subscribe=topic, failOnDataLoss="false", **gone)
    same(suite, "moved start, batch of what is gone: failOnDataLoss=false reads nothing", [], found)
    refused(
        suite,
        "moved start, stream from its checkpoint: failOnDataLoss=true fails",
        lambda: spark.run(spark.stream(subscribe=topic, failOnDataLoss="true"), topic),
        *LOST,
    )
    spark.run(spark.stream(subscribe=topic, failOnDataLoss="false"), topic)
    survived = [*rows(topic, {0: (0, 30)}), *kept]
    same(suite, "moved start, stream from its checkpoint: failOnDataLoss=false goes on", survived, spark.table(topic))


def judge_emptied(suite: Suite, spark: Connector) -> None:
    """Delete all records; the end offset stays."""
    bootstrap, topic = spark.broker["kafka.bootstrap.servers"], "emptied"
    create_and_fill(bootstrap, topic, 50)
    spark.run(spark.stream(subscribe=topic, startingOffsets="earliest"), topic)
    delete_records(spark, topic, -1)
    same(suite, "emptied, batch", [], spark.read(subscribe=topic))
    spark.run(spark.stream(subscribe=topic), topic)
    fill(bootstrap, topic, {0: (50, 60)})
    spark.run(spark.stream(subscribe=topic), topic)
    every = rows(topic, {0: (0, 60)})
    same(suite, "emptied, a stream that had read all has lost nothing", every, spark.table(topic))


def judge_new_topic(suite: Suite, spark: Connector) -> None:
    """Delete the topic and create it again, shorter than the checkpoint says."""
    bootstrap, topic = spark.broker["kafka.bootstrap.servers"], "made-anew"
    create_and_fill(bootstrap, topic, 50)
    spark.run(spark.stream(subscribe=topic, startingOffsets="earliest"), topic)
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(30)
    create_and_fill(bootstrap, topic, 10)
    refused(
        suite,
        "made anew: failOnDataLoss=true fails",
        lambda: spark.run(spark.stream(subscribe=topic, failOnDataLoss="true"), topic),
        *LOST,
        "offset was changed",
    )
    same(suite, "made anew, batch", rows(topic, {0: (0, 10)}), spark.read(subscribe=topic))
