"""Addresses that a user names: whether they are any, and whether anybody listens there."""

from __future__ import annotations

import socket

from .errors import ServiceFailedError, UsageError

CONNECT_TIMEOUT_S = 10.0


def check_that_somebody_is_there(bootstrap_servers: str) -> None:
    """Ask, at once, whether one of them takes a connection: a client would go on trying, and tell of each time.

    Raises:
        UsageError: One is no HOST:PORT, or its host cannot be a name.
        ServiceFailedError: None does.
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
            raise UsageError(f"--bootstrap: {text.strip()}: not a name of a host: {error}") from error
        else:
            return
    raise ServiceFailedError(f"no broker answers at {'; '.join(reasons)}")
