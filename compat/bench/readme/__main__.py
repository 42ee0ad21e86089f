"""The figures of README.md, measured anew: `python -m compat.bench.readme [--write]`, half a minute on a machine that does nothing else.

The best of several fresh processes: what else a machine does only adds to a time. With --write the marked lines of README.md are
replaced, and the time in its first sentence, which is the first of them; without, they are printed. Wants `pip install --editable '.[dev]'`.
Comparisons are not measured here: they are those of `compat/bench/REPORT.md`, which `make bench` writes.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from ..race.report import headlines_of

README = Path(__file__).parents[3] / "README.md"
REPORT = Path(__file__).parents[1] / "REPORT.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
SENTENCE = re.compile(r"(?<=no JVM, )\d\.\d\d s(?=\.)")
"""In the first sentence: the figure of the first row."""

BROKER = """
import time
started = time.perf_counter()
import ottla
for _ in range(2):
    with ottla.Broker():
        print(time.perf_counter() - started)
    started = time.perf_counter()
"""
SERVE = [sys.executable, "-m", "ottla.server", "serve", "--profile", "dev", "--listener", "127.0.0.1:0"]
PRODUCE = [sys.executable, "-m", "ottla.server", "produce", "orders", "paid", "--key", "17"]


class NotMeasuredError(Exception):
    """One line that says why."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.bench.readme", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="replace the lines of README.md")
    parsed = parser.parse_args(argv)
    if parsed.runs < 1:
        parser.error("--runs: 1 or more")
    try:
        before = README.read_text()
        check(before)
        rows = measured(parsed.runs) | comparisons(REPORT.read_text() if REPORT.exists() else "")
    except NotMeasuredError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    when = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, nothing beside"
    after = rewritten(
        before, rows, when, f"best of {parsed.runs}; measure again: `python -m compat.bench.readme --write`"
    )
    print(between(after), end="")
    if parsed.write:
        README.write_text(after)
    return 0


def measured(runs: int) -> dict[str, str]:
    """What was measured, by what it is. Raises NotMeasuredError."""
    served = [serve() for _ in range(runs)]
    embedded = [broker() for _ in range(runs)]
    ready_s, memory_bytes = (min(found) for found in zip(*served, strict=True))
    first_s, later_s = (min(found) for found in zip(*embedded, strict=True))
    return {
        "`ottla serve`, from the command until it serves": f"{ready_s:.2f} s",
        "`ottla.Broker()` in a test's process, the first one / a later one": f"{first_s:.2f} s / {later_s:.3f} s",
        "idle memory, after one client has connected": f"{memory_bytes / 1e6:.0f} MB",
    }


def comparisons(report: str) -> dict[str, str]:
    """What the report of the race says in short, as rows of README's table, each with a link to where it stands."""
    link = f"[beside Apache Kafka]({REPORT.relative_to(README.parent)})"
    return {f"{link}: {what}": told for what, told in headlines_of(report).items()}


def serve() -> tuple[float, int]:
    """Seconds until `ottla serve` says that it serves, and the bytes that it takes once a client was there."""
    try:
        import psutil
    except ImportError:
        raise NotMeasuredError("psutil is missing: pip install --editable '.[dev]'") from None
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        with subprocess.Popen([*SERVE, "--data", data], stdout=subprocess.PIPE, stderr=errors, text=True) as server:
            assert server.stdout is not None
            line = server.stdout.readline()
            ready_s = time.perf_counter() - started
            if not line.startswith("ready "):
                errors.seek(0)
                raise NotMeasuredError(f"`ottla serve` did not start: {last_line(errors.read())}")
            try:
                run([*PRODUCE, "--bootstrap", line.removeprefix("ready ").strip()])
                return ready_s, psutil.Process(server.pid).memory_info().rss
            finally:
                server.terminate()


def broker() -> tuple[float, float]:
    """Seconds of the first `ottla.Broker()` of a process, its import included, and of the second."""
    first, later = run([sys.executable, "-c", BROKER]).split()
    return float(first), float(later)


def run(command: list[str]) -> str:
    """What it prints. Raises NotMeasuredError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise NotMeasuredError(last_line(done.stderr))
    return done.stdout


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def check(readme: str) -> None:
    """Raises NotMeasuredError: what is to be replaced is not there."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or len(SENTENCE.findall(readme)) != 1:
        raise NotMeasuredError(
            f"README.md has no lines {BEGIN.strip()} and {END.strip()}, or no `no JVM, 0.00 s.` once"
        )


def between(readme: str) -> str:
    """The lines between the marks."""
    return readme.partition(BEGIN)[2].partition(END)[0]


def rewritten(readme: str, rows: dict[str, str], when: str, how: str) -> str:
    """The text with these rows, and the first of their figures in the sentence."""
    lines = [f"| {when} | {how} |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in rows.items())]
    before, _, rest = readme.partition(BEGIN)
    readme = "".join([before, BEGIN, *(f"{line}\n" for line in lines), END, rest.partition(END)[2]])
    return SENTENCE.sub(next(iter(rows.values())), readme)


if __name__ == "__main__":
    sys.exit(main())
