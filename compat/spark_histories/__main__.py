"""1 000 random histories and a log of 2 GB: the pipeline's output must be the server cleaner's, byte for byte.

Every pass of a history is done on copies of its disk, by the server and by the pipeline's stages in one process; some of
the plans are run by Spark as well. The large log is compacted by Spark, then cleaned by the server. Other histories
every day: their seed is the date, unless given.
"""

import argparse
import datetime
import importlib.util
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ..support.suite import NotRunError, Options, Suite, run_suite

HISTORIES, QUICK_HISTORIES = 1_000, 50
BLOCK = 25
SHOWN = 3
BIG_BYTES, QUICK_BIG_BYTES = 2 << 30, 64 << 20
KEYS_PER_BYTE = 1 / 1_000
SEGMENT_BYTES = 64 << 20
NOW_MS = 10**12
MAP_BYTES = 1 << 30


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default=str(datetime.date.today()), help="default: the date")
    parser.add_argument("--histories", type=int, help=f"how many; default {HISTORIES}, quick {QUICK_HISTORIES}")
    parser.add_argument("--megabytes", type=int, help=f"of the large log; default {BIG_BYTES >> 20}, 0: none")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the pipeline beside the cleaner")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    histories(suite, options.rest.seed, options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES))
    size_bytes = QUICK_BIG_BYTES if options.quick else BIG_BYTES
    if options.rest.megabytes is not None:
        size_bytes = options.rest.megabytes << 20
    if size_bytes:
        big_log(suite, size_bytes)


def histories(suite: Suite, seed: str, count: int) -> None:
    from support.cleaner_history import what_differs
    from support.compaction_pair import CompactionPair

    suite.note(f"seed {seed!r}")
    names = [f"{seed} {number}" for number in range(count)]
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block_failed, block_met in processes.map(
            run_block, (names[at : at + BLOCK] for at in range(0, len(names), BLOCK))
        ):
            failed += block_failed
            met += block_met
    for what, times in sorted(met.items()):
        suite.note(f"{times:8} × {what}")
    suite.check(
        f"{met['a pass compared']} passes of {count} histories are the server's byte for byte",
        not failed,
        f"{len(failed)} histories are not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(what_differs(name, CompactionPair))


def run_block(names: list[str]) -> tuple[list[str], Counter[str]]:
    """The names of the histories that fail, and what was met in the others."""
    from support.cleaner_history import random_history
    from support.compaction_pair import CompactionPair

    failed: list[str] = []
    met: Counter[str] = Counter()
    for name in names:
        try:
            met += random_history(name).run(CompactionPair).met
        except Exception:  # noqa: BLE001 -- whatever it is, it is the finding
            failed.append(name)
    return failed, met


def big_log(suite: Suite, size_bytes: int) -> None:
    """Compact a large log by Spark, have the server clean it in place, and compare the files."""
    from ottla.pipeline.compact import compact
    from ottla.pipeline.plan import make_plan
    from ottla.pipeline.rewrite import MANIFEST_FILE, group_directory
    from ottla.pipeline.session import session
    from ottla.pipeline.staging import save_plan
    from ottla.pipeline.store import Store
    from ottla.storage.files import OsFiles

    from .big_log import TP, make_big_log

    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    try:
        make_big_log(directory / "data", size_bytes, keys=int(size_bytes * KEYS_PER_BYTE), segment_bytes=SEGMENT_BYTES)
        store = Store(str(directory / "data"))
        with store.open_log(TP, now_ms=NOW_MS) as log:
            plan = make_plan(log, data_dir=store.data_dir, checkpoint=None, now_ms=NOW_MS, secret=bytes(range(16)))
        save_plan(OsFiles(), plan)
        spark = session("spark_histories", master="local[2]")
        try:
            started_s = time.monotonic()
            results = compact(spark, plan)
            seconds = time.monotonic() - started_s
        finally:
            spark.stop()
        written = sum(result.bytes_written for result in results)
        suite.note(
            f"Spark: {plan.size_bytes >> 20} MiB, {plan.record_count} records, {len(plan.groups)} groups"
            f" to {written >> 20} MiB in {seconds:.1f} s"
        )
        suite.note(f"server: {clean_in_place(store, plan.secret):.1f} s")
        differing = [
            f"{name} of group {plan.group_base(group)}"
            for group in range(len(plan.groups))
            for name in sorted(path.name for path in Path(group_directory(plan, group)).iterdir())
            if name != MANIFEST_FILE
            and not is_same(Path(group_directory(plan, group), name), Path(plan.directory, name))
        ]
        suite.check("a large log: Spark's files are the server's", not differing, ", ".join(differing[:5]))
        names = {
            path.name for group in range(len(plan.groups)) for path in Path(group_directory(plan, group)).iterdir()
        }
        kept = {path.name for path in Path(plan.directory).iterdir() if path.suffix in (".log", ".index", ".timeindex")}
        active = f"{plan.upper_offset:020}"
        suite.equal(
            "and there are no others", {name for name in kept if not name.startswith(active)}, names - {MANIFEST_FILE}
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def clean_in_place(store: Any, secret: bytes) -> float:
    """The server's pass, with a map that does not fill; returns its seconds."""
    from ottla.storage.cleaner import Cleaner
    from ottla.storage.dirtiness import measure
    from ottla.storage.files import OsFiles
    from ottla.storage.recovery import load_log

    from .big_log import TP

    log = load_log(
        OsFiles(),
        store.directory_of(TP),
        store.config_of(TP.topic),
        topic_partition=TP,
        now_ms=NOW_MS,
        clean_shutdown=True,
    )
    cleaner = Cleaner(dedupe_buffer_bytes=MAP_BYTES, load_factor=0.9, io_buffer_bytes=4 << 20)
    started_s = time.monotonic()
    end, _ = cleaner.clean(
        measure(log, 0, NOW_MS).for_worker(),
        NOW_MS,
        secret=secret,
        swap=lambda new, old: log.replace_segments(new, old, NOW_MS),
        checkpoint=lambda _: None,
    )
    assert end == log.segments.active.base_offset, "the map became full"
    return time.monotonic() - started_s


def is_same(one: Path, other: Path) -> bool:
    """Whether two files have the same bytes and the same age."""
    if not other.exists() or one.stat().st_mtime_ns // 10**6 != other.stat().st_mtime_ns // 10**6:
        return False
    return one.stat().st_size == other.stat().st_size and all(
        a == b for a, b in zip(blocks(one), blocks(other), strict=True)
    )


def blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


if __name__ == "__main__":
    sys.exit(run_suite("spark_histories", body, doc=__doc__, more_arguments=arguments))
