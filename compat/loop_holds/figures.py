"""The table: request or job | its largest form | the longest step's CPU | the longest hold before | now | Apache Kafka's.

The CPU time of the longest step of Trio's thread is judged, which is the same on any machine. The hold is a wall time, and is
only judged if no other program used the processors.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..support.brokers.clocked_ottla import Steps
from ..support.clients.holds import ANSWER_TIMEOUT_S, Hold, NotAnsweredError
from ..support.machine import Machine
from ..support.suite import Suite
from .exceptions import EXCEPTIONS

LIMIT_MS = 20.0
AGAIN_MS = 10.0
"""A shorter hold is not measured again: the median of five rounds cannot differ by the remaining half of the limit."""
HERE = Path(__file__).parent
BEFORE, APACHE_KAFKA = HERE / "before.json", HERE / "apache_kafka.json"


@dataclass(frozen=True)
class Row:
    """One measurement: medians of all rounds, unless stated otherwise.

    hold_ms, most_ms: Wall time that a ping waited, and the most of all rounds.
    steps: Those of the median round; None if the broker does not report them.
    most_cpu_ms: The longest step of all rounds.
    is_quiet: Whether no other program used the processors, so that the hold is also judged.
    """

    name: str
    form: str
    hold_ms: float
    most_ms: float
    rounds: int
    steps: Steps | None
    most_cpu_ms: float
    is_quiet: bool


class Figures:
    """Measures, judges and prints.

    Args:
        rounds: How often a thing is done whose first hold is not far below the limit; the median counts.
        is_judged: Whether a hold above the limit fails; Apache Kafka's are only written down.
        only: A pattern of names of rows.
        write_to: A file for the figures, complete after each row.
    """

    def __init__(self, suite: Suite, *, rounds: int, is_judged: bool, only: str | None, write_to: str | None) -> None:
        self._suite, self._rounds, self._is_judged = suite, rounds, is_judged
        self._only, self._write_to = only, write_to
        self._rows: list[Row] = []
        self._before: Recorded
        self._kafka: Recorded
        self._before, self._kafka = (
            json.loads(file.read_text()) if file.exists() else {} for file in (BEFORE, APACHE_KAFKA)
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether the caller selected rows by name."""
        return self._only is not None

    def wants(self, name: str) -> bool:
        """Return whether the caller wants this row."""
        return self._only is None or fnmatchcase(name.lower(), f"*{self._only.lower()}*")

    def measure(self, name: str, form: str, once: Callable[[], Hold]) -> None:
        """Do something once, and again where that may change the verdict; one row, one check."""
        once, machine = partial(_or_not_answered, once), Machine()
        try:
            holds = [once()]
            if _judged_ms(holds[0], is_quiet=machine.is_quiet() or not self._is_judged) > AGAIN_MS:
                holds += [once() for _ in range(self._rounds - 1)]
        except TimeoutError as error:
            self._suite.check(name, False, f"not done in time: {error}")
            return
        row = _row(name, form, holds, is_quiet=machine.is_quiet())
        self._rows.append(row)
        text = _told(row)
        others = (("before", self._before), ("Apache Kafka", self._kafka))
        text += f"; {form}" + "".join(f"; {whose} {known}" for whose, all in others if (known := _known(all, row)))
        if self._write_to:
            figures = {row.name: _figures(row) for row in self._rows}
            Path(self._write_to).write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
        if not self._is_judged:
            self._suite.note(f"{name}: {text}")
            return
        exception = EXCEPTIONS.get(name)
        limit_ms = LIMIT_MS if exception is None else exception.limit_ms
        reason = "" if exception is None else f"; up to {limit_ms:.0f} ms, as {exception.reason}"
        is_short = (row.steps is None or row.steps.cpu_ms <= limit_ms) and (not row.is_quiet or row.hold_ms <= limit_ms)
        self._suite.check(name, is_short, text + reason)

    def finish(self) -> None:
        """Print the table, longest first, and check that no exception has become unneeded."""
        if self._is_judged:
            unneeded = [
                row.name
                for row in self._rows
                if row.name in EXCEPTIONS
                and row.is_quiet
                and row.rounds >= 5
                and max(row.most_ms, row.most_cpu_ms) <= LIMIT_MS
            ]
            self._suite.check("every exception is still needed", not unneeded, ", ".join(unneeded))
            quiet = sum(row.is_quiet for row in self._rows)
            self._suite.note(
                f"of {len(self._rows)} rows {quiet} were measured while nobody else computed: their holds are judged, too"
            )
        else:
            self._suite.check("figures were taken", bool(self._rows), f"{len(self._rows)}, not judged")
        print(
            "\n| request or job | largest form | CPU of a step | before | now | Apache Kafka |\n|---|---|---|---|---|---|"
        )
        for row in sorted(self._rows, key=lambda row: (-_cpu_ms(row.steps), -row.hold_ms)):
            before, kafka = _known(self._before, row), _known(self._kafka, row)
            cpu = "" if row.steps is None else f"{row.steps.cpu_ms:.1f}"
            print(f"| {row.name} | {row.form} | {cpu} | {before} | {row.hold_ms:.1f} | {kafka} |")
        print(flush=True)


Recorded = dict[str, dict[str, Any]]


def _cpu_ms(steps: Steps | None) -> float:
    return 0.0 if steps is None else steps.cpu_ms


def _judged_ms(hold: Hold, *, is_quiet: bool) -> float:
    """Return the figure that decides the verdict of one round."""
    return max(_cpu_ms(hold.steps), hold.longest_ms if is_quiet or hold.steps is None else 0.0)


def _row(name: str, form: str, holds: list[Hold], *, is_quiet: bool) -> Row:
    each_ms = [hold.longest_ms for hold in holds]
    steps = sorted((hold.steps for hold in holds if hold.steps is not None), key=_cpu_ms)
    middle = steps[len(steps) // 2] if steps else None
    most_cpu_ms = _cpu_ms(steps[-1]) if steps else 0.0
    return Row(name, form, statistics.median(each_ms), max(each_ms), len(holds), middle, most_cpu_ms, is_quiet)


def _told(row: Row) -> str:
    text = ""
    if row.steps is not None:
        most = f", at most {row.most_cpu_ms:.1f}" if row.rounds > 1 else ""
        text = (
            f"a step of {row.steps.cpu_ms:.1f} ms CPU ({row.steps.task}{most}), workers {row.steps.workers_ms:.1f} ms; "
        )
    text += f"waited {row.hold_ms:.1f} ms" + ("" if row.is_quiet else ", not judged: others computed")
    return text + (f" (of {row.rounds}, at most {row.most_ms:.1f})" if row.rounds > 1 else "")


def _figures(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"form": row.form, "hold_ms": round(row.hold_ms, 1), "is_quiet": row.is_quiet}
    if row.steps is not None:
        told |= {
            "cpu_ms": round(row.steps.cpu_ms, 1),
            "task": row.steps.task,
            "workers_ms": round(row.steps.workers_ms, 1),
        }
    return told


def _known(recorded: Recorded, row: Row) -> str:
    """Return the figure as a text, empty without one; and its form where that was another one, when other limits held."""
    found = recorded.get(row.name)
    if found is None:
        return ""
    return f"{found['hold_ms']:.0f}" + ("" if found["form"] == row.form else f" ({found['form']})")


def _or_not_answered(once: Callable[[], Hold]) -> Hold:
    try:
        return once()
    except NotAnsweredError:
        most_ms = ANSWER_TIMEOUT_S * 1000
        return Hold(most_ms, most_ms, steps=Steps(most_ms, "no ping was answered", 0.0))
