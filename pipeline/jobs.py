"""Commands of `ottla-spark` as functions on a session that the caller has, and keeps.

    from ottla.pipeline import jobs

    results = jobs.compact(spark, "/data", topic="orders", installs=True)
    jobs.results_frame(spark, results).show()             # or job_results.as_json(results)
    report = jobs.verify(spark, "/data", topic="orders", against="/before")
    report.check()

With None as the session a job runs in this process, without a JVM. Failures are raised (`errors`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from ..storage.disk.os_files import OsFiles
from ..storage.disk.paths import TopicPartition
from ..storage.erasure.search import Search
from ..storage.steps import to_the_end
from .compaction.group_results import finished_group
from .compaction.plan import CompactionPlan
from .compaction.staging import is_installed, originals_directory
from .errors import UsageError, check_the_extra
from .install.install import locked
from .install.install_steps import is_begun, is_plan_installed
from .objects.addresses import parse_fs_options
from .run.at_once import run_each
from .run.engine import IN_PROCESS, Engine
from .run.job_plans import Job, find_plan, pending, plan_partition, save
from .run.job_results import RESULT_DDL, PartitionResult, result_of
from .run.plan_runs import finished_groups, install_plan, preview_plan, run_plan, verify_plan, verify_scopes
from .run.progress import JobProgress, Say
from .stores.reading_files import resolved
from .stores.stores import opened_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..storage.erasure.places import KeyReport
    from .apply.applier import Applied, Applier
    from .run.check import CheckReport
    from .snapshot.snapshot import SnapshotResult
    from .verify.findings import VerifyReport


def job(
    spark: SparkSession | None,
    data_dir: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    configs: Mapping[str, str] | None = None,
    admin: str | None = None,
    say: Say | None = None,
    at_once: int = 4,
    fs_options: Mapping[str, str] | None = None,
    **others: Any,
) -> Job:
    """Options that all functions of this module accept.

    Args:
        spark: Spark session; None runs the job in this process.
        topic, partition: None selects all; separate several topics by commas.
        configs: Topic configs that are not stored with the topic, by name.
        admin: HOST:PORT of the admin listener of the server that uses the directory; None if it is stopped.
        say: Called with progress lines: one for each group, and one every 30 seconds; may be called from another thread.
        at_once: Number of partitions that `plan` and `compact` process at a time on Spark, one job each. A failure does not stop
            the other partitions; the error that is raised at the end has all results in `results`.
        fs_options: Options of the object store by name, e.g. `s3.region`, if `data_dir` is an address.
        others: Fields of `Job`, for a program that has no session yet, or a clock of its own.
    """
    return Job(
        data_dir=data_dir,
        topic=topic,
        partition=partition,
        configs=configs or {},
        admin=admin,
        say=say or (lambda _line: None),
        at_once=at_once,
        fs=parse_fs_options(fs_options or {}),
        **{"engine": _engine(spark, JobProgress(say)), **others},
    )


def _engine(spark: SparkSession | None, progress: JobProgress | None = None) -> Engine:
    return Engine(IN_PROCESS if spark is None else None, session=spark, progress=progress)


def plan(spark: SparkSession | None, data_dir: str, *, topic: str, **options: Any) -> list[PartitionResult]:
    """`ottla-spark plan`: save a plan for each partition that needs compaction. Options are those of `job`."""
    asked = job(spark, data_dir, topic=topic, **options)
    asked.check_on_disk("plan")

    def plan_one(tp: TopicPartition) -> PartitionResult:
        made = plan_partition(asked, tp)
        save(made)
        return result_of(made, "planned")

    return run_each(asked.engine, plan_one, asked.partitions(asked.store()), at_once=asked.at_once)


def compact(
    spark: SparkSession | None,
    data_dir: str,
    *,
    topic: str,
    installs: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    max_groups: int | None = None,
    skips_corrupt: bool = False,
    verifies: bool = True,
    **options: Any,
) -> list[PartitionResult]:
    """`ottla-spark compact`: stage and verify the pending plan, or a new one, and install it with `installs`.

    Args:
        dry_run: Report the exact result, and leave everything as it is.
        resume: Continue the pending plan, whatever the configs. A new plan is made only if none exists.
        max_groups: Number of groups to install of each partition. Another call can install the rest.
        skips_corrupt: A damaged log is not a failure.
        options: Those of `job`.

    Raises:
        PipelineError: The first failure; the other partitions are done.
    """
    asked, files = job(spark, data_dir, topic=topic, **options), OsFiles()
    asked.check_on_disk("compact")
    check_the_extra()
    if installs and asked.admin is None:  # before hours of work
        for store in asked.store().stores:
            with locked(files, store.data_dir):
                pass

    def compact_one(tp: TopicPartition) -> PartitionResult:
        made = plan_partition(asked, tp, resume=resume, discards=not dry_run)
        if not made.sources:
            return result_of(made, "nothing to do")
        if dry_run:
            return preview_plan(asked, made)
        save(made)
        results = run_plan(asked, made)
        is_verified = verifies and not is_begun(made, files)
        if is_verified:
            verify_plan(asked.engine, made).check()
        if not installs:
            return result_of(made, "staged", results)
        return install_plan(asked, made, max_groups, results, survey=asked.engine.survey, is_verified=is_verified)

    return run_each(
        asked.engine, compact_one, asked.partitions(asked.store()), at_once=asked.at_once, skips_corrupt=skips_corrupt
    )


def install(
    spark: SparkSession | None,
    data_dir: str,
    *,
    plan_id: str | None = None,
    max_groups: int | None = None,
    **options: Any,
) -> list[PartitionResult]:
    """`ottla-spark install`: install the newest plan of each partition, or the one with that id. Options are those of `job`.

    Raises:
        UsageError: No such plan exists, or nothing is staged.
        PipelineError: The first failure; the other partitions are done.
    """
    asked, files = job(spark, data_dir, **options), OsFiles()
    asked.check_on_disk("install")
    plans = [each for each in pending(asked) if not is_plan_installed(each, files)]
    chosen = [each for each in plans if plan_id in (None, each.plan_id) and asked.is_of(each.topic_partition)]
    store = asked.store()
    if not chosen:
        raise UsageError(f"{store.data_dir}: expected a staged plan{f' {plan_id}' if plan_id else ''}, found none")
    # Of two plans the older one was abandoned, as was one next to a directory that the log has left since.
    chosen.sort(key=lambda each: each.data_dir == store.store_of(each.topic_partition).data_dir)
    newest = {each.topic_partition: each for each in chosen}

    def install_one(each: CompactionPlan) -> PartitionResult:
        return install_plan(asked, each, max_groups, finished_groups(each))

    return run_each(
        asked.engine, install_one, [*newest.values()]
    )  # one after the other: each holds the lock of the directory


def verify(
    spark: SparkSession | None,
    data_dir: str,
    *,
    against: str | None = None,
    plan_id: str | None = None,
    **options: Any,
) -> VerifyReport:
    """`ottla-spark verify`: judge a log alone, against an earlier copy, or by a plan. Options are those of `job`.

    Raises:
        UsageError: Neither a topic nor a plan is given, or it does not exist.
        PipelineError: A log cannot be opened. Findings are in the report, whose `check` raises them.
    """
    check_the_extra()
    from .verify.audit_scope import scope_against, scope_alone

    asked = job(spark, data_dir, **options)
    if plan_id is not None:
        return verify_plan(asked.engine, find_plan(asked, plan_id))
    if asked.topic is None:
        raise UsageError("verify: expected --topic or --plan")
    store, files, now_ms = asked.store(), asked.files(), asked.now_ms()
    if against is None:
        scopes = [scope_alone(store.store_of(tp), tp, now_ms, asked.configs) for tp in asked.partitions(store)]
        return verify_scopes(asked.engine, scopes, "alone", files)
    originals = opened_store(against, files)
    found = asked.partitions(originals)
    scopes = [scope_against(store.store_of(tp), originals.store_of(tp), tp, now_ms, asked.configs) for tp in found]
    return verify_scopes(asked.engine, scopes, f"against {originals.data_dir}", files)


def prove_erased(
    spark: SparkSession | None, data_dir: str, *, topic: str, keys: Iterable[bytes], **options: Any
) -> KeyReport:
    """`ottla-spark prove-erased`: find all that is left of some keys, in a task for each directory. Options are those of `job`.

    Args:
        data_dir: Data directories, snapshots of them and copies in object stores, with commas between them.
        keys: Each task has all of them in memory.
    """
    asked = job(spark, data_dir, topic=topic, **options)
    sources = [data_dir] if os.path.isdir(data_dir) else [each.strip() for each in data_dir.split(",")]
    config = asked.store().stores[0].config_of(topic, asked.configs) if asked.configs else None
    search = Search(asked.files(), [*map(resolved, sources)], topic, keys, asked.now_ms(), config=config)
    with asked.engine.watched(f"prove-erased {topic}", topic) as (session, watch):
        if session is None:
            return to_the_end(search.steps())
        from .verify.erased import searched_on

        return search.report_by(searched_on(session, topic, watch))


def snapshot(
    spark: SparkSession | None,
    data_dir: str,
    *,
    topic: str,
    out: str,
    overwrite: bool = False,
    **options: Any,
) -> SnapshotResult:
    """`ottla-spark snapshot`: write the newest value of each key. Options are those of `job`."""
    check_the_extra()
    from .snapshot.snapshot import rounds_here, take_snapshot

    asked = job(spark, data_dir, topic=topic, **options)
    store, now_ms = asked.store(), asked.now_ms()
    with asked.engine.watched(f"snapshot {topic}", topic) as (session, watch):
        run = rounds_here(topic, watch)
        if session is not None:
            from .snapshot.snapshot_job import rounds_on

            run = rounds_on(session, topic, watch=watch)
        return take_snapshot(store, topic, out, run, now_ms=now_ms, partition=asked.partition, overwrite=overwrite)


def apply(spark: SparkSession, *, topic: str, table: str, table_format: str, **options: Any) -> Applied:
    """`ottla-spark apply`: apply the records of a topic that are not in the table yet.

    Args:
        options: The other fields of `apply.query.ApplyJob`.
    """
    from .apply import query

    return query.apply(spark, query.ApplyJob(topic, table, table_format, **options))


def applier(spark: SparkSession, *, topic: str, table: str, table_format: str, **options: Any) -> Applier:
    """Return the function that `apply` gives to `foreachBatch`, for the caller's own stream and checkpoint.

    Args:
        options: The other fields of `apply.query.ApplyJob`, without those of the stream. `kafka` (the options of Kafka's
            clients, with `bootstrap.servers`) or `data_dir` is required: each batch asks there for the topic's id.

    Raises:
        SourceChangedError: The table has records of a deleted topic of the same name. A batch also raises it.
        UsageError: `topic_made_anew` is given, which only `apply` supports; and as `query.applier`.
    """
    from .apply import query

    job = query.ApplyJob(topic, table, table_format, **options)
    if job.topic_made_anew:
        raise UsageError(
            "applier: topic_made_anew: run jobs.apply with it once, then begin your stream with a new checkpoint"
        )
    topic_id_now = query.topic_id_of(spark, job)
    return query.applier(spark, job, topic_id_now, topic_id_now())


def status(data_dir: str, **options: Any) -> list[dict[str, Any]]:
    """`ottla-spark status`: list the plans of the data directory and their progress. Options are those of `job`."""
    asked, files = job(None, data_dir, **options), OsFiles()
    found = []
    for each in pending(asked):
        if not asked.is_of(each.topic_partition):
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


def check(spark: SparkSession | None, data_dir: str | None = None) -> CheckReport:
    """`ottla-spark check`: report what the driver and each executor have.

    `print` of the report shows a table. Its `check` raises the first mismatch.

    Args:
        data_dir: The directory that all must see; several with commas between them.
    """
    from .run.check import check as checked

    return checked(_engine(spark), data_dir)


def results_frame(spark: SparkSession, results: Sequence[PartitionResult]) -> DataFrame:
    """Return a frame with one row for each partition, of RESULT_DDL."""
    return spark.createDataFrame([astuple(each) for each in results], RESULT_DDL)
