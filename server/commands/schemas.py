"""`ottla schemas`: list, show, register and check schemas in a registry with the API of Confluent's Schema Registry."""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from .frame.errors import SAID_NO, CommandError, wrong_call
from .frame.options import ADMIN_TOKEN, REGISTRY_USER, json_option
from .frame.parser import Command, Parser, no_options
from .frame.printing import show, show_json, show_table

REGISTRY = "OTTLA_SCHEMA_REGISTRY"
DEFAULT_REGISTRY = "http://localhost:8081"
ALL_ADDRESSES = ("0.0.0.0", "::")
"""Hosts of listeners, as a container's variable has them for the broker: to a client they are its own machine."""
TIMEOUT_S = 60
FILE_BYTES_MAX = 4 << 20
SHOWN_CHARACTERS_MAX = 200
ANSWER_BYTES_MAX = 64 << 20
MESSAGE_CHARACTERS_MAX = 4_000
KINDS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}

NOTES = f"""\
examples:
  ottla schemas register orders-value order.avsc
  ottla schemas check orders-value order.avsc        exit code 1 if it is not compatible with the registered versions
  ottla schemas register line-value line.proto --reference item.proto=item-value:1
  ottla schemas show orders-value

The type of a schema follows from its file: {", ".join(f"{suffix} {kind}" for suffix, kind in KINDS.items())}. Others are AVRO. - reads
standard input. The registry may be any that has the API of Confluent's Schema Registry.

A registry that requires a login gets ${REGISTRY_USER}=USER:PASSWORD. A registry of Ottla takes its token as the password of any user.
"""

Answer = Any
Shape = Any
"""A type, a list of one shape, or fields with their shapes; `name?` may be absent."""
VERSION: Shape = {
    "subject": str,
    "version": int,
    "id": int,
    "schema": str,
    "schemaType?": str,
    "references?": [{"name": str, "subject": str, "version": int}],
}
VERDICT: Shape = {"is_compatible": bool, "messages?": [str]}


class RegistryClient:
    """A client of the registry that the options of a command name.

    The token of the admin listener is only for the registry beside it: it is sent only if neither an option nor a variable names
    a registry, or the name is all addresses of this machine.

    Raises:
        CommandError: WRONG_CALL. The URL, the user or the token is invalid.
    """

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> None:
        named = options.registry or environment.get(REGISTRY)
        url = named or DEFAULT_REGISTRY
        if "://" not in url:
            url = f"http://{url}"
        try:
            parts = urlsplit(url)
            self._address, self._base = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
            self.url = f"{parts.scheme}://{self._address}{self._base}"
            """Without the user and the query, which may be secrets."""
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError:
            shown = url.rpartition("@")[2][:SHOWN_CHARACTERS_MAX]
            raise wrong_call(f"--registry: invalid URL {shown}: expected http://HOST:PORT") from None
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self._connection = kinds[parts.scheme]
        is_beside = not named or parts.hostname in ALL_ADDRESSES
        user, token = environment.get(REGISTRY_USER) or None, environment.get(ADMIN_TOKEN) if is_beside else None
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        if user is not None and ":" not in user:
            raise wrong_call(f"{REGISTRY_USER}: expected USER:PASSWORD, found no colon")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise wrong_call(f"{ADMIN_TOKEN}: invalid token: must be one line of ASCII")
        self._login: dict[str, str] = {}
        if user is not None:
            self._login["Authorization"] = f"Basic {base64.b64encode(os.fsencode(user)).decode()}"
        elif token is not None:
            self._login["Authorization"] = f"Bearer {token}"

    def ask(
        self, method: str, path: str, shape: Shape, body: Mapping[str, object] | None = None, **query: str
    ) -> Answer:
        """Return the JSON that a call returns, which has a shape.

        Raises:
            CommandError: With the registry's sentence.
            CommandError: WRONG_CALL. It does not answer, or is not a registry.
        """
        target = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"} | self._login
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        try:
            with closing(self._connection(self._address, timeout=TIMEOUT_S)) as connection:
                connection.request(method, target, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                status, data = response.status, response.read(ANSWER_BYTES_MAX)
        except (UnicodeError, http.client.InvalidURL) as error:
            raise wrong_call(f"{self.url}: invalid address: {error}") from error
        except OSError as error:
            raise wrong_call(
                f"no schema registry at {self.url} ({error.strerror or error}); start one with `ottla dev` or"
                " `ottla serve --schema-registry 8081`"
            ) from error
        except http.client.HTTPException as error:
            raise self._not_a_registry(repr(error)) from error
        return self._read(status, data, shape)

    def _read(self, status: int, data: bytes, shape: Shape) -> Answer:
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        is_well = status == http.client.OK
        if not _has_shape(answer, shape if is_well else {}):
            raise self._not_a_registry(f"status {status}, {data[:SHOWN_CHARACTERS_MAX].decode(errors='replace')!r}")
        if is_well:
            return answer
        sentence = str(answer.get("message", f"status {status}"))[:MESSAGE_CHARACTERS_MAX]
        if status == http.client.UNAUTHORIZED:
            sentence += f" (set {REGISTRY_USER}=USER:PASSWORD; the password may be the token of Ottla's registry)"
        raise CommandError(sentence)

    def _not_a_registry(self, found: str) -> CommandError:
        return wrong_call(f"{self.url} is not a schema registry: {found}")


def _has_shape(found: Answer, shape: Shape) -> bool:
    if isinstance(shape, list):
        return isinstance(found, list) and all(_has_shape(each, shape[0]) for each in found)
    if isinstance(shape, dict):
        return isinstance(found, dict) and all(
            (name.endswith("?") and found.get(name[:-1]) is None) or _has_shape(found.get(name.rstrip("?")), each)
            for name, each in shape.items()
        )
    return isinstance(found, shape)


def _subject_path(options: argparse.Namespace) -> str:
    if not options.subject:
        raise wrong_call("expected a subject, found ''")
    return f"/subjects/{quote(options.subject, safe='')}/versions"


def _list(options: argparse.Namespace) -> None:
    registry = RegistryClient(options)
    rows = []
    for subject in registry.ask("GET", "/subjects", [str]):
        path = f"/subjects/{quote(subject, safe='')}/versions"
        versions = registry.ask("GET", path, [int])
        latest = registry.ask("GET", f"{path}/latest", VERSION)
        rows.append(
            {
                "subject": subject,
                "type": latest.get("schemaType") or "AVRO",
                "versions": versions,
                "latest_id": latest["id"],
            }
        )
    if options.json:
        show_json(rows)
    elif rows:
        show_table(("SUBJECT", "TYPE", "VERSIONS", "LATEST ID"), [list(row.values()) for row in rows])
    else:
        show("no schemas")


def _show(options: argparse.Namespace) -> None:
    found = RegistryClient(options).ask("GET", f"{_subject_path(options)}/{options.schema_version}", VERSION)
    if options.json:
        show_json(found)
        return
    kind = found.get("schemaType") or "AVRO"
    show(f"{found['subject']}  version {found['version']}  id {found['id']}  {kind}")
    show(f"  references {each['name']}: {each['subject']} {each['version']}" for each in found.get("references") or ())
    show(_pretty(kind, found["schema"]).splitlines())


def _pretty(kind: str, text: str) -> str:
    if kind == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _register(options: argparse.Namespace) -> None:
    body, path = _new_schema(options), _subject_path(options)
    registry = RegistryClient(options)
    registry.ask("POST", path, {"id": int}, body)
    found = registry.ask("POST", path.removesuffix("/versions"), VERSION, body)
    if options.json:
        show_json(found)
    else:
        show(f"{found['subject']}  version {found['version']}  id {found['id']}")


def _check(options: argparse.Namespace) -> int:
    path = f"/compatibility{_subject_path(options)}"
    if options.schema_version is not None:
        path += f"/{options.schema_version}"
    found = RegistryClient(options).ask("POST", path, VERDICT, _new_schema(options), verbose="true")
    if options.json:
        show_json(found)
    else:
        show(["compatible"] if found["is_compatible"] else ["not compatible", *(found.get("messages") or ())])
    return 0 if found["is_compatible"] else SAID_NO


def _new_schema(options: argparse.Namespace) -> dict[str, object]:
    text = _text(options.file)
    kind = options.type or KINDS.get(os.path.splitext(options.file)[1], "AVRO")
    return {"schema": text, "schemaType": kind, "references": options.reference}


def _text(path: str) -> str:
    try:
        with open(0, "rb", closefd=False) if path == "-" else open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise wrong_call(f"cannot read {path}: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandError(f"{path}: schema too large (limit {FILE_BYTES_MAX} bytes)")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}") from None


def reference(text: str) -> dict[str, object]:
    """Parse NAME=SUBJECT:VERSION."""
    name, equals, rest = text.partition("=")
    subject, colon, version = rest.rpartition(":")
    if not (name and equals and subject and colon and version.isascii() and version.isdigit()):
        raise argparse.ArgumentTypeError(f"expected NAME=SUBJECT:VERSION, found {text!r}")
    return {"name": name, "subject": subject, "version": int(version)}


def version(text: str) -> str:
    """Parse a version: a number, or `latest`."""
    if text != "latest" and not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, or latest, found {text!r}")
    return text


def _with_registry(add_options: Callable[[Parser], None] = no_options) -> Callable[[Parser], None]:
    def add_all(parser: Parser) -> None:
        add_options(parser)
        parser.add_argument(
            "--registry", metavar="URL", help=f"URL of the registry (default: ${REGISTRY}, else {DEFAULT_REGISTRY})"
        )
        json_option(parser)

    return add_all


def _show_options(parser: Parser) -> None:
    parser.add_argument("subject", metavar="SUBJECT", help="subject, e.g. orders-value")
    parser.add_argument(
        "--schema-version", metavar="N", type=version, default="latest", help="version (default: latest)"
    )


def _schema_options(parser: Parser) -> None:
    parser.add_argument("subject", metavar="SUBJECT", help="subject, e.g. orders-value")
    parser.add_argument("file", metavar="FILE", help="file with the schema; - for standard input")
    parser.add_argument(
        "--type", choices=tuple(KINDS.values()), help="type of the schema (default: by the file's suffix)"
    )
    parser.add_argument(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        type=reference,
        action="append",
        default=[],
        help="schema that this one references by NAME; repeatable",
    )


def _check_options(parser: Parser) -> None:
    _schema_options(parser)
    parser.add_argument(
        "--schema-version",
        metavar="N",
        type=version,
        help="compare with this version only (default: as the subject's level says)",
    )


ACTIONS = (
    Command("list", "list subjects with their versions", _list, _with_registry()),
    Command("show", "show a schema", _show, _with_registry(_show_options)),
    Command("register", "register a schema under a subject", _register, _with_registry(_schema_options), NOTES),
    Command(
        "check", "check whether a schema is compatible with a subject", _check, _with_registry(_check_options), NOTES
    ),
)
