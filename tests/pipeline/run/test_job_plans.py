"""Which plan is gone on with, and which is made anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.run import commands
from ottla.pipeline.run.engine import IN_PROCESS, Engine
from ottla.pipeline.run.job_plans import Job, plan_partition
from ottla.storage.disk.paths import TopicPartition
from support.logs.make_log import DAY_MS, SECRET
from support.pipeline.stored_topic import TOPIC, stored_topic

NOW_MS = 30 * DAY_MS
TP_0 = TopicPartition(TOPIC, 0)


def job_over(directory: Path) -> Job:
    return Job(
        data_dir=str(stored_topic(directory, internal_segment_bytes="300")),
        topic=TOPIC,
        partition=0,
        configs={},
        engine=Engine(IN_PROCESS),
        say=lambda _: None,
        now_ms=lambda: NOW_MS,
        secret=lambda: SECRET,
    )


@pytest.mark.parametrize("is_begun", [False, True], ids=["staged", "partly installed"])
def test_a_stale_plan_is_made_anew(tmp_path: Path, is_begun: bool) -> None:
    """Its horizons are those of its own time: tombstones that it keeps would go with the next pass."""
    job = job_over(tmp_path)
    (first,) = commands.compact(job, installs=is_begun, max_groups=1)
    fresh = plan_partition(replace(job, now_ms=lambda: NOW_MS + DAY_MS - 1), TP_0)
    assert fresh.plan_id == first.plan_id
    later = replace(job, now_ms=lambda: NOW_MS + DAY_MS)
    assert plan_partition(later, TP_0).now_ms == NOW_MS + DAY_MS
    (second,) = commands.compact(later, installs=True)
    assert second.outcome == "installed"
    assert commands.verify(later, plan_id=second.plan_id).passed
