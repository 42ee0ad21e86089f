"""A million offset commits of 1 000 group and partition pairs, and the result of cleaning them.

`__consumer_offsets` has four partitions in segments of 1 MiB. A hundred groups commit in ten partitions each, over bare
sockets. Afterwards each pair must have one live record below the active segments, as librdkafka reads the topic and as Apache
Kafka's `kafka-dump-log` decodes its files. After a clean stop and after kill -9 every group must find its position again, as an
admin client and, for some groups, consumers that continue there see it.
"""

import json
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException

from ..apache_kafka.dump_log import DUMP_LOG, judge
from ..main_job.watch import SegmentCounter
from ..support.brokers.any_broker import broker_process
from ..support.brokers.apache_kafka import tool
from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.ottla_process import ottla_command
from ..support.brokers.process import BrokerProcess
from ..support.clients.one_batch import one_record_batch
from ..support.clients.raw import RawConnection
from ..support.clients.steps import admin, create_topic, read_partitions
from ..support.logs.segment_files import base_offset, segments
from ..support.suite import NotRunError, Options, Suite, run_suite

OFFSETS, TOPIC = "__consumer_offsets", "events"
OFFSETS_PARTITIONS = 4
BROKER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": str(1 << 20),
    "offsets.topic.replication.factor": "1",
    "log.cleaner.backoff.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
GROUPS = [f"group-{number:03}" for number in range(100)]
PARTITIONS = 10
PAIRS = len(GROUPS) * PARTITIONS
COMMITS, QUICK_COMMITS = 1_000_000, 50_000
SEALED_SEGMENTS, QUICK_SEALED_SEGMENTS = 20, 1
CONNECTIONS = 4
GROUPS_THAT_READ_ON = GROUPS[::20]
LOADING = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)
OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 7

Pair = tuple[str, str, int]
"""Group, topic, partition."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    commits = QUICK_COMMITS if options.quick else COMMITS
    with broker_process(options, BROKER) as broker:
        each = commits // PAIRS
        fill(broker, each + 1)
        commit_all(suite, broker, each, QUICK_SEALED_SEGMENTS if options.quick else SEALED_SEGMENTS)
        wait_until_cleaned(broker, OFFSETS, partitions=OFFSETS_PARTITIONS)
        if options.against == "ottla":
            judge_status(suite, broker)
        judge_live_records(suite, broker)
        judge_positions(suite, broker, "before the restart", each)
        broker.stop()
        judge_with_apache_kafka(suite, broker)
        broker.start()
        judge_positions(suite, broker, "after a clean stop", each)
        broker.kill()
        broker.start()
        judge_positions(suite, broker, "after kill -9", each)
        judge_reading_on(suite, broker, each)


def fill(broker: BrokerProcess, records: int) -> None:
    """Fill the groups' topic, each record in a batch of its own."""
    create_topic(broker.bootstrap, TOPIC, partitions=PARTITIONS)
    host, port = broker.bootstrap.rsplit(":", 1)
    batch = one_record_batch(b"event")
    topic = struct.pack(f">hhiih{len(TOPIC)}si", -1, 1, 5000, 1, len(TOPIC), TOPIC.encode(), PARTITIONS)
    request = topic + b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in range(PARTITIONS))
    with RawConnection(host, int(port)) as connection:
        for _ in range(records):
            connection.request(0, 3, request)


def commit_all(suite: Suite, broker: BrokerProcess, each: int, expected_segments: int) -> None:
    """Commit 1, 2, … up to `each` for every pair, one offset a request, in turn."""
    assert positions(broker.bootstrap, GROUPS[0]) == {}  # makes the offsets topic
    counters = [SegmentCounter(broker.partition_dir(OFFSETS, partition)) for partition in range(OFFSETS_PARTITIONS)]
    for counter in counters:
        counter.start()
    started_s, cpu_s = time.monotonic(), broker.cpu_seconds()
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        refused = sum(
            threads.map(
                lambda groups: commit(broker.bootstrap, groups, each),
                [GROUPS[n::CONNECTIONS] for n in range(CONNECTIONS)],
            )
        )
    seconds, cpu_s = time.monotonic() - started_s, broker.cpu_seconds() - cpu_s
    suite.equal("commits that were refused", 0, refused)
    total = each * PAIRS
    suite.note(f"{total} commits in {seconds:.0f} s, {total / seconds:.0f} a second, broker CPU {cpu_s:.0f} s")
    sealed = [counter.sealed() for counter in counters]
    suite.check(f"at least {expected_segments} segments were sealed", min(sealed) >= expected_segments, sealed)


def commit(bootstrap: str, groups: list[str], each: int) -> int:
    """Commit for these groups; returns how many answers were errors."""
    host, port = bootstrap.rsplit(":", 1)
    refused = 0
    with RawConnection(host, int(port), 60) as connection:
        for offset in range(1, each + 1):
            for partition in range(PARTITIONS):
                bodies = [commit_body(group, partition, offset) for group in groups]
                answers = connection.pipeline(OFFSET_COMMIT, OFFSET_COMMIT_VERSION, bodies)
                refused += sum(
                    not answer.endswith(b"\0\0") for answer in answers
                )  # the error code of the one partition
    return refused


def commit_body(group: str, partition: int, offset: int) -> bytes:
    """OffsetCommit v7 of a group without members: generation -1, one topic, one partition."""
    return (
        struct.pack(f">h{len(group)}sihh", len(group), group.encode(), -1, 0, -1)
        + struct.pack(f">ih{len(TOPIC)}s", 1, len(TOPIC), TOPIC.encode())
        + struct.pack(">iiqih", 1, partition, offset, -1, 0)
    )


def judge_status(suite: Suite, broker: BrokerProcess) -> None:
    """`ottla topics status` sees nothing left to clean."""
    command = [*ottla_command(), "topics", "--bootstrap", broker.bootstrap, "status", OFFSETS, "--json"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    suite.equal("status: partitions", OFFSETS_PARTITIONS, len(rows))
    suite.equal("status: none is eligible", [False] * len(rows), [row["eligible"] for row in rows])
    clean = [row["first_dirty_offset"] == row["upper_offset"] for row in rows]
    suite.equal("status: clean up to the bound", [True] * len(rows), clean)
    suite.note(f"passes {[row['passes'] for row in rows]}, log ends {[row['log_end_offset'] for row in rows]}")


def judge_live_records(suite: Suite, broker: BrokerProcess) -> None:
    """Below the active segments: one record of each pair, no more."""
    partitions = [(OFFSETS, number) for number in range(OFFSETS_PARTITIONS)]
    active = [base_offset(segments(broker.partition_dir(*partition))[-1]) for partition in partitions]
    below: Counter[bytes | None] = Counter()
    for (_, number), records in read_partitions(broker.bootstrap, partitions).items():
        below.update(record.key for record in records if record.offset < active[number])
    suite.equal("pairs with a record below the active segments", PAIRS, len(below))
    suite.equal("records of each of them", [1] * len(below), list(below.values()))


def judge_with_apache_kafka(suite: Suite, broker: BrokerProcess) -> None:
    """Judge the same files, decoded by Apache Kafka's own tool."""
    what = "kafka-dump-log decodes the offsets"
    if not shutil.which("java"):
        suite.skip(what, "needs java")
        return
    logs = [segments(broker.partition_dir(OFFSETS, number)) for number in range(OFFSETS_PARTITIONS)]
    judge(suite, what, [file for files in logs for file in files], "--offsets-decoder")
    decoded = Counter(decoded_pairs([file for files in logs for file in files[:-1]]))
    expected = {(group, TOPIC, partition): 1 for group in GROUPS for partition in range(PARTITIONS)}
    suite.check("kafka-dump-log: each pair once below the active segments", decoded == expected, len(decoded))


def decoded_pairs(files: list[Path]) -> list[Pair]:
    """Return the pair of each record in these files, as the tool prints it."""
    done = tool(DUMP_LOG, "--offsets-decoder", "--files", ",".join(map(str, files)))
    keys = [line.partition(" key: ")[2] for line in done.stdout.splitlines() if " key: " in line]
    read = [json.JSONDecoder().raw_decode(key)[0]["data"] for key in keys]
    return [(key["group"], key["topic"], key["partition"]) for key in read]


def judge_positions(suite: Suite, broker: BrokerProcess, when: str, each: int) -> None:
    expected = dict.fromkeys(range(PARTITIONS), each)
    wrong = [group for group in GROUPS if positions(broker.bootstrap, group) != expected]
    suite.equal(f"{when}: groups that are not where they were", [], wrong)


def positions(bootstrap: str, group: str) -> dict[int, int]:
    """Return partition -> committed offset, as an admin client gets it; retried while the coordinator loads."""
    client = admin(bootstrap)
    deadline_s = time.monotonic() + 30
    while True:
        (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        try:
            return {found.partition: found.offset for found in answer.result(30).topic_partitions}
        except KafkaException as error:
            if error.args[0].code() not in LOADING or time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def judge_reading_on(suite: Suite, broker: BrokerProcess, each: int) -> None:
    """Check that consumers of some groups get the record at the committed offset first, in every partition."""
    for group in GROUPS_THAT_READ_ON:
        suite.equal(f"{group} reads on where it was", dict.fromkeys(range(PARTITIONS), each), first_read(broker, group))


def first_read(broker: BrokerProcess, group: str) -> dict[int, int]:
    """Return partition -> offset of the first record that a new member of the group is given."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    first: dict[int, int] = {}
    deadline_s = time.monotonic() + 30
    try:
        consumer.subscribe([TOPIC])
        while len(first) < PARTITIONS and time.monotonic() < deadline_s:
            for message in consumer.consume(PARTITIONS, 0.5):
                if message.error() is None:
                    first.setdefault(message.partition(), message.offset())
    finally:
        consumer.close()
    return first


if __name__ == "__main__":
    sys.exit(run_suite("groups_commits", body, doc=__doc__))
