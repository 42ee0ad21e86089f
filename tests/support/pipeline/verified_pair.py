"""Histories each of whose passes is verified: the pipeline's by its plan, the server's by a copy from before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.pipeline.compaction.group_results import GroupResult
from ottla.pipeline.compaction.plan import CompactionPlan
from ottla.pipeline.stores.store import Store
from ottla.pipeline.verify.audit_scope import scope_against, scope_alone, scope_of_plan
from ottla.pipeline.verify.verify import verify
from support.cleaner.cleaner_compare import batches_of
from support.disk.crash_files import CrashFiles
from support.logs.make_log import TP
from support.pipeline.compaction_pair import DATA_DIR, CompactionPair

BEFORE_DIR = "/before"


class VerifiedPair(CompactionPair):
    """A pair of logs. Each plan's result is verified by the plan; each pass of the server alone, and against a copy.

    The check against a copy stops once a power loss has removed a marker: data compacted as committed may then be aborted.
    """

    has_lost_markers = False

    def lose_power(self, disk: int = 0) -> None:
        before = self._markers()
        super().lose_power(disk)
        self.has_lost_markers |= not before <= self._markers()

    def _markers(self) -> set[int]:
        return {batch.base_offset for segment in self.log.segments for batch in batches_of(segment) if batch.is_control}

    @staticmethod
    def compact(plan: CompactionPlan, files: CrashFiles) -> Sequence[GroupResult]:
        results = CompactionPair.compact(plan, files)
        verify([scope_of_plan(plan, files)], files).check()
        return results

    def clean(self, **arguments: Any) -> None:
        if arguments.get("seal"):
            arguments["seal"] = False
            self.roll()
        is_compact = self.model.config.is_compact
        before = self._stopped_disk(self.checkpoint) if is_compact and not self.has_lost_markers else None
        super().clean(**arguments)
        if before is None:
            return
        disk = self._stopped_disk(self.checkpoint)
        # A server that starts again gives the originals other epochs and producers, as a kill during the pass does.
        for path, data in before.snapshot().items():
            if path.startswith(DATA_DIR + "/"):
                copy_file(disk, path.replace(DATA_DIR, BEFORE_DIR, 1), data, before.mtime_ms(path))
        store = Store(DATA_DIR, disk)
        verify([scope_alone(store, TP, self.now_ms)], disk).check()
        verify([scope_against(store, Store(BEFORE_DIR, disk), TP, self.now_ms)], disk).check()
        self.met["a pass verified"] += 1


def copy_file(files: CrashFiles, path: str, data: bytes, mtime_ms: int) -> None:
    files.make_dir(path.rpartition("/")[0])
    file = files.open(path, create=True, truncate=True)
    file.append(data)
    file.close()
    files.set_mtime_ms(path, mtime_ms)
