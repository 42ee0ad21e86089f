"""The compared pieces of work: each runs once a round and returns its cost.

Preparation and clean-up of a piece are not measured. The plan of a compaction is measured, opening the server's log is not. All
compactions of a log have one clock and one secret, so that they must write the same bytes.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.compaction import compact as spark_compact
from ottla.pipeline.compaction.group_results import GroupResult
from ottla.pipeline.compaction.local import compact_locally
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import group_directory, save_plan
from ottla.pipeline.records.arrow import KAFKA_COLUMNS
from ottla.pipeline.snapshot.snapshot import take_snapshot
from ottla.pipeline.snapshot.snapshot_job import rounds_on
from ottla.pipeline.snapshot.snapshot_rounds import first_round
from ottla.pipeline.source.source import OttlaSource, arrow_schema
from ottla.pipeline.source.split_reader import Wanted, read_split
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import open_log
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.logs.staged_segment import MANIFEST_FILE

from ...spark_histories.__main__ import is_same
from .cost import Cost, measured, measured_command, measured_here
from .logs import TP, Made
from .obvious import latest_by_max_by, latest_by_row_number

NOW_MS = 10**12
SECRET = bytes(range(16))
MAP_BYTES, SMALL_MAP_BYTES, LOAD_FACTOR, IO_BUFFER_BYTES = 128 << 20, 16 << 20, 0.9, 2 << 20
"""Settings of the server's cleaner: its default map, and a map that is too small for many keys."""

_COMMAND = "from ottla.pipeline.cli import main; raise SystemExit(main())"

Side = Callable[[], Cost]


class Sides:
    """All sides of one log."""

    def __init__(self, spark: SparkSession, made: Made, work: Path) -> None:
        self.spark = spark
        self.made = made
        self.work = work
        self.data_dir = str(made.data_dir)
        self.directory = made.data_dir / str(TP)
        self.plan: CompactionPlan | None = None
        self.results: list[GroupResult] = []
        self.server_passes = 0

    # Reading

    def scan(self) -> Cost:
        return measured(lambda: _drain(self._frame()))

    def scan_keys(self) -> Cost:
        return measured(lambda: _drain(self._frame("partition int, offset bigint, key binary")))

    def scan_obviously(self) -> Cost:
        frame = self.spark.read.format("obvious").load(str(self.directory))
        return measured(lambda: _drain(frame))

    def scan_without_spark(self) -> Cost:
        schema = arrow_schema(self._frame().schema)
        assert schema.names == list(KAFKA_COLUMNS)

        def work() -> None:
            records = 0
            store = Store(self.data_dir)
            for task in first_round(store, store.topic_partitions(TP.topic)).tasks:
                records += sum(batch.num_rows for batch in read_split(task.split, Wanted(schema, task.aborted)))
            assert records == self.made.record_count

        return measured_here(work)

    def _frame(self, schema: str | None = None) -> DataFrame:
        reader = self.spark.read.format(OttlaSource.name()).option("topic", TP.topic)
        return (reader.schema(schema) if schema else reader).load(self.data_dir)

    # Compaction

    def compact(self) -> Cost:
        self.spark.sparkContext.setJobGroup(self.made.data_dir.name, "compact")
        try:
            return self._compact(lambda plan: spark_compact.compact(self.spark, plan))
        finally:
            self.spark.sparkContext.setJobGroup("", "")

    def compact_without_spark(self) -> Cost:
        return self._compact(
            lambda plan: compact_locally(plan, source_files=ReadingFiles(), files=OsFiles()), measured_here
        )

    def _compact(
        self,
        run: Callable[[CompactionPlan], list[GroupResult]],
        measured_by: Callable[[Callable[[], object]], Cost] = measured,
    ) -> Cost:
        self.clear_staging()

        def work() -> None:
            self.plan = planned(self.data_dir)
            save_plan(OsFiles(), self.plan)
            self.results = run(self.plan)

        return measured_by(work)

    def clear_staging(self) -> None:
        shutil.rmtree(paths.staging_root(self.data_dir), ignore_errors=True)

    def server(self, map_bytes: int = MAP_BYTES) -> Cost:
        """Run the server's cleaner until the log is clean."""
        with self.cleaned_by_server(map_bytes) as (_, cost):
            return cost

    def server_with_small_map(self) -> Cost:
        return self.server(SMALL_MAP_BYTES)

    @contextmanager
    def cleaned_by_server(self, map_bytes: int) -> Iterator[tuple[Path, Cost]]:
        """Clean a linked copy with the server; return the directory, and what the pass has cost."""
        directory = self.work / "server" / str(TP)
        directory.mkdir(parents=True)
        for file in self.directory.iterdir():
            (directory / file.name).hardlink_to(file) if file.suffix == ".log" else shutil.copy2(file, directory)
        # The active segment is empty, and nothing is appended: no link is written to.
        config = Store(self.data_dir).config_of(TP.topic)
        log = load_log(LogPlace(OsFiles(), str(directory), TP), config, ShutdownState(is_clean=True), now_ms=NOW_MS)
        cleaner = Cleaner(dedupe_buffer_bytes=map_bytes, load_factor=LOAD_FACTOR, io_buffer_bytes=IO_BUFFER_BYTES)

        def work() -> None:
            end = self.server_passes = 0
            while end < log.segments.active.base_offset:
                end, _ = cleaner.clean(
                    measure(log, end, NOW_MS).for_worker(),
                    NOW_MS,
                    secret=SECRET,
                    swap=lambda new, old: log.replace_segments(new, old, NOW_MS),
                    checkpoint=lambda _: None,
                )
                self.server_passes += 1

        try:
            yield directory, measured_here(work)
        finally:
            log.release_files()
            shutil.rmtree(directory.parent)

    def differences(self) -> list[str]:
        """Return names of files whose bytes or age differ between Spark and the server's cleaner, or that only one leaves."""
        self.compact()
        assert self.plan is not None
        staged = {
            path.name: path
            for group in range(len(self.plan.groups))
            for path in Path(group_directory(self.plan, group)).iterdir()
            if path.name != MANIFEST_FILE
        }
        active = f"{self.plan.upper_offset:020}"
        with self.cleaned_by_server(MAP_BYTES) as (directory, _):
            left = {
                path.name
                for path in directory.iterdir()
                if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and not path.name.startswith(active)
            }
            differing = sorted(left ^ set(staged))
            differing += [name for name in sorted(left & set(staged)) if not is_same(staged[name], directory / name)]
        self.clear_staging()
        return differing

    def compact_with_sql(self) -> Cost:
        return measured(lambda: _drain(latest_by_row_number(self._frame())))

    def cold_compact(self) -> Cost:
        """Measure the whole command, in a process of its own."""
        self.clear_staging()
        words = ["compact", self.data_dir, "--topic", TP.topic, "--master", "local[2]", "--no-verify", "--quiet"]
        cost = measured_command([sys.executable, "-c", _COMMAND, *words])
        self.clear_staging()
        return cost

    # Snapshot

    def snapshot(self) -> Cost:
        return measured(
            lambda: take_snapshot(
                Store(self.data_dir),
                TP.topic,
                self._snapshot("ours"),
                rounds_on(self.spark, TP.topic),
                overwrite=True,
                now_ms=1,
            )
        )

    def snapshot_with_sql(self) -> Cost:
        out = self._snapshot("sql")
        return measured(lambda: latest_by_max_by(self._frame()).write.mode("overwrite").parquet(out))

    def snapshot_differences(self) -> int:
        """Return rows of the last two snapshots that only one of them has."""
        names = ("key", "value", "partition", "offset")
        ours, theirs = (self.spark.read.parquet(self._snapshot(side)).select(*names) for side in ("ours", "sql"))
        return ours.exceptAll(theirs).count() + theirs.exceptAll(ours).count()

    def _snapshot(self, side: str) -> str:
        return str(self.work / f"{side}-{self.made.data_dir.name}")


def planned(data_dir: str) -> CompactionPlan:
    store = Store(data_dir)
    with open_log(store, TP, now_ms=NOW_MS) as log:
        return make_plan(log, data_dir=store.data_dir, checkpoint=None, now_ms=NOW_MS, secret=SECRET)


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
