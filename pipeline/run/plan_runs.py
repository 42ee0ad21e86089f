"""Steps with the plan of one partition: run or only count its stages, verify the result, and install it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ...storage.disk import paths
from ...storage.disk.os_files import OsFiles
from ..compaction.group_results import GroupResult, finished_group
from ..compaction.plan import CompactionPlan
from ..compaction.staging import group_directory
from ..compaction.survey import Surveying, survey_segments
from ..install.install import install
from ..install.install_online import install_online
from ..stores.reading_files import ReadingFiles
from .engine import Engine
from .job_plans import Job, forget, save
from .job_results import PartitionResult, group_line, result_of

if TYPE_CHECKING:
    from ..verify.audit_scope import Scope
    from ..verify.findings import VerifyReport
    from ..verify.verify import Judging

LOOK_EVERY_S = 0.5


def run_plan(job: Job, plan: CompactionPlan) -> list[GroupResult]:
    """Stage all groups of a saved plan."""
    about = str(plan.topic_partition)
    with _groups_said(job, plan), job.engine.watched(f"compact {about}", about) as (spark, watch):
        if spark is None:
            from ..compaction.local import compact_locally

            return compact_locally(plan, source_files=ReadingFiles(), files=OsFiles(), watch=watch)
        from ..compaction.compact import compact

        return compact(spark, plan, watch=watch)


def preview_plan(job: Job, plan: CompactionPlan) -> PartitionResult:
    """Return what `run_plan` would result in. Leaves no files."""
    results = finished_groups(plan)
    if len(results) < len(plan.groups):
        is_new = save(plan)  # the tasks read it
        try:
            results = _dry_run(job.engine, plan)
        finally:
            if is_new:
                forget(plan)
    for result in results:
        job.say(group_line(plan, result))
    return result_of(plan, "would be compacted", results)


def _dry_run(engine: Engine, plan: CompactionPlan) -> list[GroupResult]:
    about = str(plan.topic_partition)
    with engine.watched(f"compact {about}, dry run", about) as (spark, watch):
        if spark is None:
            from ..compaction.local import dry_run_locally

            return dry_run_locally(plan, source_files=ReadingFiles(), watch=watch)
        from ..compaction.compact import dry_run

        return dry_run(spark, plan, watch=watch)


def finished_groups(plan: CompactionPlan) -> list[GroupResult]:
    """Return the results of the groups that are staged, or installed."""
    found = [finished_group(plan, group, OsFiles()) for group in range(len(plan.groups))]
    return [result for result in found if result is not None]


def verify_scopes(engine: Engine, scopes: Sequence[Scope], mode: str, files: ReadingFiles) -> VerifyReport:
    """Judge these scopes. The report's `check` raises the findings."""
    from ..verify.verify import judge_here, verify

    what = ", ".join(str(scope.tp) for scope in scopes[:3])
    with engine.watched(f"verify {what}", what) as (spark, watch):
        judge: Judging = judge_here
        if spark is not None:
            from ..verify.verify_jobs import judge_on

            judge = judge_on(spark)
        return verify(scopes, files, judge, mode=mode, watch=watch)


def verify_plan(engine: Engine, plan: CompactionPlan) -> VerifyReport:
    """Judge what a plan has staged or installed. Raises UsageError if it has done neither."""
    from ..verify.audit_scope import scope_of_plan

    files = ReadingFiles()
    return verify_scopes(engine, [scope_of_plan(plan, files)], f"plan {plan.plan_id}", files)


def install_plan(
    job: Job,
    plan: CompactionPlan,
    max_groups: int | None,
    results: Sequence[GroupResult],
    *,
    survey: Surveying = survey_segments,
    is_verified: bool = False,
) -> PartitionResult:
    """Install what is staged of a plan in the log; arguments and errors as of `install`."""

    def on_group(group: int) -> None:
        job.say(f"{plan.topic_partition}: group {group + 1} of {len(plan.groups)} installed")

    files, now_ms = OsFiles(), job.now_ms()
    if job.admin is None:
        store = job.store().store_of(plan.topic_partition)
        store.check_settled(plan.topic_partition)
        with job.installing:
            done = install(
                plan,
                files,
                now_ms=now_ms,
                max_groups=max_groups,
                overrides=job.configs,
                on_group=on_group,
                store=store,
                survey=survey,
                is_verified=is_verified,
            )
    else:
        done = install_online(
            plan, job.admin, files, now_ms=now_ms, max_groups=max_groups, on_group=on_group, survey=survey
        )
    return result_of(plan, "installed" if done.is_complete else "partly installed", results)


@contextmanager
def _groups_said(job: Job, plan: CompactionPlan) -> Iterator[None]:
    """Watch the staging directory while a job runs, and report each group that is finished.

    All workers write groups there. A look costs a listing, and a manifest for each new group.
    """
    files, ended = ReadingFiles(), threading.Event()
    waiting = {group_directory(plan, group): group for group in range(len(plan.groups))}

    def look() -> None:
        names: Sequence[str] = ()
        with suppress(FileNotFoundError):  # another command has forgotten the plan
            names = files.list(plan.staging)
        for name in names:
            directory = paths.join(plan.staging, name)
            if directory in waiting and (found := finished_group(plan, waiting[directory], files)) is not None:
                del waiting[directory]
                job.say(group_line(plan, found))

    def watch() -> None:
        while not ended.wait(LOOK_EVERY_S):
            look()

    thread = threading.Thread(target=watch, name="groups", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()
