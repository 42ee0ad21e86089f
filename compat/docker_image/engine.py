"""Images and containers without an engine: Debian's `buildah` builds and runs them, each container in a network of its own.

The Dockerfile's base image comes from a registry. Here `debootstrap` makes a replacement: Debian, its Python and that Python's
headers. It and the images are kept in the cache, with the other downloads.

These features of an engine are missing: ports of the host (see `client`), process ids (the entrypoint is not the first
process), automatic health checks, and volumes that start as a copy of the image's directory.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import psutil

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.environments import NOT_SOURCE
from ..support.suite import NotRunError

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
BASE = "localhost/base"
IMAGE = "localhost/ottla"
DEBIAN = "trixie"
PACKAGES = "python3,python3-venv,libpython3-dev,ca-certificates"
OF_THE_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs")
"""Files with which the container reaches the package index."""

PATIENCE_S = 60.0
STOP_S = 10.0
"""The time that `docker stop` waits before it kills."""

NOTHING: Mapping[str, str] = MappingProxyType({})


def buildah(*words: str, timeout_s: float = 1800) -> subprocess.CompletedProcess[str]:
    """Run it on the cache's own storage."""
    command = ["buildah", "--root", str(cache_dir() / "containers"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def done(*words: str) -> str:
    """Run it to a good end; what it printed. RuntimeError otherwise."""
    ran = buildah(*words)
    if ran.returncode:
        raise RuntimeError(f"buildah {' '.join(words)[:200]}: {ran.stderr.strip()[-600:]}")
    return ran.stdout.strip()


def has_image(name: str) -> bool:
    return buildah("inspect", "--type", "image", name).returncode == 0


@fetches("containers")
def base(*, make: bool = True) -> None:
    """Make sure that the base image exists. NotRunError if it cannot be made, or `make` is false."""
    if not shutil.which("buildah") or not shutil.which("debootstrap") or os.geteuid() != 0:
        raise NotRunError("buildah and debootstrap, as root")
    if has_image(BASE):
        return
    if not make:
        raise NotRunError("a base image in the cache; without --quick it is made")
    with tempfile.TemporaryDirectory(prefix="compat-base-", dir=cache_dir()) as folder:
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, folder],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise NotRunError(f"debootstrap with access to Debian's packages ({made.stdout.strip().splitlines()[-1:]})")
        for path in (Path(folder) / "var/cache/apt/archives").glob("*.deb"):
            path.unlink()
        for name in ("python", "python3"):
            (Path(folder) / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
        container = done("from", "scratch")
        done("add", "--quiet", container, folder, "/")
        done("config", "--env", "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        done("commit", "--quiet", "--rm", "--format", "docker", container, BASE)


@fetches("containers")
def build(tag: str, file: Path = DOCKERFILE) -> subprocess.CompletedProcess[str]:
    """Build an image of the current source tree; finished layers come from the cache."""
    volumes = [f"--volume={path}:{path}:ro" for path in OF_THE_MACHINE if Path(path).exists()]
    return buildah(
        "bud",
        *("--isolation", "chroot", "--format", "docker", "--layers", "--force-rm", "--tag", tag),
        *("--file", str(file), "--ignorefile", str(DOCKERFILE.with_name("Dockerfile.dockerignore"))),
        f"--build-arg=BASE={BASE}",
        *volumes,
        str(ROOT),
    )


def refreshed() -> str:
    """Return an image like the last one that was built, with the current code over it.

    The Dockerfile's steps are not tested, and the compiled kernel is the older one's.
    """
    container = done("from", "--pull-never", IMAGE)
    root = Path(done("mount", container))
    (package,) = root.glob("opt/ottla/lib/python3*/site-packages/ottla")
    for floor in ("protocol", "storage", "server", "pipeline"):
        shutil.copytree(ROOT / floor, package / floor, ignore=NOT_SOURCE, dirs_exist_ok=True)
    for source, target in (("healthcheck.py", "opt/ottla/lib"), ("kafka/launch", "etc/confluent/docker")):
        shutil.copy(DOCKERFILE.parent / source, root / target)
    done("umount", container)
    done("commit", "--quiet", "--rm", "--format", "docker", container, f"{IMAGE}-refreshed")
    return f"{IMAGE}-refreshed"


def config(image: str) -> dict[str, Any]:
    """Return the image's metadata: Entrypoint, Env, User, Healthcheck, Labels …"""
    found: dict[str, Any] = json.loads(done("inspect", "--type", "image", image))["Docker"]["config"]
    return found


def size_bytes(image: str) -> int:
    """Return the image's unpacked size, with all layers."""
    (found,) = json.loads(done("images", "--json", image))
    number, unit = str(found["size"]).split()
    return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit])


def packed_bytes(image: str, base: str) -> int:
    """Return the bytes that a registry sends to a client that already has the image's base."""
    of_base = len(json.loads(done("inspect", "--type", "image", base))["OCIv1"]["rootfs"]["diff_ids"])
    with tempfile.TemporaryDirectory(prefix="compat-layers-") as folder:
        done("push", "--quiet", "--compression-format", "gzip", image, f"dir:{folder}")
        layers = json.loads((Path(folder) / "manifest.json").read_text())["layers"]
    return sum(layer["size"] for layer in layers[of_base:])


class Container:
    """A running container. A context manager: leaving it kills the remaining processes and deletes the container.

    Args:
        words: The arguments after the image's name.
        environment: The variables given by `--env`.
        volumes: Paths of this machine by those in the container.
        entrypoint: A replacement of the image's.
        user: A replacement of the image's, `UID:GID`.
    """

    def __init__(
        self,
        *words: str,
        environment: Mapping[str, str] = NOTHING,
        volumes: Mapping[str, str] = NOTHING,
        entrypoint: Sequence[str] | None = None,
        image: str = IMAGE,
        name: str = "box",
        user: str | None = None,
    ) -> None:
        self.id = done("from", "--pull-never", image)
        self.root = Path(done("mount", self.id))
        self.image, self.name = image, name
        self.environment = dict(environment)
        self.user = [] if user is None else ["--user", user]
        self.volumes = [f"--volume={source}:{target}" for target, source in volumes.items()]
        first = config(image)["Entrypoint"] if entrypoint is None else entrypoint
        self.words = [*first, *words]
        self.process: subprocess.Popen[bytes] | None = None
        self.began = 0
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the block

    def _run(self, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        return [
            *("buildah", "--root", str(cache_dir() / "containers"), "run", "--isolation", "chroot"),
            *(
                "--hostname",
                self.name,
                *self.user,
                *self.volumes,
                *(f"--env={name}={text}" for name, text in environment.items()),
            ),
            *(self.id, "--", *words),
        ]

    def start(self) -> Self:
        """Start it, or start it again as `docker start` does."""
        with open(self.root / "etc/hosts", "w") as hosts:
            hosts.write(f"127.0.0.1 localhost\n127.0.0.1 {self.name}\n")
        self.began = self.output.seek(0, os.SEEK_END)
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        self.process = subprocess.Popen(
            [*alone, *self._run(self.words, self.environment)],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
        )
        return self

    def _inside(self, words: Sequence[str], timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in the container's network."""
        assert self.process is not None
        command = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT)

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`docker exec`."""
        return self._inside(self._run(words, self.environment))

    def client(self, action: str, *words: str, properties: Mapping[str, str] = NOTHING) -> Any:
        """Return the output of a client on the other side of the ports; see `client`. RuntimeError if it fails."""
        knowing = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            'mount --bind "$0" /etc/hosts && exec "$@"',
            str(self.root / "etc/hosts"),
        ]
        more = [f"KAFKA_CLIENT={json.dumps(dict(properties))}"] if properties else []
        ran = self._inside([*knowing, "env", *more, sys.executable, "-m", "compat.docker_image.client", action, *words])
        if ran.returncode:
            raise RuntimeError(f"client {action}: {ran.stderr.strip()[-500:]}\n{self.said()[-1500:]}")
        return json.loads(ran.stdout)

    def copy(self, text: str, target: str, mode: int) -> None:
        """`docker cp`: by root, whole at once."""
        path = self.root / target.lstrip("/")
        beside = path.with_name(f".{path.name}")
        beside.write_text(text)
        beside.chmod(mode)
        beside.rename(path)

    def said(self) -> str:
        """Return the container's output since its start, both streams."""
        self.output.seek(self.began)
        return self.output.read().decode(errors="replace")

    def wait_for(self, pattern: str) -> bool:
        """Return whether a line of the output matches in time, as in testcontainers' log strategies."""
        assert self.process is not None
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            if any(re.search(pattern, line) for line in self.said().splitlines()):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def healthy(self) -> bool:
        """Run the health check now."""
        kind, *words = config(self.image)["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.execute(*words).returncode == 0

    def first_process(self) -> psutil.Process:
        """Return the process that an engine would have started as number 1."""
        assert self.process is not None
        found = psutil.Process(self.process.pid)
        while found.name().startswith(("buildah", "memfd:")) and (below := found.children()):
            found = below[0]
        return found

    def stop(self) -> tuple[int | None, float]:
        """Run `docker stop`; return the exit code, None if the container had to be killed, and the seconds."""
        assert self.process is not None
        began_s = time.monotonic()
        self.first_process().send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S), time.monotonic() - began_s
        except subprocess.TimeoutExpired:
            self.kill()
            return None, time.monotonic() - began_s

    def ended(self) -> int:
        """Wait for its own end; the exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """`docker kill`."""
        assert self.process is not None
        for each in reversed(psutil.Process(self.process.pid).children(recursive=True)):
            if each.is_running():
                each.kill()
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            print(f"--- end of the output of {self.words}:\n{self.said()[-3000:]}\n---", flush=True)
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.output.close()
        buildah("umount", self.id)
        buildah("rm", self.id)
