"""1 000 random histories of a log that is explained after every step: why it is not cleaned, and when and how it will be.

Each answer is compared with a model that is moved ahead in time, rolled, and reconfigured. Before each pass a dry run and the
histories of keys predict its removals. Then 1 000 histories of topics in a running broker, on its moved clock (`live`).
Histories differ every day: their seed is the date, unless given.
"""

import argparse
import datetime
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from support.cleaner.cleaner_history import describe_failure, random_history
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


def run_block(names: list[str]) -> tuple[list[str], Counter[str]]:
    """Return the names of those that fail, and what the others met."""
    failed: list[str] = []
    met: Counter[str] = Counter()
    for name in names:
        try:
            met += random_history(name).run(ExplainedPair).met
        except Exception:  # noqa: BLE001 -- any exception is the finding
            failed.append(name)
    return failed, met


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges what is said of logs")
    seed, count = options.rest.seed, options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES)
    suite.note(f"seed {seed!r}")
    names = [f"{seed} {number}" for number in range(count)]
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block_failed, block_met in processes.map(
            run_block, [names[at : at + BLOCK] for at in range(0, count, BLOCK)]
        ):
            failed += block_failed
            met += block_met
    for what, times in sorted(met.items()):
        suite.note(f"{times:8} × {what}")
    suite.check(
        f"{count} histories match their explanations",
        not failed,
        f"{len(failed)} are not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(describe_failure(name, ExplainedPair))
    run_live(suite, seed, options.rest.live or (QUICK_LIVE if options.quick else LIVE))


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
