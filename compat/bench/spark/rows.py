"""Two sides of one log and the bounds of their ratio: of wall time on an idle machine, of CPU time on any."""

import statistics
from dataclasses import dataclass, field

from ...support.suite import Suite
from .cost import Cost


@dataclass
class Comparison:
    """Medians of `ours` over medians of `theirs`, both names of sides.

    Bounds are upper bounds; without one the ratio is only reported.

    `cpu_floor` always holds; `wall_floor` is judged if the machine was idle before every round.
    """

    what: str
    ours: str
    theirs: str
    cpu_floor: float | None = None
    cpu_aim: float | None = None
    wall_floor: float | None = None
    wall_aim: float | None = None


@dataclass
class Figures:
    """Costs of all sides, round by round."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)
    was_idle: bool = True

    def add(self, side: str, cost: Cost) -> None:
        self.costs.setdefault(side, []).append(cost)

    def wall_s(self, side: str) -> float:
        return statistics.median(cost.wall_s for cost in self.costs[side])

    def cpu_s(self, side: str) -> float:
        return statistics.median(cost.cpu_s for cost in self.costs[side])

    def jvm_s(self, side: str) -> float:
        return statistics.median(cost.jvm_s for cost in self.costs[side])

    def print_sides(self, suite: Suite) -> None:
        suite.note("| side | rounds | wall, s: median (min-max) | CPU, s: median (min-max) | of it JVM |")
        suite.note("|---|---|---|---|---|")
        for side, costs in self.costs.items():
            walls, cpus = [cost.wall_s for cost in costs], [cost.cpu_s for cost in costs]
            suite.note(
                f"| {side} | {len(costs)} | {self.wall_s(side):.2f} ({min(walls):.2f}-{max(walls):.2f}) |"
                f" {self.cpu_s(side):.2f} ({min(cpus):.2f}-{max(cpus):.2f}) | {self.jvm_s(side):.2f} |"
            )

    def print_ratios(self, suite: Suite, comparisons: list[Comparison]) -> None:
        """Print a table of all, then check each floor."""
        found = [(each, *self._ratios(each)) for each in comparisons if {each.ours, each.theirs} <= set(self.costs)]
        suite.note("| ratio | CPU | floor | aim | wall | floor | aim |")
        suite.note("|---|---|---|---|---|---|---|")
        for each, cpu, wall in found:
            bounds = [_shown(bound) for bound in (each.cpu_floor, each.cpu_aim, each.wall_floor, each.wall_aim)]
            suite.note(
                f"| {each.what} | {cpu:.2f} | {bounds[0]} | {bounds[1]} | {wall:.2f} | {bounds[2]} | {bounds[3]} |"
            )
        for each, cpu, wall in found:
            _judge(suite, f"{each.what}, CPU", cpu, each.cpu_floor, each.cpu_aim)
            if self.was_idle:
                _judge(suite, f"{each.what}, wall", wall, each.wall_floor, each.wall_aim)

    def _ratios(self, each: Comparison) -> tuple[float, float]:
        return self.cpu_s(each.ours) / self.cpu_s(each.theirs), self.wall_s(each.ours) / self.wall_s(each.theirs)


def _judge(suite: Suite, what: str, ratio: float, floor: float | None, aim: float | None) -> None:
    if floor is not None:
        reached = "" if aim is None else f"; aim {aim:.2f} {'reached' if ratio <= aim else 'not reached'}"
        suite.check(f"floor: {what}", ratio <= floor, f"{ratio:.2f}x, floor {floor:.2f}{reached}")


def _shown(bound: float | None) -> str:
    return "" if bound is None else f"{bound:.2f}"
