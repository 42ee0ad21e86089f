"""Runs suites one after the other (slices two at a time) and prints one table: `python -m compat.run quick|nightly|SUITE…`.

Each suite is a process of its own (`python -m compat.SUITE`), its output kept in `build/compat/SUITE.log`; of that
only failures are shown here. Exit code 1 when anything failed.
"""

import argparse
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .support.suite import NOT_RUN

# In the order of their worth when time is short. `make compat-quick` has ten minutes for all of them.
SUITES = (
    "main_job",
    "kafka_python",
    "kafka_python_cli",
    "aiokafka",
    "aiokafka.suite",
    "confluent",
    "librdkafka",
    "apache_kafka.suite",
    "clients_groups",
    "exactly_once",
    "group_chaos",
    "groups_commits",
    "nodes",
    "cleaner_histories",
    "spark_histories",
    "spark_large",
    "spark_cluster",
    "crashes",
    "server_crashes",
    "installs",
    "installs.online",
    "fuzz",
    "loop_holds",
    "apache_kafka.differential",
    "apache_kafka.group_migration",
    "apache_kafka.transactions",
    "apache_kafka.consumer_groups",
    "apache_kafka.fetch",
    "apache_kafka",
    "apache_kafka.spark",
    "apache_kafka.md5_keys",
    "apache_kafka.bad_batches",
    "wheel",
    "docker_image",
    "spark_connector",
    "bench.start",
    "bench.wire",
    "bench.cleaner",
    "bench.latency",
    "bench.spark",
)
ALONE = {"loop_holds"}
"""Measures what other suites beside it would spoil."""
QUICK_LIMIT_S, NIGHTLY_LIMIT_S = 240, 3 * 3600
QUICK_LANES = 2
"""Slices that run at a time: they wait for their brokers, and for clients' time-outs, more than they compute."""
QUICK_START_LIMIT_S = 480
"""No slice begins later, so that the slices of all suites end within ten minutes on a slow machine too."""
LOGS = Path(__file__).parents[1] / "build" / "compat"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")


@dataclass(frozen=True)
class Outcome:
    suite: str
    result: str
    passed: int
    failed: int
    skipped: int
    seconds: float


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
        elif parsed.what == ["quick"] and time.monotonic() - began_s > QUICK_START_LIMIT_S:
            outcome = Outcome(suite, "not run: needs more time; make nightly has it", 0, 0, 1, 0.0)
        else:
            outcome = run(suite, quick=quick)
        print(line(outcome), flush=True)
        return outcome

    # Benches at full length want the machine for themselves.
    with ThreadPoolExecutor(QUICK_LANES if parsed.what == ["quick"] else 1) as lanes:
        outcomes = list(lanes.map(run_in_turn, suites))
    print_table(outcomes)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def run(suite: str, *, quick: bool) -> Outcome:
    """One suite to its end, or to its time limit."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{suite}.log"
    command = [sys.executable, "-m", f"compat.{suite}", *(["--quick"] if quick else [])]
    started_s = time.monotonic()
    with open(log, "w") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=LOGS.parents[1])
        code = wait(process, QUICK_LIMIT_S if quick else NIGHTLY_LIMIT_S)
    seconds = time.monotonic() - started_s
    lines = log.read_text(errors="replace").splitlines()
    for failure in (entry for entry in lines if "] FAIL " in entry):
        print(f"  {suite}: {failure[:400]}", flush=True)
    if code == NOT_RUN:
        reason = next((entry for entry in reversed(lines) if entry.startswith("not run: ")), "not run")
        return Outcome(suite, reason, 0, 0, 1, seconds)
    counts = next((found for entry in reversed(lines) if (found := COUNTS.match(entry))), None)
    if counts is None:
        print(f"  {suite}: ended without its last line, exit code {code}; see {log}", flush=True)
        return Outcome(suite, "FAILED" if code is not None else "TOO SLOW", 0, 1, 0, seconds)
    passed, failed, skipped = map(int, counts.groups())
    return Outcome(suite, "ok" if code == 0 else "FAILED", passed, failed or int(code != 0), skipped, seconds)


def wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Exit code, or None when the limit was reached; the suite is then interrupted so that it stops its brokers."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return None


def print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'suite':26} {'result':10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for outcome in outcomes:
        print(line(outcome))
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
