"""`ottla-spark check`: what the driver and each executor have, in a table, and their mismatches, a line each.

Spark reports problems of executors only after a failure, in about forty lines. Tasks of this job need only PySpark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import PipelineError
from ..spark.on_executors import NONE, FoundOnExecutors, found_here
from .engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAUSE_S = 0.3
"""Duration of a task in seconds, so that all executors get one."""
TASKS_A_CORE = 2
QUIET_ROUNDS, ROUNDS_MAX = 2, 20
"""Executors start one after the other: all are assumed to be known once this many rounds have shown no new one."""

COLUMNS = ("host", "executor", "python", "ottla", "kernel", "pyspark", "java", "pyarrow", "pandas", "numpy", "data")
LEAST = {"pyarrow": (18,), "pandas": (2, 2), "numpy": (1, 26), "java": (17,)}
"""Oldest versions, equal to those in `pyproject.toml`."""
EQUAL = {
    "ottla": "install the same ottla[spark] for what PYSPARK_PYTHON names, or ship an environment with --archives",
    "kernel": "keys are hashed in another way: install a wheel, or a compiler before ottla is built",
    "pyspark": "the cluster's Spark and the driver's PySpark must be one release",
    "data": "the data directory must be on all workers, at the same path",
}
"""Columns in which executors must equal the driver, with the remedy."""


@dataclass(frozen=True)
class CheckReport:
    """Versions on the driver and the executors, and their mismatches."""

    driver: FoundOnExecutors
    executors: list[FoundOnExecutors]
    mismatches: list[str]

    def check(self) -> None:
        """Raise the first mismatch.

        Raises:
            PipelineError: The versions do not fit together.
        """
        if self.mismatches:
            raise PipelineError(self.mismatches[0])

    def __str__(self) -> str:
        rows = [COLUMNS, *(tuple(each[name] for name in COLUMNS) for each in (self.driver, *self.executors))]  # type: ignore[literal-required]
        rows[1] = (rows[1][0], "(driver)", *rows[1][2:])
        shown = [column for column in range(len(COLUMNS)) if any(row[column] for row in rows[1:])]
        widths = {column: max(len(row[column]) for row in rows) for column in shown}
        lines = ["  ".join(row[column].ljust(widths[column]) for column in shown).rstrip() for row in rows]
        return "\n".join([*lines, *self.mismatches])


def check(engine: Engine, data_dir: str | None) -> CheckReport:
    """Look at the driver, and at the executors of an engine's session.

    Args:
        data_dir: The directory that all must see; several with commas between them.

    Raises:
        PipelineError: No task ended: the executors' Python does not start, or has another version than the driver's.
    """
    dirs = [] if data_dir is None else data_dir.split(",")
    executors: list[FoundOnExecutors] = []
    if not engine.is_in_process:
        with engine.session("what executors have") as spark:
            executors = _found_on(spark, dirs)
    driver = found_here(dirs, is_executor=False)
    return CheckReport(driver, executors, mismatches_of(driver, executors))


def _found_on(spark: SparkSession, dirs: list[str]) -> list[FoundOnExecutors]:
    from pyspark import cloudpickle

    from ..spark import on_executors
    from ..spark.failures import failures_translated
    from ..spark.tasks import tasks_at_once

    pause_s, look = PAUSE_S, on_executors.look
    seen: dict[tuple[str, str], FoundOnExecutors] = {}
    quiet = 0
    cloudpickle.register_pickle_by_value(on_executors)  # type: ignore[no-untyped-call]
    try:
        for _ in range(ROUNDS_MAX):
            before, tasks = len(seen), TASKS_A_CORE * tasks_at_once(spark)
            work = spark.sparkContext.parallelize(range(tasks), tasks)
            with failures_translated():
                found = work.mapPartitions(lambda _: look(dirs, pause_s)).collect()
            seen |= {(each["host"], each["executor"]): each for each in found}
            quiet = 0 if len(seen) > before else quiet + 1
            if quiet == QUIET_ROUNDS:
                break
    finally:
        cloudpickle.unregister_pickle_by_value(on_executors)  # type: ignore[no-untyped-call]
    return [each for _, each in sorted(seen.items())]


def mismatches_of(driver: FoundOnExecutors, executors: Sequence[FoundOnExecutors]) -> list[str]:
    """Return a line for each mismatch and its cause, with the hosts that have it."""
    found: dict[str, list[str]] = {}
    for each in (driver, *executors):
        where = f"{each['host']} ({each['executor'] or 'driver'})"
        for name, least in LEAST.items():
            has = each[name]  # type: ignore[literal-required]
            if has and has != "not known" and _numbers(has) < least:
                wanted = ".".join(map(str, least))
                found.setdefault(f"{name}: {has}, expected {wanted} or newer", []).append(where)
        # Without ottla an executor has no kernel either.
        names = tuple(EQUAL) if each["ottla"] != NONE or each is driver else ("ottla", "pyspark", "data")
        for name in names:
            has, wanted = each[name], driver[name]  # type: ignore[literal-required]
            if has != wanted or (name == "data" and NONE in has and each is driver):
                text = f"{name}: {has}, the driver has {wanted}" if each is not driver else f"{name}: {has}"
                found.setdefault(f"{text}; {EQUAL[name]}", []).append(where)
    return [f"{text.partition(';')[0]}: {_who(who)}{''.join(text.partition(';')[1:])}" for text, who in found.items()]


def _who(who: list[str]) -> str:
    return ", ".join(who[:3]) + (f" and {len(who) - 3} more" if len(who) > 3 else "")


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version; an empty tuple if the text is not a version."""
    numbers = []
    for part in text.split(".")[:3]:
        digits = part if part.isdigit() else ""
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
