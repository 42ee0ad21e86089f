"""`ottla-spark read`: records as lines of JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ..snapshot.snapshot_rounds import MAX_PART_BYTES
from ..source.reading import LogReader
from ..source.split_reader import Wanted, read_split
from .job_plans import Job

_READ = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestampMs", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def printed(job: Job, options: argparse.Namespace) -> int:
    """Print the selected records and return the exit code."""
    store = job.store()
    logs = LogReader(store, committed=options.isolation_level == "read_committed")
    for tp in job.partitions(store):
        left = options.limit
        with logs.opened(tp) as log:
            start = max(log.start_offset, options.from_offset or 0)
            tasks = list(log.tasks(start, log.end_offset, max_bytes=MAX_PART_BYTES, since_ms=None))
        for row in (
            row
            for task in tasks
            for batch in read_split(task.split, Wanted(_READ, task.aborted))
            for row in batch.to_pylist()
        ):
            if left == 0:
                break
            left = None if left is None else left - 1
            print(json.dumps({"topic": tp.topic} | _readable(row), ensure_ascii=False))
    return 0


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with bytes as text if they are valid UTF-8, else in hexadecimal under `…Hex`."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            try:
                found[name] = value.decode()
            except UnicodeDecodeError:
                found[f"{name}Hex"] = value.hex()
        elif isinstance(value, list):
            found[name] = [_readable(each) for each in value]
        else:
            found[name] = value
    return found
