"""Starts librdkafka's test runner for one line of `tests.txt` and reads the table that it ends with."""

import contextlib
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .brokers import KINDS
from .lists import Line

LOGS = Path(__file__).parents[2] / "build" / "compat" / "librdkafka"
# The tests' own patience, for machines that do other things as well.
PATIENCE = 2
ROW = re.compile(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)\s*\|\s*([\d.]+)s\s*\|\s*(.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\(B")
NOT_MEANT = ("Filtered due to negative test flags", "")  # needs no broker; belongs to another scenario


class Result(NamedTuple):
    """`name` is the test's, `state` the runner's word: PASSED, FAILED, SKIPPED."""

    name: str
    state: str
    seconds: float
    message: str


@dataclass(frozen=True)
class Runner:
    """`test-runner` in the folder `tests`; `home` replaces a Kafka installation."""

    tests: Path
    home: Path
    round: str
    quick: bool

    def run(self, line: Line, bootstrap: str) -> list[Result]:
        """Run the tests once; the output is kept in `log(line)`."""
        LOGS.mkdir(parents=True, exist_ok=True)
        log = self.log(line)
        started_s = time.monotonic()
        with open(log, "w") as output:
            # Unbuffered: a runner that found a failure aborts, and its table would be lost.
            process = subprocess.Popen(
                ["stdbuf", "-oL", "./test-runner", "-p1", "-L", *self._switches()],
                cwd=self.tests,
                env=os.environ | self._environment(line, bootstrap),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                process.wait(line.limit_s)
                ended = f"exit code {process.returncode}"
            except subprocess.TimeoutExpired:
                ended = f"did not end within {line.limit_s} s"
            finally:
                # The runner, and the Java clients that it may have started.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = log.read_text(errors="replace")
        results = results_of(said, line.subtest)
        if results and (not process.returncode or any(result.state == "FAILED" for result in results)):
            return results
        return [Result(line.name, "FAILED", time.monotonic() - started_s, f"{ended}, see {log}")]

    def log(self, line: Line) -> Path:
        return LOGS / f"{line.name.replace('/', '-')}.{line.broker}.{self.round}.log"

    def _switches(self) -> list[str]:
        return [*(["-Q"] if self.quick else []), *(["-P"] if self.round == "idempotent" else [])]

    def _environment(self, line: Line, bootstrap: str) -> dict[str, str]:
        conf = self.home / "test.conf"
        lines = {"bootstrap.servers": bootstrap, "test.topic.random": "true", "test.timeout.multiplier": PATIENCE}
        lines |= KINDS[line.broker].client
        conf.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        environment = {
            "RDKAFKA_TEST_CONF": str(conf),
            "BROKERS": bootstrap,
            "KAFKA_PATH": str(self.home),
            "TEST_KAFKA_VERSION": line.version,
            "TEST_SCENARIO": "noautocreate" if line.broker == "noautocreate" else "default",
            "TEST_CONSUMER_GROUP_PROTOCOL": "consumer" if self.round == "consumer" else "classic",
            "TESTS": line.number,
            "LD_LIBRARY_PATH": "../src:../src-cpp",
        }
        # The runner looks for it in `FUNCTION:LINE: TEXT`.
        return environment | ({"SUBTESTS": f"{line.subtest}:"} if line.subtest else {})


def results_of(output: str, subtest: str) -> list[Result]:
    """Return the rows of the table. Where only a part was to be run, it is in the name, and tests without it are left out."""
    plain = COLOUR.sub("", output)
    found = []
    for text in plain.splitlines():
        if row := ROW.match(text):
            name, state, seconds, message = row.groups()
            if state == "SKIPPED" and message.strip() in NOT_MEANT:
                continue
            if subtest:
                if not re.search(rf"^\[{name} */.*\[ {subtest}:", plain, re.MULTILINE):
                    continue
                name += f"/{subtest}"
            found.append(Result(name, "FAILED" if state == "RUNNING" else state, float(seconds), message.strip()))
    return found
