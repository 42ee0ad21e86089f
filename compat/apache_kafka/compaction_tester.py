"""Apache Kafka's own `LogCompactionTester`, and the checks that it lacks.

It writes records with random keys and tombstones, waits, consumes everything and compares the last value of every key. A broker
that never compacts passes. So the suite also checks that fewer rows come out than went in, and that below the active segment no
key exists twice.
"""

import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory

from ..support.brokers.apache_kafka import java
from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import CODECS, read_partitions
from ..support.logs.segment_files import base_offset, segments
from ..support.suite import Suite

TESTER = "org.apache.kafka.tools.LogCompactionTester"
BROKER = {
    "log.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0",
    "group.initial.rebalance.delay.ms": "0",
}
MESSAGES, DUPLICATES, PERCENT_DELETES = 250_000, 10, 10
SLEEP_S = 3
TIMEOUT_S = 180
TOPIC = re.compile(r"log-cleaner-test-\S+")
ROWS = re.compile(r"(\d+) rows of data produced, (\d+) rows of data consumed")


def judge_compaction(suite: Suite) -> None:
    """Run one tester for each codec, all at once: they spend most of their time waiting for 20 s of silence."""
    with (
        OttlaProcess(overrides=BROKER) as broker,
        TemporaryDirectory(prefix="compat-compaction-tester-") as folder,
        ThreadPoolExecutor(len(CODECS)) as pool,
    ):
        testers = {codec: pool.submit(run_tester, broker.bootstrap, codec, MESSAGES, folder) for codec in CODECS}
        for codec, tester in testers.items():
            judge_one(suite, broker, f"LogCompactionTester, {codec}", tester.result())


def run_tester(bootstrap: str, codec: str, messages: int, folder: str) -> subprocess.CompletedProcess[str]:
    arguments = {
        "bootstrap-server": bootstrap,
        "compression-type": codec,
        "messages": messages,
        "duplicates": DUPLICATES,
        "percent-deletes": PERCENT_DELETES,
        "sleep": SLEEP_S,
    }
    command = java(TESTER, *(f"--{name}={value}" for name, value in arguments.items()), heap="96m")
    command.insert(1, f"-Djava.io.tmpdir={folder}")
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def judge_one(suite: Suite, broker: BrokerProcess, what: str, done: subprocess.CompletedProcess[str]) -> None:
    output = done.stdout + done.stderr
    if not suite.check(f"{what} passes", done.returncode == 0, "" if done.returncode == 0 else output[-500:]):
        return
    topic, rows = TOPIC.search(output), ROWS.search(output)
    assert topic and rows, output
    produced, consumed = map(int, rows.groups())
    suite.check(f"{what}: fewer rows out than in", consumed < produced, f"{produced} in, {consumed} out")
    wait_until_cleaned(broker, topic[0])
    active = base_offset(segments(broker.partition_dir(topic[0]))[-1])
    records = [r for r in read_partitions(broker.bootstrap, [(topic[0], 0)])[topic[0], 0] if r.offset < active]
    twice = [key for key, count in Counter(record.key for record in records).items() if count > 1]
    suite.check(f"{what}: each key occurs once below the active segment", not twice, twice[:3] or len(records))
