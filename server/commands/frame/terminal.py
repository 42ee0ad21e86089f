"""What is written over on a terminal: how far long work is, and with `--watch` the same again every second."""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TextIO

from .errors import CommandError
from .parser import Parser
from .printing import fitted, show, visible

CLEAR_LINE = "\r\x1b[K"


class Progress:
    """One line on standard error while the block runs; leaves nothing behind. Where standard error is no terminal it does nothing."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()
        self._width = shutil.get_terminal_size().columns - 1 if self._is_shown else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def say(self, text: str) -> None:
        """Show `text` in the place of what was shown before."""
        self._write(fitted(visible(text), self._width).rstrip())

    def _write(self, text: str) -> None:
        if self._is_shown:
            self._stream.write(CLEAR_LINE + text)
            self._stream.flush()


EVERY_S = 1.0
EVERY_S_MAX = 86_400.0
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch_option(parser: Parser) -> None:
    parser.add_argument("--watch", action="store_true", help="refresh the output until Ctrl-C")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=EVERY_S,
        metavar="SECONDS",
        help=f"with --watch: refresh interval in seconds (default: {EVERY_S:g})",
    )


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0.1 <= (found := float(text)) <= EVERY_S_MAX:
            return found
    raise argparse.ArgumentTypeError(f"expected seconds from 0.1 to {EVERY_S_MAX:g}, found {text!r}")


def watched(options: argparse.Namespace, once: Callable[[], None]) -> None:
    """Do `once`; with --watch again and again, in the place of what was there on a terminal, else below it.

    Whoever does not answer the first time is none; who does not later may be between two lives, so that is shown instead.
    """
    once_more = threading.Event()
    is_first = True
    while True:
        if options.watch and sys.stdout.isatty():
            show(CLEAR, flush=True, as_it_is=True)
        try:
            once()
        except CommandError as error:
            if is_first:
                raise
            show(f"ottla: {error}")
        if not options.watch:
            return
        is_first = False
        show((), flush=True)
        once_more.wait(options.interval)
