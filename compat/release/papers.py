"""The files next to the distributions: release notes, a bill of materials, licences, checksums."""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from .source import Source
from .targets import environment, tool

EXTRAS = ("oauth", "tls", "gzip-fast")
"""Extras whose licences are also listed.

Spark's is not: it is half a gigabyte, and its users install PySpark for its own sake.
"""


def installed(wheel: Path, extras: tuple[str, ...], folder: Path) -> Path:
    """Make an environment with only the wheel and its dependencies, from the package index; return its Python."""
    venv.create(folder)
    python = folder / "bin" / "python"
    what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-q",
        "--disable-pip-version-check",
        what,
    ]
    subprocess.run(command, check=True, env=environment())
    return python


def bill_of_materials(source: Source, python: Path, target: Path) -> None:
    """Write a CycloneDX file of a plain `pip install`, with today's versions. Equal environments give equal files."""
    command = [
        tool("cyclonedx-py"),
        "environment",
        "--output-reproducible",
        "--pyproject",
        str(source.folder / "pyproject.toml"),
        "--mc-type",
        "application",
        "--output-format",
        "JSON",
        "--output-file",
        str(target),
        str(python),
    ]
    subprocess.run(command, check=True, env=environment(), stderr=subprocess.DEVNULL)


def licences(python: Path, target: Path) -> None:
    """Write a table of everything that is installed with the wheel and its small extras."""
    command = [
        tool("pip-licenses"),
        f"--python={python}",
        "--format=markdown",
        "--with-urls",
        "--from=mixed",
        "--order=name",
    ]
    table = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment()).stdout
    target.write_text(
        "# Licences of what `pip install ottla` brings along\n\n"
        f"With the extras {', '.join(EXTRAS)}; not with `spark`. Wheels of Ottla hold none of it: pip installs each as a package of\n"
        "its own. crc32c is LGPL-2.1-or-later: it is used as the library that it is, unchanged, and whoever wants another\n"
        "build of it installs that in its place.\n\n" + table
    )


def checksums(dist: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(dist.iterdir())
        if path.name != "SHA256SUMS"
    ]
    (dist / "SHA256SUMS").write_text("".join(lines))
