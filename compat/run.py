"""Runs suites and prints one table, with `quick` and `nightly` several at a time: `python -m compat.run quick|nightly|SUITE…`.

Each suite is a process of its own (`python -m compat.SUITE`), with its output in `build/compat/SUITE.log`. Only failures are
shown here, and again below the table. In `quick`, a suite that fails while another one runs is run again, alone, after all have
ended: the second outcome counts, the first is shown. Benchmarks have the machine for themselves, at the end of `nightly`. Exit
code 1 when anything failed.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from .support.suite import NOT_RUN

# In the order of their worth when time is short: `make compat-quick` begins as many as it can in QUICK_START_LIMIT_S.
SUITES = (
    "main_job",
    "first_hour",
    "kafka_python",
    "aiokafka",
    "aiokafka.suite",
    "confluent",
    "librdkafka",
    "apache_kafka.suite",
    "cleaner_histories",
    "explained",
    "crashes",
    "apache_kafka.differential",
    "clients_groups",
    "bench.calls",
    "waits",
    "schema_registry",
    "exactly_once",
    "streams",
    "share_consumers",
    "spark_histories",
    "server_crashes",
    "apache_kafka.authorization",
    "apache_kafka.tools",
    "apache_kafka.transactions",
    "apache_kafka.group_migration",
    "apache_kafka.bad_batches",
    "apache_kafka.md5_keys",
    "apache_kafka.acl_decisions",
    "kafka_python_cli",
    "spark_large",
    "spark_objects",
    "spark_restore",
    "installs",
    "fuzz",
    "tls_fuzz",
    "security.tokens",
    "security",
    "nodes",
    "hard_cases",
    "emptying",
    "erasing",
    "old_brokers",
    "faults",
    "group_chaos",
    "groups_commits",
    "mixed_load",
    "apache_kafka.quotas",
    "apache_kafka.acl_requests",
    "apache_kafka.fetch",
    "apache_kafka.consumer_groups",
    "apache_kafka.streams_groups",
    "apache_kafka.share_state",
    "apache_kafka.share_groups",
    "apache_kafka.dead_letters",
    "apache_kafka",
    "installs.online",
    "apache_kafka.spark",
    "spark_connector",
    "spark_wire",
    "spark_cluster",
    "spark_versions",
    "spark_apply",
    "wheel",
    "wheel.elsewhere",
    "lower_bounds",
    "lower_bounds.advisories",
    "docker_image",
    "examples",
    "docs",
    "page",
    "loop_holds",
    "bench.acls",
    "bench.embedded",
    "bench.page",
    "bench.start",
    "bench.wire",
    "bench.security",
    "bench.cleaner",
    "bench.latency",
    "bench.follower",
    "bench.spark",
    "bench.spark.scale",
    "bench.spark.shuffled_rows",
    "bench.share",
    "bench.waits",
    "bench.race",
)
ALONE = {"loop_holds", "bench.race"}
"""Suites whose measurements other suites would distort."""
LONG = {
    "spark_objects",
    "apache_kafka.spark",
    "spark_versions",
    "spark_apply",
    "apache_kafka.share_state",
    "lower_bounds",
    "first_hour",
    "bench.waits",
}
"""Even their slices take longer than `quick` has for one: environments of other versions, ten lives of two brokers in turns."""
BUSY = {
    "spark_histories",
    "spark_large",
    "spark_objects",
    "spark_restore",
    "spark_cluster",
    "spark_versions",
    "spark_connector",
    "spark_wire",
    "spark_apply",
    "crashes",
    "server_crashes",
    "installs",
    "installs.online",
    "apache_kafka.spark",
    "bench.spark",
    "bench.spark.scale",
    "bench.spark.shuffled_rows",
}
"""Compute all the time, in several processes: their slices have a lane of their own, so that two never run at once."""
QUICK_LIMIT_S, NIGHTLY_LIMIT_S = 240, 3 * 3600
QUICK_LANES, NIGHTLY_LANES = 3, 2
"""The number of suites that run at a time next to a busy one: they wait for brokers and time-outs more than they compute."""
QUICK_START_LIMIT_S = 300
"""The time after which no suite starts, so that all end within about seven minutes on a slow machine as well."""
SHORT_JOBS = {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell"}
"""The JVM's second compiler pays for itself after minutes, which no slice of Spark's lasts."""
LOGS = Path(__file__).parents[1] / "build" / "compat"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")


SHOWN_LINES = 40
"""The number of last lines shown of a suite that ended without its summary line."""


@dataclass(frozen=True)
class Outcome:
    suite: str
    result: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    shown: tuple[str, ...] = ()
    """The lines of its output that show why it failed."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.run", description=__doc__)
    parser.add_argument("what", nargs="+", help=f"quick, nightly, or some of: {', '.join(SUITES)}")
    parser.add_argument("--quick", action="store_true", help="the short variant of the suites named")
    parsed = parser.parse_args(argv)
    if parsed.what in (["quick"], ["nightly"]):
        suites, quick = SUITES, parsed.what == ["quick"]
    else:
        suites, quick = tuple(parsed.what), parsed.quick
        if unknown := [suite for suite in suites if suite not in SUITES]:
            parser.error(f"no such suite: {', '.join(unknown)}")
    began_s = time.monotonic()

    def run_in_turn(suite: str) -> Outcome:
        if parsed.what == ["quick"] and suite in ALONE:
            outcome = Outcome(suite, "not run: needs the machine for itself; make nightly has it", 0, 0, 1, 0.0)
        elif parsed.what == ["quick"] and (suite in LONG or time.monotonic() - began_s > QUICK_START_LIMIT_S):
            outcome = Outcome(suite, "not run: needs more time; make nightly has it", 0, 0, 1, 0.0)
        else:
            outcome = run(suite, quick=quick)
        print(line(outcome), flush=True)
        return outcome

    lanes = {"quick": QUICK_LANES, "nightly": NIGHTLY_LANES}.get(parsed.what[0])
    if lanes is None:
        outcomes = [run_in_turn(suite) for suite in suites]
    else:
        measuring = [] if quick else [suite for suite in suites if measures(suite)]
        outcomes = side_by_side([suite for suite in suites if suite not in measuring], run_in_turn, lanes)
        outcomes += [run_in_turn(suite) for suite in measuring]
    first = [outcome for outcome in outcomes if outcome.failed]
    if parsed.what == ["quick"]:
        outcomes = [again_alone(outcome) if outcome.failed else outcome for outcome in outcomes]
    print_table(outcomes, first)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def measures(suite: str) -> bool:
    """Return whether its figures are only good on a machine that does nothing else."""
    return suite in ALONE or suite.startswith("bench.")


def side_by_side(suites: list[str], run_in_turn: Callable[[str], Outcome], lanes: int) -> list[Outcome]:
    """Run suites in their order, up to `lanes` at a time, and one of BUSY next to them."""
    with ThreadPoolExecutor(lanes) as others, ThreadPoolExecutor(1) as busy:
        begun = [(busy if suite in BUSY else others).submit(run_in_turn, suite) for suite in suites]
        try:
            return [one.result() for one in begun]
        except KeyboardInterrupt:
            # What runs was interrupted too, and ends; nothing begins any more.
            for one in begun:
                one.cancel()
            raise


def again_alone(first: Outcome) -> Outcome:
    """Run a failed suite again, alone: clients have time-outs and races that a second suite provokes; a real bug stays."""
    print(f"{first.suite}: once more, alone", flush=True)
    (LOGS / f"{first.suite}.log").replace(LOGS / f"{first.suite}.first.log")
    second = run(first.suite, quick=True)
    print(line(second), flush=True)
    return second if second.failed else replace(second, result="ok alone")


def run(suite: str, *, quick: bool) -> Outcome:
    """Run one suite to its end, or to its time limit."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{suite}.log"
    command = [sys.executable, "-m", f"compat.{suite}", *(["--quick"] if quick else [])]
    environment = os.environ | (SHORT_JOBS if quick else {})
    started_s = time.monotonic()
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=LOGS.parents[1], env=environment
        )
        code = wait(process, QUICK_LIMIT_S if quick else NIGHTLY_LIMIT_S)
    seconds = time.monotonic() - started_s
    lines = log.read_text(errors="replace").splitlines()
    shown = tuple(entry[:400] for entry in lines if "] FAIL " in entry)
    print("".join(f"  {suite}: {failure}\n" for failure in shown), end="", flush=True)
    if code == NOT_RUN:
        reason = next((entry for entry in reversed(lines) if entry.startswith("not run: ")), "not run")
        return Outcome(suite, reason, 0, 0, 1, seconds)
    counts = next((found for entry in reversed(lines) if (found := COUNTS.match(entry))), None)
    if counts is None:
        print(f"  {suite}: ended without its last line, exit code {code}; see {log}", flush=True)
        shown += (f"ended without its last line, exit code {code}; its last lines:", *lines[-SHOWN_LINES:])
        return Outcome(suite, "FAILED" if code is not None else "TOO SLOW", 0, 1, 0, seconds, shown)
    passed, failed, skipped = map(int, counts.groups())
    return Outcome(suite, "ok" if code == 0 else "FAILED", passed, failed or int(code != 0), skipped, seconds, shown)


def wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Exit code, or None when the limit was reached; the suite is then interrupted so that it stops its brokers."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        begun = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in begun:  # Otherwise the processes of a pool would continue to compute.
        with suppress(psutil.NoSuchProcess):
            each.kill()
    return None


def print_table(outcomes: list[Outcome], first: list[Outcome]) -> None:
    """Print the table, the errors of `first`, and the sum of all as the last line."""
    print(f"\n{'suite':26} {'result':10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for outcome in outcomes:
        print(line(outcome))
    for one in [*first, *(outcome for outcome in outcomes if outcome.failed and outcome not in first)]:
        print(f"\n{one.suite} failed:", *one.shown, sep="\n  ")
    passed, failed, skipped = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped", flush=True)


def line(outcome: Outcome) -> str:
    if outcome.result.startswith("not run"):
        return f"{outcome.suite:26} {outcome.result}"
    counts = f"{outcome.passed:>7} {outcome.failed:>7} {outcome.skipped:>8}"
    return f"{outcome.suite:26} {outcome.result:10} {counts} {outcome.seconds:8.0f}"


if __name__ == "__main__":
    sys.exit(main())
