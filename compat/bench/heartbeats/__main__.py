"""Heartbeats of quiet groups: answered at once, and held (`ottla.hold.heartbeats`), in interleaved slices of one run.

    python -m compat.bench.heartbeats [--members N] [--slices N] [--before DIRECTORY] [--instructions]

Classic members, each of its own group, send a heartbeat every three seconds. The figure is the broker's CPU for one of them. With
--before another checkout that has its own `.venv` answers at once as well. With --instructions valgrind counts instead, with
few members, as it is fifty times as slow; the task that ends the waits is then woken for nearly every heartbeat. After each slice
each member commits an offset, most of them while their heartbeat is held: the wait for these answers is a figure too.
"""

import argparse
import os
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from ...support.clients.members import HOLDING, RHYTHM_S, TOPIC, Members
from ...support.clients.steps import create_topic
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..checkouts.sides import CheckoutProcess

ROOT = Path(__file__).parents[3]
BEFORE, AT_ONCE, HELD = "before", "at once", "held"
MEMBERS, COUNTED_MEMBERS = 1_000, 50
SLICE_S = 2 * RHYTHM_S
OPTIONS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


class Side:
    def __init__(self, broker: CheckoutProcess, members: Members) -> None:
        self.broker, self.members = broker, members
        self.each: list[float] = []
        """Microseconds or thousands of instructions for one heartbeat, by slice."""
        self.core_parts: list[float] = []
        self.commits_ms: list[float] = []
        """The wait for each commit."""

    def slice(self) -> None:
        """Measure a slice, after a time in which the rhythm becomes known."""
        broker = self.broker
        self.members.beat(RHYTHM_S)
        if broker.is_counted:
            broker.order("--zero")
        begun_s = broker.cpu_seconds()
        sent = self.members.beat(SLICE_S)
        used_s = broker.cpu_seconds() - begun_s
        self.each.append(broker.counted() / sent / 1e3 if broker.is_counted else 1e6 * used_s / sent)
        self.core_parts.append(used_s / SLICE_S)
        if not broker.is_counted:
            self.commits_ms += [1000 * took_s for took_s in self.members.commit()]
        self.members.settle()


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments, machine = options.rest, Machine()
    is_counted = arguments.instructions
    count = arguments.members or (COUNTED_MEMBERS if is_counted or options.quick else MEMBERS)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation compiles once
    checkouts = {} if arguments.before is None else {BEFORE: arguments.before.resolve()}
    checkouts |= {AT_ONCE: ROOT, HELD: ROOT}
    with ExitStack() as stack:
        sides = {}
        for name, checkout in checkouts.items():
            overrides = OPTIONS | (HOLDING if name == HELD else {})
            broker = stack.enter_context(CheckoutProcess(checkout, overrides=overrides, is_counted=is_counted))
            create_topic(broker.bootstrap, TOPIC)
            sides[name] = Side(broker, stack.enter_context(Members(broker.bootstrap, count)))
            if is_counted:
                broker.order("--instr=on")
        for number in range(2 if options.quick or is_counted else arguments.slices):
            for side in list(sides.values())[:: -1 if number % 2 else 1]:
                side.slice()
    unit = "thousand instructions" if is_counted else "us"
    for name, side in sides.items():
        least, median, most = min(side.each), statistics.median(side.each), max(side.each)
        part = "" if is_counted else f"; {100 * statistics.median(side.core_parts):.1f} % of a core"
        suite.note(f"{name:10} {median:8.1f} {unit} each ({least:.1f} to {most:.1f}){part}")
        if side.commits_ms:
            p50, p99 = (statistics.quantiles(side.commits_ms, n=100)[at] for at in (49, 98))
            suite.note(f"{name:10} a commit is answered after {p50:.2f} ms, p99 {p99:.2f}")
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )
    suite.check("every heartbeat was answered without an error", True)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--members", type=int, help=f"default {MEMBERS}; with --instructions {COUNTED_MEMBERS}")
    parser.add_argument("--slices", type=int, default=6, help=f"of {SLICE_S:g} s for each side")
    parser.add_argument("--instructions", action="store_true", help="count instructions, with valgrind")


if __name__ == "__main__":
    sys.exit(run_suite("bench.heartbeats", body, doc=__doc__, more_arguments=arguments))
