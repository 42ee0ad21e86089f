"""The listener of the schema registry: the API of Confluent's Schema Registry, with the access rules of the admin listener.

A token may be sent as a bearer token, or as the password of Basic authentication, with any user name: clients of registries
have an option for that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from ..broker.broker import Broker
from ..registry.endpoints import ENDPOINTS, Endpoint, Plain, Request, in_context, with_alias
from ..registry.errors import RegistryError
from ..registry.registry import registry_of
from ..runtime.errors import ControlError
from ..runtime.threads import Worker, in_worker
from ..runtime.time_slices import TimeSlice
from .access import HttpRefusal
from .call import JSON_TYPE, Supervisor
from .conversation import Answers, HttpConversation
from .json_values import encoded
from .listening import HttpListener, address_of
from .replies import READ_AT_ONCE_BYTES, Reply, json_object, query_fields
from .routing import Route, RouteTable, split

if TYPE_CHECKING:
    from ..page.pages import Pages

log = logging.getLogger("ottla.registry")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
CONTENT_TYPES = (
    CONTENT_TYPE,
    "application/vnd.schemaregistry+json",
    JSON_TYPE,
    "application/octet-stream",
)
PLAIN = "text/plain; charset=utf-8"
KEPT_MAX, KEPT_BYTES_MAX = 256, 16 << 10
"""Limits of the responses that are kept: their number, and the bytes of each one with its request."""


def refusal(status: int, sentence: str, *headers: tuple[str, str], code: int | None = None) -> Reply:
    """Return an error in the form of Confluent's registry."""
    body = {"error_code": status if code is None else code, "message": " ".join(sentence.split())}
    return Reply(status, json.dumps(body).encode(), CONTENT_TYPE, headers)


class RegistryTable(RouteTable[Endpoint]):
    """The calls of the registry, also below `/contexts/NAME`."""

    def parts(self, target: str) -> tuple[str, str]:
        path, query = split(target)
        if path.startswith("/contexts/"):
            path, query = in_context(path, query)
        return path if len(path) == 1 else path.removesuffix("/"), query


class RegistryAnswering:
    """Answers requests for the registry of one broker, across its restarts."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.table = RegistryTable(ENDPOINTS)
        self._supervisor = supervisor

    async def answer(self, route: Route[Endpoint], body: bytes) -> Reply:
        """Run a call and return its response: 200, or an error."""
        call = route.call

        async def in_run(broker: Broker) -> Reply:
            registry, kept = registry_of(broker), _replies_of(broker)
            position = registry.topic.position
            key = (call.function, route.query, body, *(text for _, text in route.from_path))
            if (reply := kept.find(position, key)) is None:
                fields = query_fields(route.query)
                request = Request(
                    dict(route.from_path),
                    dict(fields),
                    await _parsed(body),
                    broker.services.cluster.cluster_id,
                    len(body),
                    fields,
                )
                reply = await _reply(await call.function(registry, await with_alias(registry, request, call.path)))
                if registry.topic.position == position:
                    kept.keep(position, key, reply)
            return reply

        try:
            return await self._supervisor.call(in_run)
        except RegistryError as error:
            return refusal(error.status, str(error), code=error.code)
        except HttpRefusal as error:
            return refusal(error.status, str(error))
        except ControlError as error:  # the broker stops, or is down
            return refusal(error.kind.value, str(error))
        except Exception as error:
            if not self._supervisor.is_serving:
                log.debug("%s %s interrupted: the broker stopped", call.method, call.path, exc_info=error)
                return refusal(503, "the broker stopped before the request was completed")
            log.exception("%s %s failed", call.method, call.path)
            return refusal(500, f"internal error in {call.method} {call.path}; see the broker's log", code=50001)


class KeptReplies:
    """Responses of a run to requests that changed nothing: they are the same until `_schemas` changes.

    Each process of a test run asks for the same schemas.
    """

    def __init__(self) -> None:
        self._position: object = None
        self._replies: dict[tuple[object, ...], Reply] = {}

    def find(self, position: object, key: tuple[object, ...]) -> Reply | None:
        """Return the response to an equal request with the state at the same position."""
        return self._replies.get(key) if position is not None and position == self._position else None

    def keep(self, position: object, key: tuple[object, ...], reply: Reply) -> None:
        """Keep a response, if it is small. None as the position: the state is not current."""
        size_bytes = len(reply.body) + sum(len(each) for each in key if isinstance(each, str | bytes))
        if position is None or size_bytes > KEPT_BYTES_MAX:
            return
        if position != self._position or len(self._replies) == KEPT_MAX:
            self._position, self._replies = position, {}
        self._replies[key] = reply


def _replies_of(broker: Broker) -> KeptReplies:
    found = broker.kept.get(KeptReplies)
    if not isinstance(found, KeptReplies):
        found = broker.kept[KeptReplies] = KeptReplies()
    return found


async def _reply(found: Any) -> Reply:
    if isinstance(found, Plain):
        return Reply(200, found.text.encode(errors="replace"), PLAIN)
    if _is_small(found):
        return Reply(200, json.dumps(found).encode(), CONTENT_TYPE)
    reply = Reply(200, await in_worker(encoded, found, Worker.REGISTRY), CONTENT_TYPE)
    if isinstance(found, list):
        await TimeSlice().empty(found)  # A hundred thousand elements would otherwise be freed at once.
    return reply


async def _parsed(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    if len(body) <= READ_AT_ONCE_BYTES:
        return json_object(body)
    return await in_worker(json_object, body, Worker.SCHEMAS)


def _is_small(found: Any) -> bool:
    """Return whether a response takes well below a millisecond to be written."""
    if isinstance(found, dict):
        return sum(len(each) if isinstance(each, str) else 1000 for each in found.values()) < READ_AT_ONCE_BYTES
    return not isinstance(found, list) or (len(found) < 1000 and not any(isinstance(each, dict) for each in found))


class RegistryHttp(HttpListener):
    """The registry's listener of one broker; arguments of `HttpListener`."""

    NAME = "SCHEMA REGISTRY"
    CONNECTIONS = 256  # clients of a registry keep their connections open, and each process of a test run has some

    def __init__(self, address: str, token: str | None = None) -> None:
        super().__init__(address, token, option="--schema-registry", takes_basic=True)

    async def run(self, supervisor: Supervisor) -> None:
        """Answer requests until cancelled, across the broker's restarts."""
        log.info("schema registry on http://%s", self.address)
        await self._serve_all(RegistryAnswering(supervisor), None)

    def _conversation(
        self, stream: trio.abc.Stream, answering: Answers, pages: Pages | None, *, for_probes: bool
    ) -> HttpConversation:
        return HttpConversation(
            stream,
            answering,
            self._access,
            address=address_of(stream),
            for_probes=for_probes,
            content_types=CONTENT_TYPES,
            refuse=refusal,
        )
