"""Clients in processes of their own, a line in, a line out. The contract is in README.md."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..support.releases import RELEASES
from ..support.suite import NOT_RUN, NotRunError
from .drivers import java

ROOT = Path(__file__).parents[2]
ANSWER_S = 90.0
"""The longest time that a driver may take for one line; then it is killed and another one continues."""
NO_ANSWER = {"result": "no answer", "said": "", "detail": f"none within {ANSWER_S:.0f} s"}
Answer = dict[str, Any]


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"{__package__}.drivers.{name}"]


CLIENTS: dict[str, Callable[[], list[str]]] = {
    "kafka_python": _python("kafka_python"),
    "confluent": _python("confluent"),
    "aiokafka": _python("aiokafka"),
    "java": partial(java.command, RELEASES[0]),
    **{f"java_{each.replace('.', '_')}": partial(java.command, each) for each in RELEASES[1:]},
}
QUICK = ("kafka_python", "confluent", "aiokafka", "java")


class Driver:
    """One client. NotRunError if it cannot run here."""

    def __init__(self, client: str, errors: Path) -> None:
        self.client, self._errors = client, errors
        self._command = CLIENTS[client]()
        self._start()

    def _start(self) -> None:
        with open(self._errors, "ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        about = self.ask({"action": "actions"})
        if "actions" not in about:
            raise NotRunError(str(about.get("detail") or about))
        self.version, self.actions = str(about["client"]), list(about["actions"])

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def ask(self, line: dict[str, Any]) -> Answer:
        """Send a line and return its outcome. A driver that dies or hangs is replaced, and the answer reports that."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
            text = self._lines.get(timeout=ANSWER_S)
        except (OSError, queue.Empty):
            text = None
        if text and text.startswith("not run: needs "):
            self._process.wait()
            raise NotRunError(text.strip().removeprefix("not run: needs "))
        if text:
            answer: Answer = json.loads(text)
            return answer
        self._end()
        if line.get("action") == "actions":
            code = self._process.returncode
            raise NotRunError("its client" if code == NOT_RUN else f"a driver that runs (exit code {code})")
        self._start()
        return NO_ANSWER if text is None else {"result": "driver died", "said": "", "detail": ""}

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the driver's input, so that it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._end()
