"""Executors' software compared with the driver's: the table, and a line for each mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from ottla.pipeline import cli
from ottla.pipeline.errors import ExitCode, PipelineError
from ottla.pipeline.run.check import CheckReport, mismatches_of
from ottla.pipeline.spark.on_executors import FoundOnExecutors, found_here

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DRIVER = FoundOnExecutors(
    host="d", executor="", python="3.11.7", ottla="1.0", kernel="compiled", pyspark="4.3.0", java="", pyarrow="20.0.0",
    pandas="2.3.3", numpy="2.1.0", data="3 partitions", path="/python",
)  # fmt: skip


def executor(number: int, **other: str) -> FoundOnExecutors:
    there = {**DRIVER, "host": f"w{number}", "executor": str(number), "java": "17.0.1"}
    return cast(FoundOnExecutors, there | other)


CASES = {
    "all alike": ([executor(1), executor(2, numpy="1.26.4", python="3.11.9")], []),
    "no ottla": (
        [executor(1, ottla="none", kernel="none")],
        ["ottla: none, the driver has 1.0: w1 (1); install the same ottla[spark] for what PYSPARK_PYTHON names"],
    ),
    "an interpreted kernel": ([executor(7, kernel="interpreted")], ["kernel: interpreted, the driver has compiled: w7 (7);"]),
    "no Arrow on many": (
        [executor(number, pyarrow="none") for number in range(5)],
        ["pyarrow: none, expected 18 or newer: w0 (0), w1 (1), w2 (2) and 2 more"],
    ),
    "old libraries": (
        [executor(1, java="11.0.2", pandas="2.1.4")],
        ["pandas: 2.1.4, expected 2.2 or newer: w1 (1)", "java: 11.0.2, expected 17 or newer: w1 (1)"],
    ),
    "a Java that is not known": ([executor(1, java="not known")], []),
    "a library that does not load": (
        [executor(1, numpy="ImportError: libblas.so.3")],
        ["numpy: ImportError: libblas.so.3, expected 1.26 or newer: w1 (1)"],
    ),
    "another directory": (
        [executor(1), executor(2, data="none (No such file or directory)")],
        ["data: none (No such file or directory), the driver has 3 partitions: w2 (2); the data directory must be on all"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_mismatch_is_one_line(case: str) -> None:
    executors, expected = CASES[case]
    found = mismatches_of(DRIVER, executors)
    assert len(found) == len(expected), found
    for line, begins in zip(found, expected, strict=True):
        assert line.startswith(begins), line
        assert "\n" not in line


def test_a_directory_invisible_to_the_driver_is_reported_once() -> None:
    driver = cast(FoundOnExecutors, {**DRIVER, "data": "none (No such file or directory)"})
    (line,) = mismatches_of(driver, [executor(1, data=driver["data"]), executor(2, data=driver["data"])])
    assert line.startswith("data: none (No such file or directory): d (driver); ")


def test_the_table_omits_columns_without_information() -> None:
    executors = [executor(12, data=""), executor(3, data="")]
    report = CheckReport(cast(FoundOnExecutors, {**DRIVER, "data": ""}), executors, ["a line"])
    head, driver, *rows, last = str(report).splitlines()
    assert head.split() == [
        "host",
        "executor",
        "python",
        "ottla",
        "kernel",
        "pyspark",
        "java",
        "pyarrow",
        "pandas",
        "numpy",
    ]
    assert driver.split()[:2] == ["d", "(driver)"]
    assert [row.split()[1] for row in rows] == ["12", "3"]
    assert rows[0].index("17.0.1") == head.index("java")
    assert last == "a line"
    with pytest.raises(PipelineError, match=r"^a line$", check=lambda error: error.exit_code == ExitCode.FAILED):
        report.check()


def test_the_command_without_spark_reports_on_this_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "t-0").mkdir()
    assert cli.main(["check", str(tmp_path), "--master", "none"]) == 0
    assert "1 partition\n" in capsys.readouterr().out
    assert cli.main(["check", f"{tmp_path}/no", "--master", "none", "--json"]) == 6
    assert '"mismatches": [' in capsys.readouterr().out


def test_executors_of_a_session_are_queried(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.pipeline import jobs

    (tmp_path / "t-0").mkdir()
    report = jobs.check(spark, str(tmp_path))
    report.check()
    (found,) = report.executors  # of one process
    here = found_here([str(tmp_path)])
    alike = ("host", "python", "ottla", "kernel", "pyspark", "pyarrow", "numpy", "data", "path")
    assert [found[name] for name in alike] == [here[name] for name in alike]  # type: ignore[literal-required]
