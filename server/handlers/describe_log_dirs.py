"""DescribeLogDirs, API key 35, versions 1-5.

Behaviour
- One row per data directory with the partitions that this node has a replica of, their sizes on disk
  (closed and active segments' logs), and the file system's room (KIP-827). The lag is 0: nothing is replicated.
- To a request with Ottla's own tag partitions come with what the cleaner says of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...storage.cleaner_checkpoints import data_dir_of
from ..cleaner_status import CleanerStatus
from ..connection import Context
from ..disk import Work, on_disk
from ..topics import Partition
from ..turns import Turn


async def handle(ctx: Context, request: Request) -> DescribeLogDirsResponse:
    body: DescribeLogDirsRequest = request.body
    broker = ctx.broker
    turn = Turn()
    wanted: set[tuple[str, int]] | None = None
    if body.topics is not None:
        wanted = set()
        for row in body.topics:
            if turn.is_over():
                await turn.next()
            for index in row.partitions:
                if turn.is_over():
                    await turn.next()
                wanted.add((row.topic, index))
    results = []
    for directory in broker.logs.data_dirs:
        try:
            if broker.logs.is_offline(directory):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is offline")
            total_bytes, usable_bytes = await on_disk(Work.READ, directory, broker.files.disk_total_and_free, directory)
        except KafkaError as error:
            results.append(DescribeLogDirsResult(error_code=error.code, log_dir=directory, topics=()))
            continue
        turn.begin()
        topics = []
        for topic in list(broker.topics):
            if turn.is_over():
                await turn.next()
            partitions = []
            for partition in topic.partitions:
                if turn.is_over():
                    await turn.next()
                if (
                    ctx.node.node_id in partition.replicas
                    and (wanted is None or partition.topic_partition in wanted)
                    and data_dir_of(partition.log) == directory
                ):
                    partitions.append(partition)
            if partitions and broker.topics.get(topic.name) is topic:
                rows = await _rows(ctx, partitions, turn, with_status=body.ottla_cleaner_status)
                topics.append(DescribeLogDirsTopic(name=topic.name, partitions=tuple(rows)))
        results.append(
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=directory,
                topics=tuple(topics),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=False,
            )
        )
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=tuple(results))


async def _rows(
    ctx: Context, partitions: Sequence[Partition], turn: Turn, *, with_status: bool
) -> list[DescribeLogDirsPartition]:
    wanted = [partition.topic_partition for partition in partitions] if with_status else ()
    status = ctx.broker.cleaner_status(wanted)
    return await turn.map(
        lambda partition: DescribeLogDirsPartition(
            partition_index=partition.index,
            partition_size=partition.log.size_bytes,
            offset_lag=0,
            is_future_key=False,
            ottla_cleaner_status=_text(status.get(partition.topic_partition)) if with_status else None,
        ),
        partitions,
    )


def _text(status: CleanerStatus | None) -> str | None:
    return None if status is None else json.dumps(status.as_json())
