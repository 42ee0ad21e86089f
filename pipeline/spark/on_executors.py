"""What a Python process has for our jobs: run on executors whatever they lack, so nothing of `ottla` is imported with this.

The functions are sent to the executors by what they are, not by their names, as an executor without `ottla` cannot look these up.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

NONE = "none"


class FoundOnExecutors(TypedDict):
    """What is there, for people; NONE for what is not."""

    host: str
    executor: str
    """What tells executors of one host apart; empty of the driver."""
    python: str
    ottla: str
    kernel: str
    """compiled, interpreted, or NONE."""
    pyspark: str
    java: str
    pyarrow: str
    pandas: str
    numpy: str
    data: str
    """Of the data directories: yes, NONE, or how many partitions it has; empty if none was asked about."""
    path: str
    """Of the Python."""


def found_here(data_dirs: Sequence[str], *, is_executor: bool = True) -> FoundOnExecutors:
    """Of this process. Imports what it tells of, as that may be there and broken."""
    kernel = NONE
    ottla = _version_of("ottla")
    if ottla != NONE:
        try:
            kernel = "compiled" if import_module("ottla.storage.kernel").COMPILED else "interpreted"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told of
            kernel = f"{type(error).__name__}: {error}"
    executor = os.getppid()  # the daemon that forks Python workers: one for each executor
    return FoundOnExecutors(
        host=socket.gethostname(),
        executor=str(executor) if is_executor else "",
        python=".".join(map(str, sys.version_info[:3])),
        ottla=ottla,
        kernel=kernel,
        pyspark=_version_of("pyspark"),
        java=_java_of(executor) if is_executor else "",
        pyarrow=_version_of("pyarrow"),
        pandas=_version_of("pandas"),
        numpy=_version_of("numpy"),
        data=", ".join(_seen(each) for each in data_dirs),
        path=sys.executable,
    )


def look(data_dirs: Sequence[str], pause_s: float) -> Iterator[FoundOnExecutors]:
    """In a task, which takes its time, so that others go to other executors."""
    yield found_here(data_dirs)
    time.sleep(pause_s)


def _version_of(name: str) -> str:
    try:
        module = import_module(name)
    except Exception as error:  # noqa: BLE001 - a library that does not load is as good as none, and says why
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        return NONE if is_missing else f"{type(error).__name__}: {error}"
    try:
        return str(getattr(module, "__version__", None) or version(name))
    except PackageNotFoundError:
        return "of no version"


def _java_of(daemon: int) -> str:
    """The Java that has started this Python: of Linux only."""
    try:
        jvm = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        home = Path(os.readlink(f"/proc/{jvm}/exe")).parents[1]
        found = re.search(r'JAVA_VERSION="([^"]+)"', (home / "release").read_text())
        return found[1] if found else str(home)
    except (OSError, IndexError):
        return "not known"


def _seen(data_dir: str) -> str:
    """How many directories of partitions lie there."""
    try:
        names = os.listdir(data_dir)
    except OSError as error:
        return f"{NONE} ({error.strerror})"
    count = sum(re.fullmatch(".+-[0-9]+", name) is not None for name in names)
    return f"{count} partition{'' if count == 1 else 's'}"
