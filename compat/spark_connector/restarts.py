"""Queries and the broker stop and restart, cleanly and by kill -9; checkpoints and logs agree afterwards."""

import threading
import time
from functools import partial

from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import create_topic
from ..support.suite import Suite
from .connector import Connector, refused, same, wait_until
from .topics import create_and_fill, fill, rows

PATIENT = {"kafkaConsumer.pollTimeoutMs": "60000", "kafka.default.api.timeout.ms": "60000"}
PARTS, PART = 40, 25


def judge(suite: Suite, spark: Connector, broker: BrokerProcess, *, quick: bool) -> None:
    judge_checkpoint(suite, spark, broker)
    if not quick:
        judge_query(suite, spark, broker)
        for kill in (False, True):
            judge_source(suite, spark, broker, kill=kill)
        judge_sink(suite, spark, broker)
        judge_planning(suite, spark, broker)


def judge_query(suite: Suite, spark: Connector, broker: BrokerProcess) -> None:
    """Check a query that is stopped at any moment, again and again."""
    topic, count = "stopped-query", 600
    ranges = create_and_fill(broker.bootstrap, topic, count, partitions=2)
    frame = spark.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    for _ in range(4):
        query = spark.start(frame, topic)
        try:
            seen = len(spark.table(topic))
            wait_until(partial(has_rows, spark, topic, seen + 1), query)
        finally:
            query.stop()
    suite.note(f"a query stopped four times had written {len(spark.table(topic))} of {2 * count} rows")
    spark.run(frame, topic)
    same(suite, "restarts, a query stopped four times: every row once", rows(topic, ranges), spark.table(topic))


def judge_source(suite: Suite, spark: Connector, broker: BrokerProcess, *, kill: bool) -> None:
    """Check a producer and a query while the broker is restarted twice."""
    how = "kill -9" if kill else "restart"
    topic = "killed-broker" if kill else "restarted-broker"
    create_topic(broker.bootstrap, topic, partitions=2)
    producing = threading.Thread(target=fill_slowly, args=(broker.bootstrap, topic))
    query = spark.start(spark.stream(subscribe=topic, startingOffsets="earliest", **PATIENT), topic)
    try:
        producing.start()
        for at_least in (200, 900):
            wait_until(partial(has_rows, spark, topic, at_least), query)
            broker.restart(kill=kill)
        producing.join(90)
        wait_until(partial(has_rows, spark, topic, 2 * PARTS * PART), query)
    finally:
        query.stop()
    every = rows(topic, {0: (0, PARTS * PART), 1: (0, PARTS * PART)})
    same(suite, f"restarts, {how} of the broker under a running query: every row once", every, spark.table(topic))


def has_rows(spark: Connector, table: str, at_least: int) -> bool:
    """Return whether a query has written at least this number of rows."""
    return len(spark.table(table)) >= at_least


def holds_records(spark: Connector, topic: str, at_least: int) -> bool:
    return len(spark.read(subscribe=topic, **PATIENT)) >= at_least


def fill_slowly(bootstrap: str, topic: str) -> None:
    for part in range(PARTS):
        span = (part * PART, (part + 1) * PART)
        fill(bootstrap, topic, {0: span, 1: span})
        time.sleep(0.1)


def judge_checkpoint(suite: Suite, spark: Connector, broker: BrokerProcess) -> None:
    """kill -9 between two runs of a query."""
    topic = "killed-between"
    create_and_fill(broker.bootstrap, topic, 40)
    frame = spark.stream(subscribe=topic, startingOffsets="earliest")
    spark.run(frame, topic)
    broker.restart(kill=True)
    same(suite, "restarts, a batch after kill -9", rows(topic, {0: (0, 40)}), spark.read(subscribe=topic))
    fill(broker.bootstrap, topic, {0: (40, 55)})
    spark.run(frame, topic)
    same(suite, "restarts, a checkpoint after kill -9", rows(topic, {0: (0, 55)}), spark.table(topic))


def judge_sink(suite: Suite, spark: Connector, broker: BrokerProcess) -> None:
    """Kill the broker while a query writes to it; the producer's retries duplicate no record."""
    source, topic, count = "to-killed-broker", "in-killed-broker", 400
    create_and_fill(broker.bootstrap, source, count, partitions=2)
    create_topic(broker.bootstrap, topic, partitions=2)
    frame = spark.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40", **PATIENT)
    query = spark.start(frame.select("key", "value", "partition"), "killed-sink", topic=topic)
    try:
        for at_least in (100, 300):
            wait_until(partial(holds_records, spark, topic, at_least), query)
            broker.restart(kill=True)
        query.processAllAvailable()
    finally:
        query.stop()
    wanted = [(each.partition, each.offset, each.value) for each in rows(source, {0: (0, count), 1: (0, count)})]
    found = [(each.partition, each.offset, each.value) for each in spark.read(subscribe=topic)]
    suite.equal("restarts, kill -9 of the broker under a writing query: every record once", wanted, found)


def judge_planning(suite: Suite, spark: Connector, broker: BrokerProcess) -> None:
    """Plan a query while the broker is away: fetchOffset.numRetries=1 gives up, a hundred retries wait for it."""
    topic = "planned-without"
    ranges = create_and_fill(broker.bootstrap, topic, 20)
    impatient = {"subscribe": topic, "kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"}
    broker.stop()
    what = "restarts, planned while the broker is away, fetchOffset.numRetries="
    once = impatient | {"fetchOffset.numRetries": "1"}
    refused(suite, f"{what}1: it fails", lambda: spark.read(**once), "Timed out", "TimeoutException")
    coming_back = threading.Timer(3, broker.start)
    coming_back.start()
    often = impatient | {"fetchOffset.numRetries": "100", "fetchOffset.retryIntervalMs": "100"}
    same(suite, f"{what}100: it goes on", rows(topic, ranges), spark.read(**often))
    coming_back.join()
