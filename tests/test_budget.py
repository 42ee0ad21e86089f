"""Limits of tests in processor time: `support.budget`."""

from __future__ import annotations

import pytest

from support import budget

pytest_plugins = ["pytester"]

CONFTEST = """
from support import budget
from support.budget import pytest_runtest_call, pytest_terminal_summary

budget.FULL = {full}
budget._EXPENSIVE = {{"test_of_it.py::test_named"}}
clock = [0.0]
budget.spent_s = lambda: clock[0]
"""
TESTS = """
import conftest
import pytest

@pytest.mark.parametrize("cost_s", [4.9, 5.1])
def test_it(cost_s):
    conftest.clock[0] += cost_s

@pytest.mark.parametrize("cost_s", [50])
def test_named(cost_s):
    conftest.clock[0] += cost_s

def test_wrong():
    conftest.clock[0] += 6
    assert False, "an error of its own"
"""


@pytest.mark.parametrize(("full", "passed", "failed"), [(False, 2, 2), (True, 3, 1)])
def test_an_unlisted_test_above_the_limit_fails(
    full: bool, passed: int, failed: int, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(CONFTEST.format(full=full))
    pytester.makepyfile(test_of_it=TESTS)
    with pytest.MonkeyPatch.context() as patch:  # for this test's own budget; the inner conftest's settings are undone
        for name in ("FULL", "_EXPENSIVE", "spent_s"):
            patch.setattr(budget, name, getattr(budget, name))
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=passed, failed=failed)
    assert ("processor time: 5.1 s (limit 5)" in result.stdout.str()) != full
    result.stdout.fnmatch_lines("*an error of its own*")


def test_each_name_of_the_list_is_a_test(request: pytest.FixtureRequest) -> None:
    for nodeid in (each for nodeids in budget.EXPENSIVE.values() for each in nodeids):
        path, _, name = nodeid.partition("::")
        assert f"def {name}(" in (request.config.rootpath / path).read_text(), nodeid
