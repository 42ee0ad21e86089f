"""Where the commands' jobs run: on a Spark session, or in this process (`--master none`), for logs of one machine.

Spark is started by the first job that needs it, so that a command with nothing to do is quick.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..compaction.group_results import GroupResult, finished_group
from ..compaction.plan import CompactionPlan
from ..compaction.staging import group_directory
from ..compaction.survey import Survey, survey_segments
from ..errors import SparkFailedError
from ..steps import Watch
from ..stores.reading_files import ReadingFiles
from ..stores.stores import opened_store
from .progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..snapshot.layers import SnapshotResult
    from ..verify.audit_scope import Scope
    from ..verify.findings import VerifyReport
    from ..wire.verify_wire import WireQuestion
    from ..wire.wire_report import WireReport
    from .check import CheckReport

IN_PROCESS = "none"
SURVEYED_HERE_BYTES = 1 << 30
"""The headers of logs up to this size are read on the driver: a job takes longer to start."""
LOOK_EVERY_S = 0.5

_OF_JOBS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "ottla.logs")
OnResult = Callable[[GroupResult], None]


class Engine:
    """Runs the jobs of one command."""

    def __init__(
        self,
        master: str | None,
        confs: Mapping[str, str] | None = None,
        *,
        session: SparkSession | None = None,
        say: Callable[[str], None] = lambda _line: None,
        progress: JobProgress | None = None,
    ) -> None:
        """
        Args:
            master: As Spark's, IN_PROCESS, or None for what spark-submit says.
            confs: Spark's.
            session: One that runs, and goes on when the jobs are done.
            say: Takes a line: where the UI of a session is that is started here.
            progress: Is told how far the jobs are.
        """
        self._master = master
        self._confs = confs or {}
        self._running = session
        self._say = say
        self.progress = JobProgress() if progress is None else progress
        self._is_ours = False
        self._starting = threading.Lock()
        self._job_group = f"ottla-{secrets.token_hex(8)}"

    @property
    def is_in_process(self) -> bool:
        return self._master == IN_PROCESS

    @contextmanager
    def _spark(self, what: str) -> Iterator[SparkSession]:
        """The session; in Spark's UI the jobs of this thread are called so meanwhile."""
        with self._starting:
            if self._running is None:
                self._running = self._found_or_started()
            running = self._running
        from ..spark.task_logs import LOGS, are_wanted
        from ..spark.tasks import context_of

        context = context_of(running, what)
        context.setJobGroup(self._job_group, f"ottla: {what}")
        context.setLocalProperty(LOGS, str(are_wanted(context)).lower())
        try:
            yield running
        finally:
            with suppress(Exception):  # its JVM may be gone
                for name in _OF_JOBS:
                    context.setLocalProperty(name, None)  # type: ignore[arg-type]

    @contextmanager
    def _watched_spark(self, what: str, about: str) -> Iterator[tuple[SparkSession, Watch]]:
        """As `_spark`, and what the job is to tell of its steps."""
        from ..spark.tasks import counter_of

        with self._spark(what) as spark, self.progress.watching(about, lambda: counter_of(spark)) as watch:
            yield spark, watch

    def session(self, what: str) -> AbstractContextManager[SparkSession]:
        """The session, started if need be, for a job that is none of those here."""
        return self._spark(what)

    def _found_or_started(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from ..source.data_source_api import HAS_SOURCES
        from ..source.source import register
        from ..spark.failures import failures_translated
        from ..spark.interrupts import interrupts_deferred
        from .session import builder

        if (running := SparkSession.getActiveSession()) is not None:
            return running  # the caller's, who ends it, too
        made = builder("ottla-spark", master=self._master)
        for name, value in {"spark.log.level": "OFF", **self._confs}.items():
            made = made.config(name, value)
        try:
            with interrupts_deferred(), failures_translated():
                started = made.getOrCreate()
        except SparkFailedError as error:
            raise SparkFailedError(f"Spark did not start on {self._master or 'its master'}: {error}") from error
        self._is_ours = True
        started.sparkContext.setLogLevel("OFF")  # what a task raised is said once, by us
        if started.sparkContext.uiWebUrl:
            self._say(f"Spark's UI: {started.sparkContext.uiWebUrl}")
        if HAS_SOURCES:
            register(started, checks_workers=False)  # jobs say it themselves, and `check` asks such workers, too
        return started

    def stop(self) -> None:
        """End the session, if there is one."""
        with self._starting:
            running, self._running = self._running, None
        if self._is_ours and running is not None:
            with suppress(Exception):  # its JVM may be gone, and what the command has to say of that is said
                running.stop()

    def give_up(self) -> None:
        """End the jobs that run for this; who waits for one has an error."""
        with suppress(Exception), self._starting:
            if self._running is not None:
                self._running.sparkContext.cancelJobGroup(self._job_group)

    def survey(self, files: Files, directory: str, base_offsets: Sequence[int]) -> Sequence[Survey]:
        """The `survey` of `make_plan`."""
        size_bytes = sum(files.size(paths.log_path(directory, base)) for base in base_offsets)
        if self.is_in_process or size_bytes <= SURVEYED_HERE_BYTES:
            return survey_segments(files, directory, base_offsets)
        from ..compaction.compact import survey_on

        about = directory.rpartition("/")[2]
        with self._watched_spark(f"headers of {about}", about) as (spark, watch):
            return survey_on(spark, watch)(files, directory, base_offsets)

    def compact(self, plan: CompactionPlan, on_result: OnResult) -> list[GroupResult]:
        """Run a plan; `on_result` is told of each group once it is finished, from another thread."""
        about = str(plan.topic_partition)
        with _watched(plan, on_result):
            if self.is_in_process:
                from ..compaction.local import compact_locally

                with self.progress.watching(about) as watch:
                    return compact_locally(plan, source_files=ReadingFiles(), files=OsFiles(), watch=watch)
            from ..compaction.compact import compact

            with self._watched_spark(f"compact {about}", about) as (spark, watch):
                return compact(spark, plan, watch=watch)

    def dry_run(self, plan: CompactionPlan) -> list[GroupResult]:
        """What `compact` would return, without files."""
        about = str(plan.topic_partition)
        if self.is_in_process:
            from ..compaction.local import dry_run_locally

            with self.progress.watching(about) as watch:
                return dry_run_locally(plan, source_files=ReadingFiles(), watch=watch)
        from ..compaction.compact import dry_run

        with self._watched_spark(f"compact {about}, dry run", about) as (spark, watch):
            return dry_run(spark, plan, watch=watch)

    def check(self, data_dirs: Sequence[str]) -> CheckReport:
        """What the driver and the executors have, and what of these directories they see."""
        from .check import check_here, check_on

        if self.is_in_process:
            return check_here(data_dirs)
        with self._spark("what executors have") as spark:
            return check_on(spark, data_dirs)

    def verify(self, scopes: Sequence[Scope], mode: str, files: ReadingFiles | None = None) -> VerifyReport:
        files = ReadingFiles() if files is None else files
        if self.is_in_process:
            from ..verify.verify import verify

            with self.progress.watching("") as watch:
                return verify(scopes, files, mode=mode, watch=watch)
        from ..verify.verify_jobs import verify_on

        what = ", ".join(str(scope.tp) for scope in scopes[:3])
        with self._watched_spark(f"verify {what}", what) as (spark, watch):
            return verify_on(spark, scopes, files, mode=mode, watch=watch)

    def verify_wire(self, asked: WireQuestion, *, now_ms: int) -> WireReport:
        """On Spark only."""
        from ..wire.verify_wire import verify_wire

        with self._spark(f"verify {asked.topic} at {asked.cluster.bootstrap}") as spark:
            return verify_wire(spark, asked, now_ms=now_ms)

    def snapshot(
        self,
        data_dir: str,
        topic: str,
        out: str,
        *,
        now_ms: Callable[[], int],
        partition: int | None,
        overwrite: bool,
        since: str | None,
        configs: Mapping[str, str],
        files: ReadingFiles,
    ) -> SnapshotResult:
        from ..snapshot.places import check_place, since_of

        check_place(out, since)
        store, began_ms = opened_store(data_dir, files), now_ms()
        earlier = None
        if since is not None:
            earlier = since_of(store, since, topic, partition, now_ms=now_ms, configs=configs)
        if self.is_in_process:
            from ..snapshot.snapshot import snapshot_locally

            with self.progress.watching(topic) as watch:
                return snapshot_locally(
                    store,
                    topic,
                    out,
                    now_ms=began_ms,
                    partition=partition,
                    overwrite=overwrite,
                    since=earlier,
                    watch=watch,
                )
        from ..snapshot.snapshot_job import snapshot

        with self._watched_spark(f"snapshot {topic}", topic) as (spark, watch):
            return snapshot(
                spark,
                data_dir,
                topic,
                out,
                now_ms=began_ms,
                partition=partition,
                overwrite=overwrite,
                since=earlier,
                files=files,
                watch=watch,
            )


@contextmanager
def _watched(plan: CompactionPlan, on_result: OnResult) -> Iterator[None]:
    """Look into the staging directory while a job runs: whoever the workers are, that is where groups end up. A look is a listing,
    and a manifest for each group that is new in it."""
    files, ended = ReadingFiles(), threading.Event()
    waiting = {group_directory(plan, group): group for group in range(len(plan.groups))}

    def look() -> None:
        names: Sequence[str] = ()
        with suppress(FileNotFoundError):  # somebody has forgotten the plan
            names = files.list(plan.staging)
        for name in names:
            directory = paths.join(plan.staging, name)
            if directory in waiting and (found := finished_group(plan, waiting[directory], files)) is not None:
                del waiting[directory]
                on_result(found)

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
