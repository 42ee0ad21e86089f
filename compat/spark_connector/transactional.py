"""Transactions: what is open or aborted is not read with read_committed, and markers keep no query waiting.

The log of the first topic, offset by offset; m is a marker:

    0 to 9   10   11 to 20   21   22 to 31   32   33 to 42
    commit   m    abort      m    commit     m    open
"""

from collections.abc import Callable

from confluent_kafka import Producer

from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import create_topic, read_partitions
from ..support.suite import Suite
from .compacted import CONFIGS, KEYS, update
from .connector import Connector, offsets, same
from .topics import Row, produce, row, rows

COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}
TOPIC = "transactions"


class Transactions:
    """A producer that writes transactions to partition 0 of one topic, with `make(offset)` at each offset."""

    def __init__(self, bootstrap: str, topic: str, make: Callable[[int], Row] | None = None) -> None:
        self.make = make or (lambda at: row(topic, 0, at, headers=True))
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0})
        self.producer.init_transactions(30)

    def begin(self, start: int, end: int) -> None:
        """Open one with the rows of these offsets, all of them stored when this returns."""
        self.producer.begin_transaction()
        for at in range(start, end):
            produce(self.producer, self.make(at))
        assert self.producer.flush(30) == 0

    def commit(self) -> None:
        self.producer.commit_transaction(30)

    def abort(self) -> None:
        self.producer.abort_transaction(30)


def judge(suite: Suite, spark: Connector, broker: BrokerProcess | None, *, quick: bool) -> None:
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    create_topic(bootstrap, TOPIC)
    transactions = Transactions(bootstrap, TOPIC)
    transactions.begin(0, 10)
    transactions.commit()
    transactions.begin(11, 21)
    transactions.abort()
    transactions.begin(22, 32)
    transactions.commit()
    transactions.begin(33, 43)
    judge_batches(suite, spark, quick=quick)
    if not quick:
        judge_streams(suite, spark, transactions)
        judge_nothing_visible(suite, spark)
        if broker:
            judge_cleaned(suite, spark, broker)


def stored(*spans: tuple[int, int]) -> list[Row]:
    return [each for span in spans for each in rows(TOPIC, {0: span})]


def judge_batches(suite: Suite, spark: Connector, *, quick: bool) -> None:
    visible = stored((0, 10), (22, 32))
    everything = stored((0, 10), (11, 21), (22, 32), (33, 43))
    same(suite, "transactions, read_committed", visible, spark.read(subscribe=TOPIC, **COMMITTED))
    same(suite, "transactions, read_uncommitted", everything, spark.read(subscribe=TOPIC, **UNCOMMITTED))
    same(suite, "transactions, without a level", everything, spark.read(subscribe=TOPIC))
    ranges = (
        ("of an aborted transaction and its marker", 11, 22),
        ("that ends behind a marker", 5, 11),
        ("that ends before a marker", 5, 10),
        ("of one marker", 10, 11),
        ("within an aborted transaction", 13, 15),
    )
    for what, start, end in ranges[:1] if quick else ranges:
        span = {"startingOffsets": offsets(TOPIC, {0: start}), "endingOffsets": offsets(TOPIC, {0: end})}
        for level, some in ((COMMITTED, visible), (UNCOMMITTED, everything)):
            wanted = [each for each in some if start <= each.offset < end]
            name = level["kafka.isolation.level"]
            same(suite, f"transactions, a range {what}, {name}", wanted, spark.read(subscribe=TOPIC, **span, **level))


def judge_streams(suite: Suite, spark: Connector, transactions: Transactions) -> None:
    frame = spark.stream(subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger="4", **COMMITTED)
    spark.run(frame, TOPIC)
    same(suite, "transactions, a stream of 4 offsets at a time", stored((0, 10), (22, 32)), spark.table(TOPIC))
    transactions.commit()
    spark.run(frame, TOPIC)
    every = stored((0, 10), (22, 32), (33, 43))
    same(suite, "transactions, the open one comes when it is committed", every, spark.table(TOPIC))
    transactions.begin(44, 50)
    transactions.abort()
    spark.run(frame, TOPIC)
    same(suite, "transactions, a log that ends in an aborted one", every, spark.table(TOPIC))
    same(suite, "transactions, such a log as a batch", every, spark.read(subscribe=TOPIC, **COMMITTED))


def judge_nothing_visible(suite: Suite, spark: Connector) -> None:
    bootstrap, topic = spark.broker["kafka.bootstrap.servers"], "aborted-only"
    create_topic(bootstrap, topic)
    transactions = Transactions(bootstrap, topic)
    for start in (0, 11, 22):
        transactions.begin(start, start + 10)
        transactions.abort()
    same(suite, "transactions, aborted ones only", [], spark.read(subscribe=topic, **COMMITTED))
    pieces = spark.read(subscribe=topic, minPartitions="8", **COMMITTED)
    same(suite, "transactions, aborted ones only, in 8 pieces", [], pieces)
    transactions.begin(33, 40)
    same(suite, "transactions, and one that is open", [], spark.read(subscribe=topic, **COMMITTED))
    transactions.commit()
    same(suite, "transactions, and one that was", rows(topic, {0: (33, 40)}), spark.read(subscribe=topic, **COMMITTED))


def judge_cleaned(suite: Suite, spark: Connector, broker: BrokerProcess) -> None:
    """Judge committed and aborted transactions in a cleaned log."""
    topic, size = "transactions-cleaned", 50
    create_topic(broker.bootstrap, topic, configs=CONFIGS)

    def make(at: int) -> Row:
        return update(topic, at, at % KEYS)

    transactions = Transactions(broker.bootstrap, topic, make)
    committed: list[Row] = []
    for number in range(20):
        span = range(number * (size + 1), number * (size + 1) + size)
        transactions.begin(span.start, span.stop)
        if number % 3 == 1:
            transactions.abort()
        else:
            transactions.commit()
            committed += [make(at) for at in span]
    wait_until_cleaned(broker, topic)
    left = {
        each.offset for each in read_partitions(broker.bootstrap, [(topic, 0)], isolation="read_committed")[topic, 0]
    }
    suite.check("transactions, cleaned: most records are removed", len(left) < len(committed) / 2, len(left))
    wanted = [each for each in committed if each.offset in left]
    for options in ({}, {"minPartitions": "40"}):
        found = spark.read(subscribe=topic, **COMMITTED, **options)
        same(suite, f"transactions, cleaned, {options or 'in one piece'}", wanted, found)
    spark.run(spark.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="100", **COMMITTED), topic)
    same(suite, "transactions, cleaned, as a stream", wanted, spark.table(topic))
