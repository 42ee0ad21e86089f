"""Environments of users: empty ones, and what pip puts into them from a copy of the source tree."""

import os
import shutil
import subprocess
import venv
from pathlib import Path

from .suite import NotRunError

ROOT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "data", "*.egg-info", "__pycache__", "*.so", "kernel.c")


def run(command: list[str | Path], cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )


def empty_environment(folder: Path) -> Path:
    """Create a virtual environment with pip alone; return its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def pip(
    python: Path, *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run([python, "-m", "pip", "--disable-pip-version-check", "-q", *arguments], cwd, env)


def need_package_index(python: Path, folder: Path) -> None:
    """NotRunError without the package index."""
    if pip(python, "download", "--no-deps", "-d", folder / "probe", "setuptools>=77", cwd=folder).returncode:
        raise NotRunError("the package index")


def copy_of_source(folder: Path) -> Path:
    """Copy the source tree as it is delivered, so that a build leaves no files in the checkout."""
    shutil.copytree(ROOT, folder, symlinks=True, ignore=NOT_SOURCE)
    return folder
