"""What `ottla-spark plan`, `compact`, `install`, `verify` and `snapshot` do, partition by partition.

compact    the pending plan, or a new one -> staged -> verified by its plan -> with --install: in the log
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import TopicPartition
from ..compaction.group_results import GroupResult, finished_group
from ..compaction.plan import CompactionPlan
from ..compaction.survey import Surveying, survey_segments
from ..errors import UsageError, check_the_extra
from ..install.install import install, locked
from ..install.install_online import install_online
from ..install.install_steps import is_begun, is_plan_installed
from ..stores.reading_files import ReadingFiles
from ..stores.stores import opened_store
from .at_once import of_each
from .job_plans import Job, find_plan, forget, pending, plan_partition, save
from .job_results import PartitionResult, group_line, result_of

if TYPE_CHECKING:
    from ..snapshot.layers import SnapshotResult
    from ..verify.findings import VerifyReport


def plan(job: Job) -> list[PartitionResult]:
    """Make and save a plan for each partition that has something to do."""
    job.check_on_disk("plan")

    def one(tp: TopicPartition) -> PartitionResult:
        made = plan_partition(job, tp)
        save(made)
        return result_of(made, "planned")

    return _of_each(job, one)


def compact(
    job: Job,
    *,
    installs: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    max_groups: int | None = None,
    skips_corrupt: bool = False,
    verifies: bool = True,
) -> list[PartitionResult]:
    """Plan, run, verify, and if wanted install, partition by partition.

    Args:
        dry_run: Say what would come of it, exactly, and leave everything as it is.
        resume: As in `plan_partition`.
        max_groups: Install so many of each partition, and leave the rest to another call.
        skips_corrupt: A damaged log is no failure.

    Raises:
        PipelineError: As planning, the stages, `verify` and `install` do; see `of_each`: the other partitions are done.
    """
    job.check_on_disk("compact")
    check_the_extra()
    if installs and job.admin is None:  # before hours of work
        for store in job.store().stores:
            with locked(OsFiles(), store.data_dir):
                pass

    def one(tp: TopicPartition) -> PartitionResult:
        if dry_run:
            return _preview_one(job, tp, resume=resume)
        return _compact_one(job, tp, installs=installs, resume=resume, max_groups=max_groups, verifies=verifies)

    return _of_each(job, one, skips_corrupt=skips_corrupt)


def _of_each(
    job: Job, one: Callable[[TopicPartition], PartitionResult], *, skips_corrupt: bool = False
) -> list[PartitionResult]:
    partitions, progress = job.partitions(), job.engine.progress
    progress.begin(len(partitions))

    def counted(tp: TopicPartition) -> PartitionResult:
        try:
            return one(tp)
        finally:
            progress.partition_done()

    return of_each(
        counted,
        partitions,
        lambda tp: tp,
        at_once=1 if job.engine.is_in_process else job.at_once,
        skips_corrupt=skips_corrupt,
        give_up=job.engine.give_up,
    )


def _compact_one(
    job: Job, tp: TopicPartition, *, installs: bool, resume: bool, max_groups: int | None, verifies: bool
) -> PartitionResult:
    files = OsFiles()
    made = plan_partition(job, tp, resume=resume)
    if not made.sources:
        return result_of(made, "nothing to do")
    save(made)
    results = job.engine.compact(made, lambda result: job.say(group_line(made, result)))
    is_verified = verifies and not is_begun(made, files)
    if is_verified:
        from ..verify.audit_scope import scope_of_plan

        job.engine.verify([scope_of_plan(made, ReadingFiles())], f"plan {made.plan_id}").check()
    if not installs:
        return result_of(made, "staged", results)
    return _install_one(job, made, max_groups, results, survey=job.engine.survey, is_verified=is_verified)


def _preview_one(job: Job, tp: TopicPartition, *, resume: bool) -> PartitionResult:
    files = OsFiles()
    made = plan_partition(job, tp, resume=resume, discards=False)
    if not made.sources:
        return result_of(made, "nothing to do")
    finished = [finished_group(made, group, files) for group in range(len(made.groups))]
    results = [result for result in finished if result is not None]
    if len(results) < len(made.groups):
        is_new = save(made)  # the tasks read it
        try:
            results = job.engine.dry_run(made)
        finally:
            if is_new:
                forget(made)
    for result in results:
        job.say(group_line(made, result))
    return result_of(made, "would be compacted", results)


def install_plans(job: Job, *, plan_id: str | None = None, max_groups: int | None = None) -> list[PartitionResult]:
    """Put into the log what is staged: of each partition the newest plan, or the one of that id.

    Raises:
        UsageError: There is no such plan, or nothing is staged.
        PipelineError: As `install`.
    """
    job.check_on_disk("install")
    files = OsFiles()
    plans = [each for each in pending(job) if not is_plan_installed(each, files)]
    chosen = [each for each in plans if plan_id in (None, each.plan_id) and job.is_of(each.topic_partition)]
    if not chosen:
        raise UsageError(
            f"{job.store().data_dir}: expected a staged plan{f' {plan_id}' if plan_id else ''}, found none"
        )
    store = job.store()
    # Of two, the older one was passed over; so was one beside a directory that the log has left since.
    chosen.sort(key=lambda each: each.data_dir == store.of(each.topic_partition).data_dir)
    newest = {each.topic_partition: each for each in chosen}

    def one(each: CompactionPlan) -> PartitionResult:
        results = [finished_group(each, group, files) for group in range(len(each.groups))]
        return _install_one(job, each, max_groups, [result for result in results if result is not None])

    # One after the other: each holds the lock of the directory.
    return of_each(one, [*newest.values()], lambda each: each.topic_partition, at_once=1, give_up=job.engine.give_up)


def verify(job: Job, *, against: str | None = None, plan_id: str | None = None) -> VerifyReport:
    """Check what compaction promises: alone, against a copy of the data directory from before, or by a plan.

    Raises:
        UsageError: Neither a topic nor a plan is given, or there is none.
        PipelineError: As opening the logs does. What is found is in the report; its `check` raises that.
    """
    check_the_extra()
    from ..verify.audit_scope import scope_against, scope_alone, scope_of_plan

    if plan_id is not None:
        chosen = find_plan(job, plan_id)
        return job.engine.verify([scope_of_plan(chosen, ReadingFiles())], f"plan {chosen.plan_id}")
    if job.topic is None:
        raise UsageError("verify: expected --topic or --plan")
    store, now_ms = job.store(), job.now_ms()
    if against is None:
        scopes = [scope_alone(store.of(tp), tp, now_ms, job.configs) for tp in job.partitions()]
        return job.engine.verify(scopes, "alone", job.files())
    originals = opened_store(against, job.files())
    found = originals.topic_partitions(job.topic, job.partition)
    scopes = [scope_against(store.of(tp), originals.of(tp), tp, now_ms, job.configs) for tp in found]
    return job.engine.verify(scopes, f"against {originals.data_dir}", job.files())


def snapshot(job: Job, out: str, *, overwrite: bool = False, since: str | None = None) -> SnapshotResult:
    """Write the latest value of each key to Parquet, or what has changed since an earlier snapshot. Errors as of
    `pipeline.snapshot`."""
    check_the_extra()
    if job.topic is None:
        raise UsageError("snapshot: expected --topic")
    return job.engine.snapshot(
        job.data_dir,
        job.topic,
        out,
        now_ms=job.now_ms,
        partition=job.partition,
        overwrite=overwrite,
        since=since,
        configs=job.configs,
        files=job.files(),
    )


def _install_one(
    job: Job,
    plan: CompactionPlan,
    max_groups: int | None,
    results: list[GroupResult],
    *,
    survey: Surveying = survey_segments,
    is_verified: bool = False,
) -> PartitionResult:
    name = f"{plan.topic}-{plan.partition}"

    def on_group(group: int) -> None:
        job.say(f"{name}: group {group + 1} of {len(plan.groups)} installed")

    files, now_ms = OsFiles(), job.now_ms()
    if job.admin is None:
        store = job.store().of(plan.topic_partition)
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
