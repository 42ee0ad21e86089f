"""One measured run: the duration of each request at a steady rate of one-record requests, and the figures reported."""

import statistics
import subprocess
import sys
from pathlib import Path

from ...support.brokers.process import BrokerProcess
from ..table import Row

REQUESTS_A_SECOND = 500
PRODUCED = "produced"
ROOT = Path(__file__).parents[3]
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def program(name: str, *arguments: object) -> list[str]:
    """Return the command line of a program in this folder."""
    return [sys.executable, "-m", f"compat.bench.latency.{name}", *map(str, arguments)]


def produce(broker: BrokerProcess, seconds: float) -> list[float]:
    """Return microseconds of each request of one run."""
    command = program("client", broker.port, PRODUCED, REQUESTS_A_SECOND, seconds)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"the client failed:\n{done.stderr}")
    return [float(line) for line in done.stdout.split()]


def note(rows: dict[str, Row], side: str, micros: list[float]) -> None:
    """Add a run's percentiles to the rows of these names."""
    cuts = statistics.quantiles(micros, n=1000, method="inclusive")
    for name, share in PERCENTILES.items():
        rows[name].values[side].append(cuts[round(share * 1000) - 1])
