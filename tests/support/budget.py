"""What each test costs in processor time: pytest's hooks, which `tests/conftest.py` takes over."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

SHOWN = 10
_PROPERTY = "cpu_s"


def spent_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    before_s = spent_s()
    result = yield
    item.user_properties.append((_PROPERTY, spent_s() - before_s))
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    costs = sorted(_costs(terminalreporter.stats), reverse=True)
    if len(costs) > SHOWN:
        terminalreporter.section(f"processor time: {sum(cost for cost, _ in costs):.0f} s in {len(costs)} tests")
        for cost, nodeid in costs[:SHOWN]:
            terminalreporter.write_line(f"{cost:6.2f} s {nodeid}")


def _costs(stats: dict[str, list[Any]]) -> Iterator[tuple[float, str]]:
    for outcome in ("passed", "failed"):
        for report in stats.get(outcome, ()):
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    yield value, report.nodeid
