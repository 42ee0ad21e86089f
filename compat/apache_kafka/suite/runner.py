"""Test classes of Apache Kafka's jars in JVMs of their own, against a broker command; their outcomes.

The jars (150 MB) are fetched once by Maven, the adapter is compiled for each run. JUnit's console runs a class, the
adapter's `Results` appends a line to `results.tsv` as each test begins and ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...support.brokers.apache_kafka import cache_dir, fetches
from ...support.suite import NotRunError

HERE = Path(__file__).parent
POM = HERE / "tests.pom.xml"
VERSION = "4.3.1"
"""The last release whose tests are on Maven Central; the POM has it too."""
MAIN_CLASS = "org.junit.platform.console.ConsoleLauncher"
NEEDS = "a JDK 17 or newer and Maven"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test.

    status: PASS; FAIL; EXTERNAL: failed after a call that needs a broker in its own JVM; LOST: began and never ended; ABORTED:
    its own
        assumption did not hold.
    cause: First line of the failure, and of its cause.
    """

    test: str
    status: str
    seconds: float
    cause: str

    @property
    def class_name(self) -> str:
        return class_of(self.test)


def class_of(test: str) -> str:
    return test.partition("#")[0]


@fetches("maven")
def test_jars() -> Path:
    """Return the folder of jars, fetched now if need be. NotRunError without a JDK or Maven."""
    folder = cache_dir() / f"apache-kafka-tests-{VERSION}"
    if not shutil.which("javac"):
        raise NotRunError(NEEDS)
    complete = folder / "complete"
    if complete.exists() and complete.stat().st_mtime > POM.stat().st_mtime:
        return folder
    if not shutil.which("mvn"):
        raise NotRunError(NEEDS)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    fetch = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(fetch, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise NotRunError(f"Maven with access to Maven Central ({done.stdout.strip().splitlines()[:1]})")
    complete.touch()
    return folder


def compile_java(sources: Iterable[Path], jars: Path, target: Path) -> None:
    """Compile `sources` against the jars in `jars`. NotRunError without a JDK, RuntimeError with the compiler's words."""
    if not shutil.which("javac"):
        raise NotRunError(NEEDS)
    command = ["javac", "-nowarn", "-d", str(target), "-cp", f"{jars}/*", *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"javac: {done.stderr}")


class Runner:
    """Runs tests into the folder `out`, which it empties: `results.tsv`, a log a JVM, `logs/` of failed tests.

    Args:
        broker: The command under test; `serve --config FILE` is appended.
        ports: First and last port to use. Two runs at a time need two ranges.
        test_timeout_s: JUnit's time limit of a test.
        class_timeout_s: The time limit of one JVM; its unfinished tests are LOST then.
    """

    def __init__(
        self,
        out: Path,
        broker: Sequence[str],
        *,
        ports: str = "19100-19899",
        test_timeout_s: int = 90,
        class_timeout_s: int = 1800,
    ) -> None:
        self.jars = test_jars()
        self.out, self.broker, self.ports = out, broker, ports
        self.test_timeout_s, self.class_timeout_s = test_timeout_s, class_timeout_s
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        compile_java(sorted((HERE / "adapter").rglob("*.java")), self.jars, out / "adapter")
        shutil.copytree(HERE / "adapter" / "META-INF", out / "adapter" / "META-INF")
        self.results = out / "results.tsv"
        self.runs = 0

    def run(self, classes: Sequence[str], only: Iterable[str]) -> list[Outcome]:
        """Return the tests of `only` that are in `classes`, in one JVM; an outcome for each that ended or began."""
        self.runs += 1
        wanted = self.out / f"{self.runs:02}.wanted"
        wanted.write_text("".join(f"{test}\n" for test in only))
        log = self.out / f"{self.runs:02}.log"
        temporary = self.out / "tmp"
        temporary.mkdir(exist_ok=True)
        before = self.results.stat().st_size if self.results.exists() else 0
        with open(log, "wb") as output:
            process = subprocess.Popen(
                self._command(classes, wanted, temporary),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # the brokers are in it too, and end with it
            )
            try:
                process.wait(self.class_timeout_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                end_session(process)
        shutil.rmtree(temporary, ignore_errors=True)
        lines = self.results.read_bytes()[before:].decode() if self.results.exists() else ""
        return outcomes(lines)

    def _command(self, classes: Sequence[str], wanted: Path, temporary: Path) -> list[str]:
        properties = {
            "external.command": "\n".join(self.broker),
            "external.only": wanted,
            "external.ports": self.ports,
            "external.results": self.results,
            "java.io.tmpdir": temporary,
            "log4j2.configurationFile": HERE / "log4j2.properties",
        }
        return [
            *("java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", f"{self.out / 'adapter'}:{self.jars}/*", MAIN_CLASS, "execute"),
            *(f"--select-class={name}" for name in classes),
            f"--config=junit.jupiter.execution.timeout.default={self.test_timeout_s} s",
            "--config=junit.jupiter.extensions.autodetection.enabled=true",
            *("--details=none", "--disable-banner"),
        ]


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and whatever it has left in it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 15
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.1)


def outcomes(lines: str) -> list[Outcome]:
    """Return the outcomes in lines of `results.tsv`: status, test, seconds, cause.

    A test that began and never ended is LOST.
    """
    found: dict[str, Outcome] = {}
    for line in lines.splitlines():
        status, test, seconds, cause = line.split("\t", 3)
        if status == "BEGUN":
            found[test] = Outcome(test, "LOST", 0.0, "began and never ended")
        else:
            found[test] = Outcome(test, status, float(seconds), cause)
    return list(found.values())
