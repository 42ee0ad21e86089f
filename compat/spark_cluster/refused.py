"""Workers that lack something. The command must name it, and leave the log unchanged."""

import sys
from importlib.util import find_spec
from pathlib import Path

from ..support.brokers.process import free_port
from ..support.suite import Suite
from .command import Done, Driver
from .log_under_test import TOPIC, LogUnderTest

SPARK_FAILED = 6
NEEDED = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "dateutil", "pytz", "tzdata", "six")
"""The packages that PySpark's workers need, besides ottla and its dependencies."""


def judge(suite: Suite, driver: Driver, log: LogUnderTest, work: Path) -> None:
    compact = ("compact", str(log.data), "--topic", TOPIC, "--quiet")

    def refused(what: str, done: Done, *words: str) -> None:
        suite.check(f"{what}: exit code 6", done.code == SPARK_FAILED, done.code)
        suite.check(
            "the refusal says why", all(word in done.refusal for word in words), done.refusal or done.err[-300:]
        )
        suite.check("in one line", "Traceback" not in done.err)
        suite.check("nothing is staged, and the log is untouched", log.untouched() and not log.staged())

    log.restore()
    python = python_without_ottla(work)
    refused(
        "workers whose Python lacks ottla", driver.run(*compact, PYSPARK_PYTHON=str(python)), "'ottla'", "on a worker"
    )
    driver.moments.clear()
    (driver.moments.directory / "unseen").write_text(str(log.beside))
    refused("workers that do not see the directory", driver.run(*compact), str(log.beside), "worker", "same paths")
    driver.moments.clear()
    log.restore()
    master = driver.cluster.port
    driver.cluster.port = free_port()
    try:
        refused("no master there", driver.run(*compact), "did not start", driver.cluster.master)
    finally:
        driver.cluster.port = master


def python_without_ottla(work: Path) -> Path:
    """Return the Python of this environment with PySpark's packages and nothing else."""
    packages = work / "packages-without-ottla"
    packages.mkdir(parents=True)
    for name in NEEDED:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (packages / found.name).symlink_to(found)
    numpy = find_spec("numpy")
    assert numpy is not None and numpy.origin is not None
    for path in Path(numpy.origin).parents[1].glob("*.libs"):
        (packages / path.name).symlink_to(path)
    made = work / "python-without-ottla"
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    made.chmod(0o755)
    return made
