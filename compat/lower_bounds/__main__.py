"""The lowest versions that pyproject.toml lets in are installed, and the tests of what uses them run.

On the oldest Python that Ottla is for: of a library's older releases there are no wheels for a new one.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from ..support.environments import ROOT, copy_of_source, run
from ..support.suite import NotRunError, Options, Suite, run_suite
from .bounds import EXTRAS, direct, lowest, normal, oldest_python, pin, project, tools

TESTS = (
    "tests/protocol",  # crc32c, lz4, zstandard, cramjam, isal: what each library reads of the others' bytes
    "tests/server/http",  # h11
    "tests/server/page",  # jinja2
    "tests/server/security",  # cryptography, pyjwt, and google-re2 in the rules for names of certificates
    "tests/server/network",  # trio: connections, TLS, logins
    "tests/server/embedded",  # brokers with TLS, users and tokens, and real clients that produce and fetch
    "tests/server/control/test_seed.py",  # pyyaml
    "tests/server/groups/consumer/test_consumer_regex.py",  # google-re2
)
QUICK_TESTS = (
    "tests/protocol/test_compression.py",
    "tests/server/http/test_admin_http.py",
    "tests/server/security/sasl",
    "tests/server/network/test_tls.py",
    "tests/server/embedded/test_tls.py",
    "tests/server/control/test_seed.py",
)
NOT_NEEDED = ("ottla[",)
"""Requirements of the extra `test` that are not installed: Ottla's own extras."""
TIMEOUT_S = 3 * 3600


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: tests start their own")
    oldest = python_of_version(oldest_python())
    with TemporaryDirectory(prefix="compat-lower-bounds-") as name:
        folder = Path(name)
        commands = tools(folder / "tools")
        pins = lowest(commands)
        for package in sorted(direct()):
            suite.check(f"{package} has a lowest version", package in pins, pins.get(package, ""))
        (folder / "pins.txt").write_text("".join(f"{package}=={version}\n" for package, version in pins.items()))
        python = installed(suite, commands, oldest, folder)
        if python is not None:
            suite.equal("these versions are installed", pins, {each: found(python).get(each) for each in pins})
            judge(suite, python, QUICK_TESTS if options.quick else TESTS, folder / "results.xml")


def python_of_version(version: str) -> str:
    """Return a Python of that minor version; NotRunError without one."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    program = shutil.which(f"python{version}")
    if program is None or run([program, "-c", ""], cwd=ROOT).returncode:
        raise NotRunError(f"Python {version}")
    return program


def installed(suite: Suite, commands: Path, oldest: str, folder: Path) -> Path | None:
    """Install Ottla's wheel, its dependencies in their lowest versions and the tests' own; return the Python."""
    uv, python = commands / "uv", folder / "lowest" / "bin" / "python"
    wanted = [each for each in project()["optional-dependencies"]["test"] if not each.startswith(NOT_NEEDED)]
    source = copy_of_source(folder / "source")
    made: list[str | Path] = [uv, "venv", "--quiet", "--python", oldest, folder / "lowest"]
    filled: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python]
    filled += ["--constraint", folder / "pins.txt", f"ottla[{','.join(EXTRAS)}] @ {source.as_uri()}", *wanted]
    for what, words in (("an environment is made", made), ("the lowest versions are installed", filled)):
        done = run(words, cwd=folder)
        if not suite.check(what, done.returncode == 0, done.stderr.strip()[-600:] if done.returncode else ""):
            return None
    kernel = run([python, "-m", "ottla.server", "--version"], cwd=folder).stdout
    suite.check("the kernel is compiled", "compiled" in kernel, kernel.strip())
    return python


def found(python: Path) -> dict[str, str]:
    """Return the versions that are installed, by package."""
    asked = "from importlib.metadata import distributions as d\nfor e in d(): print(f'{e.name}=={e.version}')"
    return {normal(name): version for name, version in map(pin, run([python, "-c", asked], ROOT).stdout.split())}


def judge(suite: Suite, python: Path, tests: tuple[str, ...], results: Path) -> None:
    """Note one check for each test that fails, and one for all that pass."""
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    words.append("--continue-on-collection-errors")  # otherwise one module that cannot be loaded leaves nothing judged
    done = subprocess.run(
        [*words, *tests],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if not suite.check("the tests ran", results.exists(), done.stdout.strip().rpartition("\n")[2]):
        return
    passed, skipped = 0, Counter[str]()
    for case in ElementTree.parse(results).iter("testcase"):
        broken = next((each for kind in ("failure", "error") if (each := case.find(kind)) is not None), None)
        if broken is not None:
            text = (broken.get("message") or "")[:300]
            suite.check(f"{case.get('classname')}::{case.get('name')}", False, text)
        elif (why := case.find("skipped")) is not None:
            skipped[(why.get("message") or "")[:120]] += 1
        else:
            passed += 1
    suite.check("tests pass with the lowest versions", passed > 0, passed)
    for reason, count in skipped.items():
        suite.note(f"skipped {count}: {reason}")


if __name__ == "__main__":
    sys.exit(run_suite("lower_bounds", body, doc=__doc__))
