"""Sub-commands of `ottla-spark`: they map options to functions of `jobs` and print the results."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..storage.disk.os_files import OsFiles
from ..storage.disk.own_files import open_file
from ..storage.pictures.page import document
from ..storage.pictures.text import pass_lines, style
from . import jobs
from .errors import ExitCode, PipelineError, UsageError
from .install.install_steps import is_plan_installed
from .run.engine import Engine
from .run.job_plans import Job, find_plan, forget
from .run.job_results import PartitionResult, as_json, html_of
from .run.progress import DRAW_EVERY_S, JobProgress, Say, Screen

if TYPE_CHECKING:
    from .verify.findings import VerifyReport

Result = TypeVar("Result")


class Call(Protocol):
    """Call of a function of `jobs` with the options that have its parameters' names, or those of `jobs.job`."""

    def __call__(self, function: Callable[..., Result], /, **more: Any) -> Result: ...


def run(options: argparse.Namespace) -> int:
    """Run a parsed command line and return the exit code. Errors are raised."""
    if options.command == "restore":
        return _restore(options)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # Ottla reports a JVM that has exited once
    if options.command == "check":
        return _check(options)
    if options.command == "doctor":
        return _doctor(options)
    say, progress = _voices(options)
    if options.command == "apply":
        return _apply(options, say, progress)
    confs = options.conf
    # The steps of these jobs do not count themselves: Spark's own line does.
    if options.command == "verify" and options.bootstrap is not None:
        confs = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty() and not options.quiet).lower(), **confs}
    engine = Engine(options.master, confs, say=say, progress=progress)

    def call(function: Callable[..., Result], /, **more: Any) -> Result:
        own = signature(function).parameters
        known = {*own, *signature(jobs.job).parameters, *(each.name for each in fields(Job))}
        given = {name: value for name, value in vars(options).items() if name in known}
        where: tuple[None, ...] = (None,) if "spark" in own else ()
        return function(*where, **given, engine=engine, say=say, **more)

    try:
        code = RUNS[options.command](call, options)
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
    """Return the function that prints lines, and the progress of the jobs."""
    if options.quiet:
        return lambda _line: None, JobProgress()
    if not sys.stderr.isatty():
        return _say, JobProgress(_say)
    screen = Screen(sys.stderr)
    return screen.say, JobProgress(screen.draw, every_s=DRAW_EVERY_S, rest=screen.clear)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _plan(call: Call, options: argparse.Namespace) -> int:
    _try_html(options)
    return _print_drawn(call(jobs.plan), options)


def _compact(call: Call, options: argparse.Namespace) -> int:
    if options.html is not None and not options.dry_run:
        raise UsageError("--html: expected --dry-run with it, as it draws what would go")
    _try_html(options)
    if options.installs and options.dry_run:
        raise UsageError("--install and --dry-run: expected one of them")
    if options.includes_active and (options.dry_run or options.admin):
        raise UsageError(
            "--include-active rolls a stopped server's log: expected no --dry-run, and no --admin (there it is `ottla roll`)"
        )
    results = call(jobs.compact, skips_corrupt=options.on_corrupt == "skip-partition")
    return _print_drawn(results, options) if options.dry_run else _print_results(results, options)


def _install(call: Call, options: argparse.Namespace) -> int:
    return _print_results(call(jobs.install), options)


def _verify(call: Call, options: argparse.Namespace) -> int:
    from .run import wire_runs

    job, plan = call(jobs.job), None
    if options.bootstrap is not None:
        report: VerifyReport = wire_runs.verify(job, options)
    else:
        wire_runs.refuse_without_bootstrap(options)
        if options.plan_id is not None:
            plan = find_plan(job, options.plan_id)
        if options.drop_originals and (plan is None or not is_plan_installed(plan, OsFiles())):
            raise UsageError("--drop-originals: expected --plan with a plan that is wholly installed")
        report = call(jobs.verify)
    _print(options, report.to_dict(), report.lines())
    for note in () if options.json else report.notes:
        job.say(f"note: {note}")
    report.check()
    if plan is not None and options.drop_originals:
        forget(plan)
    return 0


def _prove_erased(call: Call, options: argparse.Namespace) -> int:
    from ..storage.erasure.key_lines import keys_in
    from ..storage.erasure.places import Verdict
    from ..storage.erasure.report_page import VERDICTS, page

    try:
        with open(options.keys_from, "rb") as file:
            keys = frozenset(keys_in(file.read(), options.key_encoding))
    except ValueError as error:
        raise UsageError(f"{options.keys_from}: {error}") from error
    if not keys:
        raise UsageError(f"{options.keys_from}: no keys")
    report = call(jobs.prove_erased, keys=keys)
    if options.report is not None:
        with open(open_file(options.report, os.O_WRONLY, create=True, truncate=True), "w", encoding="utf-8") as file:
            file.write(page(report))
    total = f"{report.values_found} values and {report.tombstones_found} tombstones of {len(keys)} keys found"
    lines = [
        f"{report.topic}: {total}, {report.records_searched} records searched",
        *(f"{each.path}: {each.values} values of key {each.key!r}: {each.why}" for each in report.places),
        *(f"{each.path}: not searched: {each.problem}" for each in report.unread),
    ]
    _print(options, report.to_json(), lines)
    if report.verdict in (Verdict.HELD, Verdict.UNPROVEN):
        raise PipelineError(VERDICTS[report.verdict], ExitCode.UNVERIFIED)
    return 0


def _snapshot(call: Call, options: argparse.Namespace) -> int:
    made = call(jobs.snapshot)
    return _print(options, made._asdict(), [f"{made.path}: {made.keys} keys of {made.partitions} partitions"])


def _restore(options: argparse.Namespace) -> int:
    from .snapshot.restore import restore
    from .wire.cluster import client_options

    _, progress = _voices(options)
    with progress.watching(options.topic, is_paced=True) as watch:
        done = restore(
            options.snapshot,
            options.topic,
            options.bootstrap,
            producer_config=client_options(options.producer_config, "--producer-config", _say),
            creates=options.create,
            resumes=options.resumes,
            processes=options.processes,
            fs_options=options.fs_options,
            watch=watch,
        )
    line = f"{done.topic}: {done.records} records written to {done.partitions} partitions"
    return _print(options, done._asdict(), [line])


def _apply(options: argparse.Namespace, say: Say, progress: JobProgress) -> int:
    from .run import apply_run

    job, done = apply_run.run(options, say, progress)
    aside = f", {done.undecodable} of them put aside" if done.undecodable else ""
    return _print(
        options,
        {"topic": job.topic, "table": job.table, **asdict(done)},
        [f"{job.table}: {done.records} records of {job.topic} applied in {done.batches} batches{aside}"],
    )


def _read(call: Call, options: argparse.Namespace) -> int:
    from .run.printed_records import printed

    return printed(call(jobs.job), options)


def _status(call: Call, options: argparse.Namespace) -> int:
    if options.forget is not None:
        forget(find_plan(call(jobs.job), options.forget))
    plans = call(jobs.status)
    lines = [
        f"{each['topic']}-{each['partition']}: plan {each['plan_id']}: {each['staged']} of {each['groups']} groups"
        f" staged, {each['installed']} installed{', complete' if each['is_complete'] else ''},"
        f" {each['originals_bytes']} bytes of originals kept"
        for each in plans
    ]
    return _print(options, {"plans": plans}, lines or ["no plans"])


def _check(options: argparse.Namespace) -> int:
    from .run.check import check

    engine = Engine(options.master, options.conf)
    try:
        report = check(engine, options.data_dir)
    finally:
        engine.stop()
    _print(options, asdict(report), [report])
    return ExitCode.FAILED if report.mismatches else 0


def _doctor(options: argparse.Namespace) -> int:
    from .run.doctor import examine

    report = examine(options.conf)
    _print(options, asdict(report), [report])
    return 0 if report.can_start else ExitCode.USAGE


def _try_html(options: argparse.Namespace) -> None:
    """Check that the file of --html can be written, before hours of work."""
    if options.html is not None:
        os.close(open_file(options.html, os.O_WRONLY, create=True))


def _print_drawn(results: list[PartitionResult], options: argparse.Namespace) -> int:
    """Print results. --html FILE also writes them there; on a terminal a drawing follows each line."""
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
    return _print(options, as_json(results), results)


def _print(options: argparse.Namespace, found: object, lines: Iterable[object]) -> int:
    """Print the result as JSON with --json, else these lines."""
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        for each in lines:
            print(each)
    return 0


RUNS: Mapping[str, Callable[[Call, argparse.Namespace], int]] = {
    "plan": _plan,
    "compact": _compact,
    "install": _install,
    "verify": _verify,
    "prove-erased": _prove_erased,
    "snapshot": _snapshot,
    "read": _read,
    "status": _status,
}
