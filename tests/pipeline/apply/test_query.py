"""The command's own stream, from a broker's directory into a table of delta-rs."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pytest.importorskip("deltalake", reason="needs the extra ottla[delta-rs]")

from ottla.pipeline.apply.delta_rs_table import DeltaRsTable
from ottla.pipeline.apply.formats import FormatSpec
from ottla.pipeline.apply.query import ApplyJob, apply, equal_batches
from ottla.pipeline.errors import SourceChangedError
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job(path: Path, **options: Any) -> ApplyJob:
    texts = FormatSpec("string", "value")
    return ApplyJob(
        TOPIC, str(path / "table"), "delta-rs", data_dir=str(path / "data"), value=texts, creates=True, **options
    )


def loaded_topic(spark: SparkSession, path: Path, *, more: tuple[tuple[str, str], ...], **options: Any) -> Path:
    """Load a topic into the table, and write more records to it; return its data directory."""
    data_dir, said = stored_topic(path, **options), list[str]()
    applied = apply(spark, job(path, say=said.append))
    assert (applied.batches, [line.split(": ")[1] for line in said]) == (
        1,
        ["first load of orders", f"{applied.records} records, up to 0"],
    )
    shutil.rmtree(data_dir)
    return stored_topic(path, more=more, **options)


def test_an_interrupt_ends_a_continuous_stream_silently(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded_topic(spark, tmp_path, more=(("f", "1"),))
    said: list[str] = []

    def interrupted(line: str) -> None:
        said.append(line)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        apply(spark, job(tmp_path, every_s=1, say=interrupted))
    assert not caplog.records, "what py4j says of a connection that two ask at once"
    assert [line.rpartition(": ")[0] for line in said] == [f"{tmp_path}/table: 1 records, up to 0: 10, 1"]
    rows = {(row["key"], row["value"]) for row in DeltaRsTable(str(tmp_path / "table")).read(spark).collect()}
    assert rows == {("a", "3"), ("c", "1"), ("d", "1"), ("z", "1"), ("e", "1"), ("f", "1")} - {("a", "3")} | {
        ("a", "p1 again")
    }
    if FULL:  # a stream that begins again costs seconds, and `test_applier` has replays
        again = apply(spark, job(tmp_path))
        assert (again.batches, again.records) == (0, 0)


def test_a_topic_recreated_under_a_continuous_stream_ends_it(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = loaded_topic(spark, tmp_path, topic_id=bytes([2] * 16), more=(("f", "1"),))

    def created_again(line: str) -> None:
        shutil.rmtree(data_dir)
        stored_topic(tmp_path, topic_id=bytes([1] * 16), more=tuple((f"new-{n}", "1") for n in range(50)))

    with pytest.raises(
        SourceChangedError, match=r"orders: expected topic id .*: the topic was deleted and created again"
    ):
        apply(spark, job(tmp_path, every_s=1, say=created_again))
    keys = {row["key"] for row in DeltaRsTable(str(tmp_path / "table")).read(spark).collect()}
    assert not {key for key in keys if key.startswith("new-")}, "of the new topic nothing counts"
    with pytest.raises(SourceChangedError, match="--topic-made-anew"):
        apply(spark, job(tmp_path))
    if FULL:  # a stream that begins costs seconds, and `test_applier` has a topic that was created again
        apply(spark, job(tmp_path, topic_made_anew=True))
        keys = {row["key"] for row in DeltaRsTable(str(tmp_path / "table")).read(spark).collect()}
        assert {f"new-{n}" for n in range(50)} <= keys


@pytest.mark.parametrize(
    ("offsets", "limit", "batches"),
    [
        (0, 100, 0),
        (1, 100, 1),
        (100, 100, 1),
        (101, 100, 1),
        (102, 100, 2),
        (100_900, 100_000, 1),
        (250_000, 100_000, 3),
    ],
)
def test_batches_are_equal_and_no_small_one_is_left(offsets: int, limit: int, batches: int) -> None:
    cut, left = equal_batches(offsets, limit, partitions=3), offsets
    sizes = []
    while left:
        sizes.append(min(left, cut - 3))
        left -= sizes[-1]
    assert len(sizes) == batches
    assert all(size <= limit * 1.02 + 1 for size in sizes)
    assert len(sizes) < 2 or min(sizes) > 0.9 * max(sizes)
