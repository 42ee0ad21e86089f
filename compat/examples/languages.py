"""One project in four languages: how each is prepared, run and counted."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..support.releases import RELEASES

TESTS = 10


@dataclass(frozen=True)
class Counted:
    """The test results of a run; `names` are those of passed tests, with lower-case letters alone."""

    names: tuple[str, ...]
    failed: int
    time_s: float
    """The time of all tests together, as the runner reports it."""


@dataclass(frozen=True)
class Language:
    """A folder next to this module. Commands run in a copy of it."""

    name: str
    folder: str
    runner: str
    client: str
    tools: tuple[str, ...]
    fetch: tuple[str, ...]
    """The command that installs the dependencies; it fails without the language's package index."""
    test: tuple[str, ...]
    count: Callable[[Path, str], Counted]
    """Return the results, from the folder and the output of `test`."""


def bare(name: str) -> str:
    """Return the part of a test's name that all languages share."""
    return re.sub(r"[^a-z]", "", name.lower().removeprefix("test"))


def junit(pattern: str) -> Callable[[Path, str], Counted]:
    """Return counts from JUnit's XML, which most runners write."""

    def count(folder: Path, _output: str) -> Counted:
        cases = [case for path in folder.glob(pattern) for case in ET.parse(path).iter("testcase")]
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        good = (case.get("name", "") for case in cases if case not in bad and case.find("skipped") is None)
        return Counted(_names(good), len(bad), sum(float(case.get("time", 0)) for case in cases))

    return count


def go_output(_folder: Path, output: str) -> Counted:
    """Return counts from `go test -v`."""
    found = re.findall(r"^--- (PASS|FAIL): (\w+) \(([\d.]+)s\)", output, re.MULTILINE)
    return Counted(
        _names(name for outcome, name, _ in found if outcome == "PASS"),
        sum(outcome == "FAIL" for outcome, _, _ in found),
        sum(float(seconds) for _, _, seconds in found),
    )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(bare(name) for name in names))


def _java(name: str, version: str) -> Language:
    maven = ("mvn", "-B", "-q", f"-Dkafka.version={version}")
    return Language(
        name,
        "java",
        "JUnit",
        f"the Java client {version}",
        ("java", "mvn"),
        (*maven, "test-compile"),
        (*maven, "test"),
        junit("target/surefire-reports/TEST-*.xml"),
    )


OTHERS = (
    _java("java", RELEASES[0]),
    *(_java(f"java-{version}", version) for version in RELEASES[1:]),
    Language(
        "go",
        "go",
        "go test",
        "franz-go",
        ("go",),
        ("go", "mod", "download"),
        ("go", "test", "-count=1", "-v", "./..."),
        go_output,
    ),
    Language(
        "node",
        "node",
        "node --test",
        "kafkajs",
        ("node", "npm"),
        ("npm", "ci", "--no-audit", "--no-fund", "--silent"),
        ("node", "--test", "--test-reporter=junit", "--test-reporter-destination=junit.xml", "test/"),
        junit("junit.xml"),
    ),
)
