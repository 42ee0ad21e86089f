"""One pass of each broker while it serves: MB/s of log read, by what its own log says about the pass.

The same batches go to both over a bare socket. A ratio of 1.0 holds the cleaner back (a log is never dirtier than
that); with 0 it begins.
"""

import re
import shutil
import time
from pathlib import Path

from ...support.apache_kafka import ApacheKafkaProcess
from ...support.clients import admin, create_topic, set_topic_configs
from ...support.ottla_process import OttlaProcess
from ...support.process import BrokerProcess
from ...support.raw import RawConnection, produce_body, produce_result
from ...support.segment_files import batch_headers
from ...support.suite import Options, Suite
from ..table import KAFKA, OTTLA, Row, print_table
from .generate import PARTITION, generate
from .shapes import BASE

OVERRIDES = {"log.cleaner.backoff.ms": "100"}
TOPIC_CONFIGS = {"cleanup_policy": "compact", "segment_bytes": str(32 << 20), "min_cleanable_dirty_ratio": "1.0"}
PASS_TIMEOUT_S = 120.0
ROUNDS = 3
NOT_THERE_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: Apache Kafka's answers for a moment after a topic was made."""

# Apache Kafka's line tells MiB a second, Ottla's the seconds and the bytes that the pass read.
KAFKA_LINE = re.compile(
    r"cleaned log (\S+)-0 .*?\n\s+[\d.,]+ MB of log processed in [\d.,]+ seconds \(([\d.,]+) MB/sec\)"
)
OTTLA_LINE = re.compile(r"cleaned (\S+)-0 from \d+ to \d+ in ([\d.]+) s: (\d+) ->")


def live_passes(suite: Suite, options: Options, work: Path, raw_bytes: int) -> None:
    """Fills and passes in turns; each broker's first round is not counted."""
    row = Row("pass while serving", "MB/s", more_is_better=True)
    log = work / "live" / str(PARTITION)
    generate(BASE, raw_bytes, log, int(time.time() * 1000))
    batches = [
        bytes(8) + data[header.position + 8 : header.position + header.size_bytes]  # a client's base offset is 0
        for segment in sorted(log.glob("*.log"))
        for data in [segment.read_bytes()]
        for header in batch_headers(segment)
    ]
    shutil.rmtree(log.parent)
    with (
        ApacheKafkaProcess(data=work / KAFKA, overrides=OVERRIDES, heap="1g", keep=options.keep) as kafka,
        OttlaProcess(data=work / OTTLA, overrides=OVERRIDES, keep=options.keep) as ottla,
    ):
        brokers: dict[str, BrokerProcess] = {KAFKA: kafka, OTTLA: ottla}
        for number in range(ROUNDS + 1):
            for side in list(brokers)[:: 1 if number % 2 else -1]:
                mb_per_s = one_pass(brokers[side], f"live-{number}", batches)
                if number:
                    row.values[side].append(mb_per_s)
    print_table(suite, [row])


def one_pass(broker: BrokerProcess, topic: str, batches: list[bytes]) -> float:
    """Fill a fresh topic, let the cleaner at it, remove it; returns the pass's MB/s."""
    create_topic(broker.bootstrap, topic, **TOPIC_CONFIGS)
    with RawConnection("127.0.0.1", broker.port) as connection:
        for batch in batches:
            body = produce_body(topic, 0, batch)
            while (error_code := produce_result(connection.request(0, 3, body), topic)[0]) in NOT_THERE_YET:
                time.sleep(0.05)
            if error_code:
                raise RuntimeError(f"produce failed with error {error_code}")
    set_topic_configs(broker.bootstrap, topic, min_cleanable_dirty_ratio="0")
    mb_per_s = wait_for_pass(broker, topic)
    client = admin(broker.bootstrap)
    client.delete_topics([topic])[topic].result(30)
    return mb_per_s


def wait_for_pass(broker: BrokerProcess, topic: str) -> float:
    """MB/s of the first pass over this topic that the broker's output tells of."""
    deadline_s = time.monotonic() + PASS_TIMEOUT_S
    while time.monotonic() < deadline_s:
        output = broker.output_path.read_text(errors="replace")
        if broker.kind == KAFKA:
            for found in KAFKA_LINE.finditer(output):
                if found[1] == topic:
                    return float(found[2].replace(",", "")) * (1 << 20) / 1e6
        else:
            for found in OTTLA_LINE.finditer(output):
                if found[1] == topic:
                    return int(found[3]) / 1e6 / float(found[2])
        time.sleep(0.1)
    raise TimeoutError(f"{broker.kind} said nothing of a pass over {topic}:\n{broker.output_tail()}")
