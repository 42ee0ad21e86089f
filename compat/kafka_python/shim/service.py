# Becomes test/service.py, which kafka-python's source distribution leaves out. With KAFKA_URI set its fixtures only name the
# external broker; without it they start their own: COMPAT_OTTLA in place of Apache Kafka.
import os
import subprocess
import threading
from pathlib import Path


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def dump_logs(self) -> None:
        """Print nothing: the broker's output is elsewhere."""


class SpawnedService:
    """A broker of the fixtures' own; the last of `args` is its server.properties.

    Users of `kafka-storage.sh` are in the same folder.
    """

    def __init__(self, args: list[str], env: dict[str, str]) -> None:
        self.config, self.env = args[-1], env
        self.ready = threading.Event()

    def start(self) -> None:
        lines = Path(self.config).read_text().splitlines()
        # Without what a template has no value for.
        Path(self.config).write_text("".join(f"{line}\n" for line in lines if not line.endswith("=")))
        file = Path(f"{self.config}.users")
        users = file.read_text().split() if file.exists() else []
        command = [os.environ["COMPAT_OTTLA"], "serve", "--config", self.config]
        command += [argument for user in users for argument in ("--user", user)]
        self.process = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._wait_until_ready, daemon=True).start()

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.ready.set()

    def wait_for(self, pattern: str, timeout: float) -> bool:
        """Return whether it serves; then all events for which a test waits by a pattern of Apache Kafka's log have happened."""
        return self.ready.wait(timeout)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def dump_logs(self) -> None:
        """Print nothing: the broker's errors are in pytest's output."""
