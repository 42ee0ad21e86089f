"""Common parts of the APIs of share groups (KIP-932).

If the feature `share.version` is 0 they answer as Apache Kafka does: clients get UNSUPPORTED_VERSION before any
permission is checked. Clients that may act for the cluster get NOT_COORDINATOR, as no broker coordinates a share partition.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ..config.features import SHARE_GROUPS
from ..coordination.jobs import Steps
from ..runtime.time_slices import run_cooperatively
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_states import ShareStateShard
from ..sharing.state_coordinator import ShareStateCoordinator

Response = TypeVar("Response")

SHARE_GROUPS_ARE_OFF = "The version of API is not supported."
INVALID_GROUP = KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
UNKNOWN_PARTITION = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def are_served(ctx: Context) -> bool:
    """Return whether share groups are served."""
    return ctx.services.config.feature_level(SHARE_GROUPS) > 0


def check_served(ctx: Context) -> None:
    """Raise KafkaError UNSUPPORTED_VERSION if share groups are not served."""
    if not are_served(ctx):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


NOWHERE = -1
_OF_THE_COORDINATOR = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


class StateApi(NamedTuple, Generic[Response]):
    """API of the share coordinator, key 83 to 87: each request names share partitions of one group, and is answered partition
    by partition."""

    to: str
    """Purpose of the API, in Apache Kafka's words."""
    response: Callable[..., Response]
    topic: type[Any]
    partition: type[Any]
    act: Callable[[ShareStateCoordinator, SharePartitionKey, Any, int], Any]
    """Handles one row of a request at a wall time, and returns its answer. Raises KafkaError, as the coordinator does."""
    read: Callable[[Any], Steps[Any]] | None = None
    """Converts a row, in steps, to the argument of `act`."""

    async def handle(self, ctx: Context, request: Request) -> Response:
        """Handle each row on its own; when the response is sent, the records are on disk if `flush.messages` requires it.

        A row that is named twice is handled twice and answered once. With a topic without rows the whole response is empty, as
        in Apache Kafka.
        """
        body = request.body
        if not are_served(ctx):
            return await self.not_coordinator(ctx, request)
        service, clock, time_slice = ctx.services.coordinators.share_states, ctx.services.clock, ctx.time_slice
        if not body.group_id or not all(await time_slice.map(attrgetter("partitions"), body.topics)):
            return self.response()
        found: dict[SharePartitionKey, tuple[int, Any]] = {}
        homes: dict[int, ShareStateShard] = {}
        """Shards by partition of `__share_group_state`."""
        for topic in body.topics:
            async for row in time_slice.each(topic.partitions):
                key, home = SharePartitionKey(body.group_id, topic.topic_id, row.partition), NOWHERE
                said = row if self.read is None else await run_cooperatively(self.read(row), time_slice)
                try:
                    shard = service.shard_led(ctx.node, key.text)
                    home = shard.partition
                    homes[home] = shard
                    found[key] = home, self.act(service.coordinator, key, said, clock.now_ms())
                except KafkaError as error:
                    found[key] = home, self._refused(key, error)
        lost = {}
        async for home, shard in time_slice.each(homes.items()):
            try:
                await service.settle(shard)
            except KafkaError as error:
                lost[home] = error
        rows: dict[bytes, list[Any]] = {}
        async for key, (home, answer) in time_slice.each(found.items()):
            rows.setdefault(key.topic_id, []).append(self._refused(key, lost[home]) if home in lost else answer)
        results = await time_slice.map(
            lambda each: self.topic(topic_id=each[0], partitions=tuple(each[1])), rows.items()
        )
        await time_slice.empty(found)
        await time_slice.empty(rows)
        return self.response(results=tuple(results))

    def _refused(self, key: SharePartitionKey, error: KafkaError) -> Any:
        message = error.message or None
        if error.code in _OF_THE_COORDINATOR:
            message = f"Unable to {self.to}: {error.message}"
        return self.partition(partition=key.partition, error_code=error.code, error_message=message)

    async def not_coordinator(self, ctx: Context, request: Request) -> Response:
        """Answer that every share partition has another coordinator; without a group id the response is empty."""
        if not request.body.group_id:
            return self.response()
        message = f"Unable to {self.to}: This is not the correct coordinator."
        return await self.refuse_each(ctx, request, KafkaError(ErrorCode.NOT_COORDINATOR, message))

    async def refuse_each(self, ctx: Context, request: Request, error: KafkaError) -> Response:
        """Return the error once for each partition that is named; topics without partitions are left out, as in Apache
        Kafka."""
        named: dict[bytes, dict[int, None]] = {}
        async for topic in ctx.time_slice.each(request.body.topics):
            async for row in ctx.time_slice.each(topic.partitions):
                named.setdefault(topic.topic_id, {})[row.partition] = None
        results = []
        for topic_id, indexes in named.items():
            partitions = await ctx.time_slice.map(
                lambda index: self.partition(
                    partition=index, error_code=error.code, error_message=error.message or None
                ),
                indexes,
            )
            results.append(self.topic(topic_id=topic_id, partitions=tuple(partitions)))
            await ctx.time_slice.empty(indexes)
        await ctx.time_slice.empty(named)
        return self.response(results=tuple(results))
