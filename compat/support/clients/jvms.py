"""Java programs of a suite: several processes, each of which can be killed and started again."""

import subprocess
from pathlib import Path

SMALL = ("java", "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Jvms:
    """Numbered processes of one class; each has its output in a file in `logs`."""

    def __init__(self, class_path: str, main: str, count: int, logs: Path) -> None:
        self._command = [*SMALL, "-cp", class_path, main]
        self._logs = logs
        self._running: list[subprocess.Popen[bytes] | None] = [None] * count

    def start(self, number: int, *words: str) -> None:
        """Start a JVM; its standard input stays open until it is killed, or this process ends."""
        with open(self._logs / f"process-{number}.log", "ab") as log:
            self._running[number] = subprocess.Popen(
                [*self._command, *words], stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def kill(self, number: int) -> None:
        """kill -9, if it runs."""
        process, self._running[number] = self._running[number], None
        if process is not None:
            process.kill()
            process.wait()

    def kill_all(self) -> None:
        for number in range(len(self._running)):
            self.kill(number)

    def check(self) -> None:
        """
        Raises:
            RuntimeError: One has ended by itself.
        """
        for number, process in enumerate(self._running):
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"process {number} ended with {process.returncode}")

    def said(self, *words: str) -> str:
        """Return the output of a run that ends by itself. CalledProcessError if it fails."""
        return subprocess.run([*self._command, *words], capture_output=True, text=True, check=True, timeout=120).stdout
