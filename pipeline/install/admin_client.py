"""Calls of a running server's admin listener, and a lease on a partition that lasts while this process runs."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import PipelineError, SourceChangedError, StoreLockedError, UsageError

CONNECT_TIMEOUT_S = 10
TIMEOUT_S = 600
"""Timeout of one response, in seconds: the server reads everything that is staged of a group, and waits for the disk."""

_ERRORS: dict[tuple[str, int], type[PipelineError]] = {
    ("pause", 409): StoreLockedError,
    ("install", 409): SourceChangedError,
    ("resume", 409): SourceChangedError,
    **{(name, 404): SourceChangedError for name in ("status", "pause", "install", "resume")},
}


class AdminClient:
    """Calls of a server's admin listener, each on a connection of its own. Any thread may call."""

    def __init__(self, address: str) -> None:
        """Set the address, HOST:PORT."""
        self._address = address

    def get(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a GET request and return the response. Errors as `post`."""
        query = "&".join(f"{name}={value}" for name, value in fields.items())  # of topics: nothing to escape
        return self._ask(name, "GET", f"/v1/cleaning/{name}?{query}", None)

    def post(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a POST request and return the response.

        Raises:
            UsageError: No admin listener answers there.
            PipelineError: The server has failed, or stopped before it answered.
            PipelineError: The server rejected the call; `_ERRORS` has the class by status.
        """
        return self._ask(name, "POST", f"/v1/cleaning/{name}", json.dumps(fields))

    def _ask(self, name: str, method: str, target: str, body: str | None) -> dict[str, Any]:
        try:
            connection = http.client.HTTPConnection(self._address, timeout=CONNECT_TIMEOUT_S)
            try:
                connection.connect()
                connection.sock.settimeout(TIMEOUT_S)
                connection.request(method, target, body, {"Content-Type": "application/json"} if body else {})
                response = connection.getresponse()
                answer = json.loads(response.read())
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            if name == "status":  # the first call
                raise UsageError(f"{self._address}: expected a server's admin listener, found: {error!r}") from error
            raise PipelineError(f"{self._address}: no answer to {name!r}: {error!r}; call again") from error
        if not isinstance(answer, dict) or (response.status != 200 and "error" not in answer):
            raise UsageError(
                f"{self._address}: expected a server's admin listener, found one that answers {answer!r:.100}"
            )
        if response.status != 200:
            kind = _ERRORS.get((name, response.status), UsageError if response.status < 500 else PipelineError)
            raise kind(f"{self._address}: {answer['error']}")
        return answer

    @contextmanager
    def paused(self, tp: dict[str, Any], lease_ms: int) -> Iterator[dict[str, Any]]:
        """Keep the server's cleaner off a partition; yields the fields that identify the lease in other calls.

        A thread of its own renews the lease. It expires if the process dies. On an error in the block the lease is given back;
        otherwise the caller gives it back with `resume`.

        Raises:
            StoreLockedError: Another client has a lease.
            UsageError, PipelineError: As `post`.
        """
        held = tp | {"lease": self.post("pause", tp | {"lease_ms": lease_ms}).get("lease")}
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(lease_ms / 3000):
                with suppress(PipelineError):  # the next call that needs the lease reports it
                    self.post("pause", held | {"lease_ms": lease_ms})

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield held
        except BaseException:
            with suppress(PipelineError):
                self.post("resume", held)
            raise
        finally:
            ended.set()
            thread.join()
