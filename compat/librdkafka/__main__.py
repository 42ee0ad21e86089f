"""librdkafka's own tests, from its sources, against a running broker: with classic groups, with KIP-848's, and those of
producers also with idempotence.

`tests.txt` lists the tests to run, `not_run.txt` the others with reasons; together they name every test of the runner
that needs a broker. A failed test is retried once, on a new broker. `expected_failures.txt` lists the accepted failures.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ..support.brokers.any_broker import broker_process
from ..support.brokers.process import Broker, RunningBroker
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import build, kafka_home
from .brokers import KINDS
from .lists import ROUNDS, Line, expected_failures, not_run, tests_to_run, wanting_a_broker
from .runner import Result, Runner

NODES = 3  # several tests ask for three replicas; the one node of Apache Kafka cannot give them


@dataclass
class Round:
    """All lines of one round.

    A round has its own brokers, each started at its first use: some tests fail because of other tests' topics.
    """

    suite: Suite
    options: Options
    runner: Runner
    expected: dict[str, str]
    started: ExitStack
    brokers: dict[str, Broker] = field(default_factory=dict)

    def broker(self, kind: str) -> Broker:
        if kind not in self.brokers:
            process = broker_process(self.options, dict(KINDS[kind].options), nodes=NODES)
            self.brokers[kind] = self.started.enter_context(process)
        return self.brokers[kind]

    def judge(self, line: Line) -> None:
        suite, runner = self.suite, self.runner
        if line.needs == "java" and not kafka_home.has_java(runner.home):
            suite.skip(self._what(line.name), "needs javac and Maven")
            return
        if self.options.broker and line.broker != "default":
            suite.skip(self._what(line.name), f"needs a broker of its own: {dict(KINDS[line.broker].options)}")
            return
        results = runner.run(line, self.broker(line.broker).bootstrap)
        if any(self._judged(result) is False for result in results):
            results = self._again(line, results)
        for result in results:
            what, outcome = self._what(result.name), self._judged(result)
            if outcome is not None:
                suite.check(what, outcome, f"{result.seconds:.0f} s" if outcome else result.message or "should fail")
            elif result.state == "FAILED":
                suite.skip(what, f"fails as expected: {self.expected[what]}")
            else:
                suite.skip(what, result.message)

    def _again(self, line: Line, first: list[Result]) -> list[Result]:
        for result in first:
            if result.state != "PASSED":
                self.suite.note(f"{self._what(result.name)} {result.state}, {result.message}; once more")
        log = self.runner.log(line)
        log.rename(log.with_suffix(".first.log"))
        if not self.options.broker:
            del self.brokers[line.broker]
        return self.runner.run(line, self.broker(line.broker).bootstrap)

    def _what(self, name: str) -> str:
        return f"{name}@{self.runner.round}"

    def _judged(self, result: Result) -> bool | None:
        """Return whether a test had the expected outcome; None if it was not judged. A listed test must fail."""
        if result.state == "SKIPPED":
            return None
        if self._what(result.name) in self.expected:
            return None if result.state == "FAILED" else False
        return result.state == "PASSED"


def body(suite: Suite, options: Options) -> None:
    if options.quick and not build.is_built():
        raise NotRunError("a built librdkafka (a run without --quick builds it)")
    tests = build.test_runner()
    lines = [line for line in tests_to_run() if chosen(line, options)]
    if not options.rest.tests:
        every_test_is_named(suite, tests)
    expected = {} if options.against == "apache-kafka" else expected_failures()
    with tempfile.TemporaryDirectory(prefix="compat-librdkafka-") as folder:
        home = kafka_home.make(Path(folder))
        for name in rounds(options):
            with ExitStack() as started:
                runner = Runner(tests, home, name, options.quick)
                one = Round(suite, options, runner, expected, started)
                if options.broker:
                    one.brokers["default"] = RunningBroker(options.broker)
                for line in lines:
                    if name in line.rounds:
                        one.judge(line)


def rounds(options: Options) -> tuple[str, ...]:
    if options.rest.round:
        return (options.rest.round,)
    return ROUNDS[:1] if options.quick else ROUNDS


def chosen(line: Line, options: Options) -> bool:
    if options.rest.tests:
        return not {line.number, line.name}.isdisjoint(options.rest.tests.split(","))
    return line.quick or not options.quick


def every_test_is_named(suite: Suite, tests: Path) -> None:
    """Check that every test that needs a broker is on one of the lists, since it would otherwise go unnoticed."""
    wanting = wanting_a_broker((tests / "test.c").read_text())
    named = {line.number for line in tests_to_run()} | set(not_run())
    suite.equal("every test that wants a broker is on a list, and no other", sorted(wanting), sorted(named))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tests", metavar="NUMBERS", help="only these, with commas between them, as in tests.txt")
    parser.add_argument("--round", choices=ROUNDS, help="only this round")


if __name__ == "__main__":
    sys.exit(run_suite("librdkafka", body, doc=__doc__, more_arguments=arguments))
