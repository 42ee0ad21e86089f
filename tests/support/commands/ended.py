"""A process that a test starts itself, and that never outlives its block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import AnyStr

LIFE_S = 300.0
"""The time limit of a block in a test, in seconds."""


@contextmanager
def ended(process: subprocess.Popen[AnyStr], life_s: float = LIFE_S) -> Iterator[subprocess.Popen[AnyStr]]:
    """Yield `process`, and kill it when the block fails or `life_s` have passed.

    `Popen` as a context manager waits for the process instead. An assertion that fails while the process serves, or a line that
    never comes, would then hang the suite.
    """
    limit = Timer(life_s, process.kill)
    limit.start()
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        limit.cancel()
        limit.join()
