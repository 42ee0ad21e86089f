"""From a request to its response: find the call, check the request, run the call."""

from __future__ import annotations

import logging
from typing import Any

import trio

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..broker.supervisor import RunEndedError
from ..runtime.errors import ControlError, Kind
from ..runtime.errors import refusal as kafka_refusal
from ..runtime.threads import in_worker
from .access import HttpRefusal
from .call import Supervisor, Text
from .json_values import decoded, encoded, from_texts
from .replies import Reply, json_object, query_fields, refusal
from .routing import Route, RouteTable
from .table import AnyCall

log = logging.getLogger("ottla.admin")


class Answering:
    """Answers requests for one broker, across its restarts."""

    def __init__(self, supervisor: Supervisor, table: RouteTable[AnyCall]) -> None:
        self.table = table
        self._supervisor = supervisor

    async def answer(self, route: Route[AnyCall], body: bytes) -> Reply:
        """Run a call and return its response: 200, or an error."""
        call = route.call
        try:
            request = await self._request(route, body)
            answer = await self._called(call, request)
            if isinstance(answer, Text):
                # A directory may have a name that is not UTF-8.
                return Reply(200, answer.text.encode(errors="replace"), call.content_type)
            return Reply(200, await in_worker(encoded, answer))
        except HttpRefusal as error:
            return refusal(error.status, str(error))
        except ControlError as error:
            return refusal(error.kind.value, str(error))
        except KafkaError as error:
            told = kafka_refusal(error)
            return refusal(told.kind.value, str(told))
        except Exception:
            log.exception("%s %s failed", call.method, call.path)
            return refusal(500, f"internal error in {call.method} {call.path}; see the broker's log")

    async def _request(self, route: Route[AnyCall], body: bytes) -> Any:
        call = route.call
        fields = from_texts(call.request, route.from_path)
        if call.has_body:
            given = await in_worker(json_object, body) if body else {}
            source = "body"
        else:
            given = from_texts(call.request, query_fields(route.query))
            source = "query"
        if twice := given.keys() & fields.keys():
            raise ControlError(Kind.INVALID, f"{min(twice)}: expected only in the path, but also found in the {source}")
        given |= fields
        if len(body) < 1024:
            return decoded(call.request, given)
        return await in_worker(lambda found: decoded(call.request, found), given)

    async def _called(self, call: AnyCall, request: Any) -> object:
        """Run the call and return its result. ControlError if the broker's run ends before."""
        supervisor = self._supervisor
        if call.any_time:
            return await call.function(supervisor, request)
        ended: trio.Event | None = None

        async def call_in_run(_: Broker) -> object:
            nonlocal ended
            ended = supervisor.ended
            answer: object = await call.function(supervisor, request)
            return answer

        try:
            return await supervisor.call(call_in_run)
        except RunEndedError:
            raise
        except Exception as error:
            if ended is None or not ended.is_set():
                raise
            log.debug("%s %s interrupted: the broker stopped", call.method, call.path, exc_info=error)
            raise ControlError(Kind.UNAVAILABLE, "the broker stopped before the request was completed") from error
