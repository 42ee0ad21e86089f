"""Common parts of the four APIs that describe groups: each group is described once, and a refused group has a row with its
error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import group_operations


async def describe_each(
    ctx: Context,
    group_ids: Sequence[str],
    describe: Callable[[Context, str, TimeSlice], Awaitable[Any]],
    refused: Callable[..., Any],
    *,
    with_operations: bool,
) -> tuple[Any, ...]:
    """Make the rows of the groups.

    Args:
        describe: Makes the row of a group; raises KafkaError.
        refused: Makes the row of a group for a KafkaError.
        with_operations: Whether a row lists the client's operations on its group.
    """
    groups = []
    time_slice = TimeSlice()
    async for group_id in time_slice.each(await time_slice.distinct(group_ids)):
        try:
            one = await describe(ctx, group_id, time_slice)
        except KafkaError as error:
            one = refused(group_id, error)
        if with_operations and not one.error_code:
            one = replace(one, authorized_operations=group_operations(ctx, group_id))
        groups.append(one)
    return tuple(groups)


def message_of(error: KafkaError) -> str | None:
    """Return the message for the refusal of one group. Apache Kafka sends none with UNSUPPORTED_VERSION."""
    return None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None


async def check_topics(ctx: Context, names: Iterable[str], refusal: str, time_slice: TimeSlice) -> None:
    """Raise KafkaError TOPIC_AUTHORIZATION_FAILED unless the client may describe all of these topics."""
    if ctx.services.authorizer is None:
        return
    seen: set[str] = set()
    async for name in time_slice.each(names):
        if name not in seen and not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, refusal)
        seen.add(name)
