"""The source of a release: the commit, with the README for the package index; and the source distribution made from it."""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .readme import long_description
from .targets import environment

ROOT = Path(__file__).parents[2]
NO_COMPILER = {"CC": "false", "LDSHARED": "false"}


@dataclass(frozen=True)
class Source:
    """A tree to build from, and when it was committed, in seconds since 1970."""

    folder: Path
    epoch_s: int

    @property
    def project(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]

    @property
    def url(self) -> str | None:
        """The public address of the sources, from `[project.urls]`."""
        url = self.project.get("urls", {}).get("Source")
        return url.rstrip("/") if url else None

    @property
    def version(self) -> str:
        text = (self.folder / "__init__.py").read_text()
        return text.partition('__version__ = "')[2].partition('"')[0]

    def build(self, kind: str, into: Path, **env: str) -> Path:
        """Build one distribution, `wheel` or `sdist`, by the build backend of this environment."""
        command = [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            f"--{kind}",
            "--outdir",
            str(into),
            str(self.folder),
        ]
        done = subprocess.run(
            command,
            check=False,
            env=environment(SOURCE_DATE_EPOCH=str(self.epoch_s), **env),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
        return next(into.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


def last_commit() -> str:
    """CalledProcessError outside of a repository."""
    return git("rev-parse", "HEAD").decode().strip()


def committed(commit: str, folder: Path) -> Source:
    """Return a commit, unpacked into `folder`."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as tar:
        tar.extractall(folder, filter="data")
    said = git("log", "-1", "--format=%ct", commit)
    source = Source(folder, int(os.environ.get("SOURCE_DATE_EPOCH") or said))
    readme = folder / "README.md"
    readme.write_text(long_description(readme.read_text(), source.url, source.version))
    return source


def is_changed() -> bool:
    """Return whether tracked files differ from the last commit."""
    return bool(git("status", "--porcelain", "--untracked-files=no"))


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE).stdout


def sdist(source: Source, work: Path, dist: Path) -> Path:
    """Build the source distribution and repack it: setuptools writes times, owners and an arbitrary order into it."""
    built = source.build("sdist", work)
    unpacked = io.BytesIO()
    with tarfile.open(built) as old, tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted((one for one in old if one.isfile()), key=lambda one: one.name):
            plain = tarfile.TarInfo(member.name)
            plain.size, plain.mtime, plain.mode = member.size, source.epoch_s, 0o644
            new.addfile(plain, old.extractfile(member))
    target = dist / built.name
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, source.epoch_s) as packed:
        packed.write(unpacked.getvalue())
    shutil.rmtree(source.folder / "ottla.egg-info", ignore_errors=True)
    return target
