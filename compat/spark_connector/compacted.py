"""Compacted logs: offsets with gaps, and a tail of which the cleaner left no record.

The connector counts in offsets. A task whose last offsets were removed fetches them, gets no record, and succeeds only
if its position has advanced; else it waits for `kafkaConsumer.pollTimeoutMs` and fails. So the broker must answer in
a gap with the next batch, and keep a batch that ends at the end of the log.
"""

from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import create_topic, read_partitions
from ..support.logs.segment_files import base_offset, segments
from ..support.suite import Suite
from .connector import Connector, offsets, same
from .topics import Row, send, timestamp_ms

CONFIGS = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",  # the least there is
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "0",
    "min_compaction_lag_ms": "0",
}
KEYS = 20
PADDING = b"." * 5_000


def update(topic: str, offset: int, key: int, *, deletes: bool = False) -> Row:
    value = None if deletes else b"%d at %d %s" % (key, offset, PADDING)
    return Row(topic, 0, offset, timestamp_ms(offset), 0, b"key-%d" % key, value)


def judge(suite: Suite, spark: Connector, broker: BrokerProcess, *, quick: bool) -> None:
    judge_gaps(suite, spark, broker, quick=quick)
    for idempotent in (False,) if quick else (False, True):
        judge_emptied_tail(suite, spark, broker, idempotent=idempotent, quick=quick)


def judge_gaps(suite: Suite, spark: Connector, broker: BrokerProcess, *, quick: bool) -> None:
    topic, count = "gaps", 1_000
    create_topic(broker.bootstrap, topic, configs=CONFIGS)
    # Keys 0 to 9 are updated in the first third only, so that their newest values stand alone in wide gaps.
    written = [
        update(topic, at, at % KEYS if at < count // 3 else KEYS // 2 + at % (KEYS // 2), deletes=at % 101 == 0)
        for at in range(count)
    ]
    send(broker.bootstrap, written)
    wait_until_cleaned(broker, topic)
    left = survivors(broker, written)
    active = base_offset(segments(broker.partition_dir(topic))[-1])
    suite.check("compacted, most records are removed", len(left) < count // 4, f"{len(left)} of {count} records left")
    newest = {each.key: each for each in written}
    newest_left = {each.key: each for each in left}
    alive = {key: each for key, each in newest.items() if each.value is not None}
    suite.equal(
        "compacted, the newest value of each key", alive, {k: v for k, v in newest_left.items() if v.value is not None}
    )
    pieces = 10 if quick else 50
    same(suite, "compacted, in one piece", left, spark.read(subscribe=topic))
    same(
        suite,
        f"compacted, in {pieces} pieces, most of them empty",
        left,
        spark.read(subscribe=topic, minPartitions=str(pieces)),
    )
    judge_ranges(suite, spark, left, active, quick=quick)
    at_a_time = 250 if quick else 100
    done = spark.run(
        spark.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(at_a_time)), topic
    )
    taken = [batch["numInputRows"] for batch in done]
    same(suite, f"compacted, as a stream of {at_a_time} offsets at a time", left, spark.table(topic))
    suite.check(
        "compacted, as a stream: batches with few rows", len(taken) >= count // at_a_time and min(taken) < 50, taken
    )
    if not quick:
        rewritten = [update(topic, at, at % KEYS) for at in range(count, 2 * count)]
        send(broker.bootstrap, rewritten)
        wait_until_cleaned(broker, topic)
        both = survivors(broker, [*written, *rewritten])
        spark.run(spark.stream(subscribe=topic, failOnDataLoss="true"), topic)
        same(
            suite,
            "compacted, the checkpoint goes on after another pass",
            [*left, *within(both, count, 2 * count)],
            spark.table(topic),
        )


def judge_ranges(suite: Suite, spark: Connector, left: list[Row], active: int, *, quick: bool) -> None:
    """Check ranges with an end in the first gap of three offsets that has a record on either side."""
    topic, count = left[0].topic, left[-1].offset + 1
    places = {each.offset for each in left}
    gap = next(
        at for at in range(left[0].offset, active) if at not in places and at + 1 not in places and at + 2 not in places
    )
    ranges = (
        ("starts and ends in a gap", gap + 1, gap + 2),
        ("ends in a gap", 0, gap + 2),
        ("starts in a gap", gap + 1, count),
        ("ends where the cleaned part ends", gap + 1, active),
    )
    for what, start, end in ranges[:1] if quick else ranges:
        found = spark.read(
            subscribe=topic, startingOffsets=offsets(topic, {0: start}), endingOffsets=offsets(topic, {0: end})
        )
        same(suite, f"compacted, a range that {what}", within(left, start, end), found)


def judge_emptied_tail(suite: Suite, spark: Connector, broker: BrokerProcess, *, idempotent: bool, quick: bool) -> None:
    """Judge the end of a log of which only the last offset is left.

    The active segment is never cleaned. So the next, empty one is added, as a roll before the next append
    leaves it: the log is the same and may now be cleaned to its end. Tombstones are removed in the pass after the one that
    first reached them.
    """
    kind = "an idempotent producer" if idempotent else "a producer without an id"
    topic = "tail-idempotent" if idempotent else "tail"
    create_topic(broker.bootstrap, topic, configs=CONFIGS)
    count = 300
    written = [update(topic, at, at % KEYS) for at in range(count)]
    written += [update(topic, count + key, key, deletes=True) for key in range(KEYS)]
    end = len(written)
    send(broker.bootstrap, written, idempotent=idempotent)
    broker.stop()
    (broker.partition_dir(topic) / f"{end:020}.log").touch()
    broker.start()
    wait_until_cleaned(broker, topic)
    clean_again(broker, topic)
    left = survivors(broker, written)
    suite.equal(f"emptied tail of {kind}: it is empty", [], [each.offset for each in left])
    reads = {
        "from earliest to latest": {},
        "from within the tail": {"startingOffsets": offsets(topic, {0: count + 3})},
        "the last offset": {"startingOffsets": offsets(topic, {0: end - 1})},
        "to within the tail": {"endingOffsets": offsets(topic, {0: count + 3})},
        "in ten pieces": {"minPartitions": "10"},
    }
    for what, options in list(reads.items())[: 2 if quick else None]:
        same(suite, f"emptied tail of {kind}, {what}", [], spark.read(subscribe=topic, **options))
    stream = spark.stream(subscribe=topic, startingOffsets="earliest")
    spark.run(stream, topic)
    more = [update(topic, end + number, number) for number in range(5)]
    send(broker.bootstrap, more)
    spark.run(stream, topic)
    same(suite, f"emptied tail of {kind}, as a stream, and what comes after it", more, spark.table(topic))


def clean_again(broker: BrokerProcess, topic: str) -> None:
    """Run one more pass over the whole log, as after the loss of the checkpoint."""
    broker.stop()
    (broker.data / "cleaner-offset-checkpoint").unlink()
    broker.start()
    wait_until_cleaned(broker, topic)


def survivors(broker: BrokerProcess, written: list[Row]) -> list[Row]:
    """Return the rows whose offsets librdkafka still finds, from the rows of a partition from offset 0 on."""
    place = (written[0].topic, written[0].partition)
    return [written[record.offset] for record in read_partitions(broker.bootstrap, [place])[place]]


def within(found: list[Row], start: int, end: int) -> list[Row]:
    return [each for each in found if start <= each.offset < end]
