"""librdkafka's own tests, from its sources, against a running broker: once with classic groups, once with KIP-848's.

`tests.txt` says which are run and how, `not_run.txt` which are not and why; together they name every test of the runner
that wants a broker. A test that fails is run once more, on a new broker. `expected_failures.txt` lists what may fail.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..support.brokers import broker_process
from ..support.process import Broker, RunningBroker
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import build, kafka_home

HERE = Path(__file__).parent
LOGS = HERE.parents[1] / "build" / "compat" / "librdkafka"
ROUNDS = ("classic", "consumer")
NODES = 3  # several tests ask for three replicas; the one node of Apache Kafka cannot give them
COMMON = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # New in Kafka 4.3, whose default of a second comes between a test and the assignment that it waits for.
    "group.consumer.assignment.interval.ms": "0",
}
BROKERS = {
    "default": COMMON,
    "noautocreate": COMMON | {"auto.create.topics.enable": "false"},
    "delay": COMMON | {"group.initial.rebalance.delay.ms": "3000"},
}
LIMIT_S = 300
# The tests' own patience, for machines that do other things as well.
PATIENCE = 2
ROW = re.compile(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)\s*\|\s*([\d.]+)s\s*\|\s*(.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\(B")
NOT_MEANT = ("Filtered due to negative test flags", "")  # needs no broker; belongs to another scenario


@dataclass(frozen=True)
class Line:
    """A line of `tests.txt`: one start of the runner in each round.

    number: Four digits; several tests may share them.
    rounds: Group protocols to try.
    broker: Which of BROKERS; its name is also the runner's scenario where the runner knows one of that name.
    version: What the tests take the broker for.
    subtest: Only the subtests with this in their name.
    limit_s: For all of it.
    quick: Part of the short variant.
    needs: `java`, or nothing.
    """

    number: str
    rounds: tuple[str, ...] = ROUNDS
    broker: str = "default"
    version: str = "4.3.1"
    subtest: str = ""
    limit_s: int = LIMIT_S
    quick: bool = False
    needs: str = ""

    @property
    def name(self) -> str:
        return f"{self.number}/{self.subtest}" if self.subtest else self.number


class Result(NamedTuple):
    """`name` is the test's, `state` the runner's word: PASSED, FAILED, SKIPPED."""

    name: str
    state: str
    seconds: float
    message: str


@dataclass
class Brokers:
    """The brokers of one round, each started when it is first asked for: some tests stumble over topics of others."""

    options: Options
    stack: ExitStack
    running: dict[str, Broker] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Broker:
        if name not in self.running:
            process = broker_process(self.options, BROKERS[name], nodes=NODES)
            self.running[name] = self.stack.enter_context(process)
        return self.running[name]

    def renew(self, name: str) -> None:
        """The next one asked for is a new one; what the old one holds stays until the round ends."""
        if not self.options.broker:
            del self.running[name]


def body(suite: Suite, options: Options) -> None:
    if options.quick and not build.is_built():
        raise NotRunError("a built librdkafka (a run without --quick builds it)")
    tests = build.test_runner()
    lines = [line for line in read_lines() if chosen(line, options)]
    if not options.rest.tests:
        every_test_is_named(suite, tests)
    expected = entries_of("expected_failures.txt")
    with tempfile.TemporaryDirectory(prefix="compat-librdkafka-") as folder:
        home = kafka_home.make(Path(folder))
        for protocol in rounds(options):
            with ExitStack() as started:
                brokers = Brokers(options, started)
                if options.broker:
                    brokers.running["default"] = RunningBroker(options.broker)
                for line in lines:
                    if protocol in line.rounds:
                        judge_line(suite, line, protocol, brokers, tests, home, expected, quick=options.quick)


def rounds(options: Options) -> tuple[str, ...]:
    if options.rest.round:
        return (options.rest.round,)
    return ROUNDS[:1] if options.quick else ROUNDS


def chosen(line: Line, options: Options) -> bool:
    if options.rest.tests:
        return line.number in options.rest.tests.split(",") or line.name in options.rest.tests.split(",")
    return line.quick or not options.quick


# -- the lists


def read_lines() -> list[Line]:
    """`tests.txt`."""
    return [parse_line(*text.split()) for text in meaningful(HERE / "tests.txt")]


def parse_line(name: str, *words: str) -> Line:
    number, _, subtest = name.partition("/")
    values: dict[str, object] = {"number": number, "subtest": subtest}
    for word in words:
        key, separator, value = word.partition("=")
        if key in ROUNDS:
            values["rounds"] = (key,)
        elif key == "limit_s":
            values[key] = int(value)
        else:
            values[key] = value if separator else True
    return Line(**values)  # type: ignore[arg-type]


def entries_of(file: str) -> dict[str, str]:
    """First word -> the rest, of a list beside this file."""
    entries = (text.split(None, 1) for text in meaningful(HERE / file))
    return {name: reason.strip() for name, reason in entries}


def meaningful(file: Path) -> Iterator[str]:
    for text in file.read_text().splitlines():
        if stripped := text.partition("#")[0].strip():
            yield stripped


def every_test_is_named(suite: Suite, tests: Path) -> None:
    """A test of the runner that wants a broker and that no list has would otherwise go unnoticed."""
    source = (tests / "test.c").read_text()
    table = source[source.index("struct test tests[]") :]
    wanting = {
        number
        for number, flags in re.findall(r"\b_TEST\((\d{4})_\w+,\s*([^,)]*)", table)
        if "TEST_F_LOCAL" not in flags and "TEST_F_MANUAL" not in flags
    }
    named = {line.number for line in read_lines()} | set(entries_of("not_run.txt"))
    suite.equal("every test that wants a broker is on a list, and no other", sorted(wanting), sorted(named))


# -- running


def judge_line(
    suite: Suite,
    line: Line,
    protocol: str,
    brokers: Brokers,
    tests: Path,
    home: Path,
    expected: dict[str, str],
    *,
    quick: bool,
) -> None:
    if line.needs == "java" and not kafka_home.has_java(home):
        suite.skip(f"{line.name}@{protocol}", "needs javac and Maven")
        return
    if brokers.options.broker and line.broker != "default":
        suite.skip(f"{line.name}@{protocol}", f"needs a broker of its own: {BROKERS[line.broker]}")
        return
    results = run(line, protocol, brokers[line.broker].bootstrap, tests, home, quick=quick)
    log = log_of(line, protocol)
    if any(judged(result, protocol, expected) is False for result in results):
        for result in results:
            if result.state != "PASSED":
                suite.note(f"{result.name}@{protocol} {result.state}, {result.message}; once more")
        log.rename(log.with_suffix(".first.log"))
        brokers.renew(line.broker)
        results = run(line, protocol, brokers[line.broker].bootstrap, tests, home, quick=quick)
    for result in results:
        what = f"{result.name}@{protocol}"
        outcome = judged(result, protocol, expected)
        if outcome is not None:
            suite.check(
                what, outcome, f"{result.seconds:.0f} s" if outcome else result.message or "is expected to fail"
            )
        elif result.state == "FAILED":
            suite.skip(what, f"fails as expected: {expected[what]}")
        else:
            suite.skip(what, result.message)


def judged(result: Result, protocol: str, expected: dict[str, str]) -> bool | None:
    """Whether a test did what it should; None when there is nothing to judge. One on the list must fail."""
    if result.state == "SKIPPED":
        return None
    if f"{result.name}@{protocol}" in expected:
        return None if result.state == "FAILED" else False
    return result.state == "PASSED"


def run(line: Line, protocol: str, bootstrap: str, tests: Path, home: Path, *, quick: bool) -> list[Result]:
    """One start of the runner. Its output is kept in `build/compat/librdkafka`."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = log_of(line, protocol)
    conf = home / "test.conf"
    conf.write_text(f"bootstrap.servers={bootstrap}\ntest.topic.random=true\ntest.timeout.multiplier={PATIENCE}\n")
    environment = os.environ | {
        "RDKAFKA_TEST_CONF": str(conf),
        "BROKERS": bootstrap,
        "KAFKA_PATH": str(home),
        "TEST_KAFKA_VERSION": line.version,
        "TEST_SCENARIO": "noautocreate" if line.broker == "noautocreate" else "default",
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "TESTS": line.number,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
    }
    if line.subtest:
        environment["SUBTESTS"] = line.subtest
    # Unbuffered: a runner that found a failure aborts, and its table would be lost.
    command = ["stdbuf", "-oL", "./test-runner", "-p1", "-L", *(["-Q"] if quick else [])]
    started_s = time.monotonic()
    with open(log, "w") as output:
        process = subprocess.Popen(
            command,
            cwd=tests,
            env=environment,
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
    results = results_of(log.read_text(errors="replace"), line.subtest)
    if line.subtest and results and f"{line.subtest}:" not in log.read_text(errors="replace"):
        ended = "ran no subtest of this name"
    elif results and (not process.returncode or any(result.state == "FAILED" for result in results)):
        return results
    return [Result(line.name, "FAILED", time.monotonic() - started_s, f"{ended}, see {log}")]


def log_of(line: Line, protocol: str) -> Path:
    return LOGS / f"{line.name.replace('/', '-')}.{line.broker}.{protocol}.log"


def results_of(output: str, subtest: str) -> list[Result]:
    """The rows of the table that the runner ends with; of tests run in part, the part is in the name."""
    found = []
    for text in COLOUR.sub("", output).splitlines():
        if row := ROW.match(text):
            name, state, seconds, message = row.groups()
            if state == "SKIPPED" and message.strip() in NOT_MEANT:
                continue
            name += f"/{subtest}" if subtest else ""
            found.append(Result(name, "FAILED" if state == "RUNNING" else state, float(seconds), message.strip()))
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tests", metavar="NUMBERS", help="only these, with commas between them, as in tests.txt")
    parser.add_argument("--round", choices=ROUNDS, help="only this group protocol")


if __name__ == "__main__":
    sys.exit(run_suite("librdkafka", body, doc=__doc__, more_arguments=arguments))
