"""Lookup of schemas by their ids: in a Confluent schema registry, or in a folder with a file `ID.avsc` for each.

    GET /schemas/ids/7                              {"schema": "…"}
    GET /subjects/orders-value/versions/latest      {"id": 7, "schema": "…", …}

A user and password come from the environment (`OTTLA_REGISTRY_USER=user:password`) or from the URL
(`https://user:password@registry:8081`), which every user of the machine can read. They are sent to that server only.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPMessage
from typing import IO, Any, Protocol

from ..errors import PipelineError, UsageError

USER = "OTTLA_REGISTRY_USER"
TIMEOUT_S = 10.0
ANSWER_MAX_BYTES = 16 << 20
_Origin = tuple[str, str | None, int | None]


class Registry(Protocol):
    def by_id(self, schema_id: int) -> str:
        """Return an Avro schema as JSON.

        Raises UsageError if the id is unknown, PipelineError if the registry cannot be reached.
        """
        ...

    def latest(self, subject: str) -> str:
        """Return the newest schema of a subject."""
        ...


def registry(place: str, environment: Mapping[str, str] = os.environ) -> Registry:
    """Return the registry of a URL or a folder.

    Raises UsageError if it is neither, or the environment's user has no password.
    """
    if place.startswith(("http://", "https://")):
        return HttpRegistry(place, environment.get(USER))
    if os.path.isdir(place):
        return FolderRegistry(place)
    raise UsageError(
        f"--registry: expected http://HOST:PORT, or a folder with ID.avsc, found {place.rpartition('@')[2]}"
    )


class HttpRegistry:
    """Registry at a URL.

    Args:
        user: `USER:PASSWORD`, for a URL without a user.

    Raises:
        UsageError: `user` has no colon, or the URL is invalid.
    """

    def __init__(self, url: str, user: str | None = None) -> None:
        try:
            parts = urllib.parse.urlsplit(url.rstrip("/"))
            self._origin = _origin(url)
        except ValueError as error:
            raise UsageError(f"--registry: expected http://HOST:PORT, found another URL ({error})") from None
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if parts.username is not None:
            user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        if user is not None:
            if ":" not in user:
                raise UsageError(f"{USER}: expected USER:PASSWORD, found no colon")
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        """URL without what may be a password."""
        self._opener = urllib.request.build_opener(_RegistryRedirects(self._shown, self._origin))
        self._known: dict[int, str] = {}

    def by_id(self, schema_id: int) -> str:
        if schema_id not in self._known:
            self._known[schema_id] = self._schema(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        return self._known[schema_id]

    def latest(self, subject: str) -> str:
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        return self._schema(path, f"subject {subject}")

    def _schema(self, path: str, what: str) -> str:
        try:
            asked = urllib.request.Request(self._url + path, headers=self._headers)
            with self._opener.open(asked, timeout=TIMEOUT_S) as answer:
                found: Any = json.loads(answer.read(ANSWER_MAX_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                raise UsageError(f"registry {self._shown}: expected {what}, found none") from error
            if error.code in (401, 403):
                raise UsageError(
                    f"registry {self._shown}: {error.code} {error.reason}: expected {USER}=USER:PASSWORD in the environment"
                ) from error
            raise PipelineError(f"registry {self._shown}: {error.code} {error.reason}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise PipelineError(f"registry {self._shown} does not answer: {getattr(error, 'reason', error)}") from error
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise PipelineError(f"registry {self._shown}{path}: expected an object with `schema`, found another answer")
        if found.get("schemaType", "AVRO") != "AVRO":
            raise UsageError(f"registry {self._shown}: expected an Avro schema as {what}, found {found['schemaType']}")
        if found.get("references"):
            raise UsageError(f"registry {self._shown}: {what} refers to other schemas, which is not supported")
        return str(found["schema"])


class _RegistryRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows only redirects within the registry, as urllib sends the password to every redirect's server."""

    def __init__(self, url: str, origin: _Origin) -> None:
        self._url, self._origin = url, origin

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if _origin(newurl) != self._origin:
            fp.close()
            there = urllib.parse.urlsplit(newurl)
            raise UsageError(
                f"registry {self._url}: redirected to another server ({there.scheme}://{there.netloc.rpartition('@')[2]});"
                " name that server with --registry"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> _Origin:
    """Return scheme, host and port (RFC 6454). Raises ValueError for an invalid port."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class FolderRegistry:
    """Files `ID.avsc`, of which the highest id is the newest; `SUBJECT.avsc` takes precedence."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def by_id(self, schema_id: int) -> str:
        return self._read(str(schema_id))

    def latest(self, subject: str) -> str:
        names = {name.removesuffix(".avsc") for name in os.listdir(self._folder) if name.endswith(".avsc")}
        newest = max((name for name in names if name.isdecimal()), key=int, default=subject)
        return self._read(subject if subject in names else newest)

    def _read(self, name: str) -> str:
        path = os.path.join(self._folder, f"{name}.avsc")
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            raise UsageError(f"{path}: expected a schema, file not found") from None
