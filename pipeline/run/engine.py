"""Where the commands' jobs run: on a Spark session, or in this process (`--master none`), for logs of one machine.

Spark is started by the first job that needs it, so that a command with nothing to do is quick.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..compaction.group_results import GroupResult, finished_group
from ..compaction.plan import CompactionPlan
from ..compaction.survey import Survey, survey_segments
from ..errors import SparkFailedError
from ..stores.reading_files import ReadingFiles
from ..stores.stores import opened_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..snapshot.layers import SnapshotResult
    from ..verify.audit_scope import Scope
    from ..verify.findings import VerifyReport
    from ..wire.verify_wire import Question
    from ..wire.wire_report import WireReport
    from .check import CheckReport

IN_PROCESS = "none"
SURVEYED_HERE_BYTES = 1 << 30
"""The headers of logs up to this size are read on the driver: a job takes longer to start."""
LOOK_EVERY_S = 0.5

_OF_JOBS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
OnResult = Callable[[GroupResult], None]


class Engine:
    """Runs the jobs of one command."""

    def __init__(
        self, master: str | None, confs: Mapping[str, str] | None = None, *, session: SparkSession | None = None
    ) -> None:
        """
        Args:
            master: As Spark's, IN_PROCESS, or None for what spark-submit says.
            confs: Spark's.
            session: One that runs, and goes on when the jobs are done.
        """
        self._master = master
        self._confs = confs or {}
        self._running = session
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
        from ..spark.tasks import context_of

        context = context_of(running, what)
        context.setJobGroup(self._job_group, f"ottla: {what}")
        try:
            yield running
        finally:
            with suppress(Exception):  # its JVM may be gone
                for name in _OF_JOBS:
                    context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def session(self, what: str) -> AbstractContextManager[SparkSession]:
        """The session, started if need be, for a job that is none of those here."""
        return self._spark(what)

    def _found_or_started(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from ..source.data_source_api import HAS_SOURCES
        from ..source.source import register
        from ..spark.failures import failures_translated
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

        with self._spark(f"headers of {directory.rpartition('/')[2]}") as spark:
            return survey_on(spark)(files, directory, base_offsets)

    def compact(self, plan: CompactionPlan, on_result: OnResult) -> list[GroupResult]:
        """Run a plan; `on_result` is told of each group once it is finished, from another thread."""
        with _watched(plan, on_result):
            if self.is_in_process:
                from ..compaction.local import compact_locally

                return compact_locally(plan, source_files=ReadingFiles(), files=OsFiles())
            from ..compaction.compact import compact

            with self._spark(f"compact {plan.topic_partition}") as spark:
                return compact(spark, plan)

    def dry_run(self, plan: CompactionPlan) -> list[GroupResult]:
        """What `compact` would return, without files."""
        if self.is_in_process:
            from ..compaction.local import dry_run_locally

            return dry_run_locally(plan, source_files=ReadingFiles())
        from ..compaction.compact import dry_run

        with self._spark(f"compact {plan.topic_partition}, dry run") as spark:
            return dry_run(spark, plan)

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

            return verify(scopes, files, mode=mode)
        from ..verify.verify_jobs import verify_on

        with self._spark(f"verify {', '.join(str(scope.tp) for scope in scopes[:3])}") as spark:
            return verify_on(spark, scopes, files, mode=mode)

    def verify_wire(self, asked: Question, *, now_ms: int) -> WireReport:
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

            return snapshot_locally(
                store, topic, out, now_ms=began_ms, partition=partition, overwrite=overwrite, since=earlier
            )
        from ..snapshot.snapshot_job import snapshot

        with self._spark(f"snapshot {topic}") as spark:
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
            )


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """SIGINT counts only at the end of this: a JVM whose launcher is interrupted lives on with nobody to end it.

    Raises:
        KeyboardInterrupt: There was one.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so is it for the JVM
        yield
        return
    noted: list[int] = []

    def note(number: int, _frame: object) -> None:
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else Spark's own has taken its place, and cancels jobs first
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


@contextmanager
def _watched(plan: CompactionPlan, on_result: OnResult) -> Iterator[None]:
    """Look into the staging directory while a job runs: whoever the workers are, that is where groups end up."""
    files, ended = ReadingFiles(), threading.Event()
    waiting = list(range(len(plan.groups)))

    def look() -> None:
        for group in list(waiting):
            if (found := finished_group(plan, group, files)) is not None:
                waiting.remove(group)
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
