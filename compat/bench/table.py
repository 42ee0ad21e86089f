"""Medians of two sides, their ratio, and the design's floor and aim for it; and figures of one side."""

import statistics
from dataclasses import dataclass, field

from ..support.suite import Suite

KAFKA, OTTLA = "apache-kafka", "ottla"


@dataclass
class Row:
    """One figure of both sides. `floor` and `aim` bound ours / theirs: from above, or from below if `more_is_better`.

    `sides` names theirs and ours.
    """

    what: str
    unit: str
    floor: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    sides: tuple[str, str] = (KAFKA, OTTLA)
    values: dict[str, list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.values = {side: [] for side in self.sides}

    def median(self, side: str) -> float:
        return statistics.median(self.values[side])

    @property
    def ratio(self) -> float:
        theirs, ours = map(self.median, self.sides)
        return ours / (theirs or float("nan"))

    def meets(self, bound: float) -> bool:
        return _meets(self.ratio, bound, self.more_is_better)


def print_table(suite: Suite, rows: list[Row]) -> None:
    """Print one line per row; check each floor, and mention each aim. All rows have the same sides."""
    theirs, ours = rows[0].sides
    suite.note(f"{'':42} {theirs:>24} {ours:>24} {'ratio':>7}  floor   aim")
    for row in rows:
        sides = [f"{row.median(side):8.2f} ({_spread(row.values[side])})" for side in row.sides]
        bounds = f"{_bound(row.floor, row.more_is_better)}  {_bound(row.aim, row.more_is_better)}"
        suite.note(f"{row.what + ', ' + row.unit:42} {sides[0]:>24} {sides[1]:>24} {row.ratio:6.2f}x  {bounds}")
    for row in rows:
        if row.floor is not None:
            _judge(suite, row.what, row.ratio, f"{row.ratio:.2f}x", row.floor, row.aim, row.more_is_better)


def judge(
    suite: Suite, what: str, value: float, unit: str, floor: float, aim: float | None = None, *, judged: bool = True
) -> None:
    """Report a figure of Ottla alone, with upper bounds as floor and aim; a note and no check unless `judged`."""
    shown = f"{value:,.2f} {unit}".rstrip()
    if judged:
        _judge(suite, what, value, shown, floor, aim, more_is_better=False)
    else:
        suite.note(f"{what}: {shown}")


def _judge(
    suite: Suite, what: str, value: float, shown: str, floor: float, aim: float | None, more_is_better: bool
) -> None:
    reached = ""
    if aim is not None:
        word = "reached" if _meets(value, aim, more_is_better) else "not reached"
        reached = f"; aim {_bound(aim, more_is_better)} {word}"
    detail = f"{shown}, floor {_bound(floor, more_is_better)}{reached}"
    suite.check(f"floor: {what}", _meets(value, floor, more_is_better), detail)


def _meets(value: float, bound: float, more_is_better: bool) -> bool:
    return value >= bound if more_is_better else value <= bound


def _spread(values: list[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}"


def _bound(bound: float | None, more_is_better: bool) -> str:
    return "     " if bound is None else f"{'>=' if more_is_better else '<='}{bound:.2f}"
