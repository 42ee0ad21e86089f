"""The Spark pipeline on Apache Kafka's directories: read, verified, compacted, snapshotted, and returned to it.

Apache Kafka writes compacted topics (all codecs, committed and aborted transactions, tombstones, headers, several
segments), one of which its own cleaner cleans. Spark reads the directory while the broker runs and after it has stopped, and
must show the same records as a consumer. `verify` checks the topics that Apache Kafka has cleaned, alone and against a copy
from before. `compact` takes the place of its cleaner, and Apache Kafka starts on the result.
"""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ...support.brokers.cleaning import wait_until_cleaned
from ...support.clients.steps import read_partitions, watermarks
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..dump_log import judge_files
from . import fill
from .seen import Records, newest_values, ottla_spark, snapshot_values, spark_records

CLEANER = {"log.cleaner.backoff.ms": "300"}
ISOLATIONS = ("read_uncommitted", "read_committed")
NO_LAG = ("--config", "min.compaction.lag.ms=0")
ROUNDS, KEYS = 6, 2_500
QUICK_ROUNDS, QUICK_KEYS = 3, 2_500

Seen = dict[str, Records]
"""Isolation level -> what a consumer got."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start its brokers itself")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    jars()
    rounds, keys = (QUICK_ROUNDS, QUICK_KEYS) if options.quick else (ROUNDS, KEYS)
    with (
        spark_session() as spark,
        TemporaryDirectory(prefix="compat-apache-kafka-spark-") as folder,
    ):
        data, before = Path(folder, "data"), Path(folder, "before")
        with ApacheKafkaProcess(data=data, overrides=CLEANER, keep=options.keep) as kafka:
            fill.create_topics(kafka.bootstrap)
            fill.fill(kafka.bootstrap, rounds=rounds, keys=keys)
            wait_until_cleaned(kafka, fill.CLEANED)
            with fill.open_transaction(kafka.bootstrap):
                seen = consumed(kafka.bootstrap)
                judge_fill(suite, seen)
                ends = {place: high for place, (_, high) in watermarks(kafka.bootstrap, fill.places()).items()}
                fill.wait_for_checkpoint(kafka, ends)
                judge_reads(suite, "a live broker's directory", spark, data, seen)
                judge_alone(suite, "a live broker's directory", data, (fill.CLEANED,))
            seen = consumed(kafka.bootstrap)
            kafka.stop()
            shutil.copytree(data, before)
            if not options.quick:
                judge_reads(suite, "after a clean stop", spark, data, seen)
                judge_alone(suite, "after a clean stop", data, (*fill.COMPACTED, fill.EVENTS, fill.STAMPED))
                judge_snapshots(suite, "after a clean stop", data, Path(folder), seen)
            judge_compaction(suite, data, before, Path(folder), seen)
            kafka.start()
            served = judge_served(suite, kafka, seen)
            kafka.stop()
        judge_files(suite, "compacted by Spark, then served", data)
        if options.quick:
            return
        judge_apache_kafkas_cleaner(suite, Path(folder), before, seen, served, options)


@contextmanager
def spark_session() -> Iterator[Any]:
    from ottla.pipeline.errors import UsageError
    from ottla.pipeline.run.session import session

    try:
        spark = session("apache_kafka.spark", master="local[2]")
    except UsageError as error:
        raise NotRunError(f"a JDK ({error})") from None
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def consumed(bootstrap: str) -> Seen:
    return {each: read_partitions(bootstrap, fill.places(), isolation=each) for each in ISOLATIONS}


def judge_fill(suite: Suite, seen: Seen) -> None:
    """Check that the fill contains what this suite is about."""
    for topic in (*fill.COMPACTED, fill.EVENTS):
        every, committed = (sum(len(seen[each][place]) for place in fill.places(topic)) for each in ISOLATIONS)
        suite.check(f"filled: {topic} has data that read_committed hides", every > committed > 0, (every, committed))
    deleted = sum(
        record.value is None for place in fill.places(*fill.COMPACTED) for record in seen[ISOLATIONS[1]][place]
    )
    suite.check("filled: there are tombstones", deleted > 0, deleted)
    kinds = {record.timestamp[0] for records in seen[ISOLATIONS[1]].values() for record in records}
    suite.equal("filled: timestamps of both types", {1, 2}, kinds)


def judge_reads(suite: Suite, when: str, spark: Any, data: Path, seen: Seen) -> None:
    """`spark.read` shows what a consumer got."""
    for isolation in ISOLATIONS:
        found = spark_records(spark, data, ",".join(fill.PARTITIONS), isolation=isolation)
        for topic in fill.PARTITIONS:
            expected = {place: seen[isolation][place] for place in fill.places(topic)}
            different = [f"{place[0]}-{place[1]}" for place in expected if expected[place] != found.get(place, [])]
            what = f"{when}: Spark reads {topic} as a consumer does, {isolation}"
            suite.check(what, not different, different or f"{sum(map(len, expected.values()))} records")


def judge_alone(suite: Suite, when: str, data: Path, topics: tuple[str, ...]) -> None:
    for topic in topics:
        ran = ottla_spark("verify", str(data), "--topic", topic)
        records = sum(each["records"] for each in ran.result.get("partitions", ()))
        good = ran.exit_code == 0 and records > 0
        suite.check(f"{when}: verify of {topic} by itself passes", good, records if good else ran)


def judge_snapshots(suite: Suite, when: str, data: Path, folder: Path, seen: Seen) -> None:
    for topic in fill.COMPACTED:
        out = folder / "snapshot"
        ran = ottla_spark("snapshot", str(data), "--topic", topic, "--out", str(out))
        if suite.check(f"{when}: snapshot of {topic}", ran.exit_code == 0, ran if ran.exit_code else ran.result):
            expected = {place[1]: newest_values(seen["read_committed"][place]) for place in fill.places(topic)}
            suite.equal(f"{when}: it has the newest value of each key", expected, snapshot_values(out))
            shutil.rmtree(out)


def judge_compaction(suite: Suite, data: Path, before: Path, folder: Path, seen: Seen) -> None:
    """`compact --install` on what Apache Kafka has left uncleaned."""
    topic, path = ("--topic", fill.LAGGING), str(data)
    held_back = ottla_spark("compact", path, *topic)
    outcomes = {each["outcome"] for each in held_back.result.get("partitions", ())}
    suite.equal("compact respects the lag in Apache Kafka's metadata", {"nothing to do"}, outcomes)
    ran = ottla_spark("compact", path, *topic, *NO_LAG, "--install")
    partitions = ran.result.get("partitions", ())
    outcomes = {each["outcome"] for each in partitions}
    if not suite.equal("without it compact --install does its work", {"installed"}, outcomes):
        suite.note(str(ran))
        return
    for each in partitions:
        shrunk = each["records_written"] < each["records_read"]
        what = f"compacted: {each['topic']}-{each['partition']} has become smaller"
        suite.check(
            what, shrunk, f"{each['records_read']} -> {each['records_written']} records; gone {each['removed']}"
        )
        ran = ottla_spark("verify", path, "--plan", each["plan_id"])
        suite.check("compacted: verify --plan passes", ran.exit_code == 0, ran if ran.exit_code else "")
    ran = ottla_spark("verify", path, *topic, "--against", str(before))
    suite.check("compacted: verify --against the copy from before passes", ran.exit_code == 0, ran)
    judge_alone(suite, "compacted", data, (fill.LAGGING,))
    judge_snapshots(suite, "compacted", data, folder, seen)


def judge_served(suite: Suite, kafka: ApacheKafkaProcess, seen: Seen) -> Seen:
    """Apache Kafka, started on what Spark has compacted; returns what it serves."""
    served = consumed(kafka.bootstrap)
    for topic in fill.PARTITIONS:
        for place in fill.places(topic):
            name = f"{place[0]}-{place[1]}"
            if topic == fill.LAGGING:
                before, after = (newest_values(each["read_committed"][place]) for each in (seen, served))
                suite.equal(f"Apache Kafka serves the same newest values of {name}", before, after)
                kept = set(served["read_uncommitted"][place]) <= set(seen["read_uncommitted"][place])
                suite.check(f"Apache Kafka serves records of {name} as they were", kept)
                shrunk = len(served["read_uncommitted"][place]) < len(seen["read_uncommitted"][place])
                suite.check(f"Apache Kafka serves fewer records of {name}", shrunk)
            else:
                same = all(seen[each][place] == served[each][place] for each in ISOLATIONS)
                suite.check(f"Apache Kafka serves {name} as it was", same)
    fill.fill(kafka.bootstrap, rounds=1, keys=100)
    grown = consumed(kafka.bootstrap)["read_committed"]
    for place in fill.places(fill.LAGGING):
        more = len(grown[place]) - len(served["read_committed"][place])
        suite.equal(f"Apache Kafka continues with {place[0]}-{place[1]}", 110, more)
    return served


def judge_apache_kafkas_cleaner(
    suite: Suite, folder: Path, before: Path, seen: Seen, compacted: Seen, options: Options
) -> None:
    """Judge the same directory cleaned by Apache Kafka: `verify` passes against the copy from before.

    Args:
        compacted: The records that were served from the directory that Spark compacted.
    """
    data = folder / "cleaned-by-apache-kafka"
    shutil.copytree(before, data)
    with ApacheKafkaProcess(data=data, overrides=CLEANER, keep=options.keep) as kafka:
        fill.free_to_clean(kafka.bootstrap)
        wait_until_cleaned(kafka, fill.LAGGING, partitions=fill.PARTITIONS[fill.LAGGING])
        served = consumed(kafka.bootstrap)
        kafka.stop()
    for topic in fill.COMPACTED:
        ran = ottla_spark("verify", str(data), "--topic", topic, "--against", str(before))
        suite.check(f"cleaned by Apache Kafka: verify of {topic} against the copy passes", ran.exit_code == 0, ran)
    judge_alone(suite, "cleaned by Apache Kafka", data, fill.COMPACTED)
    for place in fill.places(fill.LAGGING):
        name = f"{place[0]}-{place[1]}"
        gone = len(seen["read_uncommitted"][place]) - len(served["read_uncommitted"][place])
        suite.check(f"cleaned by Apache Kafka: {name} has become smaller", gone > 0, gone)
        what = f"and what it has left of {name} is what Spark has left"
        suite.equal(what, served["read_uncommitted"][place], compacted["read_uncommitted"][place])


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.spark", body, doc=__doc__))
