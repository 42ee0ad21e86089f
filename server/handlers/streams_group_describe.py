"""StreamsGroupDescribe, API key 89, versions 0-1.

Behaviour
- A group that is named twice is returned once.
- A group whose topology names a topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
- State, epochs, topology, members and tasks of streams groups; a group of another kind is GROUP_ID_NOT_FOUND.
- A client that asks for the description of the topology gets the status NOT_STORED if no member has sent one
  (`groups.streams.description`).
- UNSUPPORTED_VERSION as in StreamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
)
from ..config.options.group_options import STICKY
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .group_descriptions import check_topics, describe_each, message_of
from .permissions import check_without_words

_UNSEEN = "The described group uses topics that the client is not authorized to describe."


async def handle(ctx: Context, request: Request) -> StreamsGroupDescribeResponse:
    body: StreamsGroupDescribeRequest = request.body
    with_operations = body.include_authorized_operations
    describe = partial(_describe, body.include_topology_description)
    groups = await describe_each(ctx, body.group_ids, describe, _refused, with_operations=with_operations)
    return StreamsGroupDescribeResponse(groups=groups)


async def _describe(with_description: bool, ctx: Context, group_id: str, time_slice: TimeSlice) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    groups.check_streams_protocol()
    check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
    shard = groups.shard_led(ctx.node, group_id)
    steps = groups.coordinator.describe_streams_group(group_id, with_description=with_description)
    described = await run_cooperatively(steps, time_slice)
    await groups.settle(shard)
    if described.topology is not None:
        names = chain.from_iterable(map(_topics, described.topology.subtopologies or ()))
        await check_topics(ctx, names, _UNSEEN, time_slice)
    return replace(described, assignor_name=STICKY)


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message_of(error))


def _topics(of: Subtopology) -> Iterator[str]:
    internal = (topic.name for topic in (*of.state_changelog_topics, *of.repartition_source_topics))
    return chain(of.source_topics, of.repartition_sink_topics, internal)
