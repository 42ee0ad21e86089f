"""10 000 random histories of a log, cleaned by the real cleaner and by the model: both results must be equal.

Histories differ every day: their seed is the date, unless given. A failing one is made as small as possible, and printed
as a test would write it.
"""

import argparse
import datetime
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from support.cleaner.cleaner_history import describe_failure, random_history

from ..support.suite import NotRunError, Options, Suite, run_suite

HISTORIES, QUICK_HISTORIES = 10_000, 120
BLOCK = 60
SHOWN = 3
"""The number of failing histories to shrink, which takes a while."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default=str(datetime.date.today()), help="default: the date")
    parser.add_argument("--histories", type=int, help=f"how many; default {HISTORIES}, quick {QUICK_HISTORIES}")


@dataclass
class Block:
    """The results of consecutive histories."""

    failed: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)


def names(seed: str, count: int) -> Iterator[list[str]]:
    """Yield the histories' names, in blocks."""
    for start in range(0, count, BLOCK):
        yield [f"{seed} {number}" for number in range(start, min(count, start + BLOCK))]


def run_block(names: list[str]) -> Block:
    block = Block()
    for name in names:
        try:
            block.met += random_history(name).run().met
        except Exception:  # noqa: BLE001 -- any exception is the finding
            block.failed.append(name)
    return block


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the cleaner itself")
    seed, count = options.rest.seed, options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES)
    suite.note(f"seed {seed!r}")
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block in processes.map(run_block, names(seed, count)):
            failed += block.failed
            met += block.met
    for what, times in sorted(met.items()):
        suite.note(f"{times:8} × {what}")
    suite.check(
        f"{count} histories come out as the model says",
        not failed,
        f"{len(failed)} do not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(describe_failure(name))


if __name__ == "__main__":
    sys.exit(run_suite("cleaner_histories", body, doc=__doc__, more_arguments=arguments))
