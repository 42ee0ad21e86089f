"""Addresses that a user names: whether they are valid, and whether a broker listens there."""

from __future__ import annotations

import socket

from .errors import PipelineError, UsageError

CONNECT_TIMEOUT_S = 10.0


def check_that_somebody_is_there(bootstrap_servers: str) -> None:
    """Check, with one attempt each, that one of these brokers accepts a connection. A client would retry and log each attempt.

    Raises:
        UsageError: An address is not HOST:PORT, or its host is not a valid name.
        PipelineError: No broker accepts a connection.
    """
    reasons = []
    for text in bootstrap_servers.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"--bootstrap: expected HOST:PORT[,…], the port from 1 to 65535, found {text.strip()!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
        except OSError as error:
            reasons.append(f"{text.strip()}: {error.strerror or error}")
        except UnicodeError as error:
            raise UsageError(f"--bootstrap: {text.strip()}: not a valid host name: {error}") from error
        else:
            return
    raise PipelineError(f"no broker answers at {'; '.join(reasons)}")
