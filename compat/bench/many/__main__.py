"""Many at once: idle connections, parked fetches, consumers of one partition, partitions in an answer.

    python -m compat.bench.many [--before DIRECTORY] [--idle N] [--parked N] [--consumers N] [--partitions N]

The suite measures the broker's memory for a connection and its CPU while no request arrives; the time until the last consumer
has a record, and the CPU for each consumer; and the CPU for Metadata of all topics and of one. With --before it compares with
another checkout that has its own `.venv`.
"""

import argparse
import contextlib
import statistics
import struct
import sys
import time
from pathlib import Path

from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.clients.steps import create_topic
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..checkouts.sides import CheckoutProcess
from .load import Many

ROOT = Path(__file__).parents[3]
OTTLA, BEFORE = "ottla", "before"
ONE, SOME, OTHERS = "one", "some", "others-{}"
PARTITIONS_OF_A_TOPIC = 100
PRODUCE, METADATA = (0, 7), (3, 4)
REST_S, QUIET_S = 10.0, 10.0
PARKED_S = 0.5
ROUNDS, QUESTIONS = 10, 30


class Side:
    """One broker, and its measurements."""

    def __init__(self, broker: CheckoutProcess) -> None:
        self.broker = broker
        self.offset = 0
        """The offset of the next record of the topic ONE."""
        create_topic(broker.bootstrap, ONE)
        self.produce()

    def produce(self) -> None:
        with RawConnection("127.0.0.1", self.broker.port) as connection:
            body = produce_body(ONE, 0, one_record_batch(b"v" * 100))
            error_code, _ = produce_result(connection.request(*PRODUCE, body), ONE)
        if error_code:
            raise RuntimeError(f"producing ended with error {error_code}")
        self.offset += 1

    def at_rest_ms(self) -> float:
        """Return the CPU time a second while no request arrives."""
        time.sleep(QUIET_S)
        begun_s, had_s = time.monotonic(), self.broker.cpu_seconds()
        time.sleep(REST_S)
        return 1e3 * (self.broker.cpu_seconds() - had_s) / (time.monotonic() - begun_s)

    def idle(self, count: int) -> dict[str, float]:
        """Measure `count` connections that have sent nothing."""
        had_kb = self.broker.resident_bytes() / 1024
        with Many(self.broker, count):
            at_rest_ms = self.at_rest_ms()
            return {
                "memory, KB each": (self.broker.resident_bytes() / 1024 - had_kb) / count,
                "CPU, ms a second": at_rest_ms,
            }

    def parked(self, count: int) -> dict[str, float]:
        """Measure `count` fetches that wait."""
        had_kb = self.broker.resident_bytes() / 1024
        with Many(self.broker, count) as many:
            many.park(ONE, self.offset)
            at_rest_ms = self.at_rest_ms()
            return {
                "memory, KB each": (self.broker.resident_bytes() / 1024 - had_kb) / count,
                "CPU, ms a second": at_rest_ms,
            }

    def woken(self, count: int) -> dict[str, float]:
        """Measure `count` consumers of one partition while one record is produced."""
        first_ms, last_ms, cpu_us = [], [], []
        with Many(self.broker, count) as many:
            for _ in range(ROUNDS):
                many.park(ONE, self.offset)
                time.sleep(PARKED_S)
                had_s = self.broker.cpu_seconds()
                took_s = many.answered_s(self.produce)
                cpu_us.append(1e6 * (self.broker.cpu_seconds() - had_s) / count)
                first_ms.append(1e3 * took_s[0])
                last_ms.append(1e3 * took_s[-1])
        return {
            "the last has it, ms": statistics.median(last_ms),
            "least of that": min(last_ms),
            "CPU, us each": min(cpu_us),
        }

    def metadata(self, partitions: int) -> dict[str, float]:
        """Measure Metadata of this number of partitions, in topics of a hundred."""
        for number in range(partitions // PARTITIONS_OF_A_TOPIC):
            create_topic(self.broker.bootstrap, OTHERS.format(number), partitions=PARTITIONS_OF_A_TOPIC)
        name = OTHERS.format(0).encode()
        one = struct.pack(f">ih{len(name)}sb", 1, len(name), name, 0)
        with RawConnection("127.0.0.1", self.broker.port, 60) as connection:
            return {
                "all, CPU in ms": self._asked_ms(connection, struct.pack(">ib", -1, 0)),
                f"one of {PARTITIONS_OF_A_TOPIC} partitions, CPU in ms": self._asked_ms(connection, one),
            }

    def _asked_ms(self, connection: RawConnection, body: bytes) -> float:
        connection.request(*METADATA, body)
        had_s = self.broker.cpu_seconds()
        for _ in range(QUESTIONS):
            connection.request(*METADATA, body)
        return 1e3 * (self.broker.cpu_seconds() - had_s) / QUESTIONS


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments, machine = options.rest, Machine()
    checkouts = {OTTLA: ROOT}
    if arguments.before is not None:
        checkouts = {BEFORE: arguments.before.resolve(), OTTLA: ROOT}
    part = 10 if options.quick else 1
    with contextlib.ExitStack() as running:
        sides = {name: Side(running.enter_context(CheckoutProcess(path))) for name, path in checkouts.items()}
        for what, measure, count in (
            ("idle connections", Side.idle, arguments.idle),
            ("parked fetches", Side.parked, arguments.parked),
            ("consumers of one partition", Side.woken, arguments.consumers),
            ("partitions in an answer", Side.metadata, arguments.partitions),
        ):
            for name, side in sides.items():
                found = measure(side, count // part)
                shown = "; ".join(f"{each} {value:.2f}" for each, value in found.items())
                suite.note(f"{count // part} {what}, {name}: {shown}")
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )
    suite.check("every request was answered without an error", True)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--idle", type=int, default=10_000, help="connections")
    parser.add_argument("--parked", type=int, default=2_000, help="fetches")
    parser.add_argument("--consumers", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=5_000)


if __name__ == "__main__":
    sys.exit(run_suite("bench.many", body, doc=__doc__, more_arguments=arguments))
