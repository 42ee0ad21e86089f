"""Versions that a Python process has for Ottla's jobs. Runs on incomplete executors, so this module imports nothing of `ottla`.

The functions are sent to the executors by value, not by name, as an executor without `ottla` cannot import them.
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
    """Versions of one process, for people; NONE if missing."""

    host: str
    executor: str
    """Identifier of the executor on its host; empty for the driver."""
    python: str
    ottla: str
    kernel: str
    """State of the kernel: compiled, interpreted, NONE, or the error of its import."""
    pyspark: str
    java: str
    pyarrow: str
    pandas: str
    numpy: str
    data: str
    """Result for each data directory: the number of its partitions, or NONE; empty if none was given."""
    path: str
    """Path of the Python."""


def found_here(data_dirs: Sequence[str], *, is_executor: bool = True) -> FoundOnExecutors:
    """Return the versions of this process. Imports each library, as an installed one may be broken."""
    kernel = NONE
    ottla = _version_of("ottla")
    if ottla != NONE:
        try:
            kernel = "compiled" if import_module("ottla.storage.kernel").COMPILED else "interpreted"
        except Exception as error:  # noqa: BLE001 - reported, whatever it is
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
    """Run in a task, with a pause, so that other tasks are sent to other executors."""
    yield found_here(data_dirs)
    time.sleep(pause_s)


def _version_of(name: str) -> str:
    try:
        module = import_module(name)
    except Exception as error:  # noqa: BLE001 - a library that cannot be imported counts as missing, with its error
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        return NONE if is_missing else f"{type(error).__name__}: {error}"
    try:
        return str(getattr(module, "__version__", None) or version(name))
    except PackageNotFoundError:
        return "of no version"


def _java_of(daemon: int) -> str:
    """Return the version of the Java that has started this Python; on Linux only."""
    try:
        jvm = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        home = Path(os.readlink(f"/proc/{jvm}/exe")).parents[1]
        found = re.search(r'JAVA_VERSION="([^"]+)"', (home / "release").read_text())
        return found[1] if found else str(home)
    except (OSError, IndexError):
        return "not known"


def _seen(data_dir: str) -> str:
    """Describe the number of partition directories in a data directory."""
    try:
        names = os.listdir(data_dir)
    except OSError as error:
        return f"{NONE} ({error.strerror})"
    count = sum(re.fullmatch(".+-[0-9]+", name) is not None for name in names)
    return f"{count} partition{'' if count == 1 else 's'}"
