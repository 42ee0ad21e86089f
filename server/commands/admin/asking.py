"""How commands ask the admin listener: one call after the other, JSON in and out.

What it refuses comes as one sentence, which is shown as it is.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode

from ..frame.errors import CommandError, WrongCallError
from ..frame.options import ADMIN_TOKEN, admin_of

CONNECT_TIMEOUT_S = 5
SHOWN_CHARACTERS_MAX = 200
TOKEN_BYTES_MAX = 8192

Answer = dict[str, Any]


class Admin:
    """The admin listener that the options of a command name.

    Raises:
        WrongCallError: They name none, or a file of the token that cannot be read.
    """

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> None:
        self.address = admin_of(options, environment)
        self._host, self._port = _parsed(self.address)
        self._token = _token(options.admin_token_file, environment)

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the address is of this machine alone."""
        try:
            return ip_address(self._host).is_loopback
        except ValueError:
            return self._host.lower() == "localhost"

    def get(self, path: str, /, **fields: object) -> Answer:
        """Ask without a body. Fields that are None are left out; a list is one field several times.

        Raises:
            CommandError: With the listener's sentence.
            WrongCallError: Nobody answers there, or no listener of Ottla's does.
        """
        return self._ask("GET", _with_query(path, fields))

    def delete(self, path: str, /, **fields: object) -> Answer:
        """As `get`, to take something away."""
        return self._ask("DELETE", _with_query(path, fields))

    def post(self, path: str, /, **fields: object) -> Answer:
        """Ask with a JSON object of those fields that are not None. Raises as `get`."""
        return self.post_object(path, {name: value for name, value in fields.items() if value is not None})

    def put(self, path: str, /, **fields: object) -> Answer:
        """As `post`, to have something be so."""
        return self._ask("PUT", path, json.dumps(fields))

    def post_object(self, path: str, body: Mapping[str, object]) -> Answer:
        """Ask with a JSON object as it is. Raises as `get`."""
        return self._ask("POST", path, json.dumps(body))

    def _ask(self, method: str, target: str, body: str | None = None) -> Answer:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with closing(http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_TIMEOUT_S)) as connection:
                connection.connect()
                connection.sock.settimeout(None)  # a compaction takes as long as it takes
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                status, data = response.status, response.read()
        except (UnicodeError, http.client.InvalidURL) as error:
            raise WrongCallError(f"{self.address}: not an address of a host: {error}") from error
        except OSError as error:
            raise WrongCallError(
                f"nobody answers at {self.address} ({error.strerror or error}): is the broker's admin listener on, as with"
                " `ottla dev` or `ottla serve --admin 9099`?"
            ) from error
        except http.client.HTTPException as error:
            raise self._no_ottla(repr(error)) from error
        return self._read(status, data)

    def _read(self, status: int, data: bytes) -> Answer:
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._no_ottla(f"status {status}, {data[:SHOWN_CHARACTERS_MAX].decode(errors='replace')!r}")
        if status == http.client.OK:
            return answer
        sentence = str(answer.get("error", f"status {status}"))
        if status == http.client.UNAUTHORIZED:
            sentence += f" (give --admin-token-file, or the token in {ADMIN_TOKEN})"
        raise CommandError(sentence)

    def _no_ottla(self, found: str) -> WrongCallError:
        return WrongCallError(f"what answers at {self.address} is no admin listener of Ottla: {found}")


def path(*segments: object) -> str:
    """`/v1/…` with each segment quoted. WrongCallError for one that is empty, which would be another path."""
    if "" in segments:
        raise WrongCallError("expected a name, found ''")
    return "/v1/" + "/".join(quote(str(segment), safe="") for segment in segments)


def _with_query(target: str, fields: Mapping[str, object]) -> str:
    query = urlencode(
        {name: _text(value) for name, value in fields.items() if value is not None and value is not False}, doseq=True
    )
    return f"{target}?{query}" if query else target


def _text(value: object) -> object:
    return "true" if value is True else value


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")  # as `ottla dev` shows it
    host = host.removeprefix("[").removesuffix("]") or "localhost"
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise WrongCallError(f"Invalid value {address} for --admin: must be [HOST:]PORT, port from 1 to 65535")
    return host, int(port)


def _token(file: str | None, environment: Mapping[str, str]) -> str | None:
    if file is None:
        token = environment.get(ADMIN_TOKEN)
    else:
        try:
            with open(file, "rb") as opened:
                token = opened.read(TOKEN_BYTES_MAX + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise WrongCallError(f"cannot read {file} of --admin-token-file: {reason}") from error
    if token and not (token.isascii() and token.isprintable() and " " not in token and len(token) <= TOKEN_BYTES_MAX):
        raise WrongCallError(f"{file or ADMIN_TOKEN}: a token has no blanks, and is one line of ASCII")
    return token or None
