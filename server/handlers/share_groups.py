"""What the APIs of share groups (KIP-932) have in common while share groups are not served.

They answer as Apache Kafka 4.3.1 does where the feature `share.version` is 0: clients are told UNSUPPORTED_VERSION before any right is
asked for; no broker coordinates a share partition, which those hear who may act for the cluster (NOT_COORDINATOR).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ..services.context import Context

Response = TypeVar("Response")

SHARE_GROUPS_ARE_OFF = "The version of API is not supported."


class StateApi(NamedTuple, Generic[Response]):
    """One of the APIs 83 to 87, whose requests name share partitions of one group, and which answer partition by partition."""

    to: str
    """What it is for, in Apache Kafka's words."""
    response: Callable[..., Response]
    topic: type[Any]
    partition: type[Any]

    async def not_coordinator(self, ctx: Context, request: Request) -> Response:
        """Every share partition is coordinated elsewhere; of a group without a name nothing is said."""
        if not request.body.group_id:
            return self.response()
        message = f"Unable to {self.to}: This is not the correct coordinator."
        return await self.told_of_each(ctx, request, KafkaError(ErrorCode.NOT_COORDINATOR, message))

    async def told_of_each(self, ctx: Context, request: Request, error: KafkaError) -> Response:
        """The error, of each partition that is named, once; topics without any are left out, as in Apache Kafka."""
        named: dict[bytes, dict[int, None]] = {}
        for topic in request.body.topics:
            if ctx.turn.is_over():
                await ctx.turn.next()
            for row in topic.partitions:
                if ctx.turn.is_over():
                    await ctx.turn.next()
                named.setdefault(topic.topic_id, {})[row.partition] = None
        results = []
        for topic_id, indexes in named.items():
            partitions = await ctx.turn.map(
                lambda index: self.partition(
                    partition=index, error_code=error.code, error_message=error.message or None
                ),
                indexes,
            )
            results.append(self.topic(topic_id=topic_id, partitions=tuple(partitions)))
            await ctx.turn.empty(indexes)
        await ctx.turn.empty(named)
        return self.response(results=tuple(results))
