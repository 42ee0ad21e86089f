"""`prove-erased`: the same report in this process and on Spark, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline import jobs
from ottla.pipeline.cli import main
from ottla.storage.disk.checkpoints import MetaProperties, write_meta_properties
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.erasure.places import KeyReport, Verdict, Why
from support.pipeline.stored_topic import TOPIC, stored_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = [b"a", b"b", b"x", b"nothing"]


def store(directory: Path) -> str:
    data_dir = str(stored_topic(directory))
    write_meta_properties(OsFiles(), data_dir, MetaProperties(cluster_id="c", node_id=0, directory_id=None))
    return data_dir


def found(report: KeyReport) -> list[tuple[str, int, int, Why]]:
    return [(each.key, each.partition, each.values, each.why) for each in report.places]


def test_every_record_of_the_keys_is_found(tmp_path: Path) -> None:
    report = jobs.prove_erased(None, store(tmp_path), topic=TOPIC, keys=KEYS)
    assert report.verdict is Verdict.HELD and report.unread == ()
    totals = {each.key: (each.values, each.tombstones) for each in report.keys}
    assert totals["b"] == (1, 1) and totals["x"] == (1, 0) and totals["nothing"] == (0, 0)
    assert ("x", 0, 1, Why.ABORTED) in found(report)
    assert jobs.prove_erased(None, store(tmp_path / "2"), topic=TOPIC, keys=[b"nothing"]).verdict is Verdict.GONE


def test_spark_makes_the_same_report(tmp_path: Path, spark: SparkSession) -> None:
    data_dir = store(tmp_path)
    now: dict[str, Any] = {"now_ms": lambda: 1_000_000}
    here = jobs.prove_erased(None, data_dir, topic=TOPIC, keys=KEYS, **now)
    assert jobs.prove_erased(spark, data_dir, topic=TOPIC, keys=KEYS, **now) == here


def test_the_command_prints_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir, keys = store(tmp_path), tmp_path / "keys.txt"
    line = ["prove-erased", data_dir, "--topic", TOPIC, "--keys-from", str(keys), "--master", "none"]
    keys.write_text("nothing\n")
    assert main([*line, "--json", "--report", str(tmp_path / "proof.html")]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "gone"
    assert "no record of the keys" in (tmp_path / "proof.html").read_text()
    keys.write_text("61\n")
    assert main([*line, "--key-encoding", "hex"]) == 5
    out, err = capsys.readouterr()
    assert "values of key 'a': live" in out and "Not erased" in err
    for text, said in (("", "no keys"), ("6", "line 1: expected a key in hex")):
        keys.write_text(text)
        assert main([*line, "--key-encoding", "hex"]) == 1
        assert said in capsys.readouterr().err
