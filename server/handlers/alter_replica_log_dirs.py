"""AlterReplicaLogDirs, API key 34, versions 1-2 (KIP-113).

Behaviour
- A partition that is in the directory already needs no move; a running move to another directory is cancelled.
- The response says that the move has begun; DescribeLogDirs shows its progress.
- A partition that is named for two directories goes to the last of them.

Differs from Apache Kafka
- All nodes share the log, so it moves for each of them.
- A node without a replica does not remember the directory for a later replica (the answer is REPLICA_NOT_AVAILABLE all the
  same).
"""

from __future__ import annotations

from collections import defaultdict

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.wire import as_array
from ...storage.disk.paths import TopicPartition
from ..runtime.time_slices import TimeSlice
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> AlterReplicaLogDirsResponse:
    time_slice = TimeSlice()
    wanted = await _requested_dirs(request.body, time_slice)
    codes: dict[TopicPartition, ErrorCode] = {}
    async for where, path in time_slice.each(wanted.items()):
        try:
            ctx.services.moves.check(where, path)
            partition = ctx.services.topics.partition(*where)
            if ctx.node.node_id not in partition.replicas:
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
            await ctx.services.moves.move(where, path, ctx.node.node_id)
            codes[where] = ErrorCode.NONE
        except KafkaError as error:
            codes[where] = error.code
    await time_slice.empty(wanted)
    return await _answer(codes, time_slice)


async def refused(_: Context, request: Request, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """Return the error code in each row."""
    time_slice = TimeSlice()
    return await _answer(dict.fromkeys(await _requested_dirs(request.body, time_slice), error.code), time_slice)


async def _requested_dirs(body: AlterReplicaLogDirsRequest, time_slice: TimeSlice) -> dict[TopicPartition, str]:
    wanted: dict[TopicPartition, str] = {}
    async for row in time_slice.each(body.dirs):
        path = row.path.rstrip("/") or "/"
        async for topic in time_slice.each(row.topics):
            async for index in time_slice.each(topic.partitions):
                wanted[TopicPartition(topic.name, index)] = path
    return wanted


async def _answer(codes: dict[TopicPartition, ErrorCode], time_slice: TimeSlice) -> AlterReplicaLogDirsResponse:
    """Make the response; empties `codes`."""
    rows: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    async for (name, index), code in time_slice.each(codes.items()):
        rows[name].append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    results = as_array(await time_slice.map(_result, rows.items()))
    await time_slice.empty(codes, rows)
    return AlterReplicaLogDirsResponse(results=results)


def _result(of: tuple[str, list[AlterReplicaLogDirPartitionResult]]) -> AlterReplicaLogDirTopicResult:
    name, partitions = of
    return AlterReplicaLogDirTopicResult(topic_name=name, partitions=as_array(partitions))
