"""Measured figures of several sides, the sections that contain them, and the file that keeps them between runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..table import KAFKA, OTTLA, Row

KFAKE, MOCK = "kfake", "librdkafka mock"
SIDES = (KAFKA, OTTLA, KFAKE, MOCK)
"""The sides in the order of the report's columns."""


@dataclass
class Figure:
    """One line: the values of each side, a value a round or slice; or why a side has none."""

    what: str
    unit: str
    more_is_better: bool = False
    is_cpu: bool = False
    """Then the least value is also meaningful on a busy machine."""
    values: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def note(self, side: str, *found: float) -> None:
        self.values.setdefault(side, []).extend(found)

    def ratio(self, *, of_the_least: bool = False) -> float | None:
        """Return Ottla's figure divided by Apache Kafka's; None if either is missing, or theirs is 0."""
        pick = min if of_the_least else statistics.median
        theirs, ours = (pick(self.values[side]) if self.values.get(side) else None for side in (KAFKA, OTTLA))
        return ours / theirs if theirs and ours is not None else None

    @classmethod
    def of_row(cls, row: Row, absent: Mapping[str, str] = {}) -> Figure:
        """Make the figure from a row of a two-sided bench; sides without values are left out."""
        values = {side: list(found) for side, found in row.values.items() if found}
        return cls(row.what, row.unit, row.more_is_better, "CPU" in row.what, values, dict(absent))


@dataclass
class Section:
    """The figures of one row of the race, and the circumstances of the measurement."""

    name: str
    title: str
    how: str
    """A sentence or two about the measurement: the requests, the sides, the number of rounds."""
    figures: list[Figure]
    when: str
    commit: str
    others_part: float | None
    """The CPU share of other processes while this was measured, as a fraction of all processors' time."""
    is_quick: bool = False
    machine: str = ""
    """The machine of the measurement."""
    versions: dict[str, str] = field(default_factory=dict)
    """Side -> its version."""

    @property
    def is_of_both(self) -> bool:
        """Whether Apache Kafka and Ottla have values in all figures."""
        return all(figure.values.get(side) for figure in self.figures for side in (KAFKA, OTTLA))


def read(path: Path) -> dict[str, Section]:
    """Read the sections by name; empty if the file does not exist. Raises ValueError if its format is not that of `write`."""
    if not path.exists():
        return {}
    try:
        sections = json.loads(path.read_text())
        return {
            each["name"]: Section(**{**each, "figures": [Figure(**of) for of in each["figures"]]}) for each in sections
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} does not hold what the race measured: {error!r}") from error


def write(path: Path, sections: Iterable[Section]) -> None:
    """Write the sections, a figure a line. The earlier file stays until everything is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("[\n" + ",\n".join(map(_lines, sections)) + "\n]\n")
    new.replace(path)


def _lines(section: Section) -> str:
    fields = asdict(section)
    figures = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in fields.pop("figures"))
    return json.dumps(fields, ensure_ascii=False)[:-1] + f', "figures": [\n  {figures}\n]}}'
