"""How commands ask a broker: a connection to the one that `--bootstrap` names, and what it refuses in one line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ....protocol.errors import ErrorCode, ProtocolError
from ...client.connection import Client
from ..frame.errors import RefusedError, WrongCallError
from ..frame.options import bootstrap_of

TIMEOUT_MS = 30_000


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Client]:
    """A connection to the broker of `--bootstrap`.

    Raises:
        WrongCallError: No address, nobody answers there, or not as a broker does.
    """
    bootstrap = bootstrap_of(options)
    host, _, port = bootstrap.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise WrongCallError(f"Invalid value {bootstrap} for --bootstrap: must be HOST:PORT, port up to 65535")
    try:
        with Client(host.strip("[]"), int(port)) as client:
            yield client
    except (OSError, ProtocolError) as error:
        raise WrongCallError(f"no broker answers at {bootstrap}: {error}") from error


def check(code: int, message: str | None) -> None:
    """RefusedError if a row of an answer has an error."""
    if code:
        raise RefusedError(f"{ErrorCode(code).name}: {message}" if message else ErrorCode(code).name)
