"""The order of tests, and the tests that one process runs together: `support.order`."""

from __future__ import annotations

from itertools import pairwise

import pytest

from support.order import FIRST, ROOT, SPARK, place_of, unit_of

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/pipeline/apply/test_query.py::test_a[1]", SPARK),
        ("tests/pipeline/stores/test_store.py::test_a", "tests/pipeline/stores/test_store.py"),
        ("tests/storage/logs/test_log.py::test_a", "tests/storage/logs/test_log.py"),
        (
            "tests/server/broker/test_server_crashes.py::test_a[1]",
            "tests/server/broker/test_server_crashes.py::test_a[1]",
        ),
    ],
)
def test_tests_that_share_something_have_one_unit(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_the_slowest_units_start_first_and_then_those_with_most_tests() -> None:
    sizes = {"few.py": 3, FIRST[1]: 3, "many.py": 300, SPARK: 100}
    assert sorted(sizes, key=lambda unit: place_of(unit, sizes[unit])) == [SPARK, FIRST[1], "many.py", "few.py"]
    assert all((ROOT / unit).exists() for unit in FIRST)


def test_spark_has_one_process_more_than_there_are_processors(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from support.order import pytest_xdist_auto_num_workers")
    pytester.makepyfile("def test_it(): pass")
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    config = pytester.parseconfig("-p", "no:cacheprovider", "-p", "xdist", "-n", "logical")
    config.pluginmanager.getplugin("xdist").pytest_cmdline_main(config)
    assert config.option.tx == ["popen"] * 2


def test_a_process_of_pytest_xdist_reports_every_outcome_except_a_pass(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from support.order import pytest_runtest_protocol")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def refused():
            assert False

        @pytest.fixture
        def left():
            yield
            assert False

        def test_setup(refused): pass
        def test_call(): assert False
        def test_teardown(left): pass
        def test_good(): pass
        @pytest.mark.skip
        def test_skipped(): pass
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider", "-p", "xdist", "-n", "1")
    result.assert_outcomes(passed=2, failed=1, errors=2, skipped=1)


CONFTEST = "from support.order import pytest_addoption, pytest_collection_modifyitems, pytest_report_header"


def orders(pytester: pytest.Pytester, *options: str) -> list[str]:
    result = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist", "--collect-only", "-q", *options)
    return [line for line in result.outlines if "::" in line]


def test_a_seed_gives_one_order_and_keeps_a_files_tests_together(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    tests = "\n".join(f"def test_{number}(): pass" for number in range(20))
    pytester.makepyfile(test_a=tests, test_b=tests, test_c=tests)
    as_written = orders(pytester)
    shuffled = orders(pytester, "--shuffle", "1")
    assert orders(pytester, "--shuffle", "1") == shuffled
    assert sorted(shuffled) == sorted(as_written)
    assert shuffled not in (as_written, orders(pytester, "--shuffle", "2"))
    files = [line.partition("::")[0] for line in shuffled]
    assert sum(one != other for one, other in pairwise(files)) == 2


def test_an_untyped_use_of_the_spark_session_ends_the_run(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(CONFTEST + "\nimport pytest\n@pytest.fixture\ndef spark(): pass\n")
    pytester.makepyfile(test_a="def test_it(spark): pass")
    result = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist", "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_a.py::test_it: expected the argument as `spark: SparkSession`*"])
