"""Produce latency while a paced load keeps the cleaner at work, compared with Apache Kafka under the same load.

The load writes 8 MB a second to a compacted topic whose segments have that size. So about once a second a segment is closed and
the cleaner goes through the topic. All keys are written again every four seconds. During the load, and once without it, a
client produces one record a request to another topic.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.steps import create_topic
from ...support.suite import Options, Suite
from ..cleaner.filling import client_batches
from ..cleaner.live import KAFKA_LINE, OTTLA_LINE
from ..cleaner.shapes import BASE
from ..cleaner.work import load_note
from ..table import KAFKA, OTTLA, Row, print_table
from .requests import PERCENTILES, PRODUCED, REQUESTS_A_SECOND, ROOT, note, produce, program

FED = "fed"
FED_BYTES_PER_S = 8_000_000
FED_AGAIN_AFTER_S = 4
SHAPE = replace(BASE, records_per_batch=500, key_space=1.0, idempotent=False)
OVERRIDES = {"log.cleaner.backoff.ms": "100"}
LEAD_S = 2.0
"""The time that the load runs before the client starts."""
PASSES_PER_S_MIN = 0.5
IDLE, CLEANING = "idle", "cleaning"
BOUNDS: dict[str, tuple[float | None, float]] = {"p50": (1.25, 1.0), "p99": (1.25, 1.0), "p99.9": (None, 1.0)}
"""Floor and aim of each percentile while cleaning, relative to Apache Kafka's."""


def paced(suite: Suite, options: Options, rounds: int, seconds: float) -> list[Row]:
    """Run rounds of both brokers in turns, and return the table. The first round of each is not counted: the JVM compiles then.

    Returns:
        The rows of the table: those of the idle state first.

    Raises:
        NotRunError: Java is missing, or Apache Kafka cannot be downloaded.
    """
    rows = {
        state: {
            name: Row(
                f"{state}: one-record produce {name}",
                "us",
                *(BOUNDS[name] if state == CLEANING and not options.quick else ()),
            )
            for name in PERCENTILES
        }
        for state in (IDLE, CLEANING)
    }
    passes_per_s: dict[str, list[float]] = {KAFKA: [], OTTLA: []}
    with (
        TemporaryDirectory(prefix="ottla-bench-") as folder,
        ApacheKafkaProcess(data=Path(folder) / KAFKA, overrides=OVERRIDES, heap="1g", keep=options.keep) as kafka,
        OttlaProcess(data=Path(folder) / OTTLA, overrides=OVERRIDES, keep=options.keep) as ottla,
    ):
        load = Path(folder) / "load"
        load.write_bytes(b"".join(client_batches(SHAPE, FED_BYTES_PER_S * FED_AGAIN_AFTER_S)))
        brokers: dict[str, BrokerProcess] = {KAFKA: kafka, OTTLA: ottla}
        for broker in brokers.values():
            create_topic(broker.bootstrap, PRODUCED)
            create_topic(
                broker.bootstrap,
                FED,
                cleanup_policy="compact",
                segment_bytes=str(FED_BYTES_PER_S),
                min_cleanable_dirty_ratio="0.01",
            )
        for number in range(rounds + 1):
            for side in list(brokers)[:: 1 if number % 2 else -1]:
                idle = produce(brokers[side], seconds / 2)
                with fed(brokers[side], load, LEAD_S + seconds + 2.0):
                    time.sleep(LEAD_S)
                    passes, begun_s = pass_count(brokers[side]), time.perf_counter()
                    cleaning = produce(brokers[side], seconds)
                    passes = pass_count(brokers[side]) - passes
                    took_s = time.perf_counter() - begun_s
                if number:
                    note(rows[IDLE], side, idle)
                    note(rows[CLEANING], side, cleaning)
                    passes_per_s[side].append(passes / took_s)
    suite.note(
        f"{rounds} rounds of {seconds:.0f} s, {REQUESTS_A_SECOND} requests a second, beside {FED_BYTES_PER_S / 1e6:.0f} MB/s"
        f" into a topic that is cleaned; {load_note()}"
    )
    for side, found in passes_per_s.items():
        suite.check(f"the cleaner of {side} was at work", min(found) >= PASSES_PER_S_MIN, f"{min(found):.1f} passes/s")
    shown = [row for of_state in rows.values() for row in of_state.values()]
    print_table(suite, shown)
    return shown


@contextmanager
def fed(broker: BrokerProcess, load: Path, seconds: float) -> Iterator[None]:
    """Run the load for `seconds`; on exit, wait for its end."""
    command = program("feeder", broker.port, FED, FED_BYTES_PER_S, seconds, load)
    feeder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield
        _, errors = feeder.communicate(timeout=60 + seconds)
    finally:
        feeder.kill()
    if feeder.returncode:
        raise RuntimeError(f"the load failed:\n{errors}")


def pass_count(broker: BrokerProcess) -> int:
    """Return the number of passes over the fed topic so far, by the broker's own log lines."""
    line = KAFKA_LINE if broker.kind == KAFKA else OTTLA_LINE
    return sum(found[1] == FED for found in line.finditer(broker.output_path.read_text(errors="replace")))
