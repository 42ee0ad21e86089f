"""README's first commands on a clean clone, in a new environment with only Python, make and the package index.

`make run` until it serves, then the commands that it suggests. The full run also has `make test`, of which it collects all
tests and runs a slice, and `pip install .` into an environment of its own.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.environments import empty_environment, need_package_index, pip, run
from ..support.suite import NotRunError, Options, Suite, run_suite

ROOT = Path(__file__).parents[2]
ADDRESS = ("127.0.0.1", 9092)
SETUP_S = 1_200
"""A slow index, and a slow machine."""
SLICE = "tests/server/runtime/test_addresses.py tests/protocol/test_wire.py"


def body(suite: Suite, options: Options) -> None:
    commands = readme_commands()
    suite.equal("README's first block has these commands", ["make run", "make test"], commands)
    with TemporaryDirectory(prefix="compat-first-hour-") as name:
        folder = Path(name)
        need_package_index(empty_environment(folder / "probe"), folder)
        clone = folder / "ottla"
        done = run(["git", "clone", "--quiet", ROOT, clone], cwd=folder)
        if done.returncode:
            raise NotRunError(f"git, and a checkout of it: {done.stderr.strip()[-200:]}")
        environment = fresh(folder)
        runs(suite, commands[0], clone, environment)
        if not options.quick:
            tests(suite, commands[1], clone, environment)
            installs(suite, clone, folder)


def readme_commands() -> list[str]:
    """Return the `make` lines of README's first block, without their comments."""
    block = re.search(r"^```sh[^\n]*\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [] if block is None else re.findall(r"^(make \S+)", block[1], re.MULTILINE)


def fresh(folder: Path) -> dict[str, str]:
    """Return the environment variables of a user who has just logged in, without those of this process."""
    home = folder / "home"
    home.mkdir()
    index = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_")) or "proxy" in name.lower()
    }
    python = Path(sys.executable).resolve()
    return {**index, "HOME": str(home), "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "PYTHON": str(python)}


def runs(suite: Suite, command: str, clone: Path, environment: dict[str, str]) -> None:
    """Check that the command serves, that the next commands it prints work, and that Ctrl-C ends it."""
    process = subprocess.Popen(
        command.split(),
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        lines: list[str] = []
        while (line := process.stdout.readline()) and not line.startswith("Stop with"):
            lines.append(line.rstrip())
        if not suite.check(f"{command} serves", "ready localhost:9092" in lines, "\n".join(lines[-5:])):
            return
        typed = [each.strip() for each in lines if re.match(r"    \S*ottla ", each)]
        suite.check("it prints the next command", len(typed) >= 2, typed)
        # By a shell, as the reader of README types them.
        answers = [
            subprocess.run(
                each, shell=True, cwd=clone, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            for each in typed
        ]
        for each, answer in zip(typed, answers, strict=True):
            suite.check(each, answer.returncode == 0, answer.stderr.strip()[-200:])
        suite.check("the record that was produced is consumed", any("hello" in each.stdout for each in answers))
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    suite.check("its data are in ./data", (clone / "data").is_dir())


def tests(suite: Suite, command: str, clone: Path, environment: dict[str, str]) -> None:
    """Check that the command makes its environment, finds all tests, and that those of a slice pass."""
    for what, words in (("collects all tests", "--collect-only -q"), ("runs a slice", SLICE)):
        done = subprocess.run(
            command.split(),
            cwd=clone,
            env=environment | {"PYTEST_ADDOPTS": words},
            capture_output=True,
            text=True,
            timeout=SETUP_S,
            check=False,
        )
        suite.check(f"{command} {what}", done.returncode == 0, (done.stdout + done.stderr).strip()[-300:])


def installs(suite: Suite, clone: Path, folder: Path) -> None:
    """`pip install .` into an environment of one's own project."""
    python = empty_environment(folder / "project")
    done = pip(python, "install", ".", cwd=clone)
    suite.check("pip install .", done.returncode == 0, done.stderr[-300:])
    told = run([python.with_name("ottla"), "--version"], cwd=folder)
    suite.check("ottla --version", told.returncode == 0 and "compiled" in told.stdout, told.stdout.strip())


if __name__ == "__main__":
    sys.exit(run_suite("first_hour", body, doc=__doc__))
