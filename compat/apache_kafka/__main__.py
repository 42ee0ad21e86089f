"""A directory that Apache Kafka filled, served by Ottla; and Ottla's files, read by Apache Kafka's tools.

Apache Kafka is filled (all codecs, transactions, a group, a compacted topic that its cleaner worked on), read by a consumer,
and stopped: once cleanly and once with kill -9. Ottla starts on a copy of each directory. It must show the same, continue to
clean at Kafka's checkpoint, take new writes, and leave files that `kafka-dump-log` accepts and that Apache Kafka starts on.
Then Ottla's own cleaner: logs with every feature that matters to a cleaner, and Apache Kafka's `LogCompactionTester`.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.releases import add_release, releases
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import fill
from .cleaned_files import judge_cleaned_files
from .cleaning import judge_cleaning
from .compaction_tester import judge_compaction
from .contents import Contents, read_contents
from .dump_log import judge_files
from .hanging_transaction import judge_hanging_transaction
from .own_files import judge_own_files

CLEANER = {"log.cleaner.backoff.ms": "300"}


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    for version in releases(options):
        jars(version)
        judge_apache_kafkas(suite, options, version)
    if options.against == "ottla":
        if not options.quick:
            judge_own_files(suite, options)
        judge_hanging_transaction(suite, options)
        judge_cleaned_files(suite, options)
        if not options.quick:
            judge_compaction(suite)


def judge_apache_kafkas(suite: Suite, options: Options, version: str) -> None:
    """Judge directories that a release of Apache Kafka filled, after a clean stop and after kill -9."""
    with TemporaryDirectory(prefix="compat-apache-kafka-copies-") as folder:
        copies = Path(folder)
        with ApacheKafkaProcess(overrides=CLEANER, keep=options.keep, version=version) as kafka:
            fill.fill(kafka)
            before = read_contents(kafka.bootstrap)
            judge_fill(suite, before)
            kafka.stop()
            if options.quick:
                judge_directory(suite, options, version, "after a clean stop", kafka.data, before)
                return
            shutil.copytree(kafka.data, copies / "clean-stop")
            kafka.start()
            fill.with_confluent(kafka.bootstrap, "zstd", "plain-zstd", 300)
            fill.with_confluent(kafka.bootstrap, "none", "plain-none", 300)
            after = read_contents(kafka.bootstrap)
            kafka.kill()
            shutil.copytree(kafka.data, copies / "kill-9")
        judge_directory(suite, options, version, "after a clean stop", copies / "clean-stop", before)
        judge_directory(suite, options, version, "after kill -9", copies / "kill-9", after)


def judge_fill(suite: Suite, contents: Contents) -> None:
    """Check that the fill contains what this suite is about."""
    smallest = min(map(len, contents.uncommitted.values()))
    suite.check("filled: every partition has records", smallest > 100, f"{smallest} or more")
    aborted = [r for r in contents.uncommitted[fill.TRANSACTIONAL, 0] if (r.value or b"").startswith(b"aborted")]
    suite.equal("filled: only read_uncommitted returns aborted records", 100, len(aborted))
    hidden = [r for r in contents.committed[fill.TRANSACTIONAL, 0] if (r.value or b"").startswith(b"aborted")]
    suite.equal("filled: and hidden from read_committed", 0, len(hidden))
    tombstones = sum(r.value is None for r in contents.uncommitted[fill.COMPACTED, 0])
    suite.check("filled: the compacted topic has tombstones", tombstones > 0, tombstones)


def judge_directory(suite: Suite, options: Options, version: str, when: str, data: Path, expected: Contents) -> None:
    """Serve the directory, compare, clean on, write, stop; then Apache Kafka's tools and the release that wrote it."""
    when = f"{version}, {when}"
    if options.against == "ottla":
        broker: BrokerProcess = OttlaProcess(data=data, overrides=CLEANER, keep=options.keep)
    else:
        broker = ApacheKafkaProcess(data=data, overrides=CLEANER, keep=options.keep, version=version)
    with broker:
        compare(suite, when, expected, read_contents(broker.bootstrap))
        judge_cleaning(suite, when, broker)
        for codec in ("gzip", "snappy"):
            fill.with_confluent(broker.bootstrap, codec, f"plain-{codec}", 500)
        fill.transactions(broker.bootstrap)  # under the transactional id that Apache Kafka knows
        fill.commit_offsets(broker.bootstrap)
        written = read_contents(broker.bootstrap)
        code = broker.stop()
        if options.against == "ottla":  # the JVM ends with 143
            suite.equal(f"{when}: exit code of a clean stop", 0, code)
    judge_files(suite, when, data)
    if options.quick:
        return
    with ApacheKafkaProcess(data=data, overrides=CLEANER, keep=options.keep, version=version) as kafka:
        again = read_contents(kafka.bootstrap)
        fill.transactions(kafka.bootstrap)
        more = read_contents(kafka.bootstrap).committed
    grown = sum(len(more[place]) - len(again.committed[place]) for place in more if place[0] == fill.TRANSACTIONAL)
    suite.equal(f"{when}: Apache Kafka continues with Ottla's transactional ids", fill.READABLE, grown)
    again.configs, written.configs = {}, {}  # configs set since then are in Ottla's catalog, not in Kafka's metadata
    compare(suite, f"{when}, Apache Kafka again", written, again)


def compare(suite: Suite, when: str, expected: Contents, actual: Contents) -> None:
    for isolation in ("uncommitted", "committed"):
        wanted, got = getattr(expected, isolation), getattr(actual, isolation)
        different = [
            f"{topic}-{partition}" for topic, partition in wanted if wanted[topic, partition] != got[topic, partition]
        ]
        what = f"{when}: every record of {len(wanted)} partitions, read_{isolation}"
        suite.check(what, not different, different or f"{sum(map(len, wanted.values()))} records")
    suite.equal(f"{when}: watermarks", expected.watermarks, actual.watermarks)
    suite.equal(f"{when}: topic ids and partition counts", expected.topics, actual.topics)
    suite.equal(f"{when}: topic configs", expected.configs, actual.configs)
    suite.equal(f"{when}: committed group offsets", fill.committed_offsets(), actual.offsets)


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka", body, doc=__doc__, more_arguments=add_release))
