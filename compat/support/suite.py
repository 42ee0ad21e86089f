"""One suite: its arguments, its checks, its summary line.

Every suite prints `ok` or `FAIL` for each check and ends with the line
`N passed, N failed, N skipped`, which `compat.run` reads. Exit codes: 0 all passed, 1 something
failed, 77 not run (the last line is then `not run: needs X`).
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NOT_RUN = 77
TERMINATED = 143


class NotRunError(Exception):
    """This machine lacks something that the suite needs; the text names it."""


@dataclass
class Options:
    """The caller's options.

    broker: HOST:PORT of a running broker, or None to start one.
    against: which broker to start, `ottla` or `apache-kafka`.
    quick: the short variant, for `make compat-quick`.
    keep: leave data directories and broker output on disk.
    """

    broker: str | None
    against: str
    quick: bool
    keep: bool
    rest: argparse.Namespace


class Suite:
    """Counts checks and prints each as it is made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.passed = self.failed = self.skipped = 0
        self.started_s = time.monotonic()

    def check(self, what: str, holds: bool, detail: object = "") -> bool:
        """Record whether `what` holds; `detail` is printed in either case. Returns `holds`."""
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        text = f": {detail}" if detail != "" else ""
        self._print(f"{'ok  ' if holds else 'FAIL'} {what}{text}")
        return holds

    def equal(self, what: str, expected: object, actual: object) -> bool:
        """Record whether two values are equal; both are printed (shortened) when they are not."""
        if expected == actual:
            return self.check(what, True)
        return self.check(what, False, f"expected {_short(expected)}, got {_short(actual)}")

    def skip(self, what: str, reason: str) -> None:
        self.skipped += 1
        self._print(f"skip {what}: {reason}")

    def note(self, text: str) -> None:
        """Print a line for the reader that is not a check."""
        self._print(f"     {text}")

    def _print(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started_s:6.1f}] {line}", flush=True)

    def finish(self) -> int:
        """Print the last line; returns the exit code."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed or not (self.passed or self.skipped) else 0


def run_suite(
    name: str,
    body: Callable[[Suite, Options], None],
    argv: Sequence[str] | None = None,
    *,
    doc: str | None = None,
    more_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> int:
    """Parse arguments, run `body`, and return the exit code of its outcome.

    An exception out of `body` is one more failed check; NotRunError means that nothing was judged.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m compat.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", metavar="HOST:PORT", help="judge this running broker instead of starting one")
    parser.add_argument("--against", choices=["ottla", "apache-kafka"], default="ottla", help="which broker to start")
    parser.add_argument("--quick", action="store_true", help="the short variant, as in `make compat-quick`")
    parser.add_argument("--keep", action="store_true", help="keep data directories and broker output")
    if more_arguments:
        more_arguments(parser)
    parsed = parser.parse_args(argv)
    options = Options(parsed.broker, parsed.against, parsed.quick, parsed.keep, parsed)
    suite = Suite(name)
    # Contexts stop their brokers and clients also when the suite is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        body(suite, options)
    except NotRunError as missing:
        print(f"not run: needs {missing}", flush=True)
        return NOT_RUN
    except Exception as error:  # noqa: BLE001 - whatever a suite dies of is a failure to report, with its place
        traceback.print_exc(file=sys.stdout)
        suite.check("the suite ran to its end", False, f"{type(error).__name__}: {error}")
    return suite.finish()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "…"
