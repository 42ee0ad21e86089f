"""The command's own stream, from a broker's directory into a table of Parquet."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

from ottla.pipeline.apply.formats import FormatSpec
from ottla.pipeline.apply.parquet_table import ParquetTable
from ottla.pipeline.apply.query import ApplyJob, apply
from ottla.pipeline.errors import SourceChangedError
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.needs_sources


def job(path: Path, **options: Any) -> ApplyJob:
    texts = FormatSpec("string", "value")
    return ApplyJob(
        TOPIC, str(path / "table"), "parquet", data_dir=str(path / "data"), value=texts, creates=True, **options
    )


def test_an_interrupt_ends_a_continuous_stream_silently(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored_topic(tmp_path)
    said: list[str] = []

    def interrupted(line: str) -> None:
        said.append(line)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        apply(spark, job(tmp_path, every_s=1, say=interrupted))
    assert not caplog.records, "what py4j says of a connection that two ask at once"
    assert len(said) == 1
    rows = {(row["key"], row["value"]) for row in ParquetTable(str(tmp_path / "table")).read(spark).collect()}
    assert rows == {("a", "3"), ("c", "1"), ("d", "1"), ("z", "1"), ("e", "1")} - {("a", "3")} | {("a", "p1 again")}
    if FULL:  # a stream that begins again costs seconds, and `test_applier` has replays
        again = apply(spark, job(tmp_path))
        assert (again.batches, again.records) == (0, 0)


def test_a_topic_recreated_under_a_continuous_stream_ends_it(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path, topic_id=bytes([2] * 16))

    def created_again(line: str) -> None:
        shutil.rmtree(data_dir)
        stored_topic(tmp_path, topic_id=bytes([1] * 16), more=tuple((f"new-{n}", "1") for n in range(50)))

    with pytest.raises(
        SourceChangedError, match=r"orders: expected topic id .*: the topic was deleted and created again"
    ):
        apply(spark, job(tmp_path, every_s=1, say=created_again))
    keys = {row["key"] for row in ParquetTable(str(tmp_path / "table")).read(spark).collect()}
    assert not {key for key in keys if key.startswith("new-")}, "of the new topic nothing counts"
    with pytest.raises(SourceChangedError, match="--topic-made-anew"):
        apply(spark, job(tmp_path))
    if FULL:  # a stream that begins costs seconds, and `test_applier` has a topic that was created again
        apply(spark, job(tmp_path, topic_made_anew=True))
        keys = {row["key"] for row in ParquetTable(str(tmp_path / "table")).read(spark).collect()}
        assert {f"new-{n}" for n in range(50)} <= keys
