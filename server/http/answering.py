"""From a request to its response: find the call, check the request, run the call."""

from __future__ import annotations

import json
import json.scanner
import logging
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl

import trio

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..broker.supervisor import RunEndedError
from ..runtime.errors import ControlError, Kind
from ..runtime.errors import refusal as kafka_refusal
from ..runtime.threads import in_worker
from .access import HttpRefusal
from .call import JSON_TYPE, Supervisor, Text
from .json_values import decoded, encoded, from_texts
from .table import AnyCall, CallTable, Route

log = logging.getLogger("ottla.admin")

READ_AT_ONCE_BYTES = 64 << 10
"""Maximum bytes of JSON that are parsed on Trio's thread: a millisecond or two."""
QUERY_FIELDS_MAX = 100


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()


def refusal(status: int, sentence: str, *headers: tuple[str, str]) -> Reply:
    """Return `{"error": sentence}`, in one line whatever names it contains."""
    return Reply(status, encoded({"error": " ".join(sentence.split())}), headers=headers)


class Answering:
    """Answers requests for one broker, across its restarts."""

    def __init__(self, supervisor: Supervisor, table: CallTable) -> None:
        self.table = table
        self._supervisor = supervisor

    async def answer(self, route: Route, body: bytes) -> Reply:
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

    async def _request(self, route: Route, body: bytes) -> Any:
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


def query_fields(text: str) -> list[tuple[str, str]]:
    """Parse the names and texts of a query. HttpRefusal 400: too many, or not UTF-8."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as error:
        raise HttpRefusal(400, f"expected a query of at most {QUERY_FIELDS_MAX} fields in UTF-8: {error}") from None


class _Patient(json.JSONDecoder):
    """Decoder in Python, which is slower: the decoder in C lets no other thread run before it ends."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_no_number)
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # typeshed lacks it


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body that is a JSON object; HttpRefusal 400 if it is not."""
    decoder = json.JSONDecoder(parse_constant=_no_number) if len(body) <= READ_AT_ONCE_BYTES else _Patient()
    try:
        found = decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise HttpRefusal(400, f"expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise HttpRefusal(400, f"expected a JSON object, found {type(found).__name__}")
    return found
