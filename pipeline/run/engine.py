"""Where the commands' jobs run: on a Spark session, or in this process (`--master none`), for logs of one machine.

Spark is started by the first job that needs it, so that a command with nothing to do is quick.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..compaction.local import compact_locally, dry_run_locally
from ..compaction.plan import CompactionPlan
from ..compaction.rewrite import GroupResult, check_finished_group
from ..compaction.survey import Survey, survey_segments
from ..errors import SparkFailedError
from ..snapshot.snapshot import SnapshotResult, snapshot_locally
from ..stores.reading_files import ReadingFiles
from ..stores.stores import opened_store
from ..verify.audit_scope import Scope
from ..verify.findings import VerifyReport
from ..verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_PROCESS = "none"
SURVEYED_HERE_BYTES = 1 << 30
"""The headers of logs up to this size are read on the driver: a job takes longer to start."""
LOOK_EVERY_S = 0.5

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
        self._given = session
        self._started: SparkSession | None = None

    @property
    def is_in_process(self) -> bool:
        return self._master == IN_PROCESS

    @cached_property
    def _spark(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from ..source.source import register
        from ..spark.failures import failures_translated
        from .session import builder

        if (running := self._given or SparkSession.getActiveSession()) is not None:
            return running  # the caller's, who ends it, too
        made = builder("ottla-spark", master=self._master)
        for name, value in {"spark.log.level": "OFF", **self._confs}.items():
            made = made.config(name, value)
        try:
            with interrupts_deferred(), failures_translated():
                self._started = made.getOrCreate()
        except SparkFailedError as error:
            raise SparkFailedError(f"Spark did not start on {self._master or 'its master'}: {error}") from error
        self._started.sparkContext.setLogLevel("OFF")  # what a task raised is said once, by us
        register(self._started)
        return self._started

    def stop(self) -> None:
        """End the session, if there is one."""
        if self._started is not None:
            with suppress(Exception):  # its JVM may be gone, and what the command has to say of that is said
                self._started.stop()

    def survey(self, files: Files, directory: str, base_offsets: Sequence[int]) -> Sequence[Survey]:
        """The `survey` of `make_plan`."""
        size_bytes = sum(files.size(paths.log_path(directory, base)) for base in base_offsets)
        if self.is_in_process or size_bytes <= SURVEYED_HERE_BYTES:
            return survey_segments(files, directory, base_offsets)
        from ..compaction.compact import survey_on

        return survey_on(self._spark)(files, directory, base_offsets)

    def compact(self, plan: CompactionPlan, on_result: OnResult) -> list[GroupResult]:
        """Run a plan; `on_result` is told of each group once it is finished, from another thread."""
        with _watched(plan, on_result):
            if self.is_in_process:
                return compact_locally(plan, source_files=ReadingFiles(), files=OsFiles())
            from ..compaction.compact import compact

            return compact(self._spark, plan)

    def dry_run(self, plan: CompactionPlan) -> list[GroupResult]:
        """What `compact` would return, without files."""
        if self.is_in_process:
            return dry_run_locally(plan, source_files=ReadingFiles())
        from ..compaction.compact import dry_run

        return dry_run(self._spark, plan)

    def verify(self, scopes: Sequence[Scope], mode: str) -> VerifyReport:
        if self.is_in_process:
            return verify(scopes, ReadingFiles(), mode=mode)
        from ..verify.verify_jobs import verify_on

        return verify_on(self._spark, scopes, ReadingFiles(), mode=mode)

    def snapshot(
        self, data_dir: str, topic: str, out: str, *, partition: int | None, overwrite: bool
    ) -> SnapshotResult:
        if self.is_in_process:
            return snapshot_locally(opened_store(data_dir), topic, out, partition=partition, overwrite=overwrite)
        from ..snapshot.snapshot_job import snapshot

        return snapshot(self._spark, data_dir, topic, out, partition=partition, overwrite=overwrite)


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
            if (found := check_finished_group(plan, group, files)) is not None:
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
