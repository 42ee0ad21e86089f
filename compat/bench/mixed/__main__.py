"""Three kinds of clients at once, in closed loops.

M connections produce one record a request (acks=1), M fetch these in sessions and wait for them, and M commit offsets.

    python -m compat.bench.mixed [--connections M]... [--seconds N] [--held N] [--before DIRECTORY | --alone]

The bench compares with Apache Kafka, if java and Maven are installed, or with --before with another checkout that has its own
`.venv`; both by turns, and twice. With --held each broker also has members of groups that only send heartbeats. A fair broker answers all kinds, and each connection of a kind, about equally often. The
clients are written in Python and use most of the machine: only the ratios count.
"""

import argparse
import multiprocessing
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import NewTopic

from ...support.brokers.process import BrokerProcess
from ...support.clients.members import HOLDING, beside
from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.clients.steps import admin
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..small.__main__ import Sides, started
from ..small.requests import NOT_THERE_YET
from ..table import KAFKA, OTTLA, Row, judge, print_table
from .clients import (
    FIND_COORDINATOR,
    GROUPS,
    KINDS,
    PRODUCE,
    Client,
    NotYetError,
    Waited,
    commit,
    committed,
    find_coordinator,
    run,
    topic_of,
)

CONNECTIONS = (10, 30, 100, 200)
WARM_UP_S, SECONDS = 3.0, 5
LONGEST_MS = 250.0
FEWEST_PART = 0.5


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments = options.rest
    connections = arguments.connections or CONNECTIONS[: 1 if options.quick else None]
    arguments.instructions = arguments.calls = False
    machine = Machine()
    held = arguments.held
    with ExitStack() as stack:
        sides = stack.enter_context(started(suite, arguments, is_counted=False, overrides=HOLDING if held else None))
        for broker in sides.values():
            prepare(broker, max(connections))
            if held:
                stack.enter_context(beside(broker.bootstrap, held))
        for number in connections:
            show(suite, number, compared(sides, number, arguments.seconds), judged=not options.quick)
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )


def prepare(broker: BrokerProcess, topics: int) -> None:
    """Make the topics, and wait until each takes a record."""
    names = [topic_of(number) for number in range(topics)]
    client = admin(broker.bootstrap)  # kept: a collected client never delivers its answers
    for done in client.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        done.result()
    record = one_record_batch(b"first")
    with RawConnection("127.0.0.1", broker.port) as connection:
        for name in names:
            filling = produce_body(name, 0, record)
            while (error_code := produce_result(connection.request(*PRODUCE, filling), name)[0]) in NOT_THERE_YET:
                time.sleep(0.05)
            if error_code:
                raise RuntimeError(f"preparing {name} ended with error {error_code}")
        for number in range(min(GROUPS, topics)):
            client = Client(number, connection)
            connection.request(*FIND_COORDINATOR, find_coordinator(client))  # makes the topic of the offsets
            while True:
                connection.socket.sendall(commit(client, b""))
                try:
                    committed(client, memoryview(connection.read_frame()))
                except NotYetError:
                    time.sleep(0.05)
                else:
                    break


def compared(sides: Sides, connections: int, seconds: int) -> dict[str, dict[str, list[Waited]]]:
    """Return the results by kind and side, two runs of each side, the second in the other order."""
    found: dict[str, dict[str, list[Waited]]] = {kind: {side: [] for side in sides} for kind in KINDS}
    for order in (1, -1):
        for side, broker in list(sides.items())[::order]:
            for kind, waited in asked(broker, connections, seconds).items():
                found[kind][side].append(waited)
    return found


def asked(broker: BrokerProcess, connections: int, seconds: int) -> dict[str, Waited]:
    """Run all kinds at once, for `seconds` after a warm-up."""
    context = multiprocessing.get_context("spawn")
    counts, ends = context.Event(), context.Event()
    records = one_record_batch(random.Random(1).randbytes(100))
    results = {kind: context.Queue() for kind in KINDS}
    processes = [
        context.Process(target=run, args=(kind, broker.port, connections, records, counts, ends, results[kind]))
        for kind in KINDS
    ]
    for process in processes:
        process.start()
    time.sleep(WARM_UP_S)
    counts.set()
    time.sleep(seconds)
    ends.set()
    found = {kind: queue.get(timeout=60) for kind, queue in results.items()}
    for process in processes:
        process.join(60)
    if errors := [waited for waited in found.values() if isinstance(waited, str)]:
        raise RuntimeError("; ".join(errors))
    return found


def show(suite: Suite, connections: int, found: dict[str, dict[str, list[Waited]]], *, judged: bool) -> None:
    rows: list[Row] = []
    for kind, by_side in found.items():
        theirs = next(iter(by_side))
        is_floor = judged and theirs == KAFKA
        title = f"{kind}, {connections} of each kind"
        answers = Row(
            f"{title}: answers", "1/s", 0.9 if is_floor else None, 1.0 if is_floor else None, more_is_better=True
        )
        p50, p99 = (
            Row(f"{title}: p50", "ms"),
            Row(f"{title}: p99", "ms", 1.5 if is_floor else None, 1.0 if is_floor else None),
        )
        longest = Row(f"{title}: longest wait", "ms")
        fewest = Row(f"{title}: fewest answers of a connection to the median", "1", more_is_better=True)
        for row in (of_kind := [answers, p50, p99, longest, fewest]):
            row.sides = (theirs, OTTLA)
            row.values = {side: [] for side in by_side}
        for side, runs in by_side.items():
            for waited in runs:
                answers.values[side].append(waited.answers_a_s)
                p50.values[side].append(waited.p50_ms)
                p99.values[side].append(waited.p99_ms)
                longest.values[side].append(waited.longest_ms)
                fewest.values[side].append(waited.fewest_part)
        rows += of_kind
        if theirs != OTTLA:
            continue
        for row in of_kind:
            suite.note(f"{row.what:60} {row.median(OTTLA):10.2f} {row.unit}")
    if rows[0].sides[0] != OTTLA:
        print_table(suite, rows)
    for row in rows:
        if row.what.endswith("longest wait"):
            judge(suite, row.what, row.median(OTTLA), "ms", LONGEST_MS, judged=judged)
        elif judged and row.what.endswith("to the median"):
            suite.check(f"{row.what}: at least {FEWEST_PART}", row.median(OTTLA) >= FEWEST_PART)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--connections", type=int, action="append", help="of each kind; may be given again; 10 to 200 unless given"
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each side and turn")
    parser.add_argument(
        "--held", type=int, default=0, help="members of groups, whose heartbeats Ottla holds all the time"
    )
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--alone", action="store_true", help="Ottla alone")


if __name__ == "__main__":
    sys.exit(run_suite("bench.mixed", body, doc=__doc__, more_arguments=arguments))
