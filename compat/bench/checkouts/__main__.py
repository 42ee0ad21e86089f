"""Two checkouts of Ottla in interleaved rounds of one run: the cost of a change.

    python -m compat.bench.checkouts --before DIRECTORY [--rounds N] [--requests N] [--instructions]

The other checkout needs its own environment (`make .venv/bin/.ready` there). Requests go over one bare connection, one after
the other; each kind first to one broker, then to the other. With --instructions valgrind counts instead, which is fifty times
as slow, but independent of other load.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from ...support.suite import NotRunError, Options, Suite, run_suite
from .kinds import kinds
from .sides import CheckoutProcess, Side, broker_cpu_ms, ready_cpu_ms

ROOT = Path(__file__).parents[3]
BEFORE, AFTER = "before", "after"
WARM_UP = 1_000
COUNTED_WARM_UP, COUNTED, COUNTED_ROUNDS = 200, 100, 3
STARTS = 20

Figures = dict[str, dict[str, list[float]]]
"""Measurement -> side -> values."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    if options.rest.before is None:
        raise NotRunError("another checkout: --before DIRECTORY")
    checkouts = {BEFORE: options.rest.before.resolve(), AFTER: options.rest.after.resolve()}
    for checkout in checkouts.values():
        if not (checkout / ".venv" / "bin" / "ottla").exists():
            raise NotRunError(f"an environment in {checkout}/.venv")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation compiles once
    if options.rest.instructions:
        figures = instructions(checkouts)
    else:
        rounds = options.rest.rounds or (1 if options.quick else 5)
        figures = cpu(checkouts, rounds, options.rest.requests or (500 if options.quick else 5_000))
    print_figures(suite, figures)
    suite.check(
        "both sides were measured", all(of[BEFORE] and len(of[BEFORE]) == len(of[AFTER]) for of in figures.values())
    )


def cpu(checkouts: Mapping[str, Path], rounds: int, requests: int) -> Figures:
    """us a request, ms a start."""
    figures: Figures = {}
    frames = kinds()
    with CheckoutProcess(checkouts[BEFORE]) as before, CheckoutProcess(checkouts[AFTER]) as after:
        sides = {BEFORE: Side(before, frames, WARM_UP), AFTER: Side(after, frames, WARM_UP)}
        for number in range(rounds):
            order = list(sides)[:: -1 if number % 2 else 1]
            for kind in frames:
                for side in order:
                    note(figures, f"{kind}, us", side, sides[side].cpu_us(kind, requests))
    for number in range(rounds):
        for side in list(checkouts)[:: -1 if number % 2 else 1]:
            first, others = broker_cpu_ms(checkouts[side], STARTS)
            note(figures, "ottla.Broker(), the first, ms", side, first)
            note(figures, "ottla.Broker() after it, ms", side, *others)
        for _ in range(3):
            for side in list(checkouts)[:: -1 if number % 2 else 1]:
                note(figures, "ottla serve until ready, ms", side, ready_cpu_ms(checkouts[side]))
    return figures


def instructions(checkouts: Mapping[str, Path]) -> Figures:
    """Return the thousands of instructions of one request."""
    figures: Figures = {}
    frames = kinds()
    for name, checkout in checkouts.items():
        with CheckoutProcess(checkout, is_counted=True) as broker:
            side = Side(broker, frames, COUNTED_WARM_UP)
            for kind in COUNTED_ROUNDS * tuple(frames):
                note(figures, f"{kind}, thousand instructions", name, side.instructions(kind, COUNTED) / 1e3)
    return figures


def note(figures: Figures, what: str, side: str, *found: float) -> None:
    figures.setdefault(what, {BEFORE: [], AFTER: []})[side].extend(found)


def print_figures(suite: Suite, figures: Figures) -> None:
    suite.note(f"{'median (least)':45} {BEFORE:>19} {AFTER:>19}  ratio (of the least)")
    for what, of in figures.items():
        middle, least = ([pick(of[side]) for side in (BEFORE, AFTER)] for pick in (statistics.median, min))
        shown = [f"{one:.1f} ({other:.1f})" for one, other in zip(middle, least, strict=True)]
        suite.note(f"{what:45} {shown[0]:>19} {shown[1]:>19}  {middle[1] / middle[0]:.3f} ({least[1] / least[0]:.3f})")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="the other checkout")
    parser.add_argument("--after", type=Path, metavar="DIRECTORY", default=ROOT, help="this one unless given")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--requests", type=int, help="of each kind, per round and side")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead; needs valgrind")


if __name__ == "__main__":
    sys.exit(run_suite("bench.checkouts", body, doc=__doc__, more_arguments=arguments))
