"""Layer between connections and handlers while quotas are set: a client's use is measured, and above its quota it is throttled.

The response is sent at once and has the delay (`throttle_time_ms`); then the connection takes no further request for this time,
in any version of the request (KIP-219). Of several quotas the one with the longest delay counts.

- Produce: the bytes of the request count.
- Fetch: the bytes of the response. Above the quota the response is empty, and they do not count. No response is larger than the
  bytes that a client without recent use may get.
- ShareFetch: as Fetch, but above the quota the response has the acquired records, which no other member would get until their
  locks expire.
- CreateTopics, CreatePartitions, DeleteTopics: partitions, which the handlers count (`Context.mutations`); also Metadata, for
  topics that it creates.
- All, except those that only brokers send: the time for which a handler keeps Trio's thread, in percent of it. Other threads do
  not count, nor do other tasks while it waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from types import coroutine
from typing import Any, TypeVar

from ...protocol.apis import APIS
from ...protocol.connection import Request
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ..network.dispatcher import Handler, finished
from ..network.large_requests import write_now
from ..partitions.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from ..quotas.clients import NS_OF_A_PERCENT, ClientQuotas, QuotaClient
from ..quotas.validation import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from ..services.context import Context

PRODUCE_KEY, FETCH_KEY, METADATA_KEY, WRITE_TXN_MARKERS_KEY, SHARE_FETCH_KEY = 0, 1, 3, 27, 78
STRICT_SINCE = {19: 6, 37: 3, 20: 5}
"""First versions of CreateTopics, CreatePartitions and DeleteTopics whose clients know THROTTLING_QUOTA_EXCEEDED."""
TOPIC_IDS = 13
RESPONSE_HEADER_BYTES = 8
PARTITION_BYTES = 64
"""Approximate size of a partition in a response without its records, used if the response is too large to be written twice."""

Result = TypeVar("Result")
Timer = Callable[[], int]


def layers(
    quotas: ClientQuotas, keys: Collection[str], timer: Timer = perf_counter_ns
) -> dict[int, Callable[[Handler], Handler]]:
    """Return functions that wrap handlers, by API key, for quotas of these keys.

    Args:
        timer: Returns nanoseconds.
    """
    concerned: set[int] = set()
    if PRODUCER_BYTE_RATE in keys:
        concerned.add(PRODUCE_KEY)
    if CONSUMER_BYTE_RATE in keys:
        concerned |= {FETCH_KEY, SHARE_FETCH_KEY}
    if CONTROLLER_MUTATION_RATE in keys:
        concerned |= {METADATA_KEY, *STRICT_SINCE}
    if REQUEST_PERCENTAGE in keys:
        concerned |= APIS.keys() - {WRITE_TXN_MARKERS_KEY}
    return {key: partial(wrap_with_quotas, quotas, timer, key) for key in concerned}


def wrap_with_quotas(quotas: ClientQuotas, timer: Timer, key: int, handler: Handler) -> Handler:
    """Wrap a handler with the quotas."""
    kinds = {PRODUCE_KEY: _produce, FETCH_KEY: _fetch, SHARE_FETCH_KEY: _share_fetch}
    kind = kinds.get(key, _mutate if key in STRICT_SINCE else _handle_other)
    is_making_topics = key == METADATA_KEY

    async def handle(ctx: Context, request: Request) -> Any:
        client = QuotaClient(ctx.node.node_id, ctx.client.principal.name, request.client_id or "")
        if is_making_topics:
            ctx = replace(ctx, mutations=quotas.mutations(client, strict=True))
        answer, waits = await kind(_MetQuota(quotas, timer, client, ctx, request), handler)
        throttle_ms = max(waits.values(), default=0)
        if throttle_ms > 0:
            # Of two equal delays Apache Kafka reports the request quota's.
            quota = (
                REQUEST_PERCENTAGE
                if waits.get(REQUEST_PERCENTAGE) == throttle_ms
                else max(waits, key=waits.__getitem__)
            )
            quotas.mute(quota, client, throttle_ms)
            clock = ctx.services.clock
            ctx.client.mute(partial(clock.sleep_until, clock.elapsed_ms() + throttle_ms))
            if answer is not None and _tells_throttle_time(answer):
                answer = replace(answer, throttle_time_ms=throttle_ms)
        return answer

    return handle


class _MetQuota:
    """A request, and its use of quotas."""

    def __init__(self, quotas: ClientQuotas, timer: Timer, client: QuotaClient, ctx: Context, request: Request) -> None:
        self.quotas = quotas
        self.client = client
        self.ctx = ctx
        self.request = request
        self._timer = timer
        self._spent_ns = 0

    async def call_handler(self, handler: Handler, ctx: Context, request: Request) -> Any:
        """Call the handler, and measure its time."""
        if self.quotas.limit(REQUEST_PERCENTAGE, self.client) is None:
            return await finished(handler(ctx, request))
        return await _stepped(_called(handler, ctx, request), self._timer, self._spend)

    def _spend(self, ns: int) -> None:
        self._spent_ns += ns

    def time_waits(self) -> dict[str, int]:
        """Return the client's delay for the time that its request took."""
        return {REQUEST_PERCENTAGE: self.quotas.use(REQUEST_PERCENTAGE, self.client, self._spent_ns / NS_OF_A_PERCENT)}


Outcome = tuple[Any, dict[str, int]]
"""The response, and the delays in ms by quota."""


async def _handle_other(met: _MetQuota, handler: Handler) -> Outcome:
    answer = await met.call_handler(handler, met.ctx, met.request)
    return answer, met.time_waits()


async def _produce(met: _MetQuota, handler: Handler) -> Outcome:
    request = met.request
    size_bytes, is_answered = request.size_bytes, request.body.acks != 0
    answer = await met.call_handler(handler, met.ctx, request)
    waits = {PRODUCER_BYTE_RATE: met.quotas.use(PRODUCER_BYTE_RATE, met.client, size_bytes)}
    return answer, waits | (met.time_waits() if is_answered else {})


async def _mutate(met: _MetQuota, handler: Handler) -> Outcome:
    request = met.request
    strict = request.version >= STRICT_SINCE[request.api.key]
    mutations = met.quotas.mutations(met.client, strict=strict)
    answer = await met.call_handler(handler, replace(met.ctx, mutations=mutations), request)
    waits = {} if mutations is None else {CONTROLLER_MUTATION_RATE: mutations.throttle_ms}
    return answer, waits | met.time_waits()


def _bounded(request: Request, most_bytes: int | None) -> Request:
    """Limit a fetch to `most_bytes`."""
    body: FetchRequest | ShareFetchRequest = request.body
    if most_bytes is None or most_bytes >= body.max_bytes:
        return request
    return replace(request, body=replace(body, max_bytes=most_bytes, min_bytes=min(body.min_bytes, most_bytes)))


async def _share_fetch(met: _MetQuota, handler: Handler) -> Outcome:
    quotas, client = met.quotas, met.client
    most_bytes = quotas.bytes_without_throttling(client, CONSUMER_BYTE_RATE)
    request = _bounded(met.request, most_bytes)
    answer: ShareFetchResponse = await met.call_handler(handler, met.ctx, request)
    waits = met.time_waits()
    if most_bytes is not None:
        size_bytes = await _size_bytes(met.ctx, request, answer)
        waits[CONSUMER_BYTE_RATE] = quotas.use(CONSUMER_BYTE_RATE, client, size_bytes)
    return answer, waits


async def _fetch(met: _MetQuota, handler: Handler) -> Outcome:
    quotas, client = met.quotas, met.client
    most_bytes = quotas.bytes_without_throttling(client, CONSUMER_BYTE_RATE)
    request = _bounded(met.request, most_bytes)
    answer: FetchResponse = await met.call_handler(handler, met.ctx, request)
    waits = met.time_waits()
    if most_bytes is not None:
        size_bytes = await _size_bytes(met.ctx, request, answer)
        waits[CONSUMER_BYTE_RATE] = quotas.use(CONSUMER_BYTE_RATE, client, size_bytes)
        if max(waits.values()) > 0:
            quotas.take_back(CONSUMER_BYTE_RATE, client, size_bytes)
    return (await _emptied(met.ctx, request, answer) if max(waits.values()) > 0 else answer), waits


async def _emptied(ctx: Context, request: Request, answer: FetchResponse) -> FetchResponse:
    """Return the response without its partitions, and remove them from the client's session. A new session is not opened: the
    client fetches everything again, as with Apache Kafka."""
    sessions, body = ctx.services.fetch_sessions[ctx.node.node_id], request.body
    session_id = answer.session_id
    if body.session_epoch == INITIAL_EPOCH:
        sessions.forget(session_id)
        session_id = NO_SESSION
    elif session_id != NO_SESSION:
        async for topic in ctx.time_slice.each(answer.responses):
            name = topic.topic_id if request.version >= TOPIC_IDS else topic.topic
            sessions.retract(body, [(name, data.partition_index) for data in topic.partitions])
    return FetchResponse(error_code=answer.error_code, session_id=session_id, responses=())


async def _size_bytes(ctx: Context, request: Request, answer: FetchResponse | ShareFetchResponse) -> int:
    """Return the size that Apache Kafka counts: the body, and four bytes."""
    parts = write_now(request, answer)
    if parts is not None:
        header_bytes = RESPONSE_HEADER_BYTES + request.api.has_flexible_response_header(request.version)
        return sum(map(len, parts)) - header_bytes + 4
    size_bytes = 0
    topics: Sequence[Any] = answer.responses
    for topic in topics:
        async for data in ctx.time_slice.each(topic.partitions):
            size_bytes += PARTITION_BYTES + (len(data.records) if data.records else 0)
    return size_bytes


async def _called(handler: Handler, ctx: Context, request: Request) -> Any:
    """Call a handler within a coroutine, so that its work before the first wait also counts."""
    return await finished(handler(ctx, request))


def _tells_throttle_time(answer: Any) -> bool:
    return hasattr(answer, "throttle_time_ms")


@coroutine
def _stepped(handling: Awaitable[Result], timer: Timer, spend: Callable[[int], None]) -> Any:
    """Run it to its end; `spend` gets the time in ns of each step that kept the thread."""
    assert isinstance(handling, Coroutine)
    step: Callable[[Any], Any] = handling.send
    given: Any = None
    while True:
        begin_ns = timer()
        try:
            yielded = step(given)
        except StopIteration as end:
            return end.value
        finally:
            spend(timer() - begin_ns)
        try:
            given = yield yielded
            step = handling.send
        except BaseException as error:  # noqa: BLE001 -- what is thrown in, e.g. cancellation, is for the handler
            given, step = error, handling.throw
