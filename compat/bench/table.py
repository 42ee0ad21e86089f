"""Medians of both sides, their ratio, and the floor and aim that the design sets for it."""

import statistics
from dataclasses import dataclass, field

from ..support.suite import Suite

KAFKA, OTTLA = "apache-kafka", "ottla"


@dataclass
class Row:
    """One figure of both sides. `floor` and `aim` bound ours / theirs: from above, or from below if `more_is_better`."""

    what: str
    unit: str
    floor: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    values: dict[str, list[float]] = field(default_factory=lambda: {KAFKA: [], OTTLA: []})

    def median(self, side: str) -> float:
        return statistics.median(self.values[side])

    @property
    def ratio(self) -> float:
        return self.median(OTTLA) / (self.median(KAFKA) or float("nan"))

    def meets(self, bound: float) -> bool:
        return self.ratio >= bound if self.more_is_better else self.ratio <= bound


def print_table(suite: Suite, rows: list[Row]) -> None:
    """One line a row; a check for each floor, a word for each aim."""
    suite.note(f"{'':42} {'Apache Kafka':>22} {'Ottla':>22} {'ratio':>7}  floor   aim")
    for row in rows:
        sides = [f"{row.median(side):8.2f} ({_spread(row.values[side])})" for side in (KAFKA, OTTLA)]
        bounds = f"{_bound(row, row.floor)}  {_bound(row, row.aim)}"
        suite.note(f"{row.what + ', ' + row.unit:42} {sides[0]:>22} {sides[1]:>22} {row.ratio:6.2f}x  {bounds}")
    for row in rows:
        if row.floor is not None:
            reached = "" if row.aim is None else "; aim reached" if row.meets(row.aim) else "; aim not reached"
            detail = f"{row.ratio:.2f}x, floor {_bound(row, row.floor)}{reached}"
            suite.check(f"floor: {row.what}", row.meets(row.floor), detail)


def _spread(values: list[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}"


def _bound(row: Row, bound: float | None) -> str:
    return "     " if bound is None else f"{'>=' if row.more_is_better else '<='}{bound:.2f}"
