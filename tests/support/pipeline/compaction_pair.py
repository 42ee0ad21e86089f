"""Histories in which every clean pass runs twice more, on copies of the disk: by the server and by the pipeline.

At each `clean` of a history the disk is copied and the copy brought to a clean stop. One copy of that is cleaned by the
server with a map that does not fill, another by a plan and the pipeline's stages. The files of both must be equal,
byte for byte. Then the history continues with its own pass, which the model checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from ottla.pipeline.compaction.group_results import GroupResult
from ottla.pipeline.compaction.key_scan import scan_segment
from ottla.pipeline.compaction.local import compact_locally, dry_run_locally
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import group_directory, load_plan, save_plan
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import open_log
from ottla.storage.cleaning.cleaner import CleanStats
from ottla.storage.cleaning.dirtiness import first_dirty_offset, measure
from ottla.storage.data_dirs import clean_stop
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.filter.removed import RemovedRecords
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from ottla.storage.topics.config import TOPIC_OPTIONS
from ottla.storage.topics.options import format_value
from support.cleaner.cleaner_pair import Pair
from support.disk.crash_files import CrashFiles
from support.logs.make_log import SECRET, TP, clean, config_values, make_log, reopen

DATA_DIR = "/data"
Run = Callable[[CompactionPlan, CrashFiles], Sequence[GroupResult]]
StagedFiles = dict[str, tuple[bytes, int]]
"""Name -> (bytes, modification time in ms)."""


def run_locally(plan: CompactionPlan, files: CrashFiles) -> Sequence[GroupResult]:
    """Run the pipeline's stages in this process."""
    return compact_locally(plan, source_files=files, files=files, buckets=3)


class CompactionPair(Pair):
    """A pair of logs whose passes also run in the pipeline; see the module."""

    compact: Run = staticmethod(run_locally)
    """The function that runs the pipeline."""

    def clean(self, *, seal: bool = False, **arguments: Any) -> None:
        if seal:
            self.roll()
        if self.model.config.is_compact:
            self.compare(self.checkpoint)
            # No pass leaves a checkpoint this high; but Apache Kafka's tools, or people, may.
            self.compare((self.model.first_dirty(self.checkpoint) + self.model.log_end) // 2)
        super().clean(**arguments)

    def compare(self, checkpoint: int | None) -> None:
        """Clean copies of the disk, whose checkpoint is `checkpoint`, in both ways."""
        disk = self._stopped_disk(checkpoint)
        store = Store(DATA_DIR, disk)
        with open_log(store, TP, now_ms=self.now_ms, producer_expiration_ms=self.log.producers.expiration_ms) as stored:
            # The secret is that of the server's pass, though another must give the same result.
            plan = make_plan(
                stored, data_dir=DATA_DIR, checkpoint=stored.cleaner_checkpoint, now_ms=self.now_ms, secret=SECRET
            )
        log = make_log(
            disk.copy(),
            now_ms=self.now_ms,
            clean_shutdown=True,
            log_start_offset=stored.log_start_offset,
            producer_expiration_ms=self.log.producers.expiration_ms,
            **config_values(stored.config),
        )
        first_dirty, _ = first_dirty_offset(log, checkpoint)
        bounds = measure(log, first_dirty, self.now_ms)
        assert (plan.first_dirty_offset, plan.upper_offset) == (bounds.first_dirty_offset, bounds.upper_offset)
        assert bool(plan.sources) == bool(bounds.cleanable_bytes or bounds.key_overdue_ms)
        if not plan.sources:
            self.met["a plan without sources"] += 1
            return
        old = list(log.segments)
        _, stats = clean(log, first_dirty, now_ms=self.now_ms)
        new = [segment for segment in log.segments if segment not in old]
        assert len(plan.groups) == len(new)
        save_plan(disk, plan)
        before = disk.snapshot()
        previewed = dry_run_locally(plan, source_files=disk, buckets=2)
        assert disk.snapshot() == before, "a dry run leaves nothing"
        results = self.compact(load_plan(disk, plan.staging), disk)
        assert {path: data for path, data in disk.snapshot().items() if path.startswith(DATA_DIR + "/")} == {
            path: data for path, data in before.items() if path.startswith(DATA_DIR + "/")
        }, "compacting changes nothing in the data directory"
        for group, segment in enumerate(new):
            expected = files_of(log.files, [path for path in segment.file_paths() if log.files.exists(path)])
            directory = group_directory(plan, group)
            names = [name for name in disk.list(directory) if paths.parse_segment_name(name)]
            assert files_of(disk, [paths.join(directory, name) for name in names]) == expected, (group, plan.to_json())
        assert_same_counts(results, stats)
        assert previewed == [replace(result, files={}) for result in results]
        self.met["a pass compared"] += 1
        self.met["a pass for the age of keys alone compared"] += not bounds.cleanable_bytes
        self.met["several groups"] += len(plan.groups) > 1
        self.met["a group of several segments"] += any(len(group) > 1 for group in plan.groups)
        self.met["a border in a segment"] += first_dirty not in {source.base_offset for source in plan.sources}
        self.met["records of one key below the border"] += has_echoes(plan, disk)
        self.met["records below the border"] += plan.sources[0].base_offset < first_dirty
        self.met["aborted transactions"] += any(source.aborted for source in plan.sources)
        self.met["a transaction over a border"] += any(any(source.transactions) for source in plan.sources)
        for reason, count in vars_of(stats.removed).items():
            self.met[f"gone: {reason}"] += count > 0

    def _stopped_disk(self, checkpoint: int | None) -> CrashFiles:
        """Return a copy of the disk as a clean stop of a server leaves it, with the server's files."""
        disk = self.files.copy()
        log = reopen(self.log, clean=False, now_ms=self.now_ms, files=disk)
        log.close(self.now_ms)
        config = self.model.config
        texts = {
            option.name: format_value(value)
            for option in TOPIC_OPTIONS.values()
            if (value := getattr(config, option.attribute)) != option.default
        }
        # Segments are smaller here than the limit for options.
        texts |= {"internal.segment.bytes": str(config.segment_bytes)}
        texts.pop("segment.bytes", None)
        entry = TopicEntry(TP.topic, bytes(range(16)), (PartitionEntry((0,), 0),), texts)
        Catalog.create(disk, DATA_DIR, CatalogState("c", {TP.topic: entry}))
        OffsetCheckpoint(disk, f"{DATA_DIR}/{paths.LOG_START_CHECKPOINT}").write({TP: log.log_start_offset})
        if checkpoint is not None:
            OffsetCheckpoint(disk, f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}").write({TP: checkpoint})
        clean_stop.write(disk, DATA_DIR, [])
        return disk


def has_echoes(plan: CompactionPlan, files: CrashFiles) -> bool:
    return any(len(scan_segment(plan, number, files).bits.echoes) for number in range(len(plan.sources)))


def files_of(files: Any, found: Sequence[str]) -> StagedFiles:
    """Return content and modification time of these files, by their names."""
    contents = {}
    for path in found:
        file = files.open(path)
        contents[path.rpartition("/")[2]] = file.read_at(0, file.size()), files.mtime_ms(path)
        file.close()
    return contents


def assert_same_counts(results: Sequence[GroupResult], stats: CleanStats) -> None:
    assert sum(result.records_read for result in results) == stats.records_read
    assert sum(result.bytes_read for result in results) == stats.bytes_read
    assert sum(result.bytes_written for result in results) == stats.bytes_written
    for reason, count in vars_of(stats.removed).items():
        assert sum(result.removed[reason] for result in results) == count, reason
    assert all(GroupResult.from_json(result.to_json()) == result for result in results)


def vars_of(removed: RemovedRecords) -> dict[str, int]:
    return {field.name: getattr(removed, field.name) for field in fields(removed)}
