"""How a request to a coordinator is carried out: where its key belongs is looked up and checked once, then comes the step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from ...protocol.errors import KafkaError
from ..coordination.jobs import Steps
from ..coordination.service import CoordinatorService
from ..coordination.shard import Shard
from ..runtime.turns import in_turns
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context
from .permissions import check_without_words

S = TypeVar("S", bound=Shard)
Answer = TypeVar("Answer")
Before: TypeAlias = Callable[[], Awaitable[None]]


def carried_out(
    ctx: Context,
    service: CoordinatorService[Any, S],
    key: str,
    work: Callable[[S], Steps[Answer]],
    refused: Callable[[KafkaError], Answer],
    before: Before | None = None,
    *,
    settles: bool = True,
) -> Answer | Coroutine[Any, Any, Answer]:
    """What a handler returns for a request: the answer, or a coroutine where something is to be waited for (the topic, further pieces,
    the disk).

    Args:
        work: Given the shard of `key`, which this node leads; it may not be ACTIVE.
        refused: Makes the answer of any KafkaError.
        before: Comes before all else, and may raise KafkaError.
        settles: Whether the answer waits until what it tells is on disk.
    """
    if before is not None or not service.coordinator.shards:
        return _when_there(ctx, service, key, work, refused, before, settles)
    try:
        shard = service.shard_led(ctx.node, key)
        steps = work(shard)
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        if settles and not service.is_settled(shard):
            return _settled(service, shard, answer, refused)
        return answer
    except KafkaError as error:
        return refused(error)
    return _rest(ctx, service, shard, steps, refused, settles)


async def _when_there(
    ctx: Context,
    service: CoordinatorService[Any, S],
    key: str,
    work: Callable[[S], Steps[Answer]],
    refused: Callable[[KafkaError], Answer],
    before: Before | None,
    settles: bool,
) -> Answer:
    try:
        if before is not None:
            await before()
        if not service.coordinator.shards:
            await service.ensure_topic()
        shard = service.shard_led(ctx.node, key)
    except KafkaError as error:
        return refused(error)
    return await _rest(ctx, service, shard, work(shard), refused, settles)


async def _rest(
    ctx: Context,
    service: CoordinatorService[Any, S],
    shard: S,
    steps: Steps[Answer],
    refused: Callable[[KafkaError], Answer],
    settles: bool,
) -> Answer:
    try:
        answer = await in_turns(steps, ctx.turn)
    except KafkaError as error:
        return refused(error)
    return await _settled(service, shard, answer, refused) if settles else answer


async def _settled(
    service: CoordinatorService[Any, S], shard: S, answer: Answer, refused: Callable[[KafkaError], Answer]
) -> Answer:
    try:
        await service.settle(shard)
    except KafkaError as error:
        return refused(error)
    return answer


async def check_topics(ctx: Context, names: Sequence[str]) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the client may describe all topics that it names."""
    for at, name in enumerate(names):
        if at and ctx.turn.is_over():
            await ctx.turn.next()
        check_without_words(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name)
