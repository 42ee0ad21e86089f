"""The stages of a compaction in this process, one after the other, without Spark or a JVM.

They are for logs that fit one machine, and for tests. `compact` distributes exactly these stages.
"""

from __future__ import annotations

from ...storage.disk.files import Files
from ..steps import UNWATCHED, Watch
from .exchange import Blob, buckets_of, merge_buckets, scan_source
from .group_results import GroupResult, check_finished_group
from .plan import CompactionPlan
from .rewrite import preview_groups, remove_attempts, rewrite_groups


def compact_locally(
    plan: CompactionPlan,
    *,
    source_files: Files,
    files: Files,
    buckets: int | None = None,
    watch: Watch = UNWATCHED,
) -> list[GroupResult]:
    """Run a saved plan and return the result of each group, in order.

    Finished groups are kept. Errors are those of the stages.

    Args:
        source_files, files: For the data directory and for the staging directory.
        buckets: Number of parts in which keys are merged; the default suffices for `BUCKET_BYTES`. None is spilled to disk, as
            all entries are in memory anyway.
        watch: Receives the progress.
    """
    results = {group: check_finished_group(plan, group, files) for group in range(len(plan.groups))}
    missing = {group for group, result in results.items() if result is None}
    blobs = _superseded(plan, missing, source_files, buckets, watch)
    written = watch.step("groups written", len(missing))
    for result in rewrite_groups(plan, blobs, source_files=source_files, files=files, attempt="local"):
        results[result.group] = result
        written(1)
    remove_attempts(plan, files)
    return [result for _, result in sorted(results.items()) if result is not None]


def dry_run_locally(
    plan: CompactionPlan, *, source_files: Files, buckets: int | None = None, watch: Watch = UNWATCHED
) -> list[GroupResult]:
    """Return what `compact_locally` would return, without writing a file. Arguments and errors are the same."""
    blobs = _superseded(plan, set(range(len(plan.groups))), source_files, buckets, watch)
    return sorted(preview_groups(plan, blobs, source_files=source_files), key=lambda result: result.group)


def _superseded(
    plan: CompactionPlan, groups: set[int], source_files: Files, buckets: int | None, watch: Watch
) -> list[Blob]:
    """Run stages 1 and 2: return the blobs of these groups."""
    if buckets is None:
        coarse, fine = buckets_of(plan)
        buckets = coarse * fine
    blobs: list[Blob] = []
    scanned = watch.step("segments scanned", len(plan.sources))
    for number in range(len(plan.sources)) if groups else ():
        blobs += scan_source(plan, number, source_files, buckets=buckets)
        scanned(1)
    return [blob for blob in merge_buckets(plan, blobs) if blob.task in groups]
