"""Apache Kafka 4.3.1's own client integration tests, unchanged, against a broker in another process.

Without arguments: all tests of `lists/expected-clients.txt` but those of the classes in `lists/set_aside.txt`, against
the `ottla` of this environment. Tests may be named (CLASS, or CLASS#METHOD; the end of the class name is enough).
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from ...support.brokers.ottla_process import ottla_command
from ...support.suite import NotRunError, Options, Suite, run_suite
from .baseline import kafka_command
from .runner import Outcome, Runner, class_of

LISTS = Path(__file__).parent / "lists"
BUILD = Path(__file__).parents[3] / "build" / "compat" / "apache_kafka_suite"
FLOOR = 0.95
"""The part of the tests that must pass, known failures or not."""
AGAIN = 5
"""The number of tests that may fail once: they wait seconds for actions that take longer on a busy machine."""
QUICK_TIMEOUT_S = 150
"""The time limit of `--quick`, without second tries."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    rest = options.rest
    kafka = options.against == "apache-kafka"
    tests = chosen(rest.list, rest.tests, quick=options.quick, everything=kafka)
    known = {} if kafka else {test: cause for test, cause in entries("known_failures.txt").items() if test in tests}
    runner = Runner(
        rest.out,
        kafka_command() if kafka else ottla_command(),
        ports=rest.ports,
        test_timeout_s=rest.test_timeout_s,
        class_timeout_s=QUICK_TIMEOUT_S if options.quick else rest.class_timeout_s,
    )
    passed, again = 0, AGAIN
    for classes in batches(tests, together=options.quick):
        wanted = [test for test in tests if class_of(test) in classes]
        found = {outcome.test: outcome for outcome in runner.run(classes, wanted)}
        for test in wanted:
            outcome = found.get(test)
            if again and test not in known and not has_passed(outcome):
                suite.note(f"{shortened(test)} is tried again, alone: {said(outcome)}")
                outcome = next(iter(runner.run([class_of(test)], [test])), None)
                again -= 1
            passed += judge(suite, test, outcome, known.get(test))
    share = f"{passed} of {len(tests)}"
    if not rest.tests:
        suite.check(f"at least {FLOOR:.0%} of the tests pass", passed >= FLOOR * len(tests), share)


def judge(suite: Suite, test: str, outcome: Outcome | None, known: str | None) -> bool:
    """Record one test; returns whether it passed."""
    passed = has_passed(outcome)
    if known is None:
        suite.check(shortened(test), passed, "" if passed else said(outcome))
    elif passed:
        suite.check(shortened(test), False, f"passes now: its line in known_failures.txt is stale ({known})")
    else:
        suite.skip(shortened(test), f"{known} ({said(outcome)})")
    return passed


def has_passed(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.status == "PASS"


def said(outcome: Outcome | None) -> str:
    return f"{outcome.status} after {outcome.seconds:.0f} s: {outcome.cause}" if outcome else "did not run"


def shortened(test: str) -> str:
    return test.removeprefix("org.apache.kafka.")


def chosen(name: str, patterns: list[str], *, quick: bool, everything: bool) -> list[str]:
    """Return the tests to run, of the list `name`, in its order.

    `everything` keeps the classes that are set aside; `quick` takes those of quick.txt; `patterns` are names.
    """
    listed = list(entries(f"expected-{name}.txt"))
    if patterns:
        listed = [test for test in listed if any(is_named(test, pattern) for pattern in patterns)]
        if not listed:
            raise NotRunError(f"tests called {' or '.join(patterns)}, and there are none")
    elif not everything:
        set_aside = entries("set_aside.txt")
        listed = [test for test in listed if class_of(test) not in set_aside]
        if quick:
            wanted = entries("quick.txt")
            listed = [test for test in listed if test in wanted]
    return listed


def is_named(test: str, pattern: str) -> bool:
    """Return whether `pattern`, as CLASS or CLASS#METHOD with or without the package, means this test."""
    class_name, _, method = pattern.partition("#")
    test_class, _, test_method = test.partition("[")[0].partition("#")
    return f".{test_class}".endswith(f".{class_name}") and method in ("", test_method)


def batches(tests: Iterable[str], *, together: bool) -> list[list[str]]:
    """Return the classes that share a JVM: all, which saves starts, or one each, which isolates a class that hangs."""
    classes = list(dict.fromkeys(map(class_of, tests)))
    return [classes] if together else [[name] for name in classes]


def entries(file: str) -> dict[str, str]:
    """Return test -> reason, from a list's lines `NAME  reason`; `#` begins a comment line. Test ids hold no double blanks."""
    lines = (line.strip() for line in (LISTS / file).read_text().splitlines())
    pairs = (line.partition("  ") for line in lines if line and not line.startswith("#"))
    return {name: reason.strip() for name, _, reason in pairs}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tests", nargs="*", metavar="TEST", help="CLASS or CLASS#METHOD")
    parser.add_argument(
        "--list",
        choices=("clients", "tools", "server", "streams"),
        default="clients",
        help="which of Apache Kafka's tests",
    )
    parser.add_argument("--out", type=Path, default=BUILD, help="folder for results; emptied first")
    parser.add_argument("--ports", default="19100-19899", help="two runs at a time need two ranges")
    parser.add_argument("--test-timeout-s", type=int, default=90, help="time limit of a test")
    parser.add_argument("--class-timeout-s", type=int, default=1800, help="time limit of a class")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.suite", body, doc=__doc__, more_arguments=add_arguments))
