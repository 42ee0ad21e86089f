"""Apache Kafka's own `kafka-dump-log` on every file of a data directory.

One of its complaints is not counted, as it also makes it about Apache Kafka's own cleaner. A batch that has lost all its
records keeps its max timestamp, and a time index entry may name it, but the tool looks for the records.
"""

import re
from pathlib import Path

from ..support.brokers.apache_kafka import tool
from ..support.logs.segment_files import base_offset, batch_headers, entries
from ..support.suite import Suite

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINT = re.compile(r"mismatch|out of order|corrupt|invalid|isvalid: false|exception|could not", re.IGNORECASE)
MISMATCH, NO_RECORD = "Found timestamp mismatch in :", re.compile(r"Index timestamp: (\d+), log timestamp: -1$")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def files_of(data_dir: Path) -> list[Path]:
    """Return every file of the partitions that the tool can read; not Kafka's own metadata log."""
    return sorted(
        path
        for path in data_dir.glob("*-*/*")
        if path.suffix in SUFFIXES and path.stat().st_size and not path.parent.name.startswith("__cluster_metadata")
    )


def judge_files(suite: Suite, what: str, data_dir: Path) -> None:
    """Three passes: all records of all files; indexes against their logs; the indexes' own sanity check."""
    files = files_of(data_dir)
    indexes = [path for path in files if path.suffix == ".index"]
    times = [path for path in files if path.suffix in (".index", ".timeindex")]
    suite.check(f"{what}: there are files of each kind", len(indexes) > 1 and len(files) > len(times), len(files))
    judge(suite, f"{what}: kafka-dump-log reads every record", files, "--deep-iteration")
    judge(suite, f"{what}: kafka-dump-log verifies the indexes", times, "--verify-index-only")
    judge(suite, f"{what}: kafka-dump-log's index sanity check", times, "--index-sanity-check")
    for topic, mode in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
        ("__share_group_state", "--share-group-state-decoder"),
    ):
        logs = [path for path in files if path.parent.name.startswith(f"{topic}-") and path.suffix == ".log"]
        if logs:
            judge(suite, f"{what}: kafka-dump-log decodes {topic}", logs, mode)


def judge(suite: Suite, what: str, files: list[Path], mode: str) -> None:
    done = tool(DUMP_LOG, mode, "--files", ",".join(map(str, files)))
    lines = [*done.stdout.splitlines(), *without_empty_batches(done.stderr.splitlines())]
    complaints = [line for line in lines if COMPLAINT.search(_without_payload(line))]
    named = sum(line.startswith("Dumping ") for line in lines)
    detail = complaints[:3] or f"{len(files)} files, {len(lines)} lines"
    good = done.returncode == 0 and not complaints and named == len(files)
    suite.check(what, good, detail if good or complaints else f"exit {done.returncode}, {named} of {len(files)} files")


def without_empty_batches(complaints: list[str]) -> list[str]:
    """Return the complaints without those about time index entries that name empty batches, and rightly."""
    left: list[str] = []
    heading: list[str] = []  # names the file that the indented lines below it are about
    time_index = Path()
    for line in complaints:
        if line.startswith(MISMATCH):
            time_index, heading = Path(line.removeprefix(MISMATCH)), [line]
        elif not (found := NO_RECORD.search(line)) or int(found[1]) not in _times_of_empty_batches(time_index):
            left += [*heading, line] if line.startswith(" ") else [line]
            heading = []
    return left


def _times_of_empty_batches(time_index: Path) -> set[int]:
    """Return timestamps of the entries that name a batch without records whose max timestamp is the entry's."""
    base, log = base_offset(time_index), time_index.with_suffix(".log")
    empty = {(each.max_timestamp, each.last_offset) for each in batch_headers(log) if each.record_count == 0}
    named = [(timestamp, base + offset) for timestamp, offset in entries(time_index, ">qi")]
    return {timestamp for timestamp, offset in named if (timestamp, offset) in empty}


def _without_payload(line: str) -> str:
    """Return the line up to the record's own data, which may contain any word."""
    return line.split(" payload:", 1)[0].split(" key:", 1)[0]
