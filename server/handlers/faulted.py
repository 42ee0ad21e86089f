"""Layer between connections and handlers while faults are declared: a fault replaces the response to a request that it matches,
or acts in addition to it.

If several faults match, only the one declared first acts. Large requests are searched for names, and large responses are split,
in a worker thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar, TypeVarTuple

import trio

from ...protocol.apis import API_VERSIONS_KEY
from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ...protocol.records import HEADER_BYTES
from ...protocol.wire import as_array
from ...storage.disk.files import FileSlice
from ..faults.answers import RequestView
from ..faults.declaration import Declaration
from ..faults.error_fields import ERROR_FIELDS, NameKind, names
from ..faults.table import DeclaredFault, Faults
from ..network.dispatcher import Handler, HangUpError, finished
from ..network.large_requests import READ_ELEMENTS_AT_ONCE
from ..partitions.fetch_sessions import FetchSessions, TopicKey
from ..partitions.topics import Topics
from ..services.context import Context

PRODUCE_KEY, FETCH_KEY, METADATA_KEY, ALTER_REPLICA_LOG_DIRS_KEY = 0, 1, 3, 34
OF_ALL = {METADATA_KEY, 35, 75}
"""APIs whose responses may be about thousands of topics, whatever the request names: Metadata, DescribeLogDirs,
DescribeTopicPartitions."""
TOPIC_IDS = 13
"""First Fetch version with topic ids."""
BATCH_START_BYTES = 12
"""Size of a batch's base offset and length. The length counts the bytes after it."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def matching_api_keys(declaration: Declaration) -> frozenset[int]:
    """Return the keys of the APIs whose requests a fault may match."""
    if declaration.api_key is not None:
        return frozenset({declaration.api_key})
    if declaration.corrupt_batch:
        return frozenset({FETCH_KEY})
    return _naming(frozenset(declaration.required_names))


@cache
def _naming(kinds: frozenset[NameKind]) -> frozenset[int]:
    """Return the keys of the APIs whose requests name all these kinds. Cached, as it is called for a thousand faults whenever
    one of them is spent."""
    return frozenset(key for key in ERROR_FIELDS if kinds <= names(key))


def wrap_with_faults(faults: Faults, handler: Handler) -> Handler:
    """Wrap a handler with the faults."""

    async def handle(ctx: Context, request: Request) -> Any:
        met = _Met(ctx, request, handler)
        async for fault in ctx.time_slice.each(faults.active()):
            declaration = fault.declaration
            if not met.is_of(declaration) or not await met.is_named_by(declaration):
                continue
            if declaration.corrupt_batch:
                return await met.damaged(fault)
            if fault.take():
                return await met.apply(fault)
        return await finished(handler(ctx, request))

    return handle


class _Met:
    """A request to which faults may apply."""

    def __init__(self, ctx: Context, request: Request, handler: Handler) -> None:
        self._ctx = ctx
        self._request = request
        self._handler = handler
        self._made: RequestView | None = None
        self._is_large = request.elements > READ_ELEMENTS_AT_ONCE or request.api.key in OF_ALL

    @property
    def _key(self) -> int:
        return self._request.api.key

    @property
    def _is_unanswered(self) -> bool:
        return self._key == PRODUCE_KEY and self._request.body.acks == 0

    def is_of(self, it: Declaration) -> bool:
        """Return whether the API, the version, the node and the client are those of the fault."""
        request = self._request
        return (
            it.disk is None
            and it.api_key in (None, request.api.key)
            and it.version in (None, request.version)
            and it.client_id in (None, request.client_id)
            and it.node in (None, self._ctx.node.node_id)
            and not (it.corrupt_batch and self._key != FETCH_KEY)
            and not (it.drop_response and self._is_unanswered)
        )

    async def is_named_by(self, it: Declaration) -> bool:
        """Return whether the request names the fault's objects, and its response has a place for the fault's error."""
        wanted = it.required_names
        if not wanted and it.error is None:
            return True
        asked = await self._request_view()
        if wanted and not await self._run_work(asked.names, wanted):
            return False
        return it.error is None or asked.has_place_for(wanted, it.error_code)

    async def apply(self, fault: DeclaredFault) -> Any:
        """Let the fault act. Raises HangUpError, and any error of the handler."""
        it, ctx = fault.declaration, self._ctx
        is_after = it.after or it.drop_response or it.disconnect == "after"
        if not is_after:
            fault.hit()
        if it.delay_ms:
            await ctx.client.hold(fault.removed, it.delay_ms / 1000, is_client_needed=False)
            if fault.removed.is_set():
                return await finished(self._handler(ctx, self._request))
        if it.disconnect == "before":
            raise HangUpError(f"injected by fault {fault.id}, before executing {self._request.api.name}")
        if it.error is not None:
            return await (self._refused_after(fault) if it.after else self._refused(fault))
        answer = await finished(self._handler(ctx, self._request))
        if not is_after:
            return answer
        del answer  # it may be large
        fault.hit()
        if it.drop_response:
            await ctx.client.hold(fault.removed, math.inf, is_client_needed=True)
        raise HangUpError(f"injected by fault {fault.id}, after executing {self._request.api.name}")

    async def damaged(self, fault: DeclaredFault) -> Any:
        """Return the response to a Fetch with a damaged batch in each matching partition, if it has any."""
        it, ctx = fault.declaration, self._ctx
        answer: FetchResponse = await finished(self._handler(ctx, self._request))
        harmed = {}
        for topic in answer.responses:
            name = topic.topic or _topic_name(self._ctx.services.topics, topic.topic_id)
            async for data in ctx.time_slice.each(topic.partitions):
                is_meant = it.topic in (None, name) and it.partition in (None, data.partition_index)
                if is_meant and isinstance(data.records, FileSlice):
                    harmed[id(data)] = data.records
        if not harmed or not fault.take():
            return answer
        fault.hit()
        if it.delay_ms:
            await ctx.client.hold(fault.removed, it.delay_ms / 1000, is_client_needed=False)
            if fault.removed.is_set():
                return answer
        records = {key: await _thread(faults_thread(), _with_a_wrong_byte, part) for key, part in harmed.items()}
        ctx.time_slice.begin()

        def replace_records(data: PartitionData) -> PartitionData:
            return replace(data, records=records[id(data)]) if id(data) in records else data

        topics = []
        for topic in answer.responses:
            topics.append(
                replace(topic, partitions=as_array(await ctx.time_slice.map(replace_records, topic.partitions)))
            )
        return replace(answer, responses=as_array(topics))

    async def _refused(self, fault: DeclaredFault) -> Any:
        """Return the response with the fault's error; parts of the request that the fault does not match are handled."""
        it, ctx, request = fault.declaration, self._ctx, self._request
        if self._key == API_VERSIONS_KEY and it.error_code is ErrorCode.UNSUPPORTED_VERSION:
            request.body = None  # the answer is in version 0 then
            return await finished(self._handler(ctx, request))
        wanted, code, message = it.required_names, it.error_code, _message(fault)
        if self._key == ALTER_REPLICA_LOG_DIRS_KEY:
            # Its request names partitions a level deeper than its response, so a fault applies to all of it.
            from .alter_replica_log_dirs import refused

            return await refused(ctx, request, KafkaError(code, message))
        asked = await self._request_view()
        if ERROR_FIELDS[self._key].is_overlaid and not asked.is_on_top(wanted, code):
            answer = await finished(self._handler(ctx, _without_effects(request)))
            answer = await self._run_work(asked.overlaid, answer, wanted, code, message)
            if self._key != FETCH_KEY:
                return answer
            _, told = await self._run_work(asked.split, wanted, code, message)
            self._retract(told)
            return await self._run_work(asked.merged, answer, told)
        rest, told = await self._run_work(asked.split, wanted, code, message)
        if rest is not None:
            carried_out = await finished(self._handler(ctx, replace(request, body=rest)))
            told = told if carried_out is None else await self._run_work(asked.merged, carried_out, told)
        return self._answer_or_hang_up(fault, told)

    async def _refused_after(self, fault: DeclaredFault) -> Any:
        it, ctx = fault.declaration, self._ctx
        if self._key == API_VERSIONS_KEY and it.error_code is ErrorCode.UNSUPPORTED_VERSION:
            fault.hit()
            return await self._refused(fault)
        asked = await self._request_view()
        answer = await finished(self._handler(ctx, self._request))
        fault.hit()
        if answer is not None:
            answer = await self._run_work(asked.overlaid, answer, it.required_names, it.error_code, _message(fault))
        return self._answer_or_hang_up(fault, answer)

    def _answer_or_hang_up(self, fault: DeclaredFault, answer: Any) -> Any:
        if self._is_unanswered:
            raise ProtocolError(f"acks=0 produce failed with {fault.declaration.error}: {_message(fault)}")
        return answer

    async def _request_view(self) -> RequestView:
        if self._made is None:
            topics = self._ctx.services.topics

            def there_is(topic: str, partition: int | None) -> bool:
                found = topics.get(topic)
                return found is not None and (partition is None or partition < len(found.partitions))

            body = None if self._key != FETCH_KEY else await self._with_session()
            # It must not refer to this object: a cycle would keep the request, of megabytes maybe, until the garbage collector
            # runs.
            self._made = RequestView(self._request, partial(_topic_name, topics), there_is, body)
        return self._made

    async def _with_session(self) -> FetchRequest:
        """Return a Fetch with all its partitions: a request in a session names only the new ones."""
        body: FetchRequest = self._request.body
        known = self._sessions.known_to(body, by_topic_id=self._is_by_id)
        if known is None:
            return body
        self._is_large |= len(known) > READ_ELEMENTS_AT_ONCE
        return await self._run_work(_all_of, body, known, self._is_by_id)

    @property
    def _sessions(self) -> FetchSessions:
        return self._ctx.services.fetch_sessions[self._ctx.node.node_id]

    @property
    def _is_by_id(self) -> bool:
        return self._request.version >= TOPIC_IDS

    def _retract(self, told: FetchResponse) -> None:
        self._sessions.retract(
            self._request.body,
            (
                (topic.topic_id if self._is_by_id else topic.topic, data.partition_index)
                for topic in told.responses
                for data in topic.partitions
            ),
        )

    async def _run_work(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Run `work(*arguments)`, which reads the request or its response."""
        if not self._is_large:
            return work(*arguments)
        result = await _thread(faults_thread(), work, *arguments)
        self._ctx.time_slice.begin()
        return result


_THREAD: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("the thread of faults")


def faults_thread() -> trio.CapacityLimiter:
    """Return the limiter of the one thread for work of faults on requests."""
    try:
        return _THREAD.get()
    except LookupError:
        limiter = trio.CapacityLimiter(1)
        _THREAD.set(limiter)
        return limiter


async def _thread(
    limiter: trio.CapacityLimiter, work: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    return await trio.to_thread.run_sync(work, *arguments, limiter=limiter)


def _topic_name(topics: Topics, topic_id: bytes) -> str | None:
    topic = topics.by_id(topic_id)
    return None if topic is None else topic.name


def _message(fault: DeclaredFault) -> str:
    return f"injected by fault {fault.id}"


def _without_effects(request: Request) -> Request:
    """Remove side effects and waits from a request of an API that is handled in addition to an error."""
    if request.api.key == FETCH_KEY:
        return replace(request, body=replace(request.body, max_wait_ms=0))
    if request.api.key == METADATA_KEY:
        return replace(request, body=replace(request.body, allow_auto_topic_creation=False))
    return request


def _all_of(body: FetchRequest, known: list[tuple[TopicKey, int]], by_topic_id: bool) -> FetchRequest:
    topics: dict[TopicKey, dict[int, None]] = {}
    for topic, partition in known:
        topics.setdefault(topic, {})[partition] = None
    for asked in body.topics:
        found = topics.setdefault(asked.topic_id if by_topic_id else asked.topic, {})
        found.update((each.partition, None) for each in asked.partitions)
    for forgotten in body.forgotten_topics_data:
        found = topics.get(forgotten.topic_id if by_topic_id else forgotten.topic, {})
        for partition in forgotten.partitions:
            found.pop(partition, None)
    return replace(body, topics=as_array([*_fetch_topics(topics)]))


def _fetch_topics(topics: dict[TopicKey, dict[int, None]]) -> Iterator[FetchTopic]:
    for topic, partitions in topics.items():
        rows = as_array([FetchPartition(partition=each) for each in partitions])
        if isinstance(topic, str):
            yield FetchTopic(topic=topic, partitions=rows)
        else:
            yield FetchTopic(topic_id=topic, partitions=rows)


def _with_a_wrong_byte(part: FileSlice) -> bytes:
    """Read the first batch, with one byte in the middle of its records changed; in a batch without records, a byte of its
    checksum."""
    start = FileSlice(part.file, part.position, BATCH_START_BYTES).read()
    size_bytes = min(BATCH_START_BYTES + int.from_bytes(start[8:], "big"), part.size_bytes)
    batch = bytearray(FileSlice(part.file, part.position, size_bytes).read())
    at = HEADER_BYTES + (size_bytes - HEADER_BYTES) // 2 if size_bytes > HEADER_BYTES else 17
    batch[at] ^= 0xFF
    return bytes(batch)
