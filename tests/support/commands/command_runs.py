"""Command lines run in this process, and what they print."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from ottla.server.commands.cli import main

RUN_S_MAX = 120
"""Of a command; on a slow machine none takes a tenth of it."""


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_command(*words: str, stdin: bytes = b"", columns: int | None = None) -> Ran:
    """Run `ottla WORDS`; on a terminal with so many `columns`, if they are given."""
    if columns is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            return _run(Terminal, words, stdin)
    return _run(io.TextIOWrapper, words, stdin)


def _run(kind: type[io.TextIOWrapper], words: Sequence[str], stdin: bytes) -> Ran:
    out = kind(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="\n")
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _standard_input(stdin), _signals():
        try:
            code = main(words)
        except SystemExit as end:
            assert isinstance(end.code, int)
            code = end.code
        out.seek(0)
    return Ran(code, out.read(), err.getvalue())


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """A command that ends a process ignores them from then on; every process that a later test starts would inherit that.

    One that serves where it should have refused would never end: it is broken off.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGALRM, _break_off)
    signal.alarm(RUN_S_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _break_off(*_: object) -> None:
    raise TimeoutError(f"the command has not ended after {RUN_S_MAX} s")


@contextlib.contextmanager
def _standard_input(data: bytes) -> Iterator[None]:
    """The descriptor, too: commands read from it as what comes, comes."""
    reading, writing = os.pipe()
    kept, stdin = os.dup(0), sys.stdin
    try:
        os.write(writing, data)  # less than a pipe holds
        os.close(writing)
        os.dup2(reading, 0)
        sys.stdin = io.StringIO()
        yield
    finally:
        sys.stdin = stdin
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)
