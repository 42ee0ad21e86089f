"""Runner of the commands' jobs: on a Spark session, or in this process (`--master none`), for logs of one machine.

Spark is started by the first job that needs it, so that a command with nothing to do is quick.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ...storage.disk import paths
from ...storage.disk.files import Files
from ..compaction.survey import Survey, survey_segments
from ..errors import PipelineError
from ..steps import Watch
from .progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_PROCESS = "none"
SURVEYED_HERE_BYTES = 1 << 30
"""Total size of logs whose headers are read on the driver, as a Spark job takes longer to start."""

_OF_JOBS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "ottla.logs")


class Engine:
    """Spark session, or this process, in which the jobs of one command run."""

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
            master: Spark's master, IN_PROCESS, or None for that of spark-submit.
            confs: Spark's options.
            session: A running session, which outlives the jobs.
            say: Receives a line with the address of the UI of a session that is started here.
            progress: Receives the progress of the jobs.
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
    def session(self, what: str) -> Iterator[SparkSession]:
        """Yield the session, started if needed.

        In Spark's UI the jobs of this thread have this description during the block.
        """
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
            with suppress(Exception):  # its JVM may have exited
                for name in _OF_JOBS:
                    context.setLocalProperty(name, None)  # type: ignore[arg-type]

    @contextmanager
    def watched(self, what: str, about: str) -> Iterator[tuple[SparkSession | None, Watch]]:
        """Yield the session (None for work in this process) and the steps of a job on `about`."""
        if self.is_in_process:
            with self.progress.watching(about) as watch:
                yield None, watch
            return
        from ..spark.tasks import counter_of

        with self.session(what) as spark, self.progress.watching(about, lambda: counter_of(spark)) as watch:
            yield spark, watch

    def _found_or_started(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from ..source.source import register
        from ..spark.failures import failures_translated
        from ..spark.interrupts import interrupts_deferred
        from .jvm import start
        from .session import prepared

        if (running := SparkSession.getActiveSession()) is not None:
            return running  # the caller's, which also ends it
        confs = {**prepared("ottla-spark", self._master), "spark.log.level": "OFF", **self._confs}
        try:
            with interrupts_deferred(), failures_translated():
                started = start(confs, self._say)
        except PipelineError as error:
            raise PipelineError(f"Spark did not start on {self._master or 'its master'}: {error}") from error
        self._is_ours = True
        started.sparkContext.setLogLevel("OFF")  # Ottla reports a task's error once
        if started.sparkContext.uiWebUrl:
            self._say(f"Spark's UI: {started.sparkContext.uiWebUrl}")
        register(started, checks_workers=False)  # jobs report it themselves, and `check` also runs on such workers
        return started

    def stop(self) -> None:
        """Stop the session, if it was started here."""
        with self._starting:
            running, self._running = self._running, None
        if self._is_ours and running is not None:
            with suppress(Exception):  # its JVM may have exited, which the command has reported
                running.stop()

    def give_up(self) -> None:
        """Cancel the running jobs of this engine. A thread that waits for one gets an error."""
        with suppress(Exception), self._starting:
            if self._running is not None:
                self._running.sparkContext.cancelJobGroup(self._job_group)

    def survey(self, files: Files, directory: str, base_offsets: Sequence[int]) -> Sequence[Survey]:
        """Survey segments; the `survey` of `make_plan`."""
        size_bytes = sum(files.size(paths.log_path(directory, base)) for base in base_offsets)
        if self.is_in_process or size_bytes <= SURVEYED_HERE_BYTES:
            return survey_segments(files, directory, base_offsets)
        from ..compaction.compact import survey_on

        about = directory.rpartition("/")[2]
        with self.watched(f"headers of {about}", about) as (spark, watch):
            assert spark is not None
            return survey_on(spark, watch)(files, directory, base_offsets)
