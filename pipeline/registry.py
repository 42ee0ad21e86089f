"""Lookup of schemas by their ids: in a Confluent schema registry, or in a folder with a file `ID.avsc` for each.

    GET /schemas/ids/7                              {"schema": "…", "schemaType": "…", "references": […]}
    GET /schemas/guids/…                            the same
    GET /subjects/orders-value/versions/latest      {"id": 7, "schema": "…", …}

A user and password come from the environment (`OTTLA_REGISTRY_USER=user:password`) or from the URL
(`https://user:password@registry:8081`), which every user of the machine can read. They are sent to that server only.
`OTTLA_REGISTRY_CA=FILE` names the certificates of the authorities that are trusted, instead of the machine's.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPMessage
from typing import IO, Any, NamedTuple, Protocol

from ..protocol.schemas import InvalidSchema, Schema, parse_schema
from ..protocol.schemas.avro_texts import whole_text
from .errors import PipelineError, UsageError

USER, CA = "OTTLA_REGISTRY_USER", "OTTLA_REGISTRY_CA"
TIMEOUT_S = 10.0
ANSWER_MAX_BYTES = 16 << 20
REFERENCES_MAX, REFERENCE_DEPTH_MAX = 1_000, 50
"""Limits of the schemas that one schema references, as in the registry."""
AVRO = "AVRO"
_Origin = tuple[str, str | None, int | None]


class Registry(Protocol):
    def by_id(self, schema_id: int) -> str:
        """Return an Avro schema as JSON, with the types of the schemas that it references.

        Raises UsageError if the id is unknown, PipelineError if the registry cannot be reached.
        """
        ...

    def latest(self, subject: str) -> str:
        """Return the newest schema of a subject."""
        ...

    def schema(self, which: int | str) -> Schema | None:
        """Return a schema of any kind by its id or its GUID; None if the registry does not have it.

        Raises InvalidSchema if it is invalid, UsageError for a wrong login, PipelineError if the registry cannot be reached.
        """
        ...


class RegistryAddress(NamedTuple):
    """A registry, and what its client needs: a driver passes it to its tasks, which do not have its environment."""

    place: str
    user: str | None = None
    ca: str | None = None
    """Certificates of trusted authorities, in PEM."""

    def __repr__(self) -> str:
        return f"RegistryAddress({self.place.rpartition('@')[2]!r})"

    def opened(self) -> Registry:
        """Return a client, which keeps what it has looked up.

        Raises UsageError if the place is neither a URL nor a folder, or the user has no password.
        """
        if self.place.startswith(("http://", "https://")):
            return HttpRegistry(self.place, self.user, self.ca)
        if os.path.isdir(self.place):
            return FolderRegistry(self.place)
        raise UsageError(
            f"registry: expected http://HOST:PORT, or a folder with ID.avsc, found {self.place.rpartition('@')[2]}"
        )


def registry_address(place: str, environment: Mapping[str, str] = os.environ) -> RegistryAddress:
    """Return a URL or a folder with the login and the certificates that the environment names.

    Raises UsageError if the file of certificates cannot be read.
    """
    ca = None
    if path := environment.get(CA):
        try:
            with open(path, encoding="ascii") as file:
                ca = file.read()
        except (OSError, ValueError) as error:
            raise UsageError(f"{CA}: expected a file of certificates in PEM, found {path} ({error})") from error
    return RegistryAddress(place, environment.get(USER), ca)


class _Registered(NamedTuple):
    """A schema as the registry returns it."""

    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    """Name, subject, version."""


class HttpRegistry:
    """Registry at a URL.

    Args:
        user: `USER:PASSWORD`, for a URL without a user.
        ca: Certificates of trusted authorities, in PEM.

    Raises:
        UsageError: `user` has no colon, `ca` has no certificate, or the URL is invalid.
    """

    def __init__(self, url: str, user: str | None = None, ca: str | None = None) -> None:
        try:
            parts = urllib.parse.urlsplit(url.rstrip("/"))
            self._origin = _origin(url)
        except ValueError as error:
            raise UsageError(f"registry: expected http://HOST:PORT, found another URL ({error})") from None
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
        handlers: list[urllib.request.BaseHandler] = [_RegistryRedirects(self._shown, self._origin)]
        if ca is not None:
            try:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=ca)))
            except ssl.SSLError as error:
                raise UsageError(f"{CA}: expected a file of certificates in PEM ({error.reason})") from error
        self._opener = urllib.request.build_opener(*handlers)
        self._known: dict[int, str] = {}
        self._referenced: dict[tuple[str, int], Schema] = {}

    def by_id(self, schema_id: int) -> str:
        if schema_id not in self._known:
            self._known[schema_id] = self._avro(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        return self._known[schema_id]

    def latest(self, subject: str) -> str:
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        return self._avro(path, f"subject {subject}")

    def schema(self, which: int | str) -> Schema | None:
        path = f"/schemas/ids/{which}" if isinstance(which, int) else f"/schemas/guids/{which}"
        found = self._found(path)
        return None if found is None else self._parsed(found)

    def _avro(self, path: str, what: str) -> str:
        found = self._found(path)
        if found is None:
            raise UsageError(f"registry {self._shown}: expected {what}, found none")
        if found.kind != AVRO:
            raise UsageError(f"registry {self._shown}: expected an Avro schema as {what}, found {found.kind}")
        try:
            return whole_text(self._parsed(found)) if found.references else found.text
        except RecursionError:
            raise UsageError(f"registry {self._shown}: {what} and its references are nested too deeply") from None
        except InvalidSchema as error:
            raise UsageError(f"registry {self._shown}: {what}: {error}") from error

    def _parsed(self, found: _Registered, path: tuple[tuple[str, int], ...] = ()) -> Schema:
        """Parse a schema with those that it references. InvalidSchema: it is invalid, or one that it references is missing."""
        references = {}
        for name, subject, version in found.references:
            place = subject, version
            if place in path or len(path) > REFERENCE_DEPTH_MAX:
                raise InvalidSchema(
                    f"references: they lead back to themselves, or are nested too deeply (limit {REFERENCE_DEPTH_MAX} levels)"
                )
            if place not in self._referenced:
                there = self._found(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}?deleted=true")
                if there is None:
                    raise InvalidSchema(f"references: {subject} version {version} not found")
                parsed = self._parsed(there, (*path, place))
                if len(self._referenced) == REFERENCES_MAX:
                    self._referenced.clear()
                self._referenced[place] = parsed
            references[name] = self._referenced[place]
        return parse_schema(found.kind, found.text, references, is_new=False)

    def _found(self, path: str) -> _Registered | None:
        try:
            asked = urllib.request.Request(self._url + path, headers=self._headers)
            with self._opener.open(asked, timeout=TIMEOUT_S) as answer:
                found: Any = json.loads(answer.read(ANSWER_MAX_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            if error.code in (401, 403):
                raise UsageError(
                    f"registry {self._shown}: {error.code} {error.reason}: expected {USER}=USER:PASSWORD in the environment"
                ) from error
            raise PipelineError(f"registry {self._shown}: {error.code} {error.reason}") from error
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise PipelineError(f"registry {self._shown} does not answer: {getattr(error, 'reason', error)}") from error
        try:
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in found.get("references") or ()
            )
            return _Registered(str(found.get("schemaType") or AVRO), str(found["schema"]), references)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise PipelineError(
                f"registry {self._shown}{path}: expected an object with `schema`, found another answer"
            ) from None


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
                " name that server as the registry"
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

    def schema(self, which: int | str) -> Schema | None:
        name = str(which)
        return parse_schema(AVRO, self._read(name), {}, is_new=False) if os.path.exists(self._path(name)) else None

    def latest(self, subject: str) -> str:
        names = {name.removesuffix(".avsc") for name in os.listdir(self._folder) if name.endswith(".avsc")}
        newest = max((name for name in names if name.isdecimal()), key=int, default=subject)
        return self._read(subject if subject in names else newest)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.avsc")

    def _read(self, name: str) -> str:
        path = self._path(name)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            raise UsageError(f"{path}: expected a schema, file not found") from None
