"""The command's own stream, from a broker's directory into a table of Parquet."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

from ottla.pipeline.apply.formats import FormatSpec
from ottla.pipeline.apply.parquet_table import ParquetTable
from ottla.pipeline.apply.query import ApplyJob, apply
from support.pipeline.stored_topic import TOPIC, stored_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.needs_sources


def job(path: Path, **options: Any) -> ApplyJob:
    texts = FormatSpec("string", "value")
    return ApplyJob(
        TOPIC, str(path / "table"), "parquet", data_dir=str(path / "data"), value=texts, creates=True, **options
    )


def test_an_interrupt_ends_a_stream_that_stays_without_a_word(
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
    again = apply(spark, job(tmp_path))
    assert (again.batches, again.records) == (0, 0)
