"""The result of a plan is verified record by record: it is known exactly what one pass removes, keeps and marks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline import jobs
from ottla.pipeline.compaction.plan import CompactionPlan
from ottla.pipeline.compaction.staging import group_directory, originals_directory, pending_plans
from ottla.pipeline.errors import UsageError
from ottla.pipeline.verify.audit_scope import scope_of_plan
from ottla.pipeline.verify.findings import PartitionReport
from ottla.pipeline.verify.verify import verify
from ottla.protocol.records import DELETE_HORIZON_BIT
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from support.pipeline.planted_damage import Change, changed, gone, header, records, without
from support.pipeline.stored_topic import TOPIC, stored_topic

NOW_MS = 5_000
RETENTION_MS = 86_400_000


def staged_plan(directory: Path, *, installs: bool = False, seals: bool = False) -> CompactionPlan:
    """Compact partition 0 of the stored topic; return its plan.

    In the new segment: c | z | (empty, of producer 7) | ABORT | a, b deleted.
    """
    data_dir = stored_topic(directory, seals=seals)
    jobs.compact(
        None,
        str(data_dir),
        topic=TOPIC,
        partition=0,
        installs=installs,
        now_ms=lambda: NOW_MS,
        secret=lambda: bytes(16),
    )
    (plan,) = pending_plans(OsFiles(), str(data_dir))
    return plan


def log_of(plan: CompactionPlan) -> Path:
    staged = Path(paths.log_path(group_directory(plan, 0), plan.group_base(0)))
    return staged if staged.exists() else Path(paths.log_path(plan.directory, plan.group_base(0)))


def report_of(plan: CompactionPlan) -> PartitionReport:
    return verify([scope_of_plan(plan, OsFiles())], OsFiles()).partitions[0]


def resurrected(plan: CompactionPlan) -> bytes:
    """Return the originals, in place of their compacted form."""
    return b"".join(Path(paths.log_path(plan.directory, source.base_offset)).read_bytes() for source in plan.sources)


@pytest.mark.parametrize("installs", [False, True], ids=["staged", "installed"])
def test_results_of_compact_pass_verification(installs: bool, tmp_path: Path) -> None:
    plan = staged_plan(tmp_path, installs=installs)
    report = report_of(plan)
    assert (report.finding_count, report.records, report.records_before) == (0, 5, 8)


CASES: tuple[tuple[str, int, Change, str], ...] = (
    ("a tombstone lost", 7, without(7), "a key's newest record is kept"),
    ("a newest value lost", 2, gone, "a key's newest record is kept"),
    ("another delete horizon", 7, header(base_timestamp=NOW_MS + RETENTION_MS + 1), "a new delete horizon is"),
    ("no delete horizon", 7, header(attributes=0, base_timestamp=1_000), "a tombstone that is kept has a delete"),
    ("the last batch of a producer lost", 4, gone, "the last batch of a producer"),
    ("another codec", 3, header(attributes=0), "records can be read"),
    ("a horizon where no tombstone is", 2, header(attributes=DELETE_HORIZON_BIT), "a new delete horizon is"),
    ("another value", 2, records(lambda record: record._replace(value=b"9")), "a record keeps its value"),
)


@pytest.mark.parametrize(("offset", "change", "rule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_damage_is_found(offset: int, change: Change, rule: str, tmp_path: Path) -> None:
    plan = staged_plan(tmp_path)
    log = log_of(plan)
    log.write_bytes(changed(log.read_bytes(), offset, change))
    assert rule in " ".join(finding.rule for finding in report_of(plan).findings)


def test_the_batch_at_the_high_watermark_is_missed(tmp_path: Path) -> None:
    plan = staged_plan(tmp_path, seals=True)
    log = log_of(plan)
    log.write_bytes(changed(log.read_bytes(), 8, gone))
    rule = "the last batch of a producer, and one that ends at the high watermark, is kept"
    assert [finding.offset for finding in report_of(plan).findings if finding.rule == rule] == [8]


def test_an_unchanged_log_under_a_plan_is_found(tmp_path: Path) -> None:
    plan = staged_plan(tmp_path)
    log_of(plan).write_bytes(resurrected(plan))
    found = {(each.rule, each.offset, each.key) for each in report_of(plan).findings if each.key is not None}
    assert {
        ("a superseded record is gone from the compacted part", 0, b"a"),
        ("a superseded record is gone from the compacted part", 1, b"b"),
        ("data of aborted transactions is gone", 4, b"x"),
        ("a tombstone that is kept has a delete horizon", 7, b"b"),
    } == found


def test_verification_needs_the_originals(tmp_path: Path) -> None:
    plan = staged_plan(tmp_path, installs=True)
    assert Path(originals_directory(plan)).is_dir()
    OsFiles().remove_dir(originals_directory(plan))
    with pytest.raises(
        UsageError, match=f"group 0 of plan {plan.plan_id} is not staged, or its originals were deleted"
    ):
        scope_of_plan(plan, OsFiles())
