"""The pytest suite of another project as checks: run in a tree of its own, against a list of expected failures.

A list has lines `FILE::TEST  reason`, the test without its parameters; an entry that no longer fails fails the suite.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from .suite import Suite


class Outcome(NamedTuple):
    """`status` is `passed`, `failed` or `skipped`; `message` the first line of why."""

    test: str
    status: str
    message: str


def run_pytest(
    tree: Path,
    target: str,
    environment: dict[str, str],
    *arguments: str,
    timeout_s: float = 600,
    python: Path | str = sys.executable,
) -> list[Outcome]:
    """Run `target` (a file, or `FILE::TEST`) in `tree`, with `environment` added to ours, by `python`'s pytest.

    The tree has its own pytest.ini. Its output is left in `output.txt`.
    """
    results = tree / "results.xml"
    results.unlink(missing_ok=True)
    pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "--rootdir", "."]
    command = [*pytest, f"--junitxml={results}", *arguments, target]
    with open(tree / "output.txt", "w+") as output:
        try:
            subprocess.run(
                command,
                cwd=tree,
                env={**os.environ, **environment},
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [Outcome(target, "failed", f"did not end within {timeout_s:.0f} s")]
    if not results.exists():
        return [Outcome(target, "failed", (tree / "output.txt").read_text(errors="replace")[-500:])]
    return [_outcome(case) for case in ElementTree.parse(results).iter("testcase")]


def _outcome(case: ElementTree.Element) -> Outcome:
    name = case.get("name", "")
    for kind, status in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        if (found := case.find(kind)) is not None:
            return Outcome(name, status, next(iter((found.get("message") or "").strip().splitlines()), ""))
    return Outcome(name, "passed", "")


def entries_of(file: Path) -> dict[str, str]:
    """Return `FILE::TEST` -> reason."""
    lines = file.read_text().splitlines()
    entries = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: reason.strip() for name, reason in entries}


def judge(suite: Suite, name: str, outcomes: list[Outcome], expected: dict[str, str]) -> None:
    """Note one check a test of the file `name`; a test of `expected` may fail, and must."""
    failed_as_expected = set()
    for test, status, message in outcomes:
        entry = f"{name}::{test.partition('[')[0]}"
        if status == "skipped":
            suite.skip(f"{name}::{test}", message)
        elif status == "failed" and entry in expected:
            failed_as_expected.add(entry)
            suite.skip(f"{name}::{test}", f"fails as expected: {expected[entry]}")
        else:
            suite.check(f"{name}::{test}", status == "passed", message)
    stale = {entry for entry in expected if entry.startswith(f"{name}::")} - failed_as_expected
    for entry in sorted(stale):
        suite.check(f"{entry} is still on the list of expected failures", False, "but passes, or is gone")
