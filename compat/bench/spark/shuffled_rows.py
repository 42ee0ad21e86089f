"""The number and cost of the rows in a compaction's exchanges: with buckets sized by the data, and with the earlier buckets.

    python -m compat.bench.spark.shuffled_rows [--segments N] [--quick]

Stages 1 and 2 of tiny segments run in this process, into the Arrow batches that Spark gets. Spark itself does not run: its cost
of a row is the same for both sides. The other side divides keys as `ottla` did until 2026-11-25: a bucket for each 32 MiB, at
least one for each task that the cluster runs at once, and a batch for each row. Both must lead to the same records. For large
logs a formula gives the rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ...support.suite import NotRunError, Options, Suite, run_suite
from ..cleaner.work import load_note, work_directory

if TYPE_CHECKING:
    from ottla.pipeline.compaction.exchange import Blob
    from ottla.pipeline.compaction.plan import CompactionPlan
    from ottla.pipeline.records.fine_buckets import Buckets

SEGMENTS, QUICK_SEGMENTS = 10_000, 600
AT_ONCE = (2, 100)
RECORD_BYTES, ENTRY_BYTES = 102, 16
LARGE = ((1e11, 100, 16), (1e12, 1_000, 100), (1e13, 10_000, 1_600), (1e14, 100_000, 1_600))
"""Bytes, segments, cores."""
FEWER = 10
"""The factor by which a hundred cores must have fewer rows."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--segments", type=int, help=f"default {SEGMENTS}")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it measures the pipeline")
    from ottla.pipeline.compaction.exchange import BUCKET_BYTES, buckets_of
    from ottla.pipeline.records.fine_buckets import Buckets, buckets_for

    from .logs import RECORDS_A_BATCH, Shape, make_log
    from .sides import planned

    segments = options.rest.segments or (QUICK_SEGMENTS if options.quick else SEGMENTS)
    batch_bytes = RECORD_BYTES * RECORDS_A_BATCH
    with work_directory(2 * segments * batch_bytes) as work:
        made = make_log(Shape("tiny", segments * batch_bytes), work / "tiny", segment_bytes=batch_bytes)
        plan = planned(str(made.data_dir))
        suite.note(f"{made.segment_count} segments of {made.size_bytes / 1e6:.0f} MB in all; {load_note()}")
        suite.note("| cores | buckets | rows | batches | CPU of stages 1 and 2 |")
        for at_once in AT_ONCE:
            sides = [("before", Buckets(at_once, 1), alone), ("now", buckets_of(plan, at_once), together)]
            found = [stages(plan, buckets, batches_of) for _, buckets, batches_of in sides]
            for (name, buckets, _), (rows, batches, cpu_s, _) in zip(sides, found, strict=True):
                suite.note(f"| {at_once}, {name} | {buckets.coarse} | {rows} | {batches} | {cpu_s:.2f} s |")
            suite.equal(f"{at_once} cores: the same records are superseded", found[0][3], found[1][3])
        suite.check(f"{AT_ONCE[-1]} cores: {FEWER} times fewer rows", FEWER * found[1][0] <= found[0][0], found[1][0])
        shutil.rmtree(made.data_dir)
    suite.note(
        "| log of 100 B records | segments | cores | rows through exchange 1 before | now | coarse, fine buckets |"
    )
    for size_bytes, count, at_once in LARGE:
        entries_bytes = int(size_bytes / RECORD_BYTES * ENTRY_BYTES)
        before = max(at_once, -(-entries_bytes // BUCKET_BYTES)) * count
        coarse, fine = buckets_for(entries_bytes, count, BUCKET_BYTES, at_once)
        suite.note(
            f"| {size_bytes / 1e12:g} TB | {count} | {at_once} | {before:.1e} | {coarse * count:.1e} | {coarse}, {fine} |"
        )


def stages(
    plan: CompactionPlan, buckets: Buckets, batches_of: Callable[[Iterable[Blob]], Iterator[int]]
) -> tuple[int, int, float, dict[int, int]]:
    """Return rows and batches of both exchanges, CPU seconds, and how many records of each segment another supersedes."""
    from ottla.pipeline.compaction.exchange import BITS, SUPERSEDED, merge_buckets, scan_source
    from ottla.pipeline.stores.reading_files import ReadingFiles

    started_s = time.process_time()
    files = ReadingFiles()
    blobs = [
        blob for number in range(len(plan.sources)) for blob in scan_source(plan, number, files, buckets=buckets.coarse)
    ]
    merged = list(merge_buckets(plan, blobs, buckets))
    batches = [*batches_of(blobs), *batches_of(merged)]
    cpu_s = time.process_time() - started_s
    counts: dict[int, int] = {}
    for blob in merged:
        if blob.kind != BITS:
            bits = len(blob.data) // 4 if blob.kind == SUPERSEDED else int.from_bytes(blob.data, "little").bit_count()
            counts[blob.source] = counts.get(blob.source, 0) + bits
    return sum(batches), len(batches), cpu_s, counts


def alone(blobs: Iterable[Blob]) -> Iterator[int]:
    """Return the number of rows of one batch per blob."""
    from ottla.pipeline.spark.blobs import BlobRows

    kind = BlobRows("source", "kind")
    return (kind.row(*blob[:-1], data=blob.data).num_rows for blob in blobs)


def together(blobs: Iterable[Blob]) -> Iterator[int]:
    from ottla.pipeline.spark.blobs import BlobRows

    kind = BlobRows("source", "kind")
    return (batch.num_rows for batch in kind.rows((blob[:-1], blob.data) for blob in blobs))


if __name__ == "__main__":
    sys.exit(run_suite("bench.spark.shuffled_rows", body, doc=__doc__, more_arguments=arguments))
