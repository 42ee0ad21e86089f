"""The race: Apache Kafka 4.3.1, Ottla, kfake and librdkafka's mock cluster, in interleaved rounds; `make bench`.

    python -m compat.bench.race [--rows NAME]... [--sides NAME]... [--rounds N] [--quick] [--write | --render]

Results are saved row by row in `build/race/REPORT.json`, and the report next to it is made from all saved rows. With --write
they are saved in `compat/bench/REPORT.json`, and the report is `REPORT.md`; rows that are not measured now stay. --render only
writes the report again from the saved rows. A side that cannot run here, or cannot do a row, is named with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA
from . import bulk, chart, cleaning, clients, lives, report
from .course import Course
from .figures import SIDES, Figure, Section, read, write
from .machine import commit, machine, versions
from .sides import BUILD, missing
from .small import small_requests

KEPT, TEXT = "REPORT.json", "REPORT.md"
COMMITTED = Path(__file__).parents[1]
ROUNDS = 5


@dataclass(frozen=True)
class Kind:
    title: str
    how: str
    measure: Callable[[Course], list[Figure]]


ROWS = {
    "small": Kind(
        "Small requests",
        "A closed loop from one thread of compiled C: one record of 100 B a Produce (version 7, acks=1), or a Fetch of 4 KB.",
        small_requests,
    ),
    "large": Kind(
        "Large batches, by size",
        "librdkafka, batches up to 1 MB, acks=all, no codec, one partition; each broker's records are counted. The client is the limit "
        "of small records: look at CPU.",
        bulk.by_size,
    ),
    "codecs": Kind("Large batches, by codec", "The same at 1 KB of compressible values.", bulk.by_codec),
    "acks": Kind(
        "Large batches, by acks", "The same at 1 KB; with acks=0 until the broker has all records.", bulk.by_acks
    ),
    "transactions": Kind("Transactions", "One producer, one transaction after the other.", clients.transactions),
    "groups": Kind(
        "Joining a group",
        "librdkafka's consumers subscribe at once, group.initial.rebalance.delay.ms=0, until each of them has its one partition.",
        clients.groups,
    ),
    "end-to-end": Kind(
        "End to end", "From a producer's `produce` to its consumer's `poll`, linger.ms=0, acks=1.", clients.end_to_end
    ),
    "waits": Kind(
        "Paced produce, idle and while cleaning",
        "One record a request, 500 a second, open loop; cleaning: 8 MB a second beside it into a topic that is cleaned once a second.",
        cleaning.waits,
    ),
    "start": Kind("Start, rest, stop", "Apache Kafka's and Ottla's on a directory that exists.", lives.start),
    "cleaner": Kind(
        "Cleaner",
        "One pass over the same log, MB a CPU second of the cleaning thread; what is left is compared.",
        cleaning.passes,
    ),
    "recovery": Kind(
        "Recovery",
        "Four partitions, none of which has closed a segment; killed, started, records counted.",
        lives.recovery,
    ),
    "partitions": Kind(
        "Partitions",
        "A topic of the given number of partitions on a fresh broker; then a clean stop and a start.",
        lives.partitions,
    ),
}


def body(suite: Suite, options: Options) -> None:
    wanted = options.rest
    if options.broker:
        raise NotRunError("to start the brokers itself")
    folder, absent = COMMITTED if wanted.write or wanted.render else BUILD, {}
    if not wanted.render:
        absent = missing(tuple(side for side in SIDES if chosen(side, wanted)))
        measure(suite, options, absent, folder)
    if not publish(folder, absent):
        raise NotRunError("a row that has been measured")
    suite.check("written", True, folder / TEXT)


def measure(suite: Suite, options: Options, absent: dict[str, str], folder: Path) -> None:
    """Measure the rows; each row is saved, and the report written, as soon as it has been measured."""
    wanted = options.rest
    sides = tuple(side for side in SIDES if chosen(side, wanted) and side not in absent)
    course = Course(suite, options, sides, wanted.rounds or (1 if options.quick else ROUNDS))
    for side, why in absent.items():
        suite.note(f"{side}: {why}")
    for name in wanted.rows or ROWS:
        kind, other_work = ROWS[name], Machine()
        suite.note(f"--- {kind.title}")
        try:
            figures = kind.measure(course)
        except NotRunError as error:
            suite.skip(kind.title, f"needs {error}")
            continue
        except Exception as error:  # noqa: BLE001 - of twelve rows one that fails must not take the others
            suite.check(f"{kind.title}: measured", False, f"{type(error).__name__}: {error}")
            continue
        for figure in figures:
            figure.absent |= {side: why for side, why in absent.items() if side not in figure.absent}
            suite.note(f"{figure.what}, {figure.unit}: {told(figure)}")
        both = [side for side in (KAFKA, OTTLA) if side in sides]
        is_measured = suite.check(
            f"{kind.title}: measured", all(figure.values.get(side) for figure in figures for side in both)
        )
        how = f"{kind.how} {course.rounds} round{'s'[: course.rounds > 1]}."
        when = f"{datetime.now(UTC):%Y-%m-%d}"
        others = other_work.others_part()
        section = Section(name, kind.title, how, figures, when, commit(), others, options.quick, machine(), versions())
        if not is_measured or not keep(folder, section):
            suite.note(f"{kind.title}: the report has what it had, which is of both")
        publish(folder, absent)


def keep(folder: Path, section: Section) -> bool:
    """Save a row in place of its earlier version; other rows stay.

    False if the earlier one has both brokers, and this has not.
    """
    kept = read(folder / KEPT)
    if section.name in kept and kept[section.name].is_of_both and not section.is_of_both:
        return False
    kept[section.name] = section
    write(folder / KEPT, [kept[each] for each in ROWS if each in kept])
    return True


def chosen(side: str, wanted: argparse.Namespace) -> bool:
    """Return whether a side takes part. Ottla always does: a race of the others alone is not this project's subject."""
    return side == OTTLA or wanted.sides is None or side in wanted.sides


def publish(folder: Path, absent: dict[str, str]) -> bool:
    """Write the report and the chart of the saved rows. False if none is saved."""
    sections = list(read(folder / KEPT).values())
    if sections:
        (folder / TEXT).write_text(report.rendered(sections, absent))
        (folder / report.CHART).write_text(chart.drawn(sections))
    return bool(sections)


def told(figure: Figure) -> str:
    sides = [f"{side} {report.cell(figure, side)}" for side in SIDES if side in figure.values or side in figure.absent]
    return "; ".join([*sides, f"ratio {report.ratio(figure) or 'none'}"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", action="append", choices=list(ROWS), help="only these; may be given several times")
    parser.add_argument("--sides", action="append", choices=list(SIDES), help="only these; may be given several times")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless given, 1 with --quick")
    parser.add_argument(
        "--write", action="store_true", help="into compat/bench/: REPORT.json, and REPORT.md and its chart made from it"
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing: write compat/bench/REPORT.md again from REPORT.json"
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run_suite("bench.race", body, argv, doc=__doc__, more_arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
