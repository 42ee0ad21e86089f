"""The stages of a compaction in this process, one after the other: no Spark, no JVM.

For logs that fit one machine, and for tests: what `compact` distributes is exactly this.
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
    """Run a plan that lies in its staging directory; returns what became of each group, in order.

    Args:
        source_files, files: For the data directory and for the staging directory.
        buckets: How many parts the keys are merged in; enough for `BUCKET_BYTES` unless given. None is put by on disk, for
            all entries are in memory anyway.
        watch: Is told how far it is.

    Groups that are finished already are left as they are. Errors as of the stages.
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
    """What `compact_locally` would return, without files: none is written. Arguments and errors as above."""
    blobs = _superseded(plan, set(range(len(plan.groups))), source_files, buckets, watch)
    return sorted(preview_groups(plan, blobs, source_files=source_files), key=lambda result: result.group)


def _superseded(
    plan: CompactionPlan, groups: set[int], source_files: Files, buckets: int | None, watch: Watch
) -> list[Blob]:
    """Stages 1 and 2: the blobs of these groups."""
    if buckets is None:
        coarse, fine = buckets_of(plan)
        buckets = coarse * fine
    blobs: list[Blob] = []
    scanned = watch.step("segments scanned", len(plan.sources))
    for number in range(len(plan.sources)) if groups else ():
        blobs += scan_source(plan, number, source_files, buckets=buckets)
        scanned(1)
    return [blob for blob in merge_buckets(plan, blobs) if blob.task in groups]
