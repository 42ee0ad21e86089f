"""CPU time of Spark's driver before the first task: plans of the format `ottla` and of snapshots, made without Spark.

    python -m compat.bench.spark_planning [--scale PERCENT]        # two minutes, 2 GB in TMPDIR; /dev/shm is quick

The logs are made here. Their files have real sizes and indexes, and mostly holes for records. Rows come in pairs, of half
the size and of the whole, which show whether the cost is linear.
"""

import argparse
import os
import pickle
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.pipeline.snapshot.snapshot_rounds import first_round
from ottla.pipeline.source.batch_reader import BatchReader
from ottla.pipeline.source.read_options import parse_options
from ottla.pipeline.source.reading import LogReader, OpenLog
from ottla.pipeline.source.stream import StreamReader
from ottla.pipeline.stores.stores import opened_store
from ottla.protocol.batch_builder import build_batch
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce import producer_snapshots
from ottla.storage.produce.producers import ProducerStates
from ottla.storage.segment.index import AbortedTxn

SEGMENTS = 100
PART_BYTES = 64 << 10
"""Size of a small segment, and of the parts of a read."""
LARGE_BYTES = 1 << 30
BATCH_BYTES = 4 << 10
BATCHES = LARGE_BYTES // BATCH_BYTES
"""Batches of a large segment, of one record each."""
COLUMNS = pa.schema([("key", pa.binary())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=100, help="size of the plans in percent (default: 100)")
    percent = parser.parse_args().scale
    for measure in (partitions, triggers, indexes, rows, transactions):
        with tempfile.TemporaryDirectory(prefix="ottla-planning-") as directory:
            measure(Path(directory), percent)
    return 0


def show(what: str, run: Callable[[], Any], factor: float = 1.0) -> Any:
    """Print the CPU seconds of a call, times a factor, and return its result."""
    began = time.process_time()
    result = run()
    seconds = time.process_time() - began
    print(f"{what:<76} {seconds * factor:8.3f} CPU s", flush=True)
    return result


def partitions(directory: Path, percent: int) -> None:
    count = 40 * percent
    make_logs(directory, count, SEGMENTS)
    for chosen in (count // 2, count):
        reader = BatchReader(parse_options(chosen_of(directory, chosen)), COLUMNS)
        show(f"{chosen} partitions × {SEGMENTS} segments: a batch read", reader.partitions)
    store = opened_store(str(directory))
    show(
        f"{count} partitions × {SEGMENTS} segments: a snapshot", lambda: first_round(store, store.topic_partitions("t"))
    )


def triggers(directory: Path, percent: int) -> None:
    count = 10 * percent
    make_logs(directory, count, 3)
    for level in ("read_uncommitted", "read_committed"):
        for chosen in (count // 2, count):
            options = chosen_of(directory, chosen) | {"startingOffsets": "earliest", "isolationLevel": level}
            reader = StreamReader(parse_options(options), COLUMNS)
            end = reader.latestOffset(reader.initialOffset())

            def trigger() -> None:
                reader.latestOffset(end)  # noqa: B023 - called at once
                reader.reportLatestOffset()  # noqa: B023
                reader.partitions(end, end)  # noqa: B023

            show(f"{chosen} partitions: an idle trigger, {level}", trigger)


def indexes(directory: Path, percent: int) -> None:
    segments = 1 + max(1, percent // 50)
    make_log(directory / "t-0", [number * BATCHES for number in range(segments)])
    write_checkpoints(directory, 1)
    for number in range(segments - 1):
        make_large(directory / "t-0" / f"{number * BATCHES:020}", number * BATCHES)
    reader = BatchReader(parse_options({"path": str(directory), "topic": "t"}), COLUMNS)
    what = f"1 TB of segments of 1 GiB, of which {segments - 1} were read: a batch read"
    parts = show(what, reader.partitions, 1e12 / LARGE_BYTES / (segments - 1))
    assert len(parts) >= 8 * (segments - 1), f"{len(parts)} parts"


def rows(directory: Path, percent: int) -> None:
    """Make the rows of a snapshot's plan, and load one: a task loads no more, for a `Round` refuses to be in a closure."""
    make_logs(directory, 1, 2)
    store = opened_store(str(directory))
    part = first_round(store, store.topic_partitions("t")).tasks[0]
    for count in (800 * percent, 1_600 * percent):
        plan = [part] * count
        pickled = show(f"{count} parts as rows", lambda: [pickle.dumps(each) for each in plan])  # noqa: B023 - called at once
        what = f"{count} rows of {len(pickled[0])} bytes loaded, of which a task loads one"
        show(what, lambda: [pickle.loads(each) for each in pickled])  # noqa: B023


def transactions(directory: Path, percent: int) -> None:
    """Give each of 4 000 parts its own of 10 000 and of 20 000 short transactions that were aborted."""
    make_logs(directory, 1, 40 * percent)
    logs = LogReader(opened_store(str(directory)), committed=False)
    with logs.opened(TopicPartition("t", 0)) as log:
        for count in (100 * percent, 200 * percent):
            firsts = range(0, log.end_offset, log.end_offset // count)
            whole = OpenLog(log.log, log.end_offset, [AbortedTxn(1, first, first + 1, first + 2) for first in firsts])
            tasks = partial(whole.tasks, 0, log.end_offset, max_bytes=PART_BYTES, since_ms=None)
            show(f"{40 * percent} parts and {len(firsts)} aborted transactions", lambda: list(tasks()))  # noqa: B023


def chosen_of(directory: Path, count: int) -> dict[str, str]:
    numbers = ",".join(map(str, range(count)))
    return {"path": str(directory), "topic": "t", "partition": numbers, "maxPartitionBytes": str(PART_BYTES)}


def make_logs(directory: Path, count: int, segments: int) -> None:
    for number in range(count):
        make_log(directory / f"t-{number}", range(0, 1_000 * segments, 1_000))
    write_checkpoints(directory, count)


def write_checkpoints(directory: Path, count: int) -> None:
    """Write what Apache Kafka has in a data directory whose logs all end after one record of their last segment."""
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        lines = []
        for number in range(count):
            last = max(int(path.stem) for path in (directory / f"t-{number}").glob("*.log"))
            lines.append(f"t {number} {0 if name.startswith('log-start') else last + 1}\n")
        (directory / name).write_text(f"0\n{count}\n{''.join(lines)}")


def make_log(directory: Path, base_offsets: Sequence[int]) -> None:
    """Make a partition: sealed segments without batches, which are one file with many names, and one with a batch."""
    directory.mkdir()
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    *sealed, last = base_offsets
    for kind in ("log", "index", "timeindex"):
        first = directory / f"{sealed[0]:020}.{kind}"
        first.touch()
        for base_offset in sealed[1:]:
            os.link(first, directory / f"{base_offset:020}.{kind}")
        (directory / f"{last:020}.{kind}").touch()
    os.truncate(directory / f"{sealed[0]:020}.log", PART_BYTES)
    (directory / f"{last:020}.log").write_bytes(build_batch([(last, 1_000, b"k", b"v", ())]))
    producer_snapshots.take(OsFiles(), str(directory), ProducerStates(end_offset=last + 1), sync=False)


def make_large(path: Path, base_offset: int) -> None:
    """Write a segment of 1 GiB with the headers of all batches, and the index of each of them."""
    path.with_suffix(".log").unlink()
    batch = build_batch([(0, 1_000, b"k", bytes(BATCH_BYTES - 71), ())])
    with path.with_suffix(".log").open("wb") as file:
        for number in range(BATCHES):
            file.write(struct.pack(">q", base_offset + number) + batch[8:])
    numbers = np.arange(1, BATCHES)
    path.with_suffix(".index").unlink()
    path.with_suffix(".index").write_bytes(np.stack([numbers, numbers * BATCH_BYTES], axis=1).astype(">i4").tobytes())


if __name__ == "__main__":
    sys.exit(main())
