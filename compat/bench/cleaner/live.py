"""One pass of each broker while it serves: MB/s of log read, according to the broker's own log.

Both get the same batches over a bare socket, and the cleaner starts when all have arrived.
"""

import re
import time
from pathlib import Path

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.steps import admin
from ...support.suite import Options, Suite
from ..table import KAFKA, OTTLA, Row, print_table
from .filling import client_batches, fill_topic
from .shapes import BASE

OVERRIDES = {"log.cleaner.backoff.ms": "100"}
PASS_TIMEOUT_S = 120.0
ROUNDS = 3

# Apache Kafka's line has MiB a second, Ottla's the seconds and the bytes that the pass read.
KAFKA_LINE = re.compile(
    r"cleaned log (\S+)-0 .*?\n\s+[\d.,]+ MB of log processed in [\d.,]+ seconds \(([\d.,]+) MB/sec\)"
)
OTTLA_LINE = re.compile(r"cleaned (\S+)-0 from \d+ to \d+ in ([\d.]+) s[^:]*: (\d+) -> \d+ bytes")


def live_passes(suite: Suite, options: Options, work: Path, raw_bytes: int) -> None:
    """Fill and clean in turns; each broker's first round is not counted."""
    row = Row("pass while serving", "MB/s", more_is_better=True)
    batches = list(client_batches(BASE, raw_bytes))
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
    fill_topic(broker, topic, batches)
    mb_per_s = wait_for_pass(broker, topic)
    client = admin(broker.bootstrap)
    client.delete_topics([topic])[topic].result(30)
    return mb_per_s


def wait_for_pass(broker: BrokerProcess, topic: str) -> float:
    """Return MB/s of the first pass over this topic in the broker's output."""
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
