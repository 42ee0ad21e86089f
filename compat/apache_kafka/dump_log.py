"""Apache Kafka's own `kafka-dump-log` over every file of a data directory."""

import re
from pathlib import Path

from ..support.apache_kafka import tool
from ..support.suite import Suite

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINT = re.compile(r"mismatch|out of order|corrupt|invalid|isvalid: false|exception|could not", re.IGNORECASE)
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def files_of(data_dir: Path) -> list[Path]:
    """Every file of the partitions that the tool knows to read; not Kafka's own metadata log."""
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
    offsets = [path for path in files if path.parent.name.startswith("__consumer_offsets-") and path.suffix == ".log"]
    judge(suite, f"{what}: kafka-dump-log decodes group offsets", offsets, "--offsets-decoder")


def judge(suite: Suite, what: str, files: list[Path], mode: str) -> None:
    if not files:
        suite.skip(what, "no such files")
        return
    done = tool(DUMP_LOG, mode, "--files", ",".join(map(str, files)))
    lines = (done.stdout + done.stderr).splitlines()
    complaints = [line for line in lines if COMPLAINT.search(_without_payload(line))]
    named = sum(line.startswith("Dumping ") for line in lines)
    detail = complaints[:3] or f"{len(files)} files, {len(lines)} lines"
    good = done.returncode == 0 and not complaints and named == len(files)
    suite.check(what, good, detail if good or complaints else f"exit {done.returncode}, {named} of {len(files)} files")


def _without_payload(line: str) -> str:
    """The line up to the record's own data, which may contain any word."""
    return line.split(" payload:", 1)[0].split(" key:", 1)[0]
