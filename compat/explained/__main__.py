"""1 000 random histories of a log that is explained after every step: why it is not cleaned, and when and how it will be.

Each answer is compared with a model that is moved ahead in time, rolled, and reconfigured. Before each pass a dry run and the
histories of keys predict its removals. 1 000 more have versions in records, and 1 000 ages of keys. Then 1 000 histories of
topics in a running broker, on its moved clock (`live`). Histories differ every day: their seed is the date, unless given.
"""

import argparse
import datetime
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from support.cleaner.cleaner_history import History, describe_failure, random_ages, random_history, random_versions
from support.cleaner.explained_pair import ExplainedPair

from ..support.suite import NotRunError, Options, Suite, run_suite
from .live import LiveHistories

HISTORIES, QUICK_HISTORIES = 1_000, 24
LIVE, QUICK_LIVE = 1_000, 6
BLOCK = 12
SHOWN = 3
"""The number of failing histories to shrink, which takes a while."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default=str(datetime.date.today()), help="default: the date")
    parser.add_argument("--histories", type=int, help=f"how many; default {HISTORIES}, quick {QUICK_HISTORIES}")
    parser.add_argument("--live", type=int, help=f"how many in a broker; default {LIVE}, quick {QUICK_LIVE}")


def run_block(names: list[str], make: Callable[[int | str], History]) -> tuple[list[str], Counter[str]]:
    """Return the names of those that fail, and what the others met."""
    failed: list[str] = []
    met: Counter[str] = Counter()
    for name in names:
        try:
            met += make(name).run(ExplainedPair).met
        except Exception:  # noqa: BLE001 -- any exception is the finding
            failed.append(name)
    return failed, met


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges what is said of logs")
    seed, count = options.rest.seed, options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES)
    suite.note(f"seed {seed!r}")
    for what, make in (
        ("histories", random_history),
        ("histories with versions", random_versions),
        ("histories with ages", random_ages),
    ):
        check(suite, what, [f"{seed} {number}" for number in range(count)], make)
    run_live(suite, seed, options.rest.live or (QUICK_LIVE if options.quick else LIVE))


def check(suite: Suite, what: str, names: list[str], make: Callable[[int | str], History]) -> None:
    """Run the histories, and compare them with their explanations."""
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block_failed, block_met in processes.map(
            partial(run_block, make=make), [names[at : at + BLOCK] for at in range(0, len(names), BLOCK)]
        ):
            failed += block_failed
            met += block_met
    for event, times in sorted(met.items()):
        suite.note(f"{times:8} × {event}")
    suite.check(
        f"{len(names)} {what} match their explanations",
        not failed,
        f"{len(failed)} are not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(describe_failure(name, ExplainedPair, make))


def run_live(suite: Suite, seed: str, count: int) -> None:
    """Run the histories in a broker."""
    failed: list[str] = []
    live = LiveHistories()
    try:
        for number in range(count):
            try:
                live.run(f"{seed} {number}")
            except Exception as error:  # noqa: BLE001 -- any exception is the finding
                failed.append(f"{number}: {error}")
                if len(failed) <= SHOWN:
                    suite.note("".join(traceback.format_exception(error)))
    finally:
        live.close()
    for what, times in sorted(live.met.items()):
        suite.note(f"{times:8} × {what}")
    suite.check(f"{count} histories in a broker match their explanations", not failed, [each[:80] for each in failed])


if __name__ == "__main__":
    sys.exit(run_suite("explained", body, doc=__doc__, more_arguments=arguments))
