"""The stages of a compaction in this process, one after the other: no Spark, no JVM.

For logs that fit one machine, and for tests: what `compact` distributes is exactly this.
"""

from __future__ import annotations

from ..storage.files import Files
from .exchange import Blob, bucket_count, merge_buckets, scan_source
from .plan import CompactionPlan
from .rewrite import GroupResult, finished_group, remove_attempts, rewrite_groups


def compact_locally(
    plan: CompactionPlan, *, source_files: Files, files: Files, buckets: int | None = None
) -> list[GroupResult]:
    """Run a plan that lies in its staging directory; returns what became of each group, in order.

    Args:
        source_files, files: For the data directory and for the staging directory.
        buckets: How many parts the keys are merged in; enough for `BUCKET_BYTES` unless given.

    Groups that are finished already are left as they are. Errors as of the stages.
    """
    buckets = bucket_count(plan) if buckets is None else buckets
    results = {group: finished_group(plan, group, files) for group in range(len(plan.groups))}
    missing = {group for group, result in results.items() if result is None}
    blobs: list[Blob] = []
    if missing:
        for number in range(len(plan.sources)):
            blobs += scan_source(plan, number, source_files, buckets=buckets)
        blobs = [blob for blob in merge_buckets(plan, blobs) if blob.task in missing]
    for result in rewrite_groups(plan, blobs, source_files=source_files, files=files, attempt="local"):
        results[result.group] = result
    remove_attempts(plan, files)
    return [result for _, result in sorted(results.items()) if result is not None]
