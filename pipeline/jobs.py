"""The commands of `ottla-spark` as functions on a session that the caller has, and keeps.

    from ottla.pipeline import jobs

    results = jobs.compact(spark, "/data", topic="orders", installs=True)
    jobs.results_frame(spark, results).show()             # or job_results.as_json(results)
    report = jobs.verify(spark, "/data", topic="orders", against="/before")
    report.check()

With None in the session's place a job runs in this process, without a JVM. What is refused is raised (`errors`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from ..storage.filter.offset_map import SECRET_BYTES
from .objects.addresses import parse_fs_options
from .run import commands
from .run.engine import IN_PROCESS, Engine
from .run.job_plans import Job, Say
from .run.job_plans import status as status_of
from .run.job_results import RESULT_DDL, PartitionResult
from .run.progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .apply.applier import Applied, Applier
    from .run.check import CheckReport
    from .snapshot.layers import SnapshotResult
    from .verify.findings import VerifyReport


def _quiet(_line: str) -> None:
    pass


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
    """
    return Job(
        data_dir=data_dir,
        topic=topic,
        partition=partition,
        configs=configs or {},
        engine=Engine(IN_PROCESS if spark is None else None, session=spark, progress=JobProgress(say)),
        say=_quiet if say is None else say,
        now_ms=lambda: time.time_ns() // 1_000_000,
        secret=lambda: secrets.token_bytes(SECRET_BYTES),
        admin=admin,
        at_once=at_once,
        fs=parse_fs_options(fs_options or {}),
    )


def plan(spark: SparkSession | None, data_dir: str, *, topic: str, **options: Any) -> list[PartitionResult]:
    """`ottla-spark plan`. Options are those of `job`."""
    return commands.plan(job(spark, data_dir, topic=topic, **options))


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
    """`ottla-spark compact`. Arguments are those of `commands.compact`, options those of `job`."""
    return commands.compact(
        job(spark, data_dir, topic=topic, **options),
        installs=installs,
        dry_run=dry_run,
        resume=resume,
        max_groups=max_groups,
        skips_corrupt=skips_corrupt,
        verifies=verifies,
    )


def install(
    spark: SparkSession | None,
    data_dir: str,
    *,
    plan_id: str | None = None,
    max_groups: int | None = None,
    **options: Any,
) -> list[PartitionResult]:
    """`ottla-spark install`. Options are those of `job`."""
    return commands.install_plans(job(spark, data_dir, **options), plan_id=plan_id, max_groups=max_groups)


def verify(
    spark: SparkSession | None,
    data_dir: str,
    *,
    against: str | None = None,
    plan_id: str | None = None,
    **options: Any,
) -> VerifyReport:
    """`ottla-spark verify`; `check` of the report raises what was found. Options are those of `job`."""
    return commands.verify(job(spark, data_dir, **options), against=against, plan_id=plan_id)


def snapshot(
    spark: SparkSession | None,
    data_dir: str,
    *,
    topic: str,
    out: str,
    overwrite: bool = False,
    since: str | None = None,
    **options: Any,
) -> SnapshotResult:
    """`ottla-spark snapshot`. Options are those of `job`.

    Args:
        since: An earlier snapshot, which may be `out` itself: only what has come since is read.
    """
    return commands.snapshot(job(spark, data_dir, topic=topic, **options), out, overwrite=overwrite, since=since)


def apply(spark: SparkSession, *, topic: str, table: str, table_format: str, **options: Any) -> Applied:
    """`ottla-spark apply`: what is in the topic and not in the table yet.

    Args:
        options: The other fields of `apply.query.ApplyJob`.
    """
    from .apply import query

    return query.apply(spark, query.ApplyJob(topic, table, table_format, **options))


def applier(spark: SparkSession, *, topic: str, table: str, table_format: str, **options: Any) -> Applier:
    """The function that `apply` gives to `foreachBatch`, for a stream and a checkpoint of your own.

    Args:
        options: The other fields of `apply.query.ApplyJob`, without those of the stream. `kafka` (the options of Kafka's clients,
            with `bootstrap.servers`) or `data_dir` is required: each batch asks there for the topic's id.

    Raises:
        SourceChangedError: The table has records of another topic of that name, which was deleted. A batch raises it as well.
        UsageError: `topic_made_anew` is given, which `apply` alone can do; and as `query.applier`.
    """
    from .apply import query
    from .errors import UsageError

    job = query.ApplyJob(topic, table, table_format, **options)
    if job.topic_made_anew:
        raise UsageError(
            "applier: topic_made_anew: run jobs.apply with it once, then begin your stream with a new checkpoint"
        )
    topic_id_now = query.topic_id_of(spark, job)
    return query.applier(spark, job, topic_id_now, topic_id_now())


def status(data_dir: str, **options: Any) -> list[dict[str, Any]]:
    """`ottla-spark status`. Options are those of `job`."""
    return status_of(job(None, data_dir, **options))


def check(spark: SparkSession | None, data_dir: str | None = None) -> CheckReport:
    """`ottla-spark check`: what the driver and each executor have. `print` of the report is the table, its `check` raises what does
    not go together first.

    Args:
        data_dir: Whether they see it; several with commas between them.
    """
    data_dirs = [] if data_dir is None else data_dir.split(",")
    return Engine(IN_PROCESS if spark is None else None, session=spark).check(data_dirs)


def results_frame(spark: SparkSession, results: Sequence[PartitionResult]) -> DataFrame:
    """One row for each partition, of RESULT_DDL."""
    return spark.createDataFrame([astuple(each) for each in results], RESULT_DDL)
