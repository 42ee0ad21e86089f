"""The wheels that `make release` left in dist/, each tested where it can run on this machine.

- Every Python from 3.11 on that is on the path, or is given by `--python`: one wheel for all of them.
- aarch64 with glibc: Debian's Python under qemu's user-mode emulation. Needs qemu-aarch64-static and mmdebstrap (Debian's
  packages qemu-user-static, mmdebstrap), and Debian's archive.
- x86_64 with musl: a Python built against musl, whose path is in MUSL_PYTHON.
- macOS: cannot run here. The suite checks that pip finds a wheel for it, and for all dependencies.
- aarch64 with musl: not checked at all, as lz4 has no wheel for musl, and pip finds all or nothing for a foreign machine.
"""

import os
import shutil
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ...support.environments import ROOT, empty_environment, need_package_index, pip, run
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..installed import works

PYTHONS = [f"python3.{minor}" for minor in range(11, 20)]
MUSL_PYTHON = "MUSL_PYTHON"
DEBIAN = "bookworm"


@dataclass(frozen=True)
class Platform:
    """A platform with pip's names of it, and its Python version."""

    name: str
    tags: tuple[str, ...]
    python: str = "3.11"


GLIBC_ARM = Platform("aarch64, glibc", ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64"))
MUSL = "x86_64, musl"
ONLY_FOUND = (
    Platform("macOS, x86_64", ("macosx_14_0_x86_64",)),
    Platform("macOS, arm64", ("macosx_14_0_arm64",)),
)


def body(suite: Suite, options: Options) -> None:
    dist = options.rest.dist.resolve()
    if not list(dist.glob("ottla-*.whl")):
        raise NotRunError(f"wheels in {dist}: make release")
    with TemporaryDirectory(prefix="compat-elsewhere-") as name:
        folder = Path(name)
        pip_python = empty_environment(folder / "pip")
        need_package_index(pip_python, folder)
        for command in options.rest.python or PYTHONS:
            if shutil.which(command) and run([command, "--version"], folder).returncode == 0:
                native(suite, command, dist, folder)
                if options.quick:
                    return
        emulated(suite, pip_python, dist, folder)
        musl(suite, pip_python, dist, folder)
        for platform in ONLY_FOUND:
            found(suite, platform, pip_python, dist, folder)


def native(suite: Suite, command: str, dist: Path, folder: Path) -> None:
    home = folder / f"venv-{Path(command).name}"
    run([command, "-m", "venv", home], folder)
    python = home / "bin" / "python"
    done = pip(python, "install", "--find-links", dist, "--only-binary", ":all:", "ottla", cwd=folder)
    if suite.check(f"{command}: pip takes a wheel", done.returncode == 0, done.stderr[-300:]):
        works(suite, command, [python], [python.with_name("ottla")], "compiled", folder)


def emulated(suite: Suite, pip_python: Path, dist: Path, folder: Path) -> None:
    qemu, mmdebstrap = shutil.which("qemu-aarch64-static"), shutil.which("mmdebstrap")
    if qemu is None or mmdebstrap is None:
        suite.skip(GLIBC_ARM.name, "needs qemu-aarch64-static and mmdebstrap")
        return
    system = folder / "arm64"
    packages = "--include=python3.11,libpython3.11-stdlib,libstdc++6"
    # Extracted and not set up: that needs none of its programs to run.
    setup = [mmdebstrap, "--variant=extract", "--arch=arm64", "--skip=check/qemu", packages, DEBIAN, system]
    done = run(list(map(str, setup)), folder)
    if done.returncode:
        suite.skip(GLIBC_ARM.name, f"needs Debian's archive: {done.stderr[-300:]}")
        return
    if site := found(suite, GLIBC_ARM, pip_python, dist, folder):
        python = ["env", f"PYTHONPATH={site}", qemu, "-L", str(system), str(system / "usr/bin/python3.11")]
        works(suite, GLIBC_ARM.name, python, [*python, "-m", "ottla.server"], "compiled", folder)


def musl(suite: Suite, pip_python: Path, dist: Path, folder: Path) -> None:
    """Install the wheel with pip for that Python. lz4 has no wheel for musl, so it is compiled (`CC` names the compiler)."""
    python = os.environ.get(MUSL_PYTHON)
    if python is None:
        suite.skip(MUSL, f"needs {MUSL_PYTHON}, the path of a Python built against musl")
        return
    site = folder / "site-musl"
    where: list[str | Path] = ["--find-links", dist, "--only-binary", "ottla", "--target", site]
    done = run([pip_python, "-m", "pip", "--python", python, "install", "-q", *where, "ottla"], folder)
    if suite.check(f"{MUSL}: pip takes a wheel", done.returncode == 0, done.stderr[-300:]):
        command = ["env", f"PYTHONPATH={site}", python]
        works(suite, MUSL, command, [*command, "-m", "ottla.server"], "compiled", folder)


def found(suite: Suite, platform: Platform, pip_python: Path, dist: Path, folder: Path) -> Path | None:
    """Return the folder with everything that pip installs for a platform; None if pip does not find all of it."""
    site = folder / f"site-{platform.tags[0]}"
    tags = [part for tag in platform.tags for part in ("--platform", tag)]
    where: list[str | Path] = ["--find-links", dist, "--only-binary", ":all:", "--target", site]
    done = pip(pip_python, "install", *where, *tags, "--python-version", platform.python, "ottla", cwd=folder)
    whole = suite.check(f"{platform.name}: pip finds wheels of all of it", done.returncode == 0, done.stderr[-300:])
    return site if whole else None


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder with the wheels")
    parser.add_argument("--python", action="append", help="this Python instead of those on the path; repeatable")


if __name__ == "__main__":
    sys.exit(
        run_suite(
            "wheel.elsewhere",
            body,
            doc=__doc__,
            more_arguments=arguments,
        )
    )
