"""The platforms that wheels are built for, and the kernel compiled for one of them.

Zig's compiler has the headers and C libraries of all of them. Of Python only the headers are needed: with the limited API they
are the same on every platform except `pyconfig.h`. They and Cython's code use a dozen of its names, whose values the compiler
knows (`PYCONFIG`). To check that none is missing, the kernel is also compiled with the building machine's real file: the
objects must be equal.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

STABLE_ABI = "0x030B0000"
"""Python 3.11's, as in pyproject.toml."""
FLAGS = ["-O3", "-g0", "-fPIC", f"-DPy_LIMITED_API={STABLE_ABI}"]
PYCONFIG = """\
#ifndef Py_PYCONFIG_H
#define Py_PYCONFIG_H
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_PID_T 4
#define HAVE_SSIZE_T 1
#define HAVE_STDDEF_H 1
#define HAVE_WCHAR_H 1
#define HAVE_PTHREAD_H 1
#define WITH_DOC_STRINGS 1
#define _GNU_SOURCE 1
#endif
"""
MACOS = ["-Wl,-undefined,dynamic_lookup", "-Wl,-install_name,@rpath/kernel.abi3.so"]
"""Python's symbols are found in the process that loads the library; its name is not a path of the building machine."""


@dataclass(frozen=True)
class Target:
    """A platform.

    zig: Zig's name of it; for glibc and macOS with the oldest version.
    platform: The wheel's platform tag; auditwheel finds the exact one of Linux.
    link: Further options of the linker.
    needed: The name of musl's library for Python: Alpine's, which auditwheel knows; Zig's is `libc.so`.
    """

    zig: str
    platform: str
    link: tuple[str, ...] = ()
    needed: str = ""

    @property
    def is_linux(self) -> bool:
        return self.platform.startswith("linux_")


TARGETS = (
    Target("x86_64-linux-gnu.2.17", "linux_x86_64"),
    Target("aarch64-linux-gnu.2.17", "linux_aarch64"),
    Target("x86_64-linux-musl", "linux_x86_64", needed="libc.musl-x86_64.so.1"),
    Target("aarch64-linux-musl", "linux_aarch64", needed="libc.musl-aarch64.so.1"),
    Target("x86_64-macos.11.0", "macosx_11_0_x86_64", tuple(MACOS)),
    Target("aarch64-macos.11.0", "macosx_11_0_arm64", tuple(MACOS)),
)
"""The platforms. Windows is missing: docs/installing.md says what the broker lacks there."""


def python_headers(folder: Path) -> Path:
    """Copy Python's headers, with `PYCONFIG` for this machine's; RuntimeError for another Python than the oldest."""
    if sys.version_info[:2] != (3, 11):
        raise RuntimeError(f"a release takes the headers of Python 3.11, the oldest it is for; this is {sys.version}")
    shutil.copytree(sysconfig.get_path("include"), folder)
    (folder / "pyconfig.h").write_text(PYCONFIG)
    return folder


def compile_kernel(source: Path, headers: Path, target: Target, library: Path, cache: Path) -> None:
    """Compile and link `kernel.c`; CalledProcessError if that fails, with the compiler's standard error."""
    zig([*FLAGS, "-shared", "-s", f"-I{headers}", str(source), "-o", str(library), *target.link], target, cache)
    if target.needed:
        subprocess.run(
            [tool("patchelf"), "--replace-needed", "libc.so", target.needed, str(library)], check=True, text=True
        )


def same_object_with_real_headers(source: Path, headers: Path, target: Target, folder: Path, cache: Path) -> bool:
    """Return whether this machine's own `pyconfig.h` gives the same object file; `target` is what this machine is."""
    objects = []
    for name, include in (("ours.o", headers), ("real.o", Path(sysconfig.get_path("include")))):
        zig([*FLAGS, "-c", f"-I{include}", str(source), "-o", str(folder / name)], target, cache)
        objects.append((folder / name).read_bytes())
    return objects[0] == objects[1]


def zig(arguments: list[str], target: Target, cache: Path) -> None:
    """`cache` belongs to one build: the next shall compile, and not find."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target.zig, *arguments]
    subprocess.run(command, check=True, env=environment(ZIG_LOCAL_CACHE_DIR=str(cache)))


def tool(name: str) -> str:
    """Return the command of the environment that this runs in."""
    return str(Path(sys.executable).with_name(name))


def environment(**more: str) -> dict[str, str]:
    """Return the environment of subprocesses: this one's, with the tools of its environment first on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}
