"""What `ottla-spark plan`, `compact`, `install` and `status` do, partition by partition.

compact    the pending plan, or a new one -> staged -> verified by its plan -> with --install: in the log
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..storage.files import OsFiles
from ..storage.paths import TopicPartition
from .audit_scope import scope_of_plan
from .engine import Engine
from .errors import CorruptSourceError, SourceChangedError, UsageError
from .install import install, locked
from .install_online import install_online
from .install_steps import discard, is_plan_installed, originals_directory
from .job_results import PartitionResult, group_line, result_of
from .plan import CONFIGS, CompactionPlan, make_plan, staging_root
from .rewrite import GroupResult, finished_group
from .staging import check_sources, is_installed, pending_plans, save_plan
from .store import Store

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the options of a command say."""

    data_dir: str
    topic: str | None
    partition: int | None
    configs: Mapping[str, str]
    engine: Engine
    say: Say
    """Takes a line of progress."""
    now_ms: Callable[[], int]
    secret: Callable[[], bytes]
    admin: str | None = None
    """HOST:PORT of the admin listener of the server that runs over the directory; None if it is stopped."""

    def store(self) -> Store:
        return Store(self.data_dir)

    def partitions(self) -> list[TopicPartition]:
        return self.store().topic_partitions(self.topic, self.partition)


def plan_partition(job: Job, tp: TopicPartition, *, resume: bool = False) -> CompactionPlan:
    """The pending plan, if its segments and the topic's configs are still the same; else a new one, which is not saved.

    A pending plan whose segments have changed, and of which nothing is installed, is discarded.

    Args:
        resume: Only the pending plan will do, if there is one.

    Raises:
        SourceChangedError: `resume`, and its segments have changed.
    """
    store, files = job.store(), OsFiles()
    config = store.config_of(tp.topic, job.configs)
    for pending in reversed(pending_plans(files, store.data_dir, tp)):
        if is_plan_installed(pending, files):
            continue
        begun = any(is_installed(files, pending, group) for group in range(len(pending.groups)))
        if resume or begun:
            return pending
        try:
            check_sources(files, pending)
        except SourceChangedError:
            discard(pending, files)  # nobody can go on with it
            continue
        if all(pending.config[name] == getattr(config, name) for name in CONFIGS):
            return pending
    now_ms = job.now_ms()
    with store.open_log(tp, now_ms=now_ms, config=config) as log:
        return make_plan(
            log,
            data_dir=store.data_dir,
            checkpoint=log.cleaner_checkpoint,
            now_ms=now_ms,
            secret=job.secret(),
            survey=job.engine.survey,
        )


def plan(job: Job) -> list[PartitionResult]:
    """Make and save a plan for each partition that has something to do."""
    found = []
    for tp in job.partitions():
        made = plan_partition(job, tp)
        _save(made)
        found.append(result_of(made, "planned"))
    return found


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
        dry_run: Leave nothing behind: neither a plan nor what it makes.
        max_groups: Install so many of each partition, and leave the rest to another call.
        skips_corrupt: Go on with the next partition where one is damaged.

    Raises:
        PipelineError: As planning, the stages, `verify` and `install` do. Partitions before are done.
    """
    if installs and job.admin is None:  # before hours of work
        with locked(OsFiles(), job.store().data_dir):
            pass
    found = []
    for tp in job.partitions():
        try:
            found.append(
                _compact_one(
                    job, tp, installs=installs, dry_run=dry_run, resume=resume, max_groups=max_groups, verifies=verifies
                )
            )
        except CorruptSourceError as error:
            if not skips_corrupt:
                raise
            found.append(PartitionResult(topic=tp.topic, partition=tp.partition, outcome="skipped", reason=str(error)))
    return found


def _compact_one(
    job: Job,
    tp: TopicPartition,
    *,
    installs: bool,
    dry_run: bool,
    resume: bool,
    max_groups: int | None,
    verifies: bool,
) -> PartitionResult:
    files = OsFiles()
    made = plan_partition(job, tp, resume=resume)
    if not made.sources:
        return result_of(made, "nothing to do")
    is_new = _save(made)
    results = job.engine.compact(made, lambda result: job.say(group_line(made, result)))
    if dry_run:
        if is_new:
            discard(made, files)
            with suppress(OSError):  # other plans are there
                os.rmdir(staging_root(made.data_dir))
        return result_of(made, "would be compacted", results)
    if verifies and not any(is_installed(files, made, group) for group in range(len(made.groups))):
        job.engine.verify([scope_of_plan(made, files)], f"plan {made.plan_id}").check()
    if not installs:
        return result_of(made, "staged", results)
    return _install_one(job, made, max_groups, results)


def install_plans(job: Job, *, plan_id: str | None = None, max_groups: int | None = None) -> list[PartitionResult]:
    """Put into the log what is staged.

    Raises:
        UsageError: There is no such plan, or nothing is staged.
        PipelineError: As `install`.
    """
    files, store = OsFiles(), job.store()
    plans = [each for each in pending_plans(files, store.data_dir) if not is_plan_installed(each, files)]
    chosen = [
        each
        for each in plans
        if plan_id in (None, each.plan_id)
        and job.topic in (None, each.topic)
        and job.partition in (None, each.partition)
    ]
    if not chosen:
        raise UsageError(f"{store.data_dir}: expected a staged plan{f' {plan_id}' if plan_id else ''}, found none")
    found = []
    for each in chosen:
        results = [finished_group(each, group, files) for group in range(len(each.groups))]
        found.append(_install_one(job, each, max_groups, [result for result in results if result is not None]))
    return found


def status(job: Job) -> list[dict[str, Any]]:
    """The plans that lie beside the data directory, and how far they are."""
    files, store = OsFiles(), job.store()
    found = []
    for each in pending_plans(files, store.data_dir):
        if job.topic not in (None, each.topic) or job.partition not in (None, each.partition):
            continue
        originals = originals_directory(each)
        kept = files.list(originals) if files.is_dir(originals) else []
        groups = range(len(each.groups))
        found.append(
            {
                "plan_id": each.plan_id,
                "topic": each.topic,
                "partition": each.partition,
                "planned_at_ms": each.now_ms,
                "upper_offset": each.upper_offset,
                "groups": len(each.groups),
                "staged": sum(finished_group(each, group, files) is not None for group in groups),
                "installed": sum(is_installed(files, each, group) for group in groups),
                "is_complete": is_plan_installed(each, files),
                "originals_bytes": sum(files.size(f"{originals}/{name}") for name in kept),
            }
        )
    return found


def find_plan(job: Job, plan_id: str) -> CompactionPlan:
    """
    Raises:
        UsageError: There is no such plan.
    """
    for each in pending_plans(OsFiles(), job.store().data_dir):
        if each.plan_id == plan_id:
            return each
    raise UsageError(f"{job.store().data_dir}: expected a plan {plan_id} beside it, found none")


def _install_one(job: Job, plan: CompactionPlan, max_groups: int | None, results: list[GroupResult]) -> PartitionResult:
    name = f"{plan.topic}-{plan.partition}"

    def on_group(group: int) -> None:
        job.say(f"{name}: group {group + 1} of {len(plan.groups)} installed")

    files, now_ms = OsFiles(), job.now_ms()
    if job.admin is None:
        done = install(plan, files, now_ms=now_ms, max_groups=max_groups, overrides=job.configs, on_group=on_group)
    else:
        done = install_online(plan, job.admin, files, now_ms=now_ms, max_groups=max_groups, on_group=on_group)
    return result_of(plan, "installed" if done.is_complete else "partly installed", results)


def _save(plan: CompactionPlan) -> bool:
    """Put a plan into its staging directory, if it has something to do and is not there; whether it was new."""
    if not plan.sources or any(
        each.plan_id == plan.plan_id for each in pending_plans(OsFiles(), plan.data_dir, plan.topic_partition)
    ):
        return False
    save_plan(OsFiles(), plan)
    return True
