"""A finished group in the staging directory: complete or missing, written once, and distinguished from a damaged one."""

from __future__ import annotations

import errno
from dataclasses import replace
from functools import partial

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

from ottla.pipeline.compaction.exchange import BITS, Blob, merge_buckets, scan_source
from ottla.pipeline.compaction.group_results import check_finished_group
from ottla.pipeline.compaction.local import compact_locally
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.rewrite import rewrite_group, rewrite_groups
from ottla.pipeline.compaction.segment_bits import SegmentBits
from ottla.pipeline.compaction.staging import group_directory, save_plan
from ottla.pipeline.errors import CorruptSourceError, ExitCode, PipelineError
from support.disk.crash_files import CrashFiles, PowerLoss
from support.logs.make_log import SECRET, append, make_log
from support.pipeline.stored_log import stored


def planned() -> tuple[CrashFiles, CompactionPlan]:
    """Return a plan of two groups, saved: in the first, one of two records is superseded by the second's."""
    log = make_log()
    append(log, ("a", "1"), ("b", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    plan = make_plan(stored(log), data_dir="/data", checkpoint=None, now_ms=2_000, secret=SECRET)
    plan = replace(plan, groups=((0,), (1,)))
    assert isinstance(log.files, CrashFiles)
    log.files.sync_all()
    save_plan(log.files, plan)
    return log.files, plan


def test_a_result_reports_counts_and_files() -> None:
    files, plan = planned()
    first, second = compact_locally(plan, source_files=files, files=files)
    assert (first.records_read, first.records_written, first.removed["superseded"]) == (2, 1, 1)
    assert (second.records_read, second.records_written) == (1, 1)
    assert second.bytes_written == second.bytes_read == plan.sources[1].size_bytes
    assert first.source_base_offsets == (0,) and second.base_offset == 2
    assert sorted(first.files) == [f"{0:020}{kind}" for kind in (".index", ".log", ".timeindex")]


@pytest.mark.parametrize("checkpoint", [0, 1, 2], ids=["dirty", "across the border", "clean"])
def test_a_compressed_record_that_is_larger_than_the_topic_allows_is_refused(checkpoint: int) -> None:
    log = make_log()
    append(log, ("a", "v" * 50), ("b", "1"), codec=1)
    append(log, ("a", "2"), roll=True)
    log.config = replace(log.config, max_decompressed_message_bytes=56)
    plan = make_plan(stored(log), data_dir="/data", checkpoint=checkpoint, now_ms=2_000, secret=SECRET)
    with pytest.raises(CorruptSourceError, match=r"a record is larger than max\.decompressed\.message\.bytes=56"):
        compact_locally(plan, source_files=log.files, files=log.files)


def test_a_second_run_does_nothing() -> None:
    files, plan = planned()
    results = compact_locally(plan, source_files=files, files=files)
    before = files.snapshot()
    done = len(files.operations)
    assert compact_locally(plan, source_files=files, files=files) == results
    assert files.snapshot() == before
    assert not [each for each in files.operations[done:] if each[0] in ("append", "rename", "remove", "create")]


def test_a_run_killed_at_any_operation_resumes_to_the_same_bytes() -> None:
    files, plan = planned()
    whole = files.copy()
    compact_locally(plan, source_files=whole, files=whole)
    expected = whole.snapshot()
    for fail_at in range(1, len(whole.operations)):
        dying = files.copy(fail_at=fail_at)
        try:
            compact_locally(plan, source_files=dying, files=dying)
        except PowerLoss:
            dying = dying.copy()
        compact_locally(plan, source_files=dying, files=dying)
        assert dying.snapshot() == expected, "nor has the dead attempt left anything"


def test_a_group_is_on_disk_when_it_has_its_name() -> None:
    files, plan = planned()
    result = compact_locally(plan, source_files=files, files=files)
    for disk in files.after_crash(ordered=False):
        assert [check_finished_group(plan, group, disk) for group in (0, 1)] == result


def test_a_damaged_result_is_rebuilt() -> None:
    files, plan = planned()
    results = compact_locally(plan, source_files=files, files=files)
    expected = files.snapshot()
    path = f"{group_directory(plan, 0)}/{0:020}.log"
    files.open(path).append(b"\0")
    assert check_finished_group(plan, 0, files) is None
    assert compact_locally(plan, source_files=files, files=files) == results
    assert files.snapshot() == expected


def test_the_first_of_two_attempts_counts() -> None:
    files, plan = planned()
    blobs = [each for number in (0, 1) for each in scan_source(plan, number, files, buckets=1)]
    found = [each for each in merge_buckets(plan, blobs) if each.task == 0]
    made = [
        rewrite_group(plan, 0, found, source_files=files, files=files, attempt=attempt) for attempt in ("one", "two")
    ]
    assert made[0] == made[1] == check_finished_group(plan, 0, files)
    assert files.list(plan.staging) == [f"{0:020}", "plan.json"]


def test_a_repeated_task_leaves_finished_groups_alone() -> None:
    files, plan = planned()
    blobs = [each for number in (0, 1) for each in scan_source(plan, number, files, buckets=1)]
    stage_3 = partial(rewrite_groups, plan, source_files=files, files=files)
    first = next(iter(stage_3(merge_buckets(plan, blobs), attempt="one")))
    done = len(files.operations)
    again = list(stage_3(merge_buckets(plan, blobs), attempt="two"))
    assert first in again and len(again) == 2
    made = {path for operation, path, *_ in files.operations[done:] if operation == "append" and path.endswith(".log")}
    assert len(made) == 1


def test_a_failed_attempt_frees_its_space_on_a_full_disk() -> None:
    files, plan = planned()
    before = files.snapshot()

    def refuse(operation: str, path: str, added_bytes: int) -> None:
        if operation == "append" and path.endswith(".log"):
            raise OSError(errno.ENOSPC, "No space left on device")

    files.refuse = refuse
    with pytest.raises(
        PipelineError,
        match=rf"^{plan.staging}/\d{{20}}\.local\.part: No space left on device$",
        check=lambda error: error.exit_code == ExitCode.FAILED,
    ):
        compact_locally(plan, source_files=files, files=files)
    assert files.snapshot() == before
    files.refuse = None
    assert len(compact_locally(plan, source_files=files, files=files)) == 2


def test_bitmaps_of_other_records_are_refused() -> None:
    files, plan = planned()
    blobs = list(scan_source(plan, 0, files, buckets=1))
    bits = next(SegmentBits.from_bytes(each.data) for each in blobs if each.kind == BITS)
    wrong = Blob(0, 0, BITS, bits._replace(numbered=3).to_bytes())
    with pytest.raises(
        CorruptSourceError, match="segment 0: its records end at number 2, expected 3 from the offset map"
    ):
        rewrite_group(plan, 0, [wrong], source_files=files, files=files, attempt="one")
    assert check_finished_group(plan, 0, files) is None
