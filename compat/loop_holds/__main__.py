"""The longest time that one request, or one background job of the broker, makes another client wait: none above 20 ms.

A separate process sends ApiVersions over its own connection every 5 ms; the longest wait for an answer is the figure. During
that time every array of every request is sent as long as the limits allow. The arrays come from the schema tables, so a new API
is tested without a change here. Every periodic job has as much work as possible, by a clock that the suite moves. Memory that
clients made the broker allocate must be released.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from ..support.brokers.apache_kafka import ApacheKafkaProcess
from ..support.brokers.clocked_ottla import ClockedOttla
from ..support.brokers.process import BrokerProcess
from ..support.certificates import Certificates
from ..support.clients.holds import Hold, Pinger
from ..support.clients.members import HOLDING, beside
from ..support.machine import Machine
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import bombs, jobs, memory, secured, specials
from .asking import Sender, fill
from .figures import LIMIT_MS, Figures
from .requests import Large, large_requests

ROUNDS, QUICK_ROUNDS = 5, 3
PARTS = ("requests", "specials", "secured", "jobs", "memory", "bombs")
IDLE_S, IDLE_ROUNDS = 2.0, 5
AFTERWARDS_S = 0.03
"""Work that a request leaves after its answer, such as releasing its memory, counts as well."""
OVERRIDES = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part of it; repeatable")
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name contains this (* and ? as in a shell)")
    parser.add_argument(
        "--held", type=int, default=0, help="heartbeats held all the time, during requests and specials"
    )
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}, quick {QUICK_ROUNDS}")
    parser.add_argument("--figures", metavar="FILE", help="also write the figures there, as JSON")


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    rest = options.rest
    rounds = rest.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    is_ottla = options.against == "ottla"
    figures = Figures(suite, rounds=rounds, is_judged=is_ottla, only=rest.only, write_to=rest.figures)

    def broker(nodes: int = 1, overrides: Mapping[str, str] | None = None) -> BrokerProcess:
        given = OVERRIDES | dict(overrides or {})
        if is_ottla:
            return ClockedOttla(overrides=given, keep=options.keep, nodes=nodes)
        return ApacheKafkaProcess(overrides=given, keep=options.keep, heap="3g")

    parts = rest.part or PARTS
    if "requests" in parts or "specials" in parts:
        given = {"auto.create.topics.enable": "false"} | (HOLDING if rest.held else {})
        with pinged(broker(overrides=given)) as (process, pinger), ExitStack() as stack:
            if rest.held:
                stack.enter_context(beside(process.bootstrap, rest.held))
            calibrate(suite, pinger)
            world = fill(process.bootstrap)
            with Sender(process.bootstrap) as sender:
                if "requests" in parts:
                    ask_all(suite, figures, sender, pinger, large_requests(world, quick=options.quick))
            if "specials" in parts:
                specials.run(figures, process, pinger, world, quick=options.quick)
    if "secured" in parts and is_ottla:
        with tempfile.TemporaryDirectory(prefix="compat-certificates-") as directory:
            certificates = Certificates(Path(directory))
            given = secured.overrides(certificates)
            with pinged(broker(overrides=given)) as (process, pinger):
                calibrate(suite, pinger)
                secured.run(figures, given, certificates, pinger, fill(process.bootstrap), watched, quick=options.quick)
    if "jobs" in parts:
        jobs.run(figures, broker, pinged, quick=options.quick, is_ottla=is_ottla)
    figures.finish()
    if "memory" in parts and is_ottla:
        memory.run(suite, broker, figures.wants, quick=options.quick)
    if "bombs" in parts and is_ottla:
        bombs.run(suite, broker, figures.wants, quick=options.quick)


@contextmanager
def pinged(process: BrokerProcess) -> Iterator[tuple[BrokerProcess, Pinger]]:
    """Yield a broker from start to stop, and a pinger at it."""
    with process as running:
        assert running.process is not None
        if isinstance(running, ClockedOttla):
            pinger = Pinger(running.bootstrap, running.process.pid, running.take_steps)
        else:
            pinger = Pinger(running.bootstrap)
        with pinger:
            yield running, pinger


def calibrate(suite: Suite, pinger: Pinger) -> None:
    """Measure an idle broker: shorter waits cannot be distinguished. The machine may need some time to become quiet."""
    machine = Machine()
    for _ in range(IDLE_ROUNDS):
        with pinger.watch() as hold:
            time.sleep(IDLE_S)
        if hold.longest_ms < LIMIT_MS / 2:
            break
    suite.check(
        "an idle broker answers at once",
        hold.longest_ms < LIMIT_MS / 2 or not machine.is_quiet(),
        f"others had {machine.others_part() or 0.0:.0%} of the processors; "
        f"{hold.longest_ms:.1f} ms at most, {hold.raw_ms:.1f} with what the machine did; {hold.pings} pings",
    )


def ask_all(suite: Suite, figures: Figures, sender: Sender, pinger: Pinger, requests: Iterable[Large]) -> None:
    closed: set[str] = set()
    for request in requests:
        if figures.wants(request.name):
            ask = partial(watched, sender, pinger, request.frame(), request.name, closed)
            figures.measure(request.name, request.form, ask)
    suite.note(f"answered by closing the connection: {', '.join(sorted(closed)) or 'none'}")


def watched(sender: Sender, pinger: Pinger, frame: bytes, name: str, closed: set[str]) -> Hold:
    with pinger.watch() as hold:
        if not sender.ask(frame):
            closed.add(name)
        time.sleep(AFTERWARDS_S)
    return hold


if __name__ == "__main__":
    sys.exit(run_suite("loop_holds", body, doc=__doc__, more_arguments=arguments))
