"""The broker of the online installs."""

import http.client
import json
import time
from types import TracebackType
from typing import Any, Self

from ..support.brokers.ottla_process import OttlaProcess
from .ground import PATIENCE_S, Ground, free_port

CLEANER_OFF = {"log.cleaner.enable": "false"}
"""The cleaner is off, as it would do the same work, and the results would be indistinguishable."""
QUICK = {"log.segment.delete.delay.ms": "1", "log.flush.offset.checkpoint.interval.ms": "200"}


class Served(OttlaProcess):
    """`ottla serve --admin` over a ground's data directory, on the same ports whenever it starts."""

    def __init__(self, ground: Ground, nodes: int = 1, /, **overrides: str) -> None:
        self.admin = f"127.0.0.1:{free_port()}"
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        super().__init__(
            data=ground.data, overrides=QUICK | (named or CLEANER_OFF), nodes=nodes, arguments=("--admin", self.admin)
        )

    def __enter__(self) -> Self:
        """Enter without starting the broker."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process is not None:
            self.kill()
        self.dispose()

    def is_dead(self, done: bool) -> bool:
        """Return whether the server has ended; after a finished install, once the replaced files are deleted."""
        assert self.process is not None
        if done:
            self.wait_until_tidy()
        return self.process.poll() is not None

    def wait_until_tidy(self) -> None:
        """Return when no replaced file is left, or the server has ended."""
        assert self.process is not None
        until = time.monotonic() + PATIENCE_S
        while list(self.partition_dir("t").glob("*.deleted")) and self.process.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.partition_dir('t')}: replaced files stay")
            time.sleep(0.02)

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of the admin listener."""
        connection = http.client.HTTPConnection(self.admin, timeout=PATIENCE_S)
        try:
            data = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, target, data, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def post(self, name: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        return self.ask("POST", f"/v1/cleaning/{name}", {"topic": "t", "partition": 0} | fields)

    def status(self) -> dict[str, Any]:
        status, answer = self.ask("GET", "/v1/cleaning/status?topic=t&partition=0")
        assert status == 200, answer
        return answer
