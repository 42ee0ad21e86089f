"""Wheels: one is built without a kernel, and copied for each platform with the kernel compiled for it."""

import shutil
import subprocess
from pathlib import Path

from .contents import KERNEL
from .source import NO_COMPILER, Source
from .targets import TARGETS, Target, compile_kernel, environment, python_headers, tool


def wheels(source: Source, work: Path, dist: Path) -> list[Path]:
    """Return a wheel for each of `TARGETS` in `dist`; `work` keeps `kernel.c` and what else was made on the way."""
    base = source.build(
        "wheel", work / "base", **NO_COMPILER
    )  # Cython runs, the compiler fails: the kernel is optional
    c_file = source.folder / "storage" / "kernel.c"
    headers = python_headers(work / "headers")
    made = []
    for target in TARGETS:
        folder = work / target.zig
        subprocess.run(
            [tool("wheel"), "unpack", "--dest", str(folder), str(base)], check=True, stdout=subprocess.DEVNULL
        )
        (tree,) = folder.iterdir()
        compile_kernel(c_file, headers, target, tree / KERNEL, work / "zig-cache")
        for path in tree.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)  # not what the umask of the day was
        made.append(tagged(pack(tree, folder, source.epoch_s), target, dist, source.epoch_s))
    return made


def pack(tree: Path, folder: Path, epoch_s: int) -> Path:
    command = [tool("wheel"), "pack", "--dest-dir", str(folder), str(tree)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment(SOURCE_DATE_EPOCH=str(epoch_s)))
    return next(folder.glob("*.whl"))


def tagged(wheel: Path, target: Target, dist: Path, epoch_s: int) -> Path:
    """Write the wheel to `dist` under its tag: for Linux auditwheel finds the tag, and refuses a wheel that has none."""
    env = environment(SOURCE_DATE_EPOCH=str(epoch_s))
    command = [tool("wheel"), "tags", "--remove", "--platform-tag", target.platform, str(wheel)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    named = wheel.with_name(done.stdout.strip())
    before = set(dist.iterdir())
    if target.is_linux:
        nothing = wheel.parent / "no-libraries"  # otherwise auditwheel checks the building machine's own libraries
        nothing.mkdir()
        command = [tool("auditwheel"), "repair", "--ldpaths", str(nothing), "--wheel-dir", str(dist), str(named)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        if done.returncode:
            raise RuntimeError(f"{target.zig}: {done.stderr[-2000:]}")
    else:
        shutil.copy(named, dist)
    (new,) = set(dist.iterdir()) - before
    return new
