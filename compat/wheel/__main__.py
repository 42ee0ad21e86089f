"""The source distribution and the wheel built from it, in empty environments: their files, dependencies, and a running broker.

The suite installs them by `pip`, `uvx` and `pipx run`, and also without a compiler, when the cleaner's kernel runs interpreted.

It builds from a copy of the source tree, so the checkout stays clean, and installs only from the package index. The clients
run in the suite's environment, the broker in the empty one.
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..release.contents import sdist_contents, wheel_contents
from ..support.environments import copy_of_source, empty_environment, need_package_index, pip, run
from ..support.suite import Options, Suite, run_suite
from .installed import Dev, produce_and_consume, works

NO_COMPILER = {"CC": "false"}


def body(suite: Suite, options: Options) -> None:
    with TemporaryDirectory(prefix="compat-wheel-") as name:
        folder = Path(name)
        python = empty_environment(folder / "venv")
        need_package_index(python, folder)
        sdist = build_sdist(suite, folder)
        wheel = build_wheel(suite, python, sdist, folder) if sdist else None
        if sdist is None or wheel is None or not install(suite, python, wheel):
            return
        works(suite, "pip", [python], [python.with_name("ottla")], "compiled", folder)
        if not options.quick:
            without_installing(suite, wheel, folder)
            without_compiler(suite, sdist, folder)


def build_sdist(suite: Suite, folder: Path) -> Path | None:
    """Return the source distribution, by the backend in an environment of its own."""
    source = copy_of_source(folder / "source")
    done = run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, source], cwd=folder)
    if not suite.check("a source distribution is built", done.returncode == 0, done.stderr[-300:]):
        return None
    (sdist,) = folder.glob("ottla-*.tar.gz")
    suite.equal("it holds what a wheel is built from, and nothing else", [], sdist_contents(sdist, source))
    suite.note(f"{sdist.name}: {sdist.stat().st_size} bytes")
    return sdist


def build_wheel(suite: Suite, python: Path, sdist: Path, folder: Path) -> Path | None:
    """Build a wheel with pip from the source distribution alone."""
    done = pip(python, "wheel", "--no-deps", "-w", folder, sdist, cwd=folder)
    wheel = next(folder.glob("ottla-*-cp311-abi3-*.whl"), None)
    if (
        suite.check("pip builds a wheel from it", done.returncode == 0 and wheel is not None, done.stderr[-300:])
        and wheel
    ):
        suite.equal(
            "that holds every module, the kernel, and nothing else", [], wheel_contents(wheel, folder / "source")
        )
        suite.note(f"{wheel.name}: {wheel.stat().st_size} bytes")
    return wheel


def install(suite: Suite, python: Path, wheel: Path) -> bool:
    before = installed(python)
    done = pip(python, "install", wheel, cwd=wheel.parent)
    suite.check("pip installs it", done.returncode == 0, done.stderr[-300:])
    suite.note(f"brings along: {', '.join(sorted(installed(python) - before - {'ottla'}))}")
    return done.returncode == 0


def installed(python: Path) -> set[str]:
    listed = run([python, "-m", "pip", "--disable-pip-version-check", "freeze", "--all"], cwd=python.parent).stdout
    return {line.partition(" ")[0].partition("==")[0] for line in listed.splitlines()}


def without_installing(suite: Suite, wheel: Path, folder: Path) -> None:
    """`uvx` and `pipx run` make an environment on the way, and `ottla dev` serves from it."""
    python = empty_environment(folder / "venv-tools")
    done = pip(python, "install", "uv", "pipx", cwd=folder)
    suite.check("pip installs uv and pipx", done.returncode == 0, done.stderr[-300:])
    home = folder / "home"
    home.mkdir()
    # uv runs in the environment of the suite: its index and its certificates are the user's; caches and tools are not.
    there = [f"UV_CACHE_DIR={home / 'uv'}", f"UV_PYTHON={sys.executable}", f"PIPX_HOME={home / 'pipx'}"]
    env = ["env", *there, f"PATH={python.parent}{os.pathsep}{os.environ['PATH']}"]
    for name, option in (("uvx", "--from"), ("pipx run", "--spec")):
        with Dev([*env, *name.split(), option, wheel, "ottla"]) as broker:
            produce_and_consume(suite, f"{name} ottla dev", broker.bootstrap)
            broker.stop()
            rest = [str(path) for path in Path(broker.work).iterdir() if path.name == "data"]
            suite.equal(f"{name} ottla dev: nothing is left of it", [], rest)
    shutil.rmtree(home)


def without_compiler(suite: Suite, sdist: Path, folder: Path) -> None:
    """Install as on a machine without a compiler that no wheel fits."""
    python = empty_environment(folder / "venv-slow")
    done = pip(python, "install", "--no-cache-dir", sdist, cwd=folder, env=NO_COMPILER)
    suite.check("pip installs it from source without a compiler", done.returncode == 0, done.stderr[-300:])
    works(suite, "without a compiler", [python], [python.with_name("ottla")], "interpreted", folder)


if __name__ == "__main__":
    sys.exit(run_suite("wheel", body, doc=__doc__))
