"""The container's parts: what the Dockerfile installs serves, and the health check tells alive from dead.

Follows the Dockerfile's own lines in a fresh virtual environment: the wheel from the files that it copies, installed
without an index, started with its ENV and ENTRYPOINT (other ports, another data directory). With a Docker engine at
hand the image is built and composed as well.
"""

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import free_port
from ..support.clients.steps import admin
from ..support.suite import Options, Suite, run_suite

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
HEALTHCHECK = ROOT / "docker" / "healthcheck.py"


class InstalledOttla(OttlaProcess):
    """A command of the container, from the environment that the Dockerfile's lines made, on other ports and data."""

    def __init__(self, ottla: Path, variables: list[str], words: list[str], ports: dict[str, int]) -> None:
        super().__init__()
        line = "\0".join([*variables, str(ottla), *words[1:]]).replace("/var/lib/ottla", str(self.data))
        for theirs, ours in ports.items():
            line = line.replace(f":{theirs}", f":{ours}")
        self.words = ["env", *line.split("\0")]

    def command(self) -> list[str]:
        return self.words


def body(suite: Suite, options: Options) -> None:
    text = DOCKERFILE.read_text()
    entrypoint, variables = entrypoint_words(text), environment(text)
    with TemporaryDirectory(prefix="compat-docker-") as folder:
        ottla = install(suite, text, Path(folder))
        if ottla:
            port = free_port()
            from_dockerfile(suite, InstalledOttla(ottla, variables, entrypoint, {"9092": port}), port)
            ports = {"9092": free_port(), "29092": free_port()}
            from_compose(suite, InstalledOttla(ottla, variables, entrypoint + compose_words(), ports), ports)
    with_engine(suite)


def from_dockerfile(suite: Suite, broker: InstalledOttla, port: int) -> None:
    suite.check("health check: nothing there", not healthy(port))
    with broker:
        suite.check("health check: the installed wheel serves", healthy(port))
        suite.equal("SIGTERM stops it cleanly", 0, broker.stop())
        suite.check("health check: stopped", not healthy(port))
        broker.start()


def from_compose(suite: Suite, broker: InstalledOttla, ports: dict[str, int]) -> None:
    with broker:
        for listener, host in (("9092", "localhost"), ("29092", "ottla")):
            (node,) = admin(f"127.0.0.1:{ports[listener]}").list_topics(timeout=10).brokers.values()
            expected = f"{host}:{ports[listener]}"
            suite.equal(f"compose: who comes in by {listener} is told {host}", expected, f"{node.host}:{node.port}")


def entrypoint_words(text: str) -> list[str]:
    """ENTRYPOINT of the Dockerfile."""
    found = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    assert found
    return [str(word) for word in json.loads(found[1])]


def environment(text: str) -> list[str]:
    """The variables of the Dockerfile's ENV lines, as NAME=VALUE."""
    return [pair for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE) for pair in line.split()]


def compose_words() -> list[str]:
    """The items under `command:` in compose.yaml."""
    command = COMPOSE.read_text().partition("    command:\n")[2].partition("    ports:")[0]
    return [line.strip().removeprefix("- ") for line in command.splitlines()]


def install(suite: Suite, text: str, folder: Path) -> Path | None:
    """The COPY and pip lines of the Dockerfile, in a fresh environment; returns the console command."""
    source, wheels = folder / "src", folder / "wheels"
    source.mkdir()
    for line in re.findall(r"^COPY (?!docker)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "kernel.c"))
            else:
                shutil.copy(path, source / name)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "-q", "-w", str(wheels), str(source)], capture_output=True, text=True, check=False
    )
    if not suite.check("pip wheel builds from what the Dockerfile copies", built.returncode == 0, built.stderr[-300:]):
        return None
    offline = ["install", "-q", "--no-index", f"--find-links={wheels}", "ottla"]
    done = subprocess.run([*pip, *offline], capture_output=True, text=True, check=False)
    suite.check("the wheels install without an index", done.returncode == 0, done.stderr[-300:])
    if done.returncode:
        return None
    ottla = folder / "venv" / "bin" / "ottla"
    version = subprocess.run([str(ottla), "--version"], capture_output=True, text=True, check=False).stdout
    suite.check("the image's kernel is compiled", "compiled" in version, version)
    return ottla


def healthy(port: int) -> bool:
    command = [sys.executable, "-I", str(HEALTHCHECK), f"127.0.0.1:{port}"]
    return subprocess.run(command, timeout=30, check=False).returncode == 0


def with_engine(suite: Suite) -> None:
    """Build the image, compose it up until it is healthy, and take it down."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        suite.skip("image built and composed", "no Docker engine here")
        return
    compose = ["docker", "compose", "-f", str(COMPOSE), "-p", "compat-ottla"]
    up = subprocess.run([*compose, "up", "--build", "--wait", "-d"], capture_output=True, text=True, check=False)
    suite.check("compose up, healthy", up.returncode == 0, up.stderr[-300:])
    subprocess.run([*compose, "down", "-v"], capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(run_suite("docker_image", body, doc=__doc__))
