"""Nightly job for cron or a systemd timer: compact the topic under the running broker, verify that, write a snapshot.

    python nightly.py DATA_DIR --topic customers --admin 127.0.0.1:9644 --out DIR [--keep 7]

DIR/2026-11-21 is that night's snapshot: Parquet with the newest value of each key. The commands are those of `ottla-spark`, in
one Spark session (MASTER names Spark's master). The first failure ends the night with its exit code and an error on standard
error. Nothing is lost, older snapshots stay, and the next night continues from there.
"""

import argparse
import datetime
import io
import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path

from ottla.pipeline import session
from ottla.pipeline.cli import main as ottla_spark

AGAIN = {4: [], 6: ["--resume"]}
"""Exit codes of `compact` that are worth a retry, with its options. For 4 the broker's cleaner has run since the plan, so a new
plan is made. For 6 Spark failed, so the same plan is continued. 2 (a broker runs, and --admin is missing), 3 (the log is
damaged) and 5 (`verify` has found something) are left to people.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", metavar="DATA_DIR", help="the broker's data directory")
    parser.add_argument("--topic", default="customers")
    parser.add_argument(
        "--admin", metavar="HOST:PORT", help="the broker's admin listener (default: the broker is stopped)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the snapshots")
    parser.add_argument("--keep", type=int, default=7, help="number of snapshots to keep (default: 7)")
    parser.add_argument(
        "--date",
        type=datetime.date.fromisoformat,
        default=datetime.date.today(),
        help="date of the night (default: today)",
    )
    asked = parser.parse_args()
    spark = session("nightly", master=os.environ.get("MASTER"))
    spark.sparkContext.setLogLevel("OFF")
    try:
        night(asked)
    finally:
        spark.stop()


def night(asked: argparse.Namespace) -> None:
    log = [asked.data_dir, "--topic", asked.topic]
    compact = ["compact", *log, "--install", *(["--admin", asked.admin] if asked.admin else [])]
    code = ottla_spark(compact)
    if code in AGAIN:
        code = ottla_spark(compact + AGAIN[code])
    ended_well(code)
    for plan in plans_to_verify(log):
        # The log before the compaction is compared with the log now; only then are the replaced files deleted.
        ended_well(ottla_spark(["verify", asked.data_dir, "--plan", plan, "--drop-originals"]))
    # The snapshot of a second run in a night replaces that of the first.
    ended_well(ottla_spark(["snapshot", *log, "--out", str(asked.out / str(asked.date)), "--overwrite"]))
    for old in sorted(asked.out.glob("????-??-??"))[: -asked.keep]:
        shutil.rmtree(old)


def plans_to_verify(log: list[str]) -> list[str]:
    """Return the IDs of wholly installed plans, also of earlier nights, whose replaced files are still kept."""
    said = io.StringIO()
    with redirect_stdout(said):
        ended_well(ottla_spark(["status", *log, "--json"]))
    plans = json.loads(said.getvalue())["plans"]
    return [plan["plan_id"] for plan in plans if plan["is_complete"] and plan["originals_bytes"]]


def ended_well(exit_code: int) -> None:
    """End the night on an error; the command has printed the reason."""
    if exit_code:
        sys.exit(exit_code)


if __name__ == "__main__":
    main()
