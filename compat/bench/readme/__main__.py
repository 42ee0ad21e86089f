"""Measure the figures of README.md: `python -m compat.bench.readme [--write]`, half a minute on an idle machine.

Each figure is the best of several fresh processes, because other work on the machine only adds to a time. With --write the three
marked sentences of README.md are replaced, and the start time in its first line. Without it they are printed. Needs
`pip install --editable '.[dev]'`. Comparisons are not measured here: they come from `compat/bench/REPORT.md`, which `make bench` writes.
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
from typing import NamedTuple

from ..race.report import headlines_of

README = Path(__file__).parents[3] / "README.md"
REPORT = Path(__file__).parents[1] / "REPORT.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
SENTENCE = re.compile(r"(?<=no JVM, )\d\.\d\d s(?=\.)")
"""The start time in the first line of README.md, which is the first figure of the sentences."""
COMPARED = re.compile(r"[\d.]+ of its (.+): (.+)")
"""A headline of the report: ratio, Apache Kafka's figure, Ottla's figure."""

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


class Figures(NamedTuple):
    """What is measured here, with units."""

    serve: str
    first_broker: str
    later_broker: str
    idle_memory: str


class NotMeasuredError(Exception):
    """An error whose text is one line with the reason."""


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
        figures = measured(parsed.runs)
    except NotMeasuredError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    machine = f"{datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} cores with Python {platform.python_version()}"
    comparison = compared(REPORT.read_text() if REPORT.exists() else "")
    after = rewritten(before, figures, comparison, f"{machine}, best of {parsed.runs}")
    print(between(after), end="")
    if parsed.write:
        README.write_text(after)
    return 0


def measured(runs: int) -> Figures:
    """The best of `runs`. Raises NotMeasuredError."""
    served = [serve() for _ in range(runs)]
    embedded = [broker() for _ in range(runs)]
    ready_s, memory_bytes = (min(found) for found in zip(*served, strict=True))
    first_s, later_s = (min(found) for found in zip(*embedded, strict=True))
    return Figures(f"{ready_s:.2f} s", f"{first_s:.2f} s", f"{later_s:.3f} s", f"{memory_bytes / 1e6:.0f} MB")


def compared(report: str) -> str:
    """The sentence that compares Ottla with Apache Kafka, from the headlines of the report; empty without headlines."""
    pairs = [(what, COMPARED.fullmatch(figures)) for what, figures in headlines_of(report).items()]
    listed = "; ".join(f"{what} {found[2]} ({found[1]})" for what, found in pairs if found)
    return (
        f"Compared with [Apache Kafka, in brackets]({REPORT.relative_to(README.parent)}): {listed}." if listed else ""
    )


def serve() -> tuple[float, int]:
    """Seconds until `ottla serve` is ready, and its resident bytes after one client has connected."""
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
    """Return seconds of the first `ottla.Broker()` of a process, its import included, and of the second."""
    first, later = run([sys.executable, "-c", BROKER]).split()
    return float(first), float(later)


def run(command: list[str]) -> str:
    """Run a command and return its output. Raises NotMeasuredError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise NotMeasuredError(last_line(done.stderr))
    return done.stdout


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def check(readme: str) -> None:
    """Check that README.md has the text to replace. Raises NotMeasuredError."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or len(SENTENCE.findall(readme)) != 1:
        raise NotMeasuredError(
            f"README.md has no lines {BEGIN.strip()} and {END.strip()}, or no `no JVM, 0.00 s.` once"
        )


def between(readme: str) -> str:
    """Return the lines between the marks."""
    return readme.partition(BEGIN)[2].partition(END)[0]


def rewritten(readme: str, figures: Figures, comparison: str, measurement: str) -> str:
    """README.md with these figures in its three sentences and in its first line."""
    started = (
        f"`ottla serve` starts in {figures.serve}, the first `ottla.Broker()` of a process in {figures.first_broker}"
        f" and each later one in {figures.later_broker}; it uses {figures.idle_memory} once a client has connected."
    )
    sentences = [
        started,
        comparison,
        f"Measured {measurement}; [method and all figures](compat/bench/README.md).",
    ]
    before, _, rest = readme.partition(BEGIN)
    lines = [f"{sentence}\n" for sentence in sentences if sentence]
    readme = "".join([before, BEGIN, *lines, END, rest.partition(END)[2]])
    return SENTENCE.sub(figures.serve, readme)


if __name__ == "__main__":
    sys.exit(main())
