"""The order of tests, and the process that runs each: pytest's hooks, which `tests/conftest.py` imports.

`make test` has a process for each processor. One process runs a whole file, so that what its tests share is created once; one
process runs all files whose tests share a Spark session. The files of SPLIT have few, slow tests: these are distributed one by
one, last.
"""

from __future__ import annotations

import importlib
import random
import re
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from support.sizes import size

ROOT = Path(__file__).parents[2]
SPARK = "tests/pipeline/"
"""Path prefix of the fixture `spark`; the unit of the files that use it."""
ASKS_FOR_SPARK = re.compile(r"[(,]\s*spark:")
SPLIT = (
    # In a short run, loading them in each process costs as much as the few blocks that are run.
    *size((), ("tests/test_blocks.py",)),
    "tests/server/handlers/test_handlers_in_turns.py",
    "tests/server/broker/test_server_crashes.py",
)
FIRST = (SPARK, "tests/pipeline/spark/test_task_logs.py")
"""Units that begin first, as their JVMs take longest; after them those with most tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and unit_of(item.nodeid) != SPARK:
            raise pytest.UsageError(
                f"{item.nodeid}: expected the argument as `spark: SparkSession`, in a file of {SPARK}"
            )
    seed = config.getoption("--shuffle")
    if seed is not None:
        shuffle(items, random.Random(seed))
    if hasattr(config, "workerinput"):  # of pytest-xdist, which distributes units in the order of their first tests
        sizes = Counter(unit_of(item.nodeid) for item in items)
        items.sort(key=lambda item: place_of(unit := unit_of(item.nodeid), sizes[unit]))


def place_of(unit: str, tests: int) -> tuple[int, int]:
    """Return the sort key by which units are distributed, the smallest first."""
    return FIRST.index(unit) if unit in FIRST else len(FIRST), -tests


def shuffle(items: list[pytest.Item], chance: random.Random) -> None:
    """Shuffle the files, and the tests of each."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(file_of(item.nodeid), []).append(item)
    names = list(files)
    chance.shuffle(names)
    for each in files.values():
        chance.shuffle(each)
    items[:] = [item for name in names for item in files[name]]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: one process runs all tests of a unit."""
    path = file_of(nodeid)
    if path.startswith(SPARK) and asks_for_spark(path):
        return SPARK
    return nodeid if path in SPLIT else path


@cache
def asks_for_spark(path: str) -> bool:
    """Return whether a file uses Spark, by its text: the process that distributes tests has not collected them."""
    return ASKS_FOR_SPARK.search((ROOT / path).read_text()) is not None


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Start one process more than pytest-xdist does by itself: the process of Spark's tests mostly waits for the JVM."""
    return (yield) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test as pytest does, and send one report of it: three reports cost pytest-xdist 1.2 ms more.

    Setup and teardown are reported if they do not pass.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    scheduling: Any = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = unit_of
    config.option.loadscopereorder = False
    return scheduling
