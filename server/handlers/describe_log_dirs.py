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
from ..connection import Context
from ..disk import on_disk
from ..topics import Partition


async def handle(ctx: Context, request: Request) -> DescribeLogDirsResponse:
    body: DescribeLogDirsRequest = request.body
    broker = ctx.broker
    wanted = None if body.topics is None else {(row.topic, index) for row in body.topics for index in row.partitions}
    results = []
    for directory in broker.logs.data_dirs:
        try:
            if broker.logs.is_offline(directory):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is offline")
            total_bytes, usable_bytes = await on_disk(broker.files.disk_total_and_free, directory)
        except KafkaError as error:
            results.append(DescribeLogDirsResult(error_code=error.code, log_dir=directory, topics=()))
            continue
        by_topic: dict[str, list[Partition]] = {}
        for topic in broker.topics:
            for partition in topic.partitions:
                here = broker.logs.data_dir_of(partition.topic_partition) == directory
                if (
                    here
                    and ctx.node.node_id in partition.replicas
                    and (wanted is None or partition.topic_partition in wanted)
                ):
                    by_topic.setdefault(topic.name, []).append(partition)
        results.append(
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=directory,
                topics=tuple(
                    DescribeLogDirsTopic(
                        name=name, partitions=_rows(ctx, partitions, with_status=body.ottla_cleaner_status)
                    )
                    for name, partitions in by_topic.items()
                ),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=False,
            )
        )
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=tuple(results))


def _rows(ctx: Context, partitions: Sequence[Partition], *, with_status: bool) -> tuple[DescribeLogDirsPartition, ...]:
    wanted = [partition.topic_partition for partition in partitions] if with_status else ()
    status = ctx.broker.cleaner_status(wanted)
    return tuple(
        DescribeLogDirsPartition(
            partition_index=partition.index,
            partition_size=partition.log.size_bytes,
            offset_lag=0,
            is_future_key=False,
            ottla_cleaner_status=json.dumps(status[partition.topic_partition].as_json()) if with_status else None,
        )
        for partition in partitions
    )
