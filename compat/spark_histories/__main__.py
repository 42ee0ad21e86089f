"""1 000 random histories and a log of 2 GB: the pipeline's output must equal the server cleaner's, byte for byte.

Every pass of a history runs on copies of its disk, by the server and by the pipeline's stages in one process; Spark also
runs some of the plans. The large log is compacted by Spark, then cleaned by the server. Histories differ every day:
their seed is the date, unless given. 1 000 more have versions in records, and 1 000 ages of keys. `verify` must pass on all of it, and must find planted damage.
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
from functools import partial
from pathlib import Path
from typing import Any

from ..support.suite import NotRunError, Options, Suite, run_suite

HISTORIES, QUICK_HISTORIES = 1_000, 6
BLOCK = 25
SHOWN = 3
BIG_BYTES, QUICK_BIG_BYTES = 2 << 30, 32 << 20
KEYS_PER_BYTE = 1 / 1_000
SEGMENT_BYTES, QUICK_SEGMENT_BYTES = 64 << 20, 2 << 20
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
    count = options.rest.histories or (QUICK_HISTORIES if options.quick else HISTORIES)
    for make in ("random_history", "random_versions", "random_ages"):
        histories(suite, options.rest.seed, count, make)
    size_bytes = QUICK_BIG_BYTES if options.quick else BIG_BYTES
    if options.rest.megabytes is not None:
        size_bytes = options.rest.megabytes << 20
    damage(suite)
    if size_bytes:
        big_log(suite, size_bytes, QUICK_SEGMENT_BYTES if options.quick else SEGMENT_BYTES)


def histories(suite: Suite, seed: str, count: int, make: str) -> None:
    from support.cleaner import cleaner_history
    from support.pipeline.verified_pair import VerifiedPair

    suite.note(f"seed {seed!r}")
    names = [f"{seed} {number}" for number in range(count)]
    failed: list[str] = []
    met: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as processes:
        for block_failed, block_met in processes.map(
            partial(run_block, make=make), (names[at : at + BLOCK] for at in range(0, len(names), BLOCK))
        ):
            failed += block_failed
            met += block_met
    for what, times in sorted(met.items()):
        suite.note(f"{times:8} × {what}")
    suite.check(
        f"{met['a pass compared']} passes of {count} histories ({make}) are the server's byte for byte, and verify passes",
        not failed,
        f"{len(failed)} histories are not: {failed[:20]}" if failed else "",
    )
    for name in failed[:SHOWN]:
        suite.note(cleaner_history.describe_failure(name, VerifiedPair, getattr(cleaner_history, make)))


def run_block(names: list[str], make: str) -> tuple[list[str], Counter[str]]:
    """Return the names of the failing histories, and counts of what the others contained.

    Args:
        make: Name of the function of `cleaner_history` that makes them.
    """
    from support.cleaner import cleaner_history
    from support.pipeline.verified_pair import VerifiedPair

    failed: list[str] = []
    met: Counter[str] = Counter()
    for name in names:
        try:
            met += getattr(cleaner_history, make)(name).run(VerifiedPair).met
        except Exception:  # noqa: BLE001 -- any exception is the finding
            failed.append(name)
    return failed, met


def damage(suite: Suite) -> None:
    """Check that every kind of planted damage in a small log is found, and named with its position."""
    from support.pipeline.damaged_log import CASES, found_as_expected

    wrong = {case.what: found for case in CASES if (found := found_as_expected(case))}
    suite.check(f"verify finds {len(CASES)} kinds of planted damage, and names their places", not wrong, wrong or "")


def big_log(suite: Suite, size_bytes: int, segment_bytes: int) -> None:
    """Compact a large log by Spark, have the server clean it in place, and compare the files; verify and snapshot both."""
    from ottla.pipeline.compaction.compact import compact
    from ottla.pipeline.compaction.plan import make_plan
    from ottla.pipeline.compaction.staging import save_plan
    from ottla.pipeline.run.session import session
    from ottla.pipeline.snapshot.snapshot import take_snapshot
    from ottla.pipeline.snapshot.snapshot_job import rounds_on
    from ottla.pipeline.stores.reading_files import ReadingFiles
    from ottla.pipeline.stores.store import Store
    from ottla.pipeline.stores.stored_log import open_log
    from ottla.pipeline.verify.audit_scope import scope_against, scope_alone, scope_of_plan
    from ottla.pipeline.verify.verify import verify
    from ottla.pipeline.verify.verify_jobs import judge_on
    from ottla.storage.disk.os_files import OsFiles

    from ..support.logs.big_log import linked_copy
    from .big_log import TP, BigLog
    from .planted import planted

    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    try:
        written = BigLog(int(size_bytes * KEYS_PER_BYTE))
        written.write(directory / "data", size_bytes, segment_bytes=segment_bytes)
        linked_copy(directory / "data", directory / "before")
        store, before = Store(str(directory / "data")), Store(str(directory / "before"))
        with open_log(store, TP, now_ms=NOW_MS) as log:
            plan = make_plan(log, data_dir=store.data_dir, checkpoint=None, now_ms=NOW_MS, secret=bytes(range(16)))
        save_plan(OsFiles(), plan)
        spark = session("spark_histories", master="local[2]")
        spark.sparkContext.setLogLevel("OFF")

        def verified(name: str, scope: Any) -> Any:
            started_s = time.monotonic()
            report = verify([scope], ReadingFiles(), judge_on(spark), mode=name).partitions[0]
            suite.note(f"verify {name}: {time.monotonic() - started_s:.1f} s, {report.records} records")
            return report

        try:
            started_s = time.monotonic()
            results = compact(spark, plan)
            seconds = time.monotonic() - started_s
            bytes_left = sum(result.bytes_written for result in results)
            suite.note(
                f"Spark: {plan.size_bytes >> 20} MiB, {plan.record_count} records, {len(plan.groups)} groups"
                f" to {bytes_left >> 20} MiB in {seconds:.1f} s"
            )
            report = verified("by the plan", scope_of_plan(plan, ReadingFiles()))
            suite.equal("a large log: verify by the plan finds nothing", [], report.findings)
            suite.note(f"server: {clean_in_place(store, plan.secret):.1f} s")
            compare_files(suite, plan)
            store = Store(store.data_dir)
            report = verified("alone", scope_alone(store, TP, NOW_MS))
            suite.equal("a large log: verify of the result alone finds nothing", [], report.findings)
            report = verified("against", scope_against(store, before, TP, NOW_MS))
            suite.equal("a large log: verify against the copy from before finds nothing", [], report.findings)
            suite.equal("and has seen all of it", plan.record_count, report.records_before)
            damages = planted(Path(store.data_dir), Path(before.data_dir), directory / "damaged")
            broken = Store(str(directory / "damaged"))
            report = verified("of damage", scope_against(broken, before, TP, NOW_MS))
            found = {(each.rule, each.offset) for each in report.findings}
            missed = [
                each
                for each in damages
                if not any(rule.startswith(each.rule) and offset == each.offset for rule, offset in found)
            ]
            what = f"verify on Spark finds {len(damages)} kinds of damage in a large log, and names their offsets"
            suite.check(what, not missed, f"{missed}, of {report.findings[:20]}" if missed else "")
            started_s = time.monotonic()
            for name, of in (("before", before), ("after", store)):
                made = take_snapshot(
                    of, TP.topic, str(directory / f"latest-{name}"), rounds_on(spark, TP.topic), now_ms=1_000
                )
                suite.equal(f"snapshot {name}: keys with a value", written.living(), made.keys)
                rows, faults = written.snapshot_faults(directory / f"latest-{name}")
                is_good = rows == made.keys and not faults
                suite.check(f"snapshot {name}: the newest value of each key", is_good, faults[:3] or "")
            suite.note(f"both snapshots: {time.monotonic() - started_s:.1f} s")
        finally:
            spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def compare_files(suite: Suite, plan: Any) -> None:
    """Compare the staged files with those that the server has made in place."""
    from ottla.pipeline.compaction.staging import group_directory
    from ottla.storage.logs.staged_segment import MANIFEST_FILE

    made = {
        path: f"{path.name} of group {plan.group_base(group)}"
        for group in range(len(plan.groups))
        for path in Path(group_directory(plan, group)).iterdir()
        if path.name != MANIFEST_FILE
    }
    differing = sorted(name for path, name in made.items() if not is_same(path, Path(plan.directory, path.name)))
    suite.check("a large log: Spark's files are the server's", not differing, ", ".join(differing[:5]))
    active = f"{plan.upper_offset:020}"
    kept = {path.name for path in Path(plan.directory).iterdir() if path.suffix in (".log", ".index", ".timeindex")}
    names = {path.name for path in made}
    suite.equal("and there are no others", {name for name in kept if not name.startswith(active)}, names)


def clean_in_place(store: Any, secret: bytes) -> float:
    """Run the server's clean pass, with a map large enough, and write its checkpoint; return the pass's seconds."""
    from ottla.storage.cleaning.cleaner import Cleaner
    from ottla.storage.cleaning.dirtiness import measure
    from ottla.storage.disk import paths
    from ottla.storage.disk.checkpoints import OffsetCheckpoint
    from ottla.storage.disk.os_files import OsFiles
    from ottla.storage.logs.log_parts import LogPlace, ShutdownState
    from ottla.storage.logs.recovery import load_log

    from .big_log import TP

    log = load_log(
        LogPlace(OsFiles(), store.directory_of(TP), TP),
        store.config_of(TP.topic),
        ShutdownState(is_clean=True),
        now_ms=NOW_MS,
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
    seconds = time.monotonic() - started_s
    OffsetCheckpoint(OsFiles(), paths.join(store.data_dir, paths.CLEANER_CHECKPOINT)).write({TP: end})
    return seconds


def is_same(one: Path, other: Path) -> bool:
    """Return whether two files have the same bytes and the same age."""
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
