"""`ottla-spark verify --bootstrap`: topics over the wire, on Spark's own Kafka connector.

Correct topics pass, and each planted error is found and named with its key and offsets; a wrong request gets one line, soon.
Spark runs in this process and its JVM, with two threads; the commands run on it like a user's.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from ottla.storage.topics.versions import STRATEGY

from ..apache_kafka.spark.seen import Ran, ottla_spark
from ..spark_connector.jars import connector_jars
from ..spark_connector.session import spark_session
from ..support.brokers.any_broker import any_broker
from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.process import BrokerProcess, free_port
from ..support.clients.steps import admin, create_topic
from ..support.suite import Options, Suite, run_suite
from . import planted

BROKER = {
    "log.cleaner.backoff.ms": "300",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
LEFT = "a superseded record is gone from the compacted part"
SASL = (
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=PLAIN",
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=p;",
)
SOON_S = 60.0
"""The time limit of a refusal; clients wait twenty seconds for an answer, and the machine may be busy."""


class Wire:
    """The command, for one broker."""

    def __init__(self, suite: Suite, bootstrap: str) -> None:
        self.suite, self.bootstrap = suite, bootstrap

    def verify(self, topic: str, *options: str) -> Ran:
        return ottla_spark("verify", "--bootstrap", self.bootstrap, "--topic", topic, *options)

    def passes(self, what: str, topic: str, *options: str) -> Ran:
        ran = self.verify(topic, *options)
        self.suite.check(what, ran.exit_code == 0 and ran.result["passed"], ran)
        return ran

    def finds(self, what: str, ran: Ran, *expected: tuple[str, str | None, int]) -> None:
        """Check that these were found, (rule, key, offset), and nothing else."""
        found = sorted(
            (each["rule"], each["key"], each["offset"])
            for partition in ran.result.get("partitions", ())
            for each in partition["findings"]
        )
        wanted = sorted((rule, None if key is None else repr(key.encode()), offset) for rule, key, offset in expected)
        self.suite.equal(what, (5, wanted), (ran.exit_code, found))

    def refused(self, what: str, exit_code: int, says: str, *arguments: str) -> None:
        began_s = time.monotonic()
        ran = ottla_spark("verify", *arguments)
        took_s = time.monotonic() - began_s
        lines = [line for line in ran.errors.splitlines() if line]
        good = ran.exit_code == exit_code and len(lines) == 1 and says in lines[0]
        self.suite.check(f"{what}: exit code {exit_code}, one line", good, f"{ran.exit_code}: {lines}")
        self.suite.check(f"{what}: soon", took_s < SOON_S, f"{took_s:.1f} s")


def body(suite: Suite, options: Options) -> None:
    jars = connector_jars()
    suite.note(f"with {', '.join(jar.name for jar in jars)}")
    with (
        tempfile.TemporaryDirectory(prefix="compat-spark-wire-", ignore_cleanup_errors=True) as work,
        spark_session(jars, Path(work)),
        any_broker(options, BROKER) as broker,
    ):
        wire = Wire(suite, broker.bootstrap)
        parts: dict[str, Callable[[], None]] = {
            "compacted": lambda: judge_compacted(suite, wire),
            "equal": lambda: judge_equal(suite, wire),
            "refusals": lambda: judge_refusals(suite, wire, Path(work)),
        }
        if isinstance(broker, BrokerProcess):
            parts["cleaned"] = lambda: judge_cleaned(suite, wire, broker)
        else:
            suite.skip("a topic that was cleaned", "the running broker's files are out of reach")
        for name, part in parts.items():
            if not options.quick or name in ("compacted", "refusals"):
                part()
    if not options.quick:
        judge_without_connector(suite)


def judge_compacted(suite: Suite, wire: Wire) -> None:
    planted.left_below(wire.bootstrap, "left")
    ran = wire.passes("a topic of which nothing is known passes", "left")
    (own,) = ran.result["partitions"]
    suite.equal("and duplicates are measured", (2, 3, 5), (own["compacted_up_to"], own["keys"], own["records"]))
    suite.check("and unjudged records are reported", any("clean-end" in each for each in ran.result["notes"]))
    ran = wire.verify("left", "--clean-end", "3")
    wire.finds("below --clean-end a key that is there twice is found, above it none is", ran, (LEFT, "a", 0))
    wire.finds("for each partition", wire.verify("left", "--clean-end", '{"0": 5}'), (LEFT, "a", 0), (LEFT, "c", 3))
    planted.in_transactions(wire.bootstrap, "transactional")
    wire.passes("a marker is no missing offset", "transactional")
    ran = wire.verify("transactional", "--no-transactions")
    wire.finds("unless somebody says that there are no transactions", ran, (LEFT, "a", 0))
    planted.without_keys(wire.bootstrap, "keyless")
    ran = wire.verify("keyless", "--clean-end", "2")
    wire.finds(
        "a record without a key is found", ran, ("a record without a key is gone from the compacted part", None, 0)
    )
    planted.grown_old(wire.bootstrap, "old", faulty=True)
    ran = wire.verify("old", "--cleaned-within", "1000")
    stale = "a tombstone goes delete.retention.ms after it was cleaned"
    wire.finds("by time: a tombstone that stays, a key that is there twice", ran, (LEFT, "a", 0), (stale, "b", 2))
    planted.grown_old(wire.bootstrap, "old-right", faulty=False)
    wire.passes("by time: a right topic passes", "old-right", "--cleaned-within", "1000")


def judge_equal(suite: Suite, wire: Wire) -> None:
    create_topic(wire.bootstrap, "source", configs=planted.HELD)
    create_topic(wire.bootstrap, "mirror", configs=planted.HELD)
    planted.write(wire.bootstrap, "source", planted.SOURCE)
    planted.write(wire.bootstrap, "mirror", planted.MIRROR)
    wire.passes(
        "a mirror passes: other offsets, no superseded records, no tombstones", "source", "--against-topic", "mirror"
    )
    ran = wire.verify("source", "--against-topic", "mirror", "--headers")
    value = planted.FAULTY["other value"][2]
    wire.finds("with --headers a header that differs is found", ran, (value, "same", 0))
    create_topic(wire.bootstrap, "mirror-3", partitions=3, configs=planted.HELD)
    planted.write(wire.bootstrap, "mirror-3", planted.MIRROR[:2], partition=2)
    planted.write(wire.bootstrap, "mirror-3", planted.MIRROR[2:], partition=1)
    other = ("--against", wire.bootstrap, "--against-topic", "mirror-3")
    wire.passes("a copy with more partitions passes", "source", *other)
    faults = {**planted.FAULTY, **planted.OF_VERSIONS}
    planted.pair(wire.bootstrap, "here", "there", faults)
    for what, some, option in (("newest", planted.FAULTY, ()), ("every version", faults, ("--every-version",))):
        ran = wire.verify("here", "--against-topic", "there", *option)
        found = {
            each["key"]: (each["rule"], each["actual"], each["expected"])
            for partition in ran.result.get("partitions", ())
            for each in partition["findings"]
        }
        wanted = {repr(key.encode()) for key in some} | ({repr(b"same")} if option else set())
        suite.equal(f"{what}: the keys that differ, and no others", (5, wanted), (ran.exit_code, set(found)))
        for key, (_, _, rule, says) in some.items():
            own = found.get(repr(key.encode()), ("", "", ""))
            suite.check(
                f"{what}: {key} is named so", own[0] == rule and says in own[1] and "offset" in " ".join(own), own
            )
    with written_meanwhile(wire.bootstrap, "here") as is_ahead:
        ran = wire.verify("here", "--against-topic", "there")
        keys = {each["key"] for partition in ran.result["partitions"] for each in partition["findings"]}
        wanted = {repr(key.encode()) for key in planted.FAULTY}
        suite.equal("written to during the run: earlier differences are found", wanted, keys & wanted)
        suite.check("and it was written to", is_ahead(ran.result["partitions"][0]["end_offset"]))


@contextmanager
def written_meanwhile(bootstrap: str, topic: str) -> Iterator[Callable[[int], bool]]:
    """Write the key `same` into partition 0 all the time, with the value that it has."""
    ended = threading.Event()
    written = [0]

    def write() -> None:
        while not ended.wait(0.05):
            planted.write(bootstrap, topic, [("same", "1")] * 10)
            written[0] += 10

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda end_offset: written[0] > end_offset
    finally:
        ended.set()
        thread.join()


def judge_refusals(suite: Suite, wire: Wire, work: Path) -> None:
    there = ("--bootstrap", wire.bootstrap, "--topic")
    wire.refused("a topic that is not there", 1, "topic nowhere not found", *there, "nowhere")
    closed = f"127.0.0.1:{free_port()}"
    wire.refused("a closed port", 6, f"no broker answers at {closed}", "--bootstrap", closed, "--topic", "t")
    wire.refused("an address that is none", 1, "expected HOST:PORT", "--bootstrap", "zork", "--topic", "t")
    config = work / "client.properties"
    for code, says, *lines in (
        (6, "no Kafka answers with these options", "default.api.timeout.ms=5000", "security.protocol=SSL"),
        (1, "invalid client options", "security.protocol=ZORK"),
        (1, "authentication failed", *SASL),
    ):
        config.write_text("\n".join(lines))
        what = f"client options: {lines[-1][:30]}"
        wire.refused(what, code, says, *there, "left", "--command-config", str(config))
    create_topic(wire.bootstrap, "secret", configs=planted.HELD)
    deny = AclBinding(
        ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, "User:somebody", "*", AclOperation.ALL, AclPermissionType.ALLOW
    )  # fmt: skip
    client = admin(wire.bootstrap)  # kept until it has answered
    for done in client.create_acls([deny]).values():
        done.result(30)
    wire.refused("a topic of others", 1, "topic secret", *there, "secret")
    create_topic(wire.bootstrap, "events")
    wire.refused("a topic that is not compacted", 1, "events is not compacted", *there, "events")
    create_topic(wire.bootstrap, "versions", configs={"cleanup.policy": "compact", STRATEGY: "timestamp"})
    wire.refused("a topic with versions", 1, f"versions has {STRATEGY}=timestamp", *there, "versions")


def judge_cleaned(suite: Suite, wire: Wire, broker: BrokerProcess) -> None:
    planted.cleaned(wire.bootstrap, "cleaned")
    wait_until_cleaned(broker, "cleaned", timeout_s=180)
    ran = wire.passes("what the broker's cleaner has cleaned passes", "cleaned", "--no-transactions")
    (own,) = ran.result["partitions"]
    # The active segment begins about where the fourth thousand does, so the last offset that is missing is the second thousand's last.
    suite.check("and is known to be compacted", own["clean_end"] > 1_900, own["clean_end"])
    suite.check("and a part of it is not", own["compacted_up_to"] >= own["clean_end"], own["compacted_up_to"])
    wire.passes("and is equal to itself", "cleaned", "--against-topic", "cleaned", "--every-version", "--headers")


def judge_without_connector(suite: Suite) -> None:
    command = [sys.executable, "-m", "ottla.pipeline.cli", "verify", "--bootstrap", "127.0.0.1:9", "--topic", "t"]
    ran = subprocess.run(
        [*command, "--master", "local[1]"], capture_output=True, text=True, env=os.environ, check=False
    )
    last = ran.stderr.strip().splitlines()[-1]
    good = ran.returncode == 1 and "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_" in last
    suite.check("without the connector's jar the error names the option", good, last)


if __name__ == "__main__":
    sys.exit(run_suite("spark_wire", body, doc=__doc__))
