"""The sub-commands of `ottla-spark`: options in, jobs run, results printed."""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from ...storage.disk.os_files import OsFiles
from ...storage.disk.own_files import open_file
from ...storage.filter.offset_map import SECRET_BYTES
from ...storage.pictures.page import document
from ...storage.pictures.text import pass_lines, style
from ..errors import PipelineError, SparkFailedError, UsageError
from ..install.install_steps import is_plan_installed
from ..objects.addresses import parse_fs_options
from . import commands
from .engine import Engine
from .job_plans import Job, Say, find_plan, forget, status
from .job_results import PartitionResult, as_json, html_of
from .progress import DRAW_EVERY_S, JobProgress, Screen


def run(options: argparse.Namespace) -> int:
    """Run a parsed command line; returns the exit code. Refusals are raised."""
    if options.command == "restore":
        return _restore(options)
    if options.command == "check":
        return _check(options)
    if options.command == "apply":
        from . import apply_run

        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        return apply_run.run(options, _voices(options)[0])
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a JVM that is gone is told of once, by us
    say, progress = _voices(options)
    confs = dict(options.conf)
    if (
        options.command == "verify" and options.bootstrap is not None
    ):  # its steps do not count themselves: Spark's own line
        confs = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty() and not options.quiet).lower(), **confs}
    engine = Engine(options.master, confs, say=say, progress=progress)
    job = Job(
        data_dir=options.data_dir or "",
        topic=options.topic,
        partition=options.partition,
        configs=dict(options.config),
        engine=engine,
        say=say,
        now_ms=lambda: time.time_ns() // 1_000_000,
        secret=lambda: secrets.token_bytes(SECRET_BYTES),
        fs=parse_fs_options(dict(options.fs_option)),
        admin=getattr(options, "admin", None),
        includes_active=getattr(options, "include_active", False),
        at_once=getattr(options, "at_once", 1),
    )
    try:
        code = RUNS[options.command](job, options)
        sys.stdout.flush()
        return code
    except PipelineError as error:
        if len(error.results) > 1:
            _print_results(error.results, options)
        raise
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        engine.stop()


def _voices(options: argparse.Namespace) -> tuple[Say, JobProgress]:
    """Who says lines, and who is told how far it is."""
    if options.quiet:
        return _quiet, JobProgress()
    if not sys.stderr.isatty():
        return _say, JobProgress(_say)
    screen = Screen(sys.stderr)
    return screen.say, JobProgress(screen.draw, every_s=DRAW_EVERY_S, rest=screen.clear)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quiet(_line: str) -> None:
    pass


def _plan(job: Job, options: argparse.Namespace) -> int:
    _try_html(options)
    return _print_drawn(commands.plan(job), options)


def _compact(job: Job, options: argparse.Namespace) -> int:
    if options.html is not None and not options.dry_run:
        raise UsageError("--html: expected --dry-run with it, as it draws what would go")
    _try_html(options)
    if options.install and options.dry_run:
        raise UsageError("--install and --dry-run: expected one of them")
    if options.include_active and (options.dry_run or options.admin):
        raise UsageError(
            "--include-active rolls a stopped server's log: expected no --dry-run, and no --admin (there it is `ottla roll`)"
        )
    results = commands.compact(
        job,
        installs=options.install,
        dry_run=options.dry_run,
        resume=options.resume,
        max_groups=options.max_groups,
        skips_corrupt=options.on_corrupt == "skip-partition",
        verifies=not options.no_verify,
    )
    return _print_drawn(results, options) if options.dry_run else _print_results(results, options)


def _install(job: Job, options: argparse.Namespace) -> int:
    return _print_results(commands.install_plans(job, plan_id=options.plan, max_groups=options.max_groups), options)


def _try_html(options: argparse.Namespace) -> None:
    """A file that cannot be written is refused before hours of work."""
    if options.html is not None:
        os.close(open_file(options.html, os.O_WRONLY, create=True))


def _print_drawn(results: list[PartitionResult], options: argparse.Namespace) -> int:
    """With --html FILE into that, too; on a terminal with a drawing below each line."""
    if options.html is not None:
        with open(open_file(options.html, os.O_WRONLY, create=True, truncate=True), "w", encoding="utf-8") as file:
            file.write(document("What a compaction would do", html_of(results)))
    if options.json or not sys.stdout.isatty():
        return _print_results(results, options)
    width = min(100, shutil.get_terminal_size().columns)
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    look = style(is_unicode=is_unicode, has_colours="NO_COLOR" not in os.environ)
    for each in results:
        print(each)
        for line in () if each.picture is None else pass_lines(each.picture, width, look):
            print(line)
    return 0


def _print_results(results: Sequence[PartitionResult], options: argparse.Namespace) -> int:
    if options.json:
        _print_json(as_json(results))
    else:
        for each in results:
            print(each)
    return 0


def _verify(job: Job, options: argparse.Namespace) -> int:
    from . import wire_runs

    if options.bootstrap is not None:
        return wire_runs.verify(job, options)
    wire_runs.refuse_without_bootstrap(options)
    plan = None if options.plan is None else find_plan(job, options.plan)
    if options.drop_originals and (plan is None or not is_plan_installed(plan, OsFiles())):
        raise UsageError("--drop-originals: expected --plan with a plan that is wholly installed")
    report = commands.verify(job, against=options.against, plan_id=options.plan)
    if options.json:
        sys.stdout.write(report.to_json())
    else:
        for each in report.partitions:
            print(
                f"{each.topic}-{each.partition}: {'FAILED' if each.finding_count else 'passed'} ({report.mode}):"
                f" {each.segments} segments, {each.batches} batches, {each.records} records, {each.bytes} bytes,"
                f" {each.finding_count} findings"
            )
            for finding in each.findings[:10]:
                print(f"  {finding}")
    report.check()
    if plan is not None and options.drop_originals:
        forget(plan)
    return 0


def _snapshot(job: Job, options: argparse.Namespace) -> int:
    made = commands.snapshot(job, options.out, overwrite=options.overwrite, since=options.since)
    if options.json:
        _print_json(made._asdict())
    else:
        changed = "" if made.since is None else f" have changed since {made.since}"
        print(f"{made.path}: {made.keys} keys of {made.partitions} partitions{changed}")
    return 0


def _check(options: argparse.Namespace) -> int:
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    engine = Engine(options.master, dict(options.conf))
    try:
        report = engine.check([] if options.data_dir is None else options.data_dir.split(","))
    finally:
        engine.stop()
    if options.json:
        _print_json(asdict(report))
    else:
        print(report)
    return SparkFailedError.exit_code if report.mismatches else 0


def _restore(options: argparse.Namespace) -> int:
    from ..snapshot.restore import restore
    from ..wire.cluster import client_options

    done = restore(
        options.snapshot,
        options.topic,
        options.bootstrap,
        producer_config=client_options(options.producer_config, "--producer-config", _say),
        creates=options.create,
        fs_options=dict(options.fs_option),
    )
    if options.json:
        _print_json(done._asdict())
    else:
        print(f"{done.topic}: {done.records} records written to {done.partitions} partitions")
    return 0


def _read(job: Job, options: argparse.Namespace) -> int:
    from .printed_records import printed

    return printed(job, options)


def _status(job: Job, options: argparse.Namespace) -> int:
    if options.forget is not None:
        forget(find_plan(job, options.forget))
    plans = status(job)
    if options.json:
        _print_json({"plans": plans})
        return 0
    for each in plans:
        print(
            f"{each['topic']}-{each['partition']}: plan {each['plan_id']}: {each['staged']} of {each['groups']} groups"
            f" staged, {each['installed']} installed{', complete' if each['is_complete'] else ''},"
            f" {each['originals_bytes']} bytes of originals kept"
        )
    if not plans:
        print("no plans")
    return 0


def _print_json(found: object) -> None:
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


RUNS: Mapping[str, Callable[[Job, argparse.Namespace], int]] = {
    "plan": _plan,
    "compact": _compact,
    "install": _install,
    "verify": _verify,
    "snapshot": _snapshot,
    "read": _read,
    "status": _status,
}
