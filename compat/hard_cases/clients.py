"""The clients that read: how each is made ready, and run as a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..support.brokers.apache_kafka import cache_dir, fetches, jars
from ..support.releases import RELEASES
from ..support.suite import NotRunError

READERS = Path(__file__).parent / "readers"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Client:
    """One client; `make_ready` returns its command. NotRunError if something is missing."""

    name: str
    make_ready: Callable[[], list[str]]
    has_new_groups: bool
    """Whether it speaks the new group protocol (KIP-848)."""
    has_position: bool = True
    """Whether a program can ask how far it is. Without that an emptied batch at the end leaves no trace."""


@dataclass(frozen=True)
class Outcome:
    """The result of the reads of one process."""

    answers: list[dict[str, Any]]
    """One answer per read; later ones are missing if the process ended early."""
    trouble: str = ""
    """The reason why the process failed: it hung, or its error."""


def run_reader(command: Sequence[str], asked: dict[str, Any], limit_s: float) -> Outcome:
    """Run one process for these reads; a read without an answer after `limit_s` hangs."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    trouble = ""
    try:
        out, errors = process.communicate(json.dumps(asked), timeout=limit_s)
        if process.returncode:
            trouble = f"exit code {process.returncode}: {_last_line(errors)}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        trouble = f"hangs: no answer within {limit_s:.0f} s"
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return Outcome(answers, trouble)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:300]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"{__package__}.readers.{module}"]


def _java(version: str) -> list[str]:
    if not shutil.which("javac"):
        raise NotRunError("a JDK and Maven")
    return [
        "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars(version)}/*",
        str(READERS / "java" / "Reader.java"),
    ]


@fetches("hard-cases-go")
def _go() -> list[str]:
    if not shutil.which("go"):
        raise NotRunError("Go")
    program = cache_dir() / "hard-cases-go"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=READERS / "go", capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise NotRunError(f"Go's module proxy ({_last_line(built.stderr)})")
    return [str(program)]


@fetches("hard-cases-node")
def _node() -> list[str]:
    if not (shutil.which("node") and shutil.which("npm")):
        raise NotRunError("Node and npm")
    folder = cache_dir() / "hard-cases-node"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "reader.js"):
        shutil.copy(READERS / "node" / name, folder / name)
    if not (folder / "node_modules" / "kafkajs").exists():
        installed = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
        )
        if installed.returncode:
            raise NotRunError(f"the npm registry ({_last_line(installed.stderr)})")
    return ["node", str(folder / "reader.js")]


PYTHON = (
    Client("kafka-python", _python("kafka_python"), has_new_groups=False),
    Client("confluent-kafka", _python("confluent"), has_new_groups=True),
    Client("aiokafka", _python("aiokafka"), has_new_groups=False),
)
OTHERS = (
    Client("Java", partial(_java, RELEASES[0]), has_new_groups=True),
    *(Client(f"Java-{each}", partial(_java, each), has_new_groups=True) for each in RELEASES[1:]),
    Client("franz-go", _go, has_new_groups=True, has_position=False),
    Client("kafkajs", _node, has_new_groups=False, has_position=False),
)
CLIENTS = PYTHON + OTHERS
