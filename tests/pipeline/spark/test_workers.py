"""Workers that cannot run Ottla's tasks are found when the formats are registered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

import ottla.pipeline
from ottla.pipeline.errors import UsageError
from ottla.pipeline.run.java import java_home
from ottla.pipeline.spark.workers import refusal, runs_here
from support.sizes import full_only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
import ottla.pipeline
made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
made = made.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
spark = made.getOrCreate()
try:
    ottla.pipeline.register(spark)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
spark.stop()
"""


def test_local_workers_need_the_drivers_python(tmp_path: Path) -> None:
    own, other, base = tmp_path / "own", tmp_path / "other", tmp_path / "base"
    for folder in (own, other, base):
        folder.mkdir()
    (base / "python3").touch(mode=0o755)
    for name in ("own/python", "own/python3", "other/python3"):
        (tmp_path / name).symlink_to(base / "python3")
    executable = str(own / "python")
    assert runs_here(str(own / "python3"), "local[2]", executable)
    assert not runs_here(str(other / "python3"), "local[2]", executable), "another environment of the same Python"
    assert not runs_here(str(base / "python3"), "local[2]", executable)
    assert not runs_here(str(own / "nothing"), "local[2]", executable)
    assert not runs_here(str(own / "python3"), "spark://host:7077", executable)


@pytest.mark.parametrize(
    ("python", "is_given", "says"),
    [
        ("python3", False, "workers run 'python3' (as PYSPARK_PYTHON is not set)"),
        ("/opt/python", True, "workers run '/opt/python' (as PYSPARK_PYTHON says)"),
        (None, False, "workers of the Connect server"),
    ],
)
def test_the_refusal_is_one_line_with_a_remedy(python: str | None, is_given: bool, says: str) -> None:
    text = refusal("No module named 'ottla'", python, is_given=is_given)
    assert text.startswith(says) and "No module named 'ottla'" in text and "ottla[spark]" in text and "\n" not in text


WITHOUT_OTTLA = [("base", "Error: "), ("/nowhere/python", "Cannot run program")]


def python_named(python: str) -> str:
    path = getattr(sys, "_base_executable", "") if python == "base" else python
    if path == sys.executable:
        pytest.skip("this Python is no environment's")
    return path


@pytest.mark.parametrize(("python", "says"), WITHOUT_OTTLA)
def test_workers_without_ottla_are_reported_by_register(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, python: str, says: str
) -> None:
    path = python_named(python)
    with monkeypatch.context() as patched, pytest.raises(UsageError) as raised:
        patched.setenv("PYSPARK_PYTHON", path)
        patched.setattr(spark.sparkContext, "pythonExec", path)  # a starting session uses this setting
        ottla.pipeline.register(spark)
    ottla.pipeline.register(spark)  # otherwise the session's sources have that Python
    line = str(raised.value)
    assert line.startswith(f"workers run '{path}' (as PYSPARK_PYTHON says)") and "\n" not in line
    assert says in line and "set PYSPARK_PYTHON to a Python" in line


@full_only  # a JVM for each
@pytest.mark.parametrize(("python", "says"), WITHOUT_OTTLA)
def test_a_session_whose_workers_lack_ottla_is_refused_by_register(python: str, says: str) -> None:
    try:
        home = java_home()
    except UsageError as error:
        pytest.skip(str(error))
    path = python_named(python)
    environment = {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [sys.executable, "-c", OWN_SESSION], capture_output=True, text=True, env=environment, check=False, timeout=600
    )
    (line,) = ran.stdout.splitlines()
    assert line.startswith(f"UsageError: workers run '{path}' (as PYSPARK_PYTHON says)"), ran.stderr
    assert says in line and "set PYSPARK_PYTHON to a Python" in line
