"""The container's parts: what the Dockerfile installs serves, and the health check tells alive from dead.

Follows the Dockerfile's own lines in a fresh virtual environment: the wheel from the files that it copies, installed
without an index, started with its ENTRYPOINT and CMD (other ports, another data directory). With a Docker engine at
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

from ..support.ottla_process import OttlaProcess
from ..support.process import free_port
from ..support.suite import Options, Suite, run_suite

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
HEALTHCHECK = ROOT / "docker" / "healthcheck.py"


class InstalledOttla(OttlaProcess):
    """The command of the Dockerfile, from the environment that its lines made."""

    def __init__(self, ottla: Path, words: list[str], port: int) -> None:
        super().__init__()
        self.addresses = [f"127.0.0.1:{port}"]
        moved = [word.replace("0.0.0.0:9092", f"0.0.0.0:{port}") for word in words]
        moved = [word.replace("localhost:9092", f"localhost:{port}") for word in moved]
        self.words = [str(ottla), *(str(self.data) if word == "/var/lib/ottla" else word for word in moved[1:])]

    def command(self) -> list[str]:
        return self.words


def body(suite: Suite, options: Options) -> None:
    text = DOCKERFILE.read_text()
    words = command_words(text)
    with TemporaryDirectory(prefix="compat-docker-") as folder:
        ottla = install(suite, text, Path(folder))
        if ottla:
            port = free_port()
            broker = InstalledOttla(ottla, words, port)
            suite.check("health check: nothing there", not healthy(port))
            with broker:
                suite.check("health check: the installed wheel serves", healthy(port))
                suite.equal("SIGTERM stops it cleanly", 0, broker.stop())
                suite.check("health check: stopped", not healthy(port))
                broker.start()
    with_engine(suite)


def command_words(text: str) -> list[str]:
    """ENTRYPOINT and CMD of the Dockerfile."""
    found = [re.search(rf"^{kind} (\[.*\])$", text, re.MULTILINE) for kind in ("ENTRYPOINT", "CMD")]
    return [word for match in found if match for word in json.loads(match[1])]


def install(suite: Suite, text: str, folder: Path) -> Path | None:
    """The COPY and pip lines of the Dockerfile, in a fresh environment; returns the console command."""
    source, wheels = folder / "src", folder / "wheels"
    source.mkdir()
    for line in re.findall(r"^COPY (?!docker)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
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
    return folder / "venv" / "bin" / "ottla" if done.returncode == 0 else None


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
