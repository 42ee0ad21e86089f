"""The HTTP API of Confluent's Schema Registry, as its clients use it: a table of calls.

A call is a function of the registry and a request. It returns what becomes the JSON body, or a `Plain` text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ...protocol.schemas import KINDS
from ...protocol.schemas.values import MAX_TEXT_BYTES
from ..runtime.threads import Worker, in_worker
from . import errors
from .names import (
    DEFAULT_CONTEXT,
    EVERYTHING,
    SUBJECT_CHARACTERS_MAX,
    bare_name,
    context_named,
    context_of,
    normalized,
    qualified,
)
from .options import OPTIONS, check_metadata, check_rules, property_of
from .records import (
    INT32_MAX,
    REFERENCES_MAX,
    Content,
    Json,
    UnreadableRecordError,
    Version,
    content_fields,
    content_of,
    references_of,
)
from .registry import LATEST, NewSchema, Registry, version_of
from .state import State

PAGE_MAX = 1_000
"""Maximum number of schemas in one response, as in Confluent's registry."""
AT_ONCE_BYTES = 64 << 10
RESPONSE_CHARACTERS_MAX = 32 << 20
SETTINGS_MAX = 100
"""Maximum number of options in one request."""
FIRST_KIND = "AVRO"


class Plain(NamedTuple):
    """A response that is a schema's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed request."""

    path: dict[str, str]
    query: dict[str, str]
    body: Mapping[str, Json]
    cluster_id: str = ""
    body_bytes: int = 0
    fields: Sequence[tuple[str, str]] = ()
    """All names and texts of the query, also of names that are repeated."""

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is `true`."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number of the query. RegistryError 422: it is not one."""
        return _number(self.query.get(name, str(default)), name)

    @property
    def subject(self) -> str:
        """The subject in the path. RegistryError 42208: the name is invalid."""
        return normalized(self.path["subject"])

    @property
    def scope(self) -> str | None:
        """The subject or context whose setting is meant; None for all. RegistryError 42208: the name is invalid."""
        subject = self.path.get("subject")
        return None if subject is None or subject in (EVERYTHING, ":.:") else normalized(subject)

    @property
    def version(self) -> int:
        """The version in the path, or LATEST. RegistryError 42202: it is not one."""
        text = self.path["version"]
        if text in ("latest", "-1"):
            return LATEST
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= INT32_MAX):
            raise errors.invalid_version(text)
        return int(text)

    @property
    def deleted(self) -> Callable[[Version], bool]:
        """The filter of versions that the query names."""
        if self.flag("deletedOnly"):
            return lambda version: version.is_deleted
        return (lambda version: True) if self.flag("deleted") else (lambda version: not version.is_deleted)

    def page(self, found: list[Any], limit_max: int | None = None) -> list[Any]:
        """Return the part of a list that `offset` and `limit` name."""
        first, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        if limit < 0 or (limit_max is not None and limit > limit_max):
            limit = len(found) if limit_max is None else limit_max
        return found[first : first + limit]

    def new_schema(self) -> NewSchema:
        """Return the schema in the body. RegistryError 422: a field is malformed; 42201: the type is unknown."""
        text, kind = self.body.get("schema") or "", self.body.get("schemaType") or FIRST_KIND
        if not isinstance(text, str):
            raise errors.invalid_schema(f"schema: expected a text, found {errors.shown(text)}")
        if len(text) > MAX_TEXT_BYTES:
            raise errors.invalid_schema(f"schema: too large ({len(text)} characters, limit {MAX_TEXT_BYTES} bytes)")
        if not isinstance(kind, str) or kind not in KINDS:
            raise errors.invalid_schema(
                f"schemaType: invalid ({errors.shown(kind)}, expected one of {', '.join(KINDS)})"
            )
        if "metadata" in self.body or "ruleSet" in self.body:
            check_metadata(self.body.get("metadata"))
            check_rules(self.body.get("ruleSet"))
        try:
            given = self.body.get("references")
            if isinstance(given, list) and len(given) > REFERENCES_MAX:
                raise errors.malformed(f"references: too many ({len(given)}, limit {REFERENCES_MAX})")
            references = references_of(given)
            for each in references:
                if max(len(each.name), len(each.subject)) > SUBJECT_CHARACTERS_MAX:
                    raise errors.malformed(
                        f"references: a name is too long (limit {SUBJECT_CHARACTERS_MAX} characters)"
                    )
        except UnreadableRecordError as error:
            raise errors.malformed(str(error)) from None
        content = content_of(kind, text, references, self.body.get("metadata"), self.body.get("ruleSet"))
        version = LATEST if self.body.get("version") == -1 else self._optional("version")
        return NewSchema(content, self.flag("normalize"), self._optional("id"), version, self.flag("force"))

    def _optional(self, name: str) -> int | None:
        found = self.body.get(name)
        if found is None or found == -1 or (name == "version" and found == 0):
            return None
        if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= INT32_MAX:
            raise errors.malformed(f"{name}: expected a number from 1 to {INT32_MAX}, found {errors.shown(found)}")
        return found


Function = Callable[[Registry, Request], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call."""

    method: str
    path: str
    """A template: `{name}` is a segment."""
    function: Function
    only_waits: bool = False
    without_token: bool = False


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str) -> Callable[[Function], Function]:
    """Declare a call; those on a subject also below `/contexts/{context}`, the base URL of a client that uses one context."""

    def declare(function: Function) -> Function:
        ENDPOINTS.append(Endpoint(method, path, function))
        return function

    return declare


def _number(text: str, name: str) -> int:
    try:
        found = int(text[:12])
    except ValueError:
        found = INT32_MAX + 1
    if not -1 <= found <= INT32_MAX:
        raise errors.malformed(f"{name}: expected a number up to {INT32_MAX}, found {text[:100]!r}")
    return found


# Schemas by id


@endpoint("GET", "/")
async def _root(registry: Registry, request: Request) -> Json:
    return {}


@endpoint("GET", "/schemas/types")
async def _types(registry: Registry, request: Request) -> Json:
    return list(KINDS)


@endpoint("GET", "/schemas")
async def _schemas(registry: Registry, request: Request) -> Json:
    """List schemas, by subject and version."""
    is_shown, latest_only = request.deleted, request.flag("latestOnly")

    def listed(state: State) -> Json:
        found: list[Version] = []
        for subject in _subjects_with_prefix(state, request):
            versions = [each for each in _versions_in(state, subject) if is_shown(each)]
            found += versions[-1:] if latest_only else versions
        page = request.page(found, PAGE_MAX)
        size = sum(each.content.size_bytes for each in page)
        if size > RESPONSE_CHARACTERS_MAX:
            raise errors.malformed(
                f"the response is too large ({size} characters, limit {RESPONSE_CHARACTERS_MAX}); use limit"
            )
        return [_version_fields(each) for each in page]

    return await in_worker(listed, await registry.state(), Worker.REGISTRY)


@endpoint("GET", "/schemas/ids/{id}")
async def _schema_by_id(registry: Registry, request: Request) -> Json:
    context, _, content, state = await _by_id(registry, request)
    fields = {
        **content_fields(content),
        "schema": await _text(registry, request, context, content),
        "guid": content.guid,
    }
    if request.flag("fetchMaxId"):
        fields["maxId"] = state.contexts[context].last_id
    return fields


@endpoint("GET", "/schemas/ids/{id}/schema")
async def _text_by_id(registry: Registry, request: Request) -> Json:
    context, _, content, _ = await _by_id(registry, request)
    return Plain(await _text(registry, request, context, content))


@endpoint("GET", "/schemas/ids/{id}/subjects")
async def _subjects_of_id(registry: Registry, request: Request) -> Json:
    context, schema_id, _, state = await _by_id(registry, request)
    is_shown = request.deleted

    def listed(state: State) -> Json:
        found = [each.subject for each in state.places(context, schema_id) if is_shown(each)]
        return request.page(list(dict.fromkeys(found)))

    return await in_worker(listed, state, Worker.REGISTRY)


@endpoint("GET", "/schemas/ids/{id}/versions")
async def _versions_of_id(registry: Registry, request: Request) -> Json:
    context, schema_id, _, state = await _by_id(registry, request)
    is_shown = request.deleted

    def listed(state: State) -> Json:
        found = [each for each in state.places(context, schema_id) if is_shown(each)]
        return request.page([{"subject": each.subject, "version": each.version} for each in found])

    return await in_worker(listed, state, Worker.REGISTRY)


@endpoint("GET", "/schemas/guids/{guid}")
async def _schema_by_guid(registry: Registry, request: Request) -> Json:
    guid = request.path["guid"].lower()

    def find(state: State) -> tuple[str, Content] | None:
        for context, known in list(state.contexts.items()):
            content = known.contents.get(known.ids.get(guid, -1))
            if content is not None:
                return context, content
        return None

    found = await in_worker(find, await registry.state(), Worker.REGISTRY)
    if found is None:
        raise errors.schema_not_found(request.path["guid"][:100])
    context, content = found
    return {
        **content_fields(content),
        "schema": await _text(registry, request, context, content),
        "guid": content.guid,
    }


@endpoint("GET", "/schemas/guids/{guid}/ids")
async def _ids_of_guid(registry: Registry, request: Request) -> Json:
    guid = request.path["guid"].lower()

    def listed(state: State) -> Json:
        found = [(name, each.ids.get(guid)) for name, each in list(state.contexts.items())]
        return [{"context": name, "id": schema_id} for name, schema_id in found if schema_id is not None]

    return await in_worker(listed, await registry.state(), Worker.REGISTRY)


async def _by_id(registry: Registry, request: Request) -> tuple[str, int, Content, State]:
    """Return context, id and schema of a request, and the state. RegistryError 40403."""
    text = request.path["id"]
    state = await registry.state()
    schema_id = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    subject = request.query.get("subject")
    if subject:
        contexts: Iterable[str] = [context_of(normalized(subject))]
    else:
        contexts = [DEFAULT_CONTEXT]
    for context in contexts:
        content = state.content(context, schema_id)
        if content is not None:
            return context, schema_id, content, state
    raise errors.schema_not_found(text[:100])


async def _text(registry: Registry, request: Request, context: str, content: Content) -> str:
    """Return a schema's text in the format that the query names; other formats than `serialized` are ignored."""
    if request.query.get("format") == "serialized":
        return await registry.serialized(await registry.state(), context, content)
    return content.text


async def _new_schema(request: Request) -> NewSchema:
    """Return the schema in the body: digests of large bodies are computed in a worker thread."""
    return (
        request.new_schema()
        if request.body_bytes <= AT_ONCE_BYTES
        else await in_worker(Request.new_schema, request, Worker.REGISTRY)
    )


# Subjects


@endpoint("GET", "/contexts")
async def _contexts(registry: Registry, request: Request) -> Json:
    return await in_worker(
        lambda state: request.page(
            sorted(
                each
                for each in {DEFAULT_CONTEXT, *list(state.contexts)}
                if each.startswith(request.query.get("contextPrefix", ""))
            )
        ),
        await registry.state(),
        Worker.REGISTRY,
    )


@endpoint("GET", "/subjects")
async def _subjects(registry: Registry, request: Request) -> Json:
    is_shown = request.deleted

    def listed(state: State) -> Json:
        found = _subjects_with_prefix(state, request)
        return request.page([each for each in found if any(map(is_shown, _versions_in(state, each)))])

    return await in_worker(listed, await registry.state(), Worker.REGISTRY)


def _versions_in(state: State, subject: str) -> list[Version]:
    """Return a subject's versions. For a worker thread, while the state may change: the copy is made in one step."""
    return list(state.subjects.get(subject, {}).values())


def _subjects_with_prefix(state: State, request: Request) -> list[str]:
    prefix = request.query.get("subjectPrefix", EVERYTHING)
    if prefix.startswith(EVERYTHING):
        rest = prefix.removeprefix(EVERYTHING)
        return sorted(each for each in list(state.subjects) if not rest or bare_name(each).startswith(rest))
    prefix = prefix.removeprefix(":.:")
    context = context_of(prefix)
    return sorted(each for each in list(state.subjects) if each.startswith(prefix) and context_of(each) == context)


@endpoint("POST", "/subjects/{subject}")
async def _look_up(registry: Registry, request: Request) -> Json:
    found = await registry.look_up(request.subject, await _new_schema(request), deleted=request.flag("deleted"))
    return await _shown(registry, request, found)


@endpoint("DELETE", "/subjects/{subject}")
async def _delete_subject(registry: Registry, request: Request) -> Json:
    return await registry.delete_subject(request.subject, permanent=request.flag("permanent"))


@endpoint("GET", "/subjects/{subject}/metadata")
async def _with_metadata(registry: Registry, request: Request) -> Json:
    """Return the newest version with these properties; the query has a `key` and a `value` for each."""
    state, subject, is_shown = await registry.state(), request.subject, request.deleted
    keys, values = ([text for name, text in request.fields if name == of] for of in ("key", "value"))
    wanted = dict(zip(keys, values, strict=False))

    def newest(state: State) -> Version | None:
        for each in reversed(_versions_in(state, subject)):
            metadata = each.content.metadata
            if is_shown(each) and all(property_of(metadata, key) == value for key, value in wanted.items()):
                return each
        return None

    found = await in_worker(newest, state, Worker.REGISTRY)
    if found is not None:
        return await _shown(registry, request, found)
    if not state.has_subject(subject, deleted=True):
        raise errors.subject_not_found(subject)
    raise errors.schema_not_found()


@endpoint("GET", "/subjects/{subject}/versions")
async def _versions(registry: Registry, request: Request) -> Json:
    state, subject = await registry.state(), request.subject
    if not state.has_subject(subject, deleted=request.flag("deleted") or request.flag("deletedOnly")):
        raise errors.subject_not_found(subject)
    is_shown = request.deleted
    return await in_worker(
        lambda state: request.page([each.version for each in _versions_in(state, subject) if is_shown(each)]),
        state,
        Worker.REGISTRY,
    )


@endpoint("POST", "/subjects/{subject}/versions")
async def _register(registry: Registry, request: Request) -> Json:
    made = await registry.register(request.subject, await _new_schema(request))
    # Without the schema: clients keep what is returned as the text that they registered, e.g. a serialized descriptor.
    return {"id": made.id, "version": made.version, "guid": made.content.guid}


@endpoint("GET", "/subjects/{subject}/versions/{version}")
async def _version(registry: Registry, request: Request) -> Json:
    return await _shown(registry, request, await _wanted(registry, request))


@endpoint("GET", "/subjects/{subject}/versions/{version}/schema")
async def _text_of_version(registry: Registry, request: Request) -> Json:
    return Plain((await _wanted(registry, request)).content.text)


@endpoint("GET", "/subjects/{subject}/versions/{version}/referencedby")
async def _referenced_by(registry: Registry, request: Request) -> Json:
    state = await registry.state()
    found = version_of(state, request.subject, request.version, deleted=True)
    is_shown = request.deleted

    def listed(state: State) -> Json:
        referrers = state.at(list(state.referrers.get(found.place, ())))
        return request.page(sorted({each.id for each in referrers if is_shown(each)}))

    return await in_worker(listed, state, Worker.REGISTRY)


@endpoint("DELETE", "/subjects/{subject}/versions/{version}")
async def _delete_version(registry: Registry, request: Request) -> Json:
    return await registry.delete_version(request.subject, request.version, permanent=request.flag("permanent"))


async def _wanted(registry: Registry, request: Request) -> Version:
    return version_of(await registry.state(), request.subject, request.version, deleted=request.flag("deleted"))


async def _shown(registry: Registry, request: Request, found: Version) -> Json:
    return _version_fields(found) | {"schema": await _text(registry, request, context_of(found.subject), found.content)}


def _version_fields(found: Version) -> dict[str, Json]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "guid": found.content.guid,
        **content_fields(found.content),
        **({"deleted": True} if found.is_deleted else {}),
    }


# Compatibility


@endpoint("POST", "/compatibility/subjects/{subject}/versions")
async def _compatible(registry: Registry, request: Request) -> Json:
    return await _verdict(registry, request, None)


@endpoint("POST", "/compatibility/subjects/{subject}/versions/{version}")
async def _compatible_with_version(registry: Registry, request: Request) -> Json:
    return await _verdict(registry, request, request.version)


async def _verdict(registry: Registry, request: Request, version: int | None) -> Json:
    reasons = await registry.incompatibilities(request.subject, await _new_schema(request), version)
    return {"is_compatible": not reasons, **({"messages": reasons} if request.flag("verbose") else {})}


# Settings


@endpoint("GET", "/config")
@endpoint("GET", "/config/{subject}")
async def _config(registry: Registry, request: Request) -> Json:
    state, scope = await registry.state(), request.scope
    if scope is None or request.flag("defaultToGlobal"):
        return dict(state.config(scope))
    found = state.configs.get(scope)
    if found is None:
        raise errors.no_config(scope)
    return dict(found)


@endpoint("PUT", "/config")
@endpoint("PUT", "/config/{subject}")
async def _set_config(registry: Registry, request: Request) -> Json:
    if len(request.body) > SETTINGS_MAX:
        raise errors.malformed(f"too many options ({len(request.body)}, limit {SETTINGS_MAX})")
    options = {"compatibilityLevel" if name == "compatibility" else name: each for name, each in request.body.items()}
    options = {name: each for name, each in options.items() if name in OPTIONS}
    if not options:
        raise errors.malformed(f"expected one of compatibility, {', '.join(list(OPTIONS)[1:])}")
    found = await registry.set_config(request.scope, options)
    return {"compatibility" if name == "compatibilityLevel" else name: each for name, each in found.items()}


@endpoint("DELETE", "/config")
@endpoint("DELETE", "/config/{subject}")
async def _delete_config(registry: Registry, request: Request) -> Json:
    return dict(await registry.delete_config(request.scope))


@endpoint("GET", "/mode")
@endpoint("GET", "/mode/{subject}")
async def _mode(registry: Registry, request: Request) -> Json:
    state, scope = await registry.state(), request.scope
    if scope is not None and scope not in state.modes and not request.flag("defaultToGlobal"):
        raise errors.no_mode(scope)
    return {"mode": state.mode(scope) if scope is None or request.flag("defaultToGlobal") else state.modes[scope]}


@endpoint("PUT", "/mode")
@endpoint("PUT", "/mode/{subject}")
async def _set_mode(registry: Registry, request: Request) -> Json:
    return {"mode": await registry.set_mode(request.scope, request.body.get("mode"), force=request.flag("force"))}


@endpoint("DELETE", "/mode")
@endpoint("DELETE", "/mode/{subject}")
async def _delete_mode(registry: Registry, request: Request) -> Json:
    return {"mode": await registry.delete_mode(request.scope)}


# The registry itself


@endpoint("GET", "/v1/metadata/id")
async def _metadata_id(registry: Registry, request: Request) -> Json:
    clusters = {"kafka-cluster": request.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def with_alias(registry: Registry, request: Request, path: str) -> Request:
    """Return a request for a path (a template) in which a subject with an alias is the subject that it names.

    Settings are those of the subject itself.
    """
    in_query = path.startswith("/schemas/ids/")
    name = (request.query if in_query else request.path).get("subject")
    if not name or path.startswith(("/config", "/mode")):
        return request
    configs = (await registry.state()).configs
    subject = normalized(name) if configs else name
    alias = configs.get(subject, {}).get("alias")
    if not isinstance(alias, str) or not alias:
        return request
    named = {"subject": qualified(alias, context_of(subject))}
    return replace(request, query=request.query | named) if in_query else replace(request, path=request.path | named)


def in_context(path: str, query: str) -> tuple[str, str]:
    """Return path and query of a request without the prefix `/contexts/NAME`, which then qualifies its subjects.

    Clients that use one context have it in their base URL. A path without the prefix is unchanged.
    """
    first, *rest = path.removeprefix("/").split("/")
    if first != "contexts" or len(rest) < 2:
        return path, query
    name, *rest = rest
    context = f":{quote(context_named(unquote(name)), safe='')}:"
    named = next((at + 1 for at, each in enumerate(rest) if each in ("subjects", "config", "mode")), 0)
    parameter = (
        {"subjects": "subjectPrefix", "schemas": "subject"}.get(rest[0], "") if rest != ["schemas"] else "subjectPrefix"
    )
    if named and named < len(rest):
        rest[named] = context + rest[named]
    elif rest[0] in ("config", "mode"):
        rest.append(context)
    elif parameter:
        fields = dict(parse_qsl(query, keep_blank_values=True))
        query = urlencode(fields | {parameter: unquote(context) + fields.get(parameter, "")})
    return "/" + "/".join(rest), query
