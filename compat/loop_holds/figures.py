"""The table: what was asked or done | its largest form | the longest hold before | now | Apache Kafka's; and its verdict."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..support.clients.holds import ANSWER_TIMEOUT_S, Hold, NotAnsweredError
from ..support.suite import Suite
from .exceptions import EXCEPTIONS

LIMIT_MS = 20.0
AGAIN_MS = 10.0
"""What holds shorter than this is not looked at again: of five, a median that is half of the limit away is no other."""
HERE = Path(__file__).parent
BEFORE, APACHE_KAFKA = HERE / "before.json", HERE / "apache_kafka.json"


@dataclass(frozen=True)
class Row:
    name: str
    form: str
    hold_ms: float
    most_ms: float
    rounds: int


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
        """Whether the caller asked for some rows by name."""
        return self._only is not None

    def wants(self, name: str) -> bool:
        """Whether the caller asked for this one."""
        return self._only is None or fnmatchcase(name.lower(), f"*{self._only.lower()}*")

    def measure(self, name: str, form: str, once: Callable[[], Hold]) -> None:
        """Do something once, and again where that may change the verdict; one row, one check."""
        once = partial(_or_not_answered, once)
        try:
            holds = [once()]
            if holds[0].longest_ms > AGAIN_MS:
                holds += [once() for _ in range(self._rounds - 1)]
        except TimeoutError as error:
            self._suite.check(name, False, f"not done in time: {error}")
            return
        each_ms = [hold.longest_ms for hold in holds]
        row = Row(name, form, statistics.median(each_ms), max(each_ms), len(holds))
        self._rows.append(row)
        text = f"{row.hold_ms:.1f} ms" + (f" (of {row.rounds}, at most {row.most_ms:.1f})" if row.rounds > 1 else "")
        others = (("before", self._before), ("Apache Kafka", self._kafka))
        text += f"; {form}" + "".join(f"; {whose} {known}" for whose, all in others if (known := _known(all, row)))
        if self._write_to:
            told = {row.name: {"form": row.form, "hold_ms": round(row.hold_ms, 1)} for row in self._rows}
            Path(self._write_to).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
        if not self._is_judged:
            self._suite.note(f"{name}: {text}")
            return
        exception = EXCEPTIONS.get(name)
        limit_ms = LIMIT_MS if exception is None else exception.limit_ms
        reason = "" if exception is None else f"; up to {limit_ms:.0f} ms, as {exception.reason}"
        self._suite.check(name, row.hold_ms <= limit_ms, text + reason)

    def finish(self) -> None:
        """Print the table, longest first, and check that no exception has become unneeded."""
        if self._is_judged:
            unneeded = [
                row.name for row in self._rows if row.name in EXCEPTIONS and row.rounds >= 5 and row.most_ms <= LIMIT_MS
            ]
            self._suite.check("every exception is still needed", not unneeded, ", ".join(unneeded))
        else:
            self._suite.check("figures were taken", bool(self._rows), f"{len(self._rows)}, not judged")
        print("\n| request or job | largest form | before | now | Apache Kafka |\n|---|---|---|---|---|")
        for row in sorted(self._rows, key=lambda row: -row.hold_ms):
            before, kafka = _known(self._before, row), _known(self._kafka, row)
            print(f"| {row.name} | {row.form} | {before} | {row.hold_ms:.1f} | {kafka} |")
        print(flush=True)


Recorded = dict[str, dict[str, Any]]


def _known(recorded: Recorded, row: Row) -> str:
    """The figure as a text, empty without one; and its form where that was another one, when other limits held."""
    found = recorded.get(row.name)
    if found is None:
        return ""
    return f"{found['hold_ms']:.0f}" + ("" if found["form"] == row.form else f" ({found['form']})")


def _or_not_answered(once: Callable[[], Hold]) -> Hold:
    try:
        return once()
    except NotAnsweredError:
        return Hold(ANSWER_TIMEOUT_S * 1000, ANSWER_TIMEOUT_S * 1000)
