"""What each test costs in processor time: pytest's hooks, which `tests/conftest.py` takes over.

A test aims at less than 2 s, and fails above LIMIT_S: so `make test` stays as short as it is. Full runs have no limit.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from support.sizes import FULL

LIMIT_S = 5.0
"""Two to three times what a test may cost: processors that share a core, or other programs' use of its memory, make a test dearer."""

EXPENSIVE = {
    "tests/test_blocks.py::test_the_blocks_of": "a page starts the programs that its reader starts",
    "tests/server/testing/test_plugin.py::"
    "test_the_broker_speaks_tls_where_it_is_asked_to_and_no_fixture_says_otherwise": "pytest in a process of its own, with keys of its own",
    "tests/typing/test_every_public_name.py::test_state": "six lives of a broker",
}
"""Tests that may cost more, by node id without parameters, each with the reason."""

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
    cost_s = spent_s() - before_s
    item.user_properties.append((_PROPERTY, cost_s))
    if cost_s > LIMIT_S and not FULL and item.nodeid.partition("[")[0] not in EXPENSIVE:
        pytest.fail(
            f"processor time: {cost_s:.1f} s (limit {LIMIT_S:.0f}); make the test cheaper, let `support.sizes` give it a slice,"
            " or name it in EXPENSIVE of tests/support/budget.py with the reason",
            pytrace=False,
        )
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
