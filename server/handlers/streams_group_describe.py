"""StreamsGroupDescribe, API key 89, version 0.

Behaviour
- A group that is asked for twice is answered once.
- A group whose topology names a topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
- State, epochs, topology, members and tasks of streams groups; a group of another kind is GROUP_ID_NOT_FOUND.
- UNSUPPORTED_VERSION as in StreamsGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import group_operations
from .permissions import check_without_words

_UNSEEN = "The described group uses topics that the client is not authorized to describe."


async def handle(ctx: Context, request: Request) -> StreamsGroupDescribeResponse:
    body: StreamsGroupDescribeRequest = request.body
    time_slice = TimeSlice()
    groups = []
    async for group_id in time_slice.each(await time_slice.once(body.group_ids)):
        groups.append(await _describe(ctx, group_id))
    if body.include_authorized_operations:
        groups = await time_slice.map(
            lambda one: (
                one if one.error_code else replace(one, authorized_operations=group_operations(ctx, one.group_id))
            ),
            groups,
        )
    return StreamsGroupDescribeResponse(groups=tuple(groups))


async def _describe(ctx: Context, group_id: str) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    try:
        groups.check_streams_protocol()
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        shard = groups.shard_led(ctx.node, group_id)
        described = await run_cooperatively(groups.coordinator.describe_streams_group(group_id))
        await groups.settle(shard)
        if ctx.services.authorizer is not None and described.topology is not None:
            await _check_topics(ctx, described.topology)
        return described
    except KafkaError as error:
        # Apache Kafka says nothing beside UNSUPPORTED_VERSION.
        message = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


async def _check_topics(ctx: Context, topology: Topology) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the client may describe all of them."""
    time_slice, seen = TimeSlice(), set[str]()
    for one in topology.subtopologies or ():
        internal = (topic.name for topic in (*one.state_changelog_topics, *one.repartition_source_topics))
        async for name in time_slice.each((*one.source_topics, *one.repartition_sink_topics, *internal)):
            if name not in seen and not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _UNSEEN)
            seen.add(name)
