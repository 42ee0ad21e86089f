"""Checks of built distributions. Each function returns its findings as sentences; empty if all is well."""

import hashlib
import platform
import subprocess
import zipfile
from pathlib import Path

from macholib.MachO import MachO  # of the tools' environment

from .contents import KERNEL
from .targets import TARGETS, environment, python_headers, same_object_with_real_headers, tool

OLDEST_MACOS = (11, 0)


def stable_abi(wheels: list[Path]) -> list[str]:
    """abi3audit: whether kernels ask for names that Python 3.11's stable ABI has, and for no others."""
    done = subprocess.run(
        [tool("abi3audit"), "--strict", "--summary", *map(str, wheels)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    return [] if done.returncode == 0 else [f"abi3audit: {done.stdout}{done.stderr}"]


def metadata(distributions: list[Path]) -> list[str]:
    """Twine: whether the package index would take the metadata, and render the description."""
    done = subprocess.run(
        [tool("twine"), "check", "--strict", *map(str, distributions)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    return [] if done.returncode == 0 else [f"twine: {done.stdout}{done.stderr}"]


def macos_library(wheel: Path, folder: Path) -> list[str]:
    """Check what auditwheel checks for Linux: only system libraries, no newer system than the tag says, a signature on arm64.

    macOS is not available to load the library, so only the file's contents are checked.
    """
    with zipfile.ZipFile(wheel) as archive:
        (header,) = MachO(archive.extract(KERNEL, folder)).headers
    told, oldest, signed = [], None, False
    for load, command, data in header.commands:
        match load.get_cmd_name():
            case "LC_LOAD_DYLIB" if (name := data.rstrip(b"\0").decode()) != "/usr/lib/libSystem.B.dylib":
                told.append(f"{wheel.name}: the kernel needs {name}")
            case "LC_BUILD_VERSION":
                oldest = (command.minos >> 16, command.minos >> 8 & 0xFF)
            case "LC_CODE_SIGNATURE":
                signed = True
    if oldest is None or oldest > OLDEST_MACOS:
        told.append(f"{wheel.name}: the kernel is for macOS {oldest}, the wheel from {OLDEST_MACOS} on")
    if wheel.name.endswith("_arm64.whl") and not signed:
        told.append(f"{wheel.name}: the kernel has no signature, without which arm64 loads nothing")
    return told


def headers(c_file: Path, folder: Path) -> list[str]:
    """Check that our `pyconfig.h` has the same values as this machine's own."""
    here = f"{platform.machine()}-linux-gnu"
    target = next((one for one in TARGETS if one.zig.startswith(here)), None)
    if target is None:
        return [f"no target is this machine, {here}: build on one that is"]
    folder.mkdir()
    same = same_object_with_real_headers(c_file, python_headers(folder / "headers"), target, folder, folder / "cache")
    return (
        []
        if same
        else ["with this machine's own pyconfig.h the kernel's object file is another: PYCONFIG lacks a name"]
    )


def unequal(first: Path, second: Path) -> list[str]:
    """Return the distributions that differ between two folders, byte by byte."""
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for folder in (first, second)
    ]
    return [
        f"{name}: two builds of one commit differ"
        for name in sorted(digests[0].keys() | digests[1].keys())
        if digests[0].get(name) != digests[1].get(name)
    ]
