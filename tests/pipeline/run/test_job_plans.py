"""Plans that a job continues, and plans that it makes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline import jobs
from ottla.pipeline.compaction.plan import CompactionPlan
from ottla.pipeline.run.job_plans import plan_partition
from ottla.storage.disk.paths import TopicPartition
from support.logs.make_log import DAY_MS, SECRET
from support.pipeline.stored_topic import TOPIC, stored_topic

NOW_MS = 30 * DAY_MS
TP_0 = TopicPartition(TOPIC, 0)


@pytest.mark.parametrize("is_begun", [False, True], ids=["staged", "partly installed"])
def test_a_stale_plan_is_replaced(tmp_path: Path, is_begun: bool) -> None:
    """A stale plan has the horizons of its own time: tombstones that it keeps would be removed by the next pass."""
    data_dir = str(stored_topic(tmp_path, internal_segment_bytes="300"))

    def options(now_ms: int) -> dict[str, Any]:
        return {"topic": TOPIC, "partition": 0, "now_ms": lambda: now_ms, "secret": lambda: SECRET}

    def plan_at(now_ms: int) -> CompactionPlan:
        return plan_partition(jobs.job(None, data_dir, **options(now_ms)), TP_0)

    (first,) = jobs.compact(None, data_dir, installs=is_begun, max_groups=1, **options(NOW_MS))
    assert plan_at(NOW_MS + DAY_MS - 1).plan_id == first.plan_id
    later_ms = NOW_MS + DAY_MS
    assert plan_at(later_ms).now_ms == later_ms
    (second,) = jobs.compact(None, data_dir, installs=True, **options(later_ms))
    assert second.outcome == "installed"
    assert jobs.verify(None, data_dir, plan_id=second.plan_id, **options(later_ms)).passed
