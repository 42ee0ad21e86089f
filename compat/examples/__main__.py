"""A new user's project: ten tests over a compacted topic, in Python, Java, Go and Node, against an installed Ottla.

Ottla is built and installed with pip into an empty environment. The Python project, which has a package called `server` of its
own, runs there with the pytest plugin and four workers of pytest-xdist, then mypy and pyright read it; the others start
`ottla dev` and use its control API.
"""

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.environments import copy_of_source, empty_environment, need_package_index, pip, run
from ..support.suite import Options, Suite, run_suite
from .languages import OTHERS, TESTS, Language, bare, junit

HERE = Path(__file__).parent
NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules", "target")
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
TYPE_CHECKERS = ("mypy", "pyright[nodejs]")


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=["python", *(language.name for language in OTHERS)])


def body(suite: Suite, options: Options) -> None:
    only = options.rest.only
    with TemporaryDirectory(prefix="compat-examples-") as name:
        folder = Path(name)
        python = empty_environment(folder / "venv")
        need_package_index(python, folder)
        done = pip(python, "install", copy_of_source(folder / "source"), cwd=folder)
        if not suite.check("pip installs Ottla", done.returncode == 0, done.stderr[-300:]):
            return
        if only in (None, "python"):
            of_python(suite, python, copy("python", folder / "python"), quick=options.quick)
        for language in OTHERS:
            if only == language.name or not (only or options.quick):
                of_other(suite, python, language, copy(language.folder, folder / language.name))


def copy(language: str, target: Path) -> Path:
    return shutil.copytree(HERE / language, target, ignore=NOT_COPIED)


def of_python(suite: Suite, python: Path, project: Path, *, quick: bool) -> None:
    done = pip(python, "install", "-r", project / "requirements.txt", cwd=project)
    if not suite.check("python: pip installs the project's dependencies", done.returncode == 0, done.stderr[-300:]):
        return
    for workers in (
        (4,) if quick else (0, 4, 4)
    ):  # The first run leaves bytecode, as any environment that is in use has it.
        started_s = time.monotonic()
        done = run([python, "-m", "pytest", "-n", str(workers), "--junitxml=junit.xml"], cwd=project, env=WITH_BYTECODE)
        took_s = time.monotonic() - started_s
        counted = junit("junit.xml")(project, "")
        suite.equal(f"python: pytest -n {workers}, all pass", TESTS, len(counted.names))
        if done.returncode:
            suite.note(done.stdout[-2000:] + done.stderr[-2000:])
    client_s = import_time_s(python, project, "confluent_kafka")
    suite.note(f"python: pytest -n 4 took {took_s:.2f} s, {client_s:.2f} s of it the import of confluent_kafka")
    suite.equal("python: the ten tests are those of the README", wanted(), counted.names)
    if not quick:
        type_checks(suite, python, project)


def type_checks(suite: Suite, python: Path, project: Path) -> None:
    """Run the type checkers of editors and CI on the project, and on a file with every public name of Ottla."""
    if pip(python, "install", *TYPE_CHECKERS, cwd=project).returncode:
        suite.skip("type checks", "needs mypy and pyright from the package index")
        return
    shutil.copy(HERE.parents[1] / "tests" / "typing" / "test_every_public_name.py", project / "tests")
    done = run([python, "-m", "mypy", "--strict", "server", "tests"], cwd=project)
    suite.check("python: mypy --strict", done.returncode == 0, done.stdout.strip()[-600:])
    done = run([python, "-m", "pyright", "--pythonpath", python, "server", "tests"], cwd=project)
    suite.check("python: pyright", done.returncode == 0, (done.stdout + done.stderr).strip()[-600:])


def of_other(suite: Suite, python: Path, language: Language, project: Path) -> None:
    missing = [tool for tool in language.tools if shutil.which(tool) is None]
    if missing:
        suite.skip(language.name, f"not run: needs {' and '.join(missing)}")
        return
    done = run(list(language.fetch), cwd=project)
    if done.returncode:
        suite.note((done.stdout + done.stderr)[-600:])
        suite.skip(language.name, "not run: needs its package index, once")
        return
    started_s = time.monotonic()
    done = run(list(language.test), cwd=project, env={"OTTLA": str(python.with_name("ottla"))})
    took_s = time.monotonic() - started_s
    counted = language.count(project, done.stdout)
    about = f"{language.name}: {language.runner} with {language.client}"
    if not suite.equal(f"{about}, all pass", (TESTS, 0), (len(counted.names), counted.failed)):
        suite.note((done.stdout + done.stderr)[-2000:])
    suite.equal(f"{language.name}: the ten tests are those of the README", wanted(), counted.names)
    suite.note(f"{about}: {took_s:.1f} s, {counted.time_s:.1f} s of it in tests")


def wanted() -> tuple[str, ...]:
    """Return the names of the tests as the README lists them."""
    found = re.findall(r"^\| (\d+) \| ([\w ]+) \|", (HERE / "README.md").read_text(), re.MULTILINE)
    return tuple(sorted(bare(name) for _, name in found))


def import_time_s(python: Path, folder: Path, module: str) -> float:
    """Return the import time of a module alone, the best of three."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return min(float(run([python, "-c", code], cwd=folder).stdout) for _ in range(3))


if __name__ == "__main__":
    sys.exit(run_suite("examples", body, doc=__doc__, more_arguments=more_arguments))
