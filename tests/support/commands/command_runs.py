"""Command lines run in this process, and their output."""

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
"""The time limit of a command; even on a slow machine no command takes a tenth of it."""


class Ran(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """A standard output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def run_command(*words: str, stdin: bytes = b"", columns: int | None = None) -> Ran:
    """Run `ottla WORDS`, if `columns` are given on a terminal of that width."""
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
    """Restore the signal handlers after the block, and interrupt a command that runs for longer than RUN_S_MAX.

    A command that ends a process ignores signals from then on, which every process of a later test would inherit. A command
    that serves where it should have refused would never end.
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
    """Replace `sys.stdin` and descriptor 0: some commands read from the descriptor as data arrives."""
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
