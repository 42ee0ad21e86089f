"""The three lists: the tests to run, the others, the accepted failures."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.brokers.apache_kafka import VERSION

HERE = Path(__file__).parent
ROUNDS = ("classic", "consumer", "idempotent")
LIMIT_S = 300


@dataclass(frozen=True)
class Line:
    """A line of `tests.txt`: one start of the runner in each round.

    number: Four digits; several tests may share them.
    rounds: Names in ROUNDS; without any, those of the two group protocols.
    broker: The kind of broker; its name is also the runner's scenario if the runner has one of that name.
    version: The broker's version as the tests assume it.
    subtest: Only the subtests with this in their name.
    limit_s: The time limit.
    quick: Part of the short variant.
    needs: `java`, or nothing.
    """

    number: str
    rounds: tuple[str, ...] = ROUNDS[:2]
    broker: str = "default"
    version: str = VERSION
    subtest: str = ""
    limit_s: int = LIMIT_S
    quick: bool = False
    needs: str = ""

    @property
    def name(self) -> str:
        return f"{self.number}/{self.subtest}" if self.subtest else self.number


def tests_to_run() -> list[Line]:
    """`tests.txt`."""
    return [_parse(*text.split()) for text in _meaningful("tests.txt")]


def not_run() -> dict[str, str]:
    """`not_run.txt`: number -> cause."""
    return _entries("not_run.txt")


def expected_failures() -> dict[str, str]:
    """`expected_failures.txt`: TEST@ROUND -> cause."""
    return _entries("expected_failures.txt")


def wanting_a_broker(runner_source: str) -> set[str]:
    """Return the numbers of the tests in the runner's own table that talk to a broker and are not for trying by hand."""
    table = runner_source[runner_source.index("struct test tests[]") :]
    return {
        number
        for number, flags in re.findall(r"\b_TEST\((\d{4})_\w+,\s*([^,)]*)", table)
        if "TEST_F_LOCAL" not in flags and "TEST_F_MANUAL" not in flags
    }


def _parse(name: str, *words: str) -> Line:
    number, _, subtest = name.partition("/")
    values: dict[str, Any] = {"number": number, "subtest": subtest}
    if rounds := tuple(word for word in words if word in ROUNDS):
        values["rounds"] = rounds
    for word in words:
        key, separator, value = word.partition("=")
        if key in ROUNDS:
            continue
        if key == "limit_s":
            values[key] = int(value)
        else:
            values[key] = value if separator else True
    return Line(**values)


def _entries(file: str) -> dict[str, str]:
    entries = (text.split(None, 1) for text in _meaningful(file))
    return {name: reason.strip() for name, reason in entries}


def _meaningful(file: str) -> Iterator[str]:
    for text in (HERE / file).read_text().splitlines():
        if stripped := text.partition("#")[0].strip():
            yield stripped
