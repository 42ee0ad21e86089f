"""The figures of README.md, measured anew: `python -m compat.bench.readme [--write]`, a minute on a machine that does nothing else.

The best of several fresh processes: what else a machine does only adds to a time. With --write the marked lines of README.md are replaced; without, they are printed.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psutil

README = Path(__file__).parents[3] / "README.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"

BROKER = """
import time
started = time.perf_counter()
import ottla
with ottla.Broker() as broker:
    print((time.perf_counter() - started) * 1000)
with ottla.Broker() as broker:
    broker.produce("first", "value")
    started = time.perf_counter()
    broker.reset()
    print((time.perf_counter() - started) * 1000)
"""
COMPACT = """
import time
import ottla
with ottla.Broker() as broker:
    broker.create_topic("t", partitions=1, configs={"cleanup.policy": "compact"})
    broker.produce_all("t", ((f"key-{number % 1_000}", "x" * 100) for number in range(100_000)))
    started = time.perf_counter()
    broker.compact("t", force=True)
    print((time.perf_counter() - started) * 1000)
    assert len(broker.records("t")) == 1_000
"""
TESTS = """
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_there_and_back(kafka_broker, kafka_topic, number):
    kafka_broker.produce(kafka_topic, "paid", key="17")
    assert [record.value for record in kafka_broker.records(kafka_topic)] == [b"paid"]
"""


def table(runs: int) -> str:
    """The lines between the marks."""
    ready, memory = zip(*(dev() for _ in range(runs)), strict=True)
    first, reset = zip(*(printed(BROKER) for _ in range(runs)), strict=True)
    compaction = [printed(COMPACT)[0] for _ in range(runs)]
    one, many = 1, 101
    tests = [(min(pytest_ms(many) for _ in range(runs)) - min(pytest_ms(one) for _ in range(runs))) / (many - one)]
    rows: list[tuple[str, Callable[[float], str], list[float]]] = [
        ("`ottla dev`, from the command until it serves", seconds, [*ready]),
        ("`ottla.Broker()` in a test's process, the first one, its import included", seconds, [*first]),
        ("`broker.reset()`: as new, on the same port", milliseconds, [*reset]),
        ("a test with a topic of its own: make it, write, read back, delete it", milliseconds, tests),
        ("compaction of 100 000 records of 1 000 keys, on demand", milliseconds, compaction),
        ("memory of `ottla dev` that has served a client", megabytes, [*memory]),
    ]
    when = f"{datetime.now(UTC):%Y-%m-%d}, {psutil.cpu_count()} cores, Python {platform.python_version()}"
    lines = [f"| {what} | {show(min(values))} |" for what, show, values in rows]
    return "\n".join([f"| {when} | best of {runs}, by `python -m compat.bench.readme` |", "|---|---|", *lines, ""])


def dev() -> tuple[float, float]:
    """Milliseconds until `ottla dev` says that it serves, and the bytes it then takes once a client was there."""
    arguments = ["dev", "--listener", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.server", *arguments], stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        taken_ms = (time.perf_counter() - started) * 1000
        address = line.removeprefix("ready ").strip()
        produce = ["produce", "orders", "paid", "--key", "17", "--bootstrap", address]
        subprocess.run([sys.executable, "-m", "ottla.server", *produce], check=True, capture_output=True, timeout=60)
        memory_bytes = psutil.Process(broker.pid).memory_info().rss
        broker.terminate()
        broker.stdout.read()
    return taken_ms, memory_bytes


def printed(program: str) -> list[float]:
    """The numbers that it prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    return [float(line) for line in done.stdout.split()]


def pytest_ms(tests: int) -> float:
    """How long a run of so many tests takes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "test_it.py")
        path.write_text(TESTS.format(tests=tests))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", directory, str(path)]
        started = time.perf_counter()
        subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=300)
        return (time.perf_counter() - started) * 1000


def seconds(found_ms: float) -> str:
    return f"{found_ms / 1000:.2f} s"


def milliseconds(found_ms: float) -> str:
    return f"{found_ms:.0f} ms"


def megabytes(found_bytes: float) -> str:
    return f"{found_bytes / 1e6:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="replace the lines of README.md")
    parsed = parser.parse_args()
    lines = table(parsed.runs)
    print(lines)
    if parsed.write:
        before, _, rest = README.read_text().partition(BEGIN)
        README.write_text(f"{before}{BEGIN}{lines}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
