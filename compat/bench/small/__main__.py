"""Small requests from a compiled client, closed loop: one record of 100 B a Produce (acks=1), or a Fetch of 4 KB.

    python -m compat.bench.small [--connections N]... [--slices N] [--versions V]... [--large] [--before DIRECTORY] [--instructions | --calls]

The 4 KB are one batch or twenty. With --large a Produce and a Fetch have one batch of 900 KB instead. The bench compares with
Apache Kafka, if java and Maven are installed, or with --before with another checkout that has its own `.venv`. On a busy machine
use the least CPU per request, valgrind's count (--instructions, fifty times as slow, but independent of other load), and the
system calls (--calls, by strace).
"""

import argparse
import contextlib
import functools
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.process import BrokerProcess
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..checkouts.sides import CheckoutProcess
from ..table import KAFKA, OTTLA, Row, print_table
from .load import Load
from .requests import VERSIONS, Asked, prepare, prepare_fetches

ROOT = Path(__file__).parents[3]
BEFORE = "before"
CONNECTIONS = (1, 10, 100, 1_000)
SLICE_MS = 500
COUNTED, COUNTED_LARGE = 2_000, 200
TRACED, TRACED_LARGE = 5_000, 300
SHOWN_VERSIONS = (4, 12, 18)
MEMORY = ": most memory"
WARM_MS, WARM_LOADS_MAX, STILL = 2_000, 15, 1.03
"""Apache Kafka is hot when a load of two seconds has less than 3 % more requests than the best before it."""

OVERRIDES = {"max.incremental.fetch.session.cache.slots": "10000", "group.initial.rebalance.delay.ms": "0"}
"""A session outlives its client for two minutes, and each row has as many sessions as connections. Groups have one member."""

Sides = dict[str, BrokerProcess]
Asks = dict[str, dict[str, Asked]]
"""Side -> name -> request."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments = options.rest
    connections = arguments.connections or CONNECTIONS[: 2 if options.quick else None]
    counts = "valgrind" if arguments.instructions else "strace" if arguments.calls else None
    if counts is not None and not shutil.which(counts):
        raise NotRunError(counts)
    machine = Machine()
    with Load() as load, started(suite, arguments, is_counted=arguments.instructions) as sides:
        versions = arguments.versions or ((4,) if options.quick else SHOWN_VERSIONS)
        if arguments.large:
            asks = {side: prepare(broker, is_large=True) for side, broker in sides.items()}
        else:
            asks = {side: prepare(broker) | prepare_fetches(broker, versions) for side, broker in sides.items()}
        if counts is None:
            slices = arguments.slices or (4 if options.quick else 20)
            for number in connections:
                show(suite, timed(load, sides, asks, number, slices, judged=not options.quick), sides)
        else:
            if arguments.instructions:
                count = functools.partial(instructions, counted=COUNTED_LARGE if arguments.large else COUNTED)
            else:
                count = functools.partial(calls, traced=TRACED_LARGE if arguments.large else TRACED)
            for what in asks[OTTLA]:
                for number in connections:
                    found = {side: count(load, broker, asks[side][what], number) for side, broker in sides.items()}
                    shown = "; ".join(f"{side} {text}" for side, text in found.items())
                    suite.note(f"{what}, {number} connections: {shown}")
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )
    suite.check("every request was answered without an error", True)


@contextlib.contextmanager
def started(
    suite: Suite, arguments: argparse.Namespace, *, is_counted: bool, overrides: dict[str, str] | None = None
) -> Iterator[Sides]:
    """Start Ottla, and before it another checkout, or Apache Kafka if it can run and instructions are not counted.

    Args:
        overrides: Further options of Ottla.
    """
    ours = OVERRIDES | (overrides or {})
    with contextlib.ExitStack() as running:
        sides: Sides = {}
        if arguments.before is not None:
            sides[BEFORE] = running.enter_context(
                CheckoutProcess(arguments.before.resolve(), overrides=ours, is_counted=is_counted)
            )
        elif not (is_counted or arguments.calls or arguments.alone):
            try:
                sides[KAFKA] = running.enter_context(ApacheKafkaProcess(overrides=OVERRIDES, heap="1g"))
            except NotRunError as missing:
                suite.note(f"no Apache Kafka: needs {missing}")
        sides[OTTLA] = running.enter_context(CheckoutProcess(ROOT, overrides=ours, is_counted=is_counted))
        yield sides


def timed(load: Load, sides: Sides, asks: Asks, number: int, slices: int, *, judged: bool) -> list[Row]:
    """Measure two turns of each side for each row, the second in the other order. Floors are those against Apache Kafka."""
    theirs, ours = next(iter(sides)), OTTLA
    judged = judged and theirs == KAFKA
    rows: list[Row] = []
    for what in asks[OTTLA]:
        title = f"{what}, {number} connections"
        few = judged and number in (10, 100)
        alone = judged and number == 1
        requests = Row(f"{title}: requests", "1/s", 0.5 if few else None, 1.0 if few else None, more_is_better=True)
        cpu = Row(f"{title}: broker CPU a request", "us", 1.5 if few else None, 1.0 if few else None)
        p50 = Row(f"{title}: p50", "us", 1.0 if alone else None, 0.6 if alone else None)
        p99 = Row(f"{title}: p99", "us")
        fewest = Row(f"{title}: fewest requests of a connection to the median", "1", more_is_better=True)
        memory = Row(f"{title}{MEMORY}", "MB")
        for row in (found := [requests, cpu, p50, p99, fewest, memory]):
            row.sides = (theirs, ours)
            row.values = {side: [] for side in sides}
        if theirs == KAFKA:
            warm(load, sides[KAFKA], asks[KAFKA][what], number)
        for order in (1, -1):
            for side, broker in list(sides.items())[::order]:
                loaded = load.timed(broker, asks[side][what], number, -(-slices // 2), SLICE_MS)
                for one in loaded.slices:
                    requests.values[side].append(one.requests_a_s)
                    cpu.values[side].append(one.cpu_us)
                    p50.values[side].append(one.p50_us)
                    p99.values[side].append(one.p99_us)
                fewest.values[side].append(loaded.fewest_part)
                memory.values[side].append(loaded.memory_mb)
        rows += found
    return rows


def warm(load: Load, broker: BrokerProcess, asked: Asked, connections: int) -> None:
    """Send requests until the rate is stable: the JVM compiles its hot code."""
    best = 0.0
    for _ in range(WARM_LOADS_MAX):
        (loaded,) = load.timed(broker, asked, connections, 1, WARM_MS).slices
        if loaded.requests_a_s < best * STILL:
            return
        best = max(best, loaded.requests_a_s)


def show(suite: Suite, rows: list[Row], sides: Sides) -> None:
    if len(sides) == 2:
        print_table(suite, rows)
        return
    for row in rows:
        values = row.values[OTTLA]
        suite.note(f"{row.what:60} {statistics.median(values):10.2f} ({min(values):.2f}-{max(values):.2f}) {row.unit}")


def instructions(load: Load, broker: BrokerProcess, asked: Asked, connections: int, *, counted: int) -> str:
    """Return the thousands of instructions of one request, the least of three counts."""
    assert isinstance(broker, CheckoutProcess)
    broker.order("--instr=on")
    found = []
    for _ in range(4):  # the first does not count
        with load.counted(broker, asked, connections, counted) as ask:
            broker.order("--zero")
            ask()
            found.append(broker.counted() / counted / 1e3)
    return f"{min(found[1:]):.1f} ({max(found[1:]):.1f}) thousand instructions"


def calls(load: Load, broker: BrokerProcess, asked: Asked, connections: int, *, traced: int) -> str:
    """Return system calls a request, and those of which there is at least one for twenty."""
    assert broker.process is not None
    counts = broker.work / "calls"
    tracing = ["strace", "-c", "-f", "-qq", "-U", "calls,name", "-o", str(counts), "-p", str(broker.process.pid)]
    with load.counted(broker, asked, connections, traced) as ask:
        tracer = subprocess.Popen(tracing)
        time.sleep(0.5)  # strace does not report its start
        ask()
        tracer.terminate()
        tracer.wait()
    rows = [line.split() for line in counts.read_text().splitlines()]
    found = {row[1]: int(row[0]) / traced for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"}
    often = ", ".join(f"{name} {times:.2f}" for name, times in found.items() if times >= 0.05)
    return f"{sum(found.values()):.2f}: {often}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--connections", type=int, action="append", help="may be given again; 1, 10, 100 and 1000 unless given"
    )
    parser.add_argument("--slices", type=int, help="of half a second, for each kind, number of connections and side")
    parser.add_argument(
        "--versions",
        type=int,
        action="append",
        choices=VERSIONS,
        help="of the fetches of many batches; 4, 12 and 18 unless given",
    )
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--large", action="store_true", help="batches of 900 KB instead; a slice writes up to 1 GB")
    parser.add_argument("--alone", action="store_true", help="Ottla alone")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead; needs valgrind")
    parser.add_argument("--calls", action="store_true", help="count system calls instead; needs strace")


if __name__ == "__main__":
    sys.exit(run_suite("bench.small", body, doc=__doc__, more_arguments=arguments))
