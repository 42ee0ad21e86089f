"""Many unused partitions: the cost to create them, to stop and start a broker that has them, and to keep them.

    python -m compat.bench.partitions [--before DIRECTORY] [--partitions N] [--rounds N]

The suite creates one topic of N partitions in one request, stops the broker, starts it after the stop, and starts it after kill
-9. It measures the broker's CPU for each, and while no request arrives, with either profile. With --before it takes turns with
another checkout that has its own `.venv`.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ...support.clients.steps import create_topic
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..checkouts.sides import CheckoutProcess

ROOT = Path(__file__).parents[3]
OTTLA, BEFORE = "ottla", "before"
TOPIC = "unused"
QUIET_S, REST_S = 5.0, 10.0
EMPTY_STARTS = 5

Figures = dict[str, dict[str, list[float]]]
"""Measurement -> side -> values."""


def measure(note: Callable[[str, float], None], checkout: Path, partitions: int) -> None:
    """Measure one round of one side."""
    for _ in range(EMPTY_STARTS):
        with CheckoutProcess(checkout) as broker:
            note("start beside nothing, CPU in ms", 1e3 * broker.cpu_seconds())
            broker.stop()
            note("start beside nothing, ms", timed_ms(broker.start))
    with CheckoutProcess(checkout) as broker:
        had_s = broker.cpu_seconds()
        note("create, ms", timed_ms(lambda: create_topic(broker.bootstrap, TOPIC, partitions=partitions)))
        note("create, CPU in ms", 1e3 * (broker.cpu_seconds() - had_s))
        note("idle, CPU in ms a second", at_rest_ms(broker))
        note("stop, ms", timed_ms(broker.stop))
        note("start after a stop, ms", timed_ms(broker.start))
        note("start after a stop, CPU in ms", 1e3 * broker.cpu_seconds())
        broker.kill()
        note("start after kill -9, ms", timed_ms(broker.start))
        note("start after kill -9, CPU in ms", 1e3 * broker.cpu_seconds())
        broker.stop()
        broker.profile = "dev"
        broker.start()
        note("idle with --profile dev, CPU in ms a second", at_rest_ms(broker))


def timed_ms(step: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - begun_s)


def at_rest_ms(broker: CheckoutProcess) -> float:
    """Return the CPU time a second while no request arrives."""
    time.sleep(QUIET_S)
    begun_s, had_s = time.monotonic(), broker.cpu_seconds()
    time.sleep(REST_S)
    return 1e3 * (broker.cpu_seconds() - had_s) / (time.monotonic() - begun_s)


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments, machine = options.rest, Machine()
    checkouts = {OTTLA: ROOT}
    if arguments.before is not None:
        checkouts = {BEFORE: arguments.before.resolve(), OTTLA: ROOT}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation compiles once
    figures: Figures = {}
    for number in range(1 if options.quick else arguments.rounds):
        for name in list(checkouts)[:: -1 if number % 2 else 1]:

            def note(what: str, value: float, side: str = name) -> None:
                figures.setdefault(what, {each: [] for each in checkouts})[side].append(value)

            measure(note, checkouts[name], arguments.partitions // (10 if options.quick else 1))
    for what, of in figures.items():
        shown = (f"{name} {statistics.median(found):.1f} ({min(found):.1f})" for name, found in of.items())
        suite.note(f"{what}, median (least): {'; '.join(shown)}")
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )
    suite.check("each step came to its end", True)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)


if __name__ == "__main__":
    sys.exit(run_suite("bench.partitions", body, doc=__doc__, more_arguments=arguments))
