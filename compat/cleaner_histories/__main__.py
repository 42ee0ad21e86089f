"""10 000 random histories of a log, cleaned by the real cleaner and by the model: both results must be equal.

Then 1 000 with versions in records and 1 000 with ages of keys, by the compiled and by the interpreted kernel.

Histories differ every day: their seed is the date, unless given. A failing one is made as small as possible, and printed
as a test would write it.
"""

import argparse
import datetime
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from support.cleaner.cleaner_history import History, describe_failure, random_ages, random_history, random_versions
from support.cleaner.kernels import INTERPRETED, cleaning_with

from ..support.suite import NotRunError, Options, Suite, run_suite

HISTORIES, QUICK_HISTORIES = 10_000, 120
OTTLAS_HISTORIES, QUICK_OTTLAS_HISTORIES = 1_000, 24
BLOCK = 60
SHOWN = 3
"""The number of failing histories to shrink, which takes a while."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default=str(datetime.date.today()), help="default: the date")
    parser.add_argument("--histories", type=int, help=f"how many; default {HISTORIES}, quick {QUICK_HISTORIES}")


Make = Callable[[int | str], History]


@dataclass
class Block:
    """The results of consecutive histories."""

    failed: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)


def names(seed: str, count: int) -> Iterator[list[str]]:
    """Yield the histories' names, in blocks."""
    for start in range(0, count, BLOCK):
        yield [f"{seed} {number}" for number in range(start, min(count, start + BLOCK))]


def run_block(names: list[str], make: Make = random_history, *, interpreted: bool = False) -> Block:
    block = Block()
    with cleaning_with(INTERPRETED) if interpreted else nullcontext():
        for name in names:
            try:
                block.met += make(name).run().met
            except Exception:  # noqa: BLE001 -- any exception is the finding
                block.failed.append(name)
    return block


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the cleaner itself")
    seed, count = options.rest.seed, options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES)
    suite.note(f"seed {seed!r}")
    check(suite, "histories", seed, count, random_history)
    count = QUICK_OTTLAS_HISTORIES if options.quick else OTTLAS_HISTORIES
    for what, make in (("versions", random_versions), ("ages", random_ages)):
        check(suite, f"histories with {what}", seed, count, make)
        check(suite, f"histories with {what}, interpreted,", seed, count, make, interpreted=True)


def check(suite: Suite, what: str, seed: str, count: int, make: Make, *, interpreted: bool = False) -> None:
    """Run this many histories, and compare."""
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block in processes.map(partial(run_block, make=make, interpreted=interpreted), names(seed, count)):
            failed += block.failed
            met += block.met
    for event, times in sorted(met.items()):
        suite.note(f"{times:8} × {event}")
    suite.check(
        f"{count} {what} come out as the model says",
        not failed,
        f"{len(failed)} do not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(describe_failure(name, make=make))


if __name__ == "__main__":
    sys.exit(run_suite("cleaner_histories", body, doc=__doc__, more_arguments=arguments))
