"""What a compaction costs stage by stage, for each record: CPU and bytes that go through the exchanges.

Python's part is measured in this process, stage after stage; the JVM's part and the shuffled bytes are in Spark's event
log. Together they say what a job of any size costs where nothing else limits it.
"""

import json
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.compaction.exchange import BITS, Blob, buckets_of, merge_buckets, scan_source
from ottla.pipeline.compaction.rewrite import rewrite_groups
from ottla.pipeline.compaction.staging import save_plan
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles

from ...support.suite import Suite
from ..table import judge
from .logs import Made
from .sides import planned

ENTRY_BYTES, NUMBER_BYTES, BITS_BYTES = 16, 4, 4 / 8
"""Of a key's newest record in a segment; of a record that another segment's supersedes; of any record: two bits, twice."""
ROOM = 1.05
"""Of the model: frames of rows, and what Spark's codec adds to bytes that it cannot shrink."""

STAGES = ("plan", "scan", "merge", "rewrite")


class Alone(NamedTuple):
    """The stages in this process."""

    cpu_s: dict[str, float]
    entries: int
    """In the first exchange: d1 for each record."""
    kept: int
    """Records in the result."""


def run_alone(made: Made) -> Alone:
    """Do the work of all stages once."""
    shutil.rmtree(paths.staging_root(str(made.data_dir)), ignore_errors=True)
    times = [time.process_time()]
    plan = planned(str(made.data_dir))
    times.append(time.process_time())
    save_plan(OsFiles(), plan)
    numbers, buckets = range(len(plan.sources)), buckets_of(plan)
    blobs = [blob for number in numbers for blob in scan_source(plan, number, ReadingFiles(), buckets=buckets.coarse)]
    times.append(time.process_time())
    merged: list[Blob] = list(merge_buckets(plan, blobs, buckets))
    times.append(time.process_time())
    results = list(rewrite_groups(plan, merged, source_files=ReadingFiles(), files=OsFiles(), attempt="bench"))
    times.append(time.process_time())
    shutil.rmtree(paths.staging_root(str(made.data_dir)))
    entries = sum(len(blob.data) for blob in blobs if blob.kind != BITS) // ENTRY_BYTES
    kept = sum(result.records_written for result in results)
    return Alone(
        {name: after - before for name, before, after in zip(STAGES, times, times[1:], strict=False)}, entries, kept
    )


class OfSpark(NamedTuple):
    """Of one compaction on Spark, by stage."""

    jvm_s: list[float]
    shuffled_bytes: list[int]


def of_spark(events: Path) -> dict[str, OfSpark]:
    """Job group -> what its last job has cost, from the event log of a session that has ended."""
    (log,) = events.iterdir()
    execution_of: dict[int, tuple[str, int]] = {}
    jvm_s: dict[int, float] = defaultdict(float)
    shuffled: dict[int, int] = defaultdict(int)
    with log.open() as lines:
        for event in map(json.loads, lines):
            if event["Event"] == "SparkListenerJobStart":
                # Adaptive execution makes a job of each stage; what they have in common is the query.
                properties = event["Properties"]
                execution = int(properties.get("spark.sql.execution.id", -1))
                for stage in event["Stage IDs"]:
                    execution_of[stage] = (properties.get("spark.jobGroup.id", ""), execution)
            elif event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event:
                metrics = event["Task Metrics"]
                jvm_s[event["Stage ID"]] += metrics["Executor CPU Time"] / 1e9
                shuffled[event["Stage ID"]] += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    found: dict[str, OfSpark] = {}
    for group, execution in sorted(set(execution_of.values())):  # the last one of a group stays
        stages = sorted(stage for stage in jvm_s if execution_of.get(stage) == (group, execution))
        if len(stages) == len(STAGES) - 1:
            found[group] = OfSpark([jvm_s[stage] for stage in stages], [shuffled[stage] for stage in stages])
    return found


def judge_stages(suite: Suite, made: Made, alone: Alone, spark: OfSpark) -> None:
    """Print the figures of a log; its shuffled bytes have to be what the model says."""
    records, name = made.record_count, made.data_dir.name
    suite.note(f"{name}: {made.size_bytes / 1e6:.0f} MB, {records} records, {made.segment_count} segments")
    suite.note("| stage | Python CPU, s/GB | Python CPU, us/record | JVM CPU, s/GB | shuffled, B/record |")
    suite.note("|---|---|---|---|---|")
    jvm = dict(zip(STAGES[1:], spark.jvm_s, strict=False))
    shuffled = dict(zip(STAGES[1:], spark.shuffled_bytes, strict=False))
    for stage, cpu_s in alone.cpu_s.items():
        suite.note(
            f"| {stage} | {cpu_s / made.size_bytes * 1e9:.2f} | {cpu_s / records * 1e6:.3f} |"
            f" {jvm.get(stage, 0) / made.size_bytes * 1e9:.2f} | {shuffled.get(stage, 0) / records:.2f} |"
        )
    d1, d2 = alone.entries / records, alone.kept / records
    model = ENTRY_BYTES * d1 + NUMBER_BYTES * (d1 - d2) + BITS_BYTES
    stored = made.size_bytes / records
    suite.note(
        f"d1 {d1:.3f}, d2 {d2:.3f}: the model's bound is {model:.2f} B/record, {model / stored:.3f} of the input"
    )
    found = sum(spark.shuffled_bytes) / records
    judge(suite, f"{name}: bytes shuffled a record, {found / stored:.3f} of the input", found, "B", ROOM * model)
