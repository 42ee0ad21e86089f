"""How far long work is: one line on standard error that is written over, and only on a terminal."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import Self, TextIO

from .printing import fitted, visible

CLEAR = "\r\x1b[K"


class Progress:
    """While the block runs; leaves nothing behind. Where standard error is no terminal it does nothing."""

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
            self._stream.write(CLEAR + text)
            self._stream.flush()
