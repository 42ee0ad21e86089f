"""A process that a test starts itself, and that does not outlive its block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import AnyStr

LIFE_S = 300.0
"""No block of a test takes so long."""


@contextmanager
def ended(process: subprocess.Popen[AnyStr], life_s: float = LIFE_S) -> Iterator[subprocess.Popen[AnyStr]]:
    """`process`, killed when the block fails or `life_s` are over.

    `Popen` as a context manager waits for it instead: an assertion that fails while it serves, or a line that never comes, would
    then be a suite that hangs.
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
