"""Executors that have no ottla of their own: it is shipped with the job, as venv-pack packs it; and `ottla-spark check` of both."""

import json
import sys
from pathlib import Path

from ..support.environments import copy_of_source, empty_environment, pip, run
from ..support.suite import Suite
from .command import Driver
from .log_under_test import TOPIC, LogUnderTest
from .refused import python_without_ottla

SPARK_FAILED = 6
PACKED = ("pyarrow>=18", "pandas>=2.2,<3", "numpy>=1.26", "venv-pack", "setuptools")
"""The packages besides ottla: workers have PySpark from their Spark. venv-pack reads the list of packages from setuptools."""
SHIPPED = "ottla-environment"


def judge(suite: Suite, driver: Driver, log: LogUnderTest, work: Path) -> None:
    log.restore()
    driver.moments.clear()
    bare = str(python_without_ottla(work / "bare"))
    done = driver.run("check", str(log.data), "--json", PYSPARK_PYTHON=bare)
    suite.equal("check, of executors without ottla: exit code 6", SPARK_FAILED, done.code)
    found = json.loads(done.out) if done.out else {"executors": [], "mismatches": [done.err[-300:]]}
    suite.equal("a row for each executor", 2, len(found["executors"]))
    lines = found["mismatches"]
    suite.check("a line says that ottla is not there", any(each.startswith("ottla: none") for each in lines), lines)
    archive = packed(suite, work / "packed")
    if archive is None:
        return
    shipped = {"spark.archives": f"{archive}#{SHIPPED}"}
    python = f"./{SHIPPED}/bin/python"
    done = driver.run("check", str(log.data), confs=shipped, PYSPARK_PYTHON=python)
    suite.check("check, with an environment that is shipped", done.code == 0, done.refusal or done.out.strip())
    done = driver.run("compact", str(log.data), "--topic", TOPIC, "--quiet", confs=shipped, PYSPARK_PYTHON=python)
    suite.check("compact, with it", done.code == 0, done.refusal)
    suite.equal("its files are those of --master none", log.expected, log.staged())


def packed(suite: Suite, folder: Path) -> Path | None:
    """Make an environment for the executors as pipeline/README.md describes it."""
    folder.mkdir()
    python = empty_environment(folder / "environment")
    done = pip(python, "install", copy_of_source(folder / "source"), *PACKED, cwd=folder)
    if not suite.check("an environment is made", done.returncode == 0, done.stderr[-300:]):
        return None
    archive = folder / "ottla.tar.gz"
    done = run(
        [python.with_name("venv-pack"), "--output", archive], folder, {"VIRTUAL_ENV": str(folder / "environment")}
    )
    if not suite.check("venv-pack packs it", done.returncode == 0, done.stderr[-300:]):
        return None
    suite.note(f"{archive.name}: {archive.stat().st_size / 1e6:.0f} MB, for Python {sys.version.split()[0]}")
    return archive
