"""The contents of wheels and the source distribution. Each function returns its findings as sentences; empty if all is well."""

import tarfile
import zipfile
from pathlib import Path

KERNEL = "ottla/storage/kernel.abi3.so"
KERNEL_BYTES_MAX = 600_000
FLOORS = ("protocol", "storage", "server", "pipeline")
NOT_SHIPPED = {".md", ".c", ".so"}
SDIST_BYTES_MAX = 6_000_000
"""Unpacked; it has 3.8 million."""


def shipped_files(root: Path) -> set[str]:
    """Return the files in every wheel, except the kernel: all files of the floors but texts for readers of the source."""
    found = {"ottla/__init__.py", "ottla/py.typed"}
    for floor in FLOORS:
        for path in (root / floor).rglob("*"):
            name = path.relative_to(root)
            if path.is_file() and path.suffix not in NOT_SHIPPED and "__pycache__" not in name.parts:
                found.add(f"ottla/{name.as_posix()}")
    return found


SDIST_ALONE = {
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "PKG-INFO",
    "README.md",
    "pyproject.toml",
    "setup.cfg",
    *(f"ottla.egg-info/{name}" for name in ("PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt")),
    *(f"ottla.egg-info/{name}" for name in ("requires.txt", "top_level.txt")),
}
"""The other files of the source distribution; the last six are setuptools' own."""


def differences(what: str, expected: set[str], found: set[str]) -> list[str]:
    told = []
    if missing := expected - found:
        told.append(f"{what} lacks {', '.join(sorted(missing))}")
    if extra := found - expected:
        told.append(f"{what} has {', '.join(sorted(extra))}")
    return told


def wheel_contents(wheel: Path, root: Path) -> list[str]:
    """Check that a wheel has every module of every package, the kernel, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name and name[-1] != "/"}
        size = archive.getinfo(KERNEL).file_size if KERNEL in found else 0
    told = differences(wheel.name, shipped_files(root) | {KERNEL}, found)
    if size > KERNEL_BYTES_MAX:
        told.append(f"{wheel.name}: a kernel of {size} bytes, at most {KERNEL_BYTES_MAX} are expected")
    return told


def sdist_contents(sdist: Path, root: Path) -> list[str]:
    """Check that the source distribution has only what a wheel is built from: no tests, no suites, no C file, no library."""
    with tarfile.open(sdist) as archive:
        found = {member.name.partition("/")[2] for member in archive if member.isfile()}
        size = sum(member.size for member in archive)
    packages = {name.removeprefix("ottla/") for name in shipped_files(root)}
    told = differences(sdist.name, packages | SDIST_ALONE, found)
    if size > SDIST_BYTES_MAX:
        told.append(f"{sdist.name}: {size} bytes unpacked, at most {SDIST_BYTES_MAX} are expected")
    return told
