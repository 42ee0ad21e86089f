"""HTTP client of commands for the admin listener, and display of its responses: one call after the other, JSON in and out.

Errors of the listener are one sentence, which is shown unchanged. A call is an operation of `server.control`, named by
its method and path. The arguments of a command have the names of the operation's parameters, so they form its request
without conversion.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from ..frame.errors import CommandError, WrongCallError
from ..frame.options import ADMIN_TOKEN, admin_of, admin_options, json_option
from ..frame.parser import Command, Parser, no_options
from ..frame.printing import show_json, show_table
from ..frame.times import time_text

CONNECT_TIMEOUT_S = 5
SHOWN_CHARACTERS_MAX = 200
TOKEN_BYTES_MAX = 8192
_OF_ALL = ("admin", "admin_token_file", "json")

NULL = object()
"""Sent as JSON's null, for a field in which null differs from an omitted value."""

Answer = dict[str, Any]


class Admin:
    """The admin listener that the options of a command name.

    Raises:
        WrongCallError: The address is invalid, or the file of the token cannot be read.
    """

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> None:
        self.address = admin_of(options, environment)
        self._host, self._port = _parsed(self.address)
        self._token = _token(options.admin_token_file, environment)

    def call(self, operation: str, /, **fields: object) -> Answer:
        """Call an operation.

        Args:
            operation: Method and path, e.g. `POST /v1/topics/{topic}/roll`.
            fields: Its parameters. Those in braces go into the path, the others into the query of GET and DELETE, which repeats the
                name for each member of a list, or into the JSON object of POST and PUT. None and False are omitted, so that a server
                of an older release need not know the parameter.

        Raises:
            CommandError: With the listener's sentence.
            WrongCallError: The listener does not answer, or is not one of Ottla.
        """
        method, _, template = operation.partition(" ")
        segments = {name: _segment(value) for name, value in fields.items() if f"{{{name}}}" in template}
        target = template.format_map(segments)
        rest = {
            name: value
            for name, value in fields.items()
            if name not in segments and value is not None and value is not False
        }
        if method in ("POST", "PUT"):
            return self._ask(method, target, json.dumps(rest, default=lambda _: None))
        return self._ask(method, _with_query(target, rest))

    def _ask(self, method: str, target: str, body: str | None = None) -> Answer:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with closing(http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_TIMEOUT_S)) as connection:
                connection.connect()
                connection.sock.settimeout(None)  # a compaction has no time limit
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                status, data = response.status, response.read()
        except (UnicodeError, http.client.InvalidURL) as error:
            raise WrongCallError(f"{self.address}: invalid address: {error}") from error
        except OSError as error:
            raise WrongCallError(
                f"no admin listener at {self.address} ({error.strerror or error}); start the broker with"
                " `ottla dev` or `ottla serve --admin 9099`"
            ) from error
        except http.client.HTTPException as error:
            raise self._not_ottla_error(repr(error)) from error
        return self._read(status, data)

    def _read(self, status: int, data: bytes) -> Answer:
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._not_ottla_error(f"status {status}, {data[:SHOWN_CHARACTERS_MAX].decode(errors='replace')!r}")
        if status == http.client.OK:
            return answer
        sentence = str(answer.get("error", f"status {status}"))
        if status == http.client.UNAUTHORIZED:
            sentence += f" (use --admin-token-file, or set {ADMIN_TOKEN})"
        raise CommandError(sentence)

    def _not_ottla_error(self, found: str) -> WrongCallError:
        return WrongCallError(f"{self.address} is not an admin listener of Ottla: {found}")


def fields_of(options: argparse.Namespace) -> dict[str, object]:
    """Return a command's own arguments, without those that all commands of the admin listener have."""
    return {name: value for name, value in vars(options).items() if name not in _OF_ALL}


def call_command(
    name: str,
    help: str,
    operation: str,
    tell: Callable[[Any], None],
    add_options: Callable[[Parser], None] = no_options,
    notes: str = "",
    *,
    shown: str | None = None,
) -> Command:
    """Make a command that calls one operation, with its arguments as the parameters.

    Args:
        tell: Prints the response for people.
        shown: The field of the response to print; by default all of it.
    """

    def run(options: argparse.Namespace) -> None:
        answer = Admin(options).call(operation, **fields_of(options))
        show_answer(options, answer if shown is None else answer[shown], tell)

    return Command(name, help, run, with_admin_options(add_options), notes)


def with_admin_options(add_options: Callable[[Parser], None] = no_options) -> Callable[[Parser], None]:
    """Return a function that adds a command's options, and those of all commands of the admin listener."""

    def add_all(parser: Parser) -> None:
        add_options(parser)
        admin_options(parser)
        json_option(parser)

    return add_all


def _segment(value: object) -> str:
    """Quote a segment. WrongCallError for an empty one, which would make another path."""
    if value == "":
        raise WrongCallError("expected a name, found ''")
    return quote(str(value), safe="")


def _with_query(target: str, fields: Mapping[str, object]) -> str:
    query = urlencode({name: _text(value) for name, value in fields.items()}, doseq=True)
    return f"{target}?{query}" if query else target


def _text(value: object) -> object:
    return "true" if value is True else value


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")  # in the form that `ottla dev` prints
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
            reason = error.strerror if isinstance(error, OSError) else "not ASCII"
            raise WrongCallError(f"--admin-token-file: cannot read {file}: {reason}") from error
    if token and not (token.isascii() and token.isprintable() and " " not in token and len(token) <= TOKEN_BYTES_MAX):
        raise WrongCallError(f"{file or ADMIN_TOKEN}: invalid token: must be one line of ASCII without spaces")
    return token or None


SENTENCE = "explanation"
"""Field that is printed below the table, since it is a sentence."""


def show_answer(options: argparse.Namespace, answer: Any, tell: Callable[[Any], object]) -> None:
    """Print JSON if --json is given, else what `tell` prints for people."""
    (show_json if options.json else tell)(answer)


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print objects of one kind as a table: all fields under their names."""
    columns = {name: field_words(name).upper() for row in rows for name in row if name != SENTENCE}
    cells = [[format_value(name, row.get(name)) for name in columns] for row in rows]
    show_table(list(columns.values()), cells, [row.get(SENTENCE) or "" for row in rows])


def field_words(name: str) -> str:
    """Return the name of a field in words."""
    return name.removeprefix("is_").removeprefix("has_").removesuffix("_ms").replace("_", " ")


def format_value(name: str, value: Any) -> Any:
    """Format a value for people; `name` distinguishes times and durations from numbers."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        if name in ("now_ms", "at_ms") or name.endswith("_at_ms"):
            return time_text(value) or value
        return duration_text(value) if name.endswith("_ms") else value
    if isinstance(value, list):
        return [format_value(name, each) for each in value]
    if isinstance(value, dict):
        if value.keys() == {"topic", "partition"}:
            return f"{value['topic']}-{value['partition']}"
        return (
            ", ".join(f"{field_words(key)} {format_value(key, each)}" for key, each in value.items() if each) or "none"
        )
    return value


def duration_text(ms: int) -> str:
    """Format a duration: `250 ms`, `1.5 s`, `25 h`, in the largest unit that needs at most one decimal."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if abs(ms) >= size and ms * 10 % size == 0:
            return f"{ms / size:g} {unit}"
    return f"{ms} ms"
