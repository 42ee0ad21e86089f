"""One page's blocks, run as a reader runs them: from top to bottom, in a directory that was empty."""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

import ottla
from ottla.server.config.options.known_options import find_option
from ottla.server.control.seed.seed import FIELDS, seed_from
from ottla.storage.topics.properties import parse_properties

from ..sizes import size
from .blocks import Block

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60
PORT = re.compile(r"\b909(\d)\b")
SERVER = re.compile(r"ottla (serve|dev)\b")
SPARK = re.compile(r"ottla-spark ")
OF_CLIENTS = ("security.protocol", "sasl.", "ssl.")


def run_blocks(page: str, blocks: Iterable[Block], pytester: pytest.Pytester, **names: object) -> None:
    """Run those that can be run, in their order; `names` are there for Python's."""
    with PageRun(page, pytester, **names) as run:
        for block in blocks:
            if block.not_run is None:
                try:
                    run.run(block)
                except Exception as error:
                    error.add_note(f"in the block that begins at line {block.line} of {page}")
                    raise


class PageRun:
    """Runs blocks; ports 9090 to 9099 of the text are ten that are free here. A context: what was started ends with it."""

    def __init__(self, name: str, pytester: pytest.Pytester, **names: object) -> None:
        self._name = name
        self._pytester = pytester
        self._namespace: dict[str, Any] = {"__name__": "__main__", **names}
        self._base = _ten_free_ports()
        self._broker: ottla.Broker | None = None
        self._server: subprocess.Popen[str] | None = None
        self._printed = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_brokers()

    def run(self, block: Block) -> None:
        """Run or read it, as its first line says."""
        text = PORT.sub(lambda port: str(self._base + int(port[1])), block.text)
        if "spark" in self._namespace and block.language == "python":  # its processes are elsewhere
            text = text.replace('"./', f'"{self._pytester.path}/')
        if block.file is not None:
            path = self._pytester.path / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        match block.language, block.words:
            case "python", "" | "spark":
                self._run_python(text, block)
            case "python", "pytest" | "pytest fails":
                self._run_pytest(text, block)
            case "python", "file":
                compile(text, block.file or "", "exec")
            case "sh", "" | "given" | "spark":
                self._run_shell(text)
            case "text", "output":
                _assert_shown(block.text, self._printed)
            case "text", "":
                pass
            case _, source if source.startswith("from: "):
                whole = (ROOT / source.removeprefix("from: ")).read_text()
                assert _without_indent(block.text) in _without_indent(whole), f"{source} reads otherwise"
            case language, "" if language in READERS:
                READERS[language](text)
            case language, words:
                raise AssertionError(f"nobody knows how to try a block of {f'{language} {words}'.strip()!r}")

    def _run_python(self, text: str, block: Block) -> None:
        if PORT.search(block.text):
            self._have_broker()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = "\n" * (block.line - 1) + text
            exec(compile(code, self._name, "exec"), self._namespace)  # noqa: S102 - that is what a page's code is for
        self._printed = out.getvalue()

    def _run_pytest(self, text: str, block: Block) -> None:
        path = self._pytester.path / (block.file or f"test_at_line_{block.line}.py")
        path.write_text(text)
        if path.name == "conftest.py":
            return
        # A process of its own, as a reader starts it, costs seconds.
        run = size(self._pytester.runpytest_inprocess, self._pytester.runpytest_subprocess)
        result = run("-p", "no:cacheprovider", str(path))
        self._printed = "\n".join(result.outlines)
        outcomes = result.parseoutcomes()
        wanted = {"failed"} if "fails" in block.words else {"passed"}
        assert set(outcomes) - {"warnings"} == wanted, self._printed

    def _run_shell(self, text: str) -> None:
        self._printed = ""
        together: list[str] = []
        for line in _whole_lines(text):
            if SERVER.match(line) and not re.search(r"--(help|version)\b", line):
                self._bash("\n".join(together))
                together = []
                self._serve(line)
            elif SPARK.match(line):
                self._bash("\n".join(together))
                together = []
                self._spark(line)
            else:
                together.append(line)
        self._bash("\n".join(together))

    def _bash(self, text: str) -> None:
        if not re.sub(r"(?m)^\s*(#.*)?$", "", text).strip():
            return
        self._have_broker()
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text],
            cwd=self._pytester.path,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        self._printed += done.stdout

    def _spark(self, line: str) -> None:
        """In this process, on the session that there is."""
        from ottla.pipeline.cli import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(shlex.split(line, comments=True)[1:])
        self._printed += out.getvalue()
        assert code == 0, f"{line}\nended with {code}:\n{self._printed}"

    def _have_broker(self) -> None:
        """One for pages that show none being started."""
        if self._server is None and self._broker is None:
            listener, admin = (f"127.0.0.1:{self._base + last}" for last in (2, 9))
            self._broker = ottla.Broker(listener=listener, admin=admin).start()

    def _serve(self, line: str) -> None:
        self._end_brokers()
        words = [*shlex.split(line.removesuffix("&"), comments=True)]
        for option, last in (
            ("--listener", 2),
            ("--admin", 9),
        ):  # free ports, which the page's further lines are to know
            if option in words and "--nodes" not in words and words[(at := words.index(option) + 1)].endswith(":0"):
                words[at] = words[at][:-1] + str(self._base + last)
        given = " ".join(words)
        if "--listener" not in given and "--config" not in given and "listeners=" not in given:
            words += ["--listener", f"127.0.0.1:{self._base + 2}"]
        if words[1] == "serve" and "--data" not in words and "log.dirs=" not in given:
            words += ["--data", "data-that-nobody-named"]
        if words[1] == "dev" and "--admin" not in words:
            words += ["--admin", f"127.0.0.1:{self._base + 9}"]
        errors = self._pytester.path / ".errors-of-the-broker"
        with errors.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "ottla.server", *words[1:]],
                cwd=self._pytester.path,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert server.stdout is not None
        first = server.stdout.readline()
        if not first.startswith("ready "):
            server.communicate(timeout=PATIENCE_S)
            raise AssertionError(f"{line}\nended: {errors.read_text()}")
        self._server = server
        self._printed += first

    def _end_brokers(self) -> None:
        if self._broker is not None:
            broker, self._broker = self._broker, None
            broker.stop()
        if self._server is not None:
            server, self._server = self._server, None
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=PATIENCE_S)
            assert server.returncode == 0

    def _environment(self) -> dict[str, str]:
        listener, admin = (f"127.0.0.1:{self._base + last}" for last in (2, 9))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "OTTLA_BOOTSTRAP": listener, "OTTLA_ADMIN": admin, "COLUMNS": "120"}


def _read_yaml(text: str) -> None:
    found = yaml.safe_load(text)
    if set(found) & set(FIELDS) and not set(found) - set(FIELDS):
        seed_from(found)


def _read_properties(text: str) -> None:
    values = parse_properties(text)
    assert values
    for name in values:
        assert name.startswith(OF_CLIENTS) or find_option(name), name


def _read_ini(text: str) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    assert parser.sections()


READERS: dict[str, Callable[[str], object]] = {
    "yaml": _read_yaml,
    "json": json.loads,
    "properties": _read_properties,
    "ini": _read_ini,
    "toml": tomllib.loads,
    "diff": str,
}


def _assert_shown(shown: str, printed: str) -> None:
    """Blanks at the ends of lines aside, and … for anything."""
    pieces = [re.escape(piece) for piece in "\n".join(map(str.rstrip, shown.strip().splitlines())).split("…")]
    found = "\n".join(map(str.rstrip, printed.strip().splitlines()))
    assert re.search(rf"(?m:^){'.*?'.join(pieces)}(?m:$)", found, re.DOTALL), f"shown:\n{shown}\nprinted:\n{printed}"


def _without_indent(text: str) -> str:
    return "\n".join(map(str.strip, text.splitlines()))


def _whole_lines(text: str) -> list[str]:
    return re.sub(r"\\\n\s*", "", text).splitlines()


def _ten_free_ports() -> int:
    """The first of ten in a row, below those that the system gives out."""
    while True:
        base = random.randrange(20_000, 31_990, 10)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(base, base + 10):
                taken = held.enter_context(socket.socket())
                taken.bind(("127.0.0.1", port))
            return base
