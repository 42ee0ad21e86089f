"""In which order tests run, and which process runs them: pytest's hooks, which `tests/conftest.py` takes over.

`make test` has a process for each processor. A file is run by one of them, so that what its tests share is made once; all that share
a Spark session are run by one. The files of SPLIT have few tests that take long: these are given out one by one, last.
"""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

SPARK = "tests/pipeline/"
SPLIT = (
    "tests/test_blocks.py",
    "tests/server/handlers/test_handlers_in_turns.py",
    "tests/server/broker/test_server_crashes.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    chance = random.Random(seed)
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
    """The tests with the same unit are run by one process."""
    if nodeid.startswith(SPARK):
        return SPARK
    path = file_of(nodeid)
    return nodeid if path in SPLIT else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    scheduling: Any = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = unit_of
    return scheduling
