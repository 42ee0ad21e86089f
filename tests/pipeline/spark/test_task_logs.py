"""Log lines of tasks on their executors: none on the user's own machine, otherwise which partition and file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.pipeline.spark_settings import FRUGAL, JAVA_OPTIONS
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import full_only, size

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")
pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import UsageError
from ottla.pipeline.run.java import java_home
from ottla.pipeline.spark.task_logs import are_wanted, logged


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        java_home()
    except UsageError as error:
        pytest.skip(str(error))


@full_only  # a JVM of its own, for 24 s of processor time
def test_local_task_logs_appear_on_request_and_the_ui_is_named(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    command = [sys.executable, "-m", "ottla.pipeline.cli", "compact", str(data_dir), "--topic", TOPIC, "--json"]
    java = f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"
    confs = ("spark.log.level=INFO", java, *size([f"{name}={value}" for name, value in FRUGAL.items()], []))
    options = ["--partition", "0", "--master", "local[1]", *(each for conf in confs for each in ("--conf", conf))]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    assert sum(line.startswith("Spark's UI: http://127.0.0.1:") for line in done.stderr.splitlines()) == 1
    path = data_dir / f"{TOPIC}-0" / f"{0:020}.log"
    said = [line.partition(" INFO ottla.tasks: ")[2] for line in done.stderr.splitlines()]
    (plan_id,) = {each["plan_id"] for each in json.loads(done.stdout)["partitions"]}
    group = f"{data_dir}.ottla-pipeline/{plan_id}/{0:020}"
    for what in (
        f"{TOPIC}-0: scan of {path}",
        f"{TOPIC}-0: rewrite of {group}",
        f"{TOPIC}-0: verify {group}/{0:020}.log",
    ):
        assert f"{what}: begins" in said
        assert f"{what}: done" in said
        assert said.index(f"{what}: begins") < said.index(f"{what}: done")


def test_task_logs_appear_on_a_cluster_and_not_locally() -> None:
    def context(master: str, **confs: str) -> Any:
        return SimpleNamespace(master=master, getConf=lambda: confs)

    assert [are_wanted(context(master)) for master in ("local", "local[*]", "local[2, 4]")] == [False, False, False]
    assert [are_wanted(context(master)) for master in ("spark://h:7077", "yarn", "local-cluster[2,1,1024]")] == [
        True
    ] * 3
    assert are_wanted(context("local[*]", **{"spark.log.level": "info"}))
    assert not are_wanted(context("local[*]", **{"spark.log.level": "OFF"}))


def test_without_spark_task_logs_appear_on_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.tasks")
    with logged("orders-0: scan of a file"):
        pass
    with pytest.raises(ValueError, match="damage"), logged("orders-0: scan of another"):
        raise ValueError("damage")
    assert caplog.messages == [
        "orders-0: scan of a file: begins",
        "orders-0: scan of a file: done",
        "orders-0: scan of another: begins",
        "orders-0: scan of another: failed: damage",
    ]
