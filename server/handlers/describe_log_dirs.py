"""DescribeLogDirs, API key 35, versions 1-5.

Behaviour
- One row per data directory with the partitions that this node has a replica of, their sizes on disk (closed and active
  segments' logs), and the file system's free space (KIP-827). The lag is 0, as nothing is replicated. Only new replicas in a
  throttled reassignment have the size that was copied so far, and a lag.
- A partition that moves to another directory is listed in both: in the new one as a future replica, with the copied size and
  its lag in offsets.
- For a request with Ottla's own tagged field, partitions have the cleaner's status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.logs.log import Log
from ..partitions.topics import Partition, Topic
from ..runtime.threads import Work, on_disk
from ..runtime.time_slices import TimeSlice
from ..services.context import Context
from ..services.explaining import Explaining, as_json


async def handle(ctx: Context, request: Request) -> DescribeLogDirsResponse:
    body: DescribeLogDirsRequest = request.body
    services = ctx.services
    time_slice = TimeSlice()
    wanted: set[tuple[str, int]] | None = None
    if body.topics is not None:
        wanted = set()
        async for row in time_slice.each(body.topics):
            topic = services.topics.get(row.topic)
            # Unknown topics are not stored: a hundred thousand would be freed at once.
            count = 0 if topic is None else len(topic.partitions)
            async for index in time_slice.each(row.partitions):
                if 0 <= index < count:
                    wanted.add((row.topic, index))
    results = []
    for directory in services.logs.data_dirs:
        try:
            if services.logs.is_offline(directory):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is offline")
            total_bytes, usable_bytes = await on_disk(
                Work.READ, directory, services.files.disk_total_and_free, directory
            )
        except KafkaError as error:
            results.append(DescribeLogDirsResult(error_code=error.code, log_dir=directory, topics=()))
            continue
        time_slice.begin()
        found = await _partitions_in(directory, ctx, wanted, time_slice)
        topics = await _rows(ctx, found, time_slice, with_status=body.ottla_cleaner_status)
        topics += _moving_copies(directory, ctx, wanted, with_status=body.ottla_cleaner_status)
        results.append(
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=directory,
                topics=tuple(topics),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=directory in services.logs.cordoned,
            )
        )
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=tuple(results))


async def _partitions_in(
    directory: str, ctx: Context, wanted: set[tuple[str, int]] | None, time_slice: TimeSlice
) -> list[tuple[Topic, list[Partition]]]:
    found = []
    async for topic in time_slice.each(list(ctx.services.topics)):
        partitions = []
        async for partition in time_slice.each(topic.partitions):
            if (
                ctx.node.node_id in partition.replicas
                and (wanted is None or partition.topic_partition in wanted)
                and data_dir_of(partition.log) == directory
            ):
                partitions.append(partition)
        if partitions:
            found.append((topic, partitions))
    return found


async def _rows(
    ctx: Context,
    found: Sequence[tuple[Topic, Sequence[Partition]]],
    time_slice: TimeSlice,
    *,
    with_status: bool,
) -> list[DescribeLogDirsTopic]:
    """Make the rows of topics that were found before; topics that have been deleted since are left out."""
    explaining = None
    if with_status:
        logs = [each.log for _, partitions in found for each in partitions]
        explaining = await Explaining.load(ctx.services, logs, time_slice)
    topics = []
    async for topic, partitions in time_slice.each(found):
        rows: list[DescribeLogDirsPartition] = []
        async for partition in time_slice.each(partitions):
            log, status = partition.log, None
            if explaining is not None:
                status = json.dumps(as_json(await explaining.next()))
            # A log may have tens of thousands of segments.
            size_bytes, lag = sum(await time_slice.map(_size_bytes, log.segments)), 0
            copied_bytes = ctx.services.cluster.copied_bytes(partition, ctx.node.node_id)
            if copied_bytes is not None and copied_bytes < size_bytes:
                size_bytes, lag = copied_bytes, _lag(log, copied_bytes / size_bytes)
            rows.append(
                DescribeLogDirsPartition(
                    partition_index=partition.index,
                    partition_size=size_bytes,
                    offset_lag=lag,
                    is_future_key=False,
                    ottla_cleaner_status=status,
                )
            )
        if ctx.services.topics.get(topic.name) is topic:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=tuple(rows)))
    return topics


def _lag(log: Log, copied_part: float) -> int:
    """Return the lag in offsets of a new replica that has this fraction of the log's bytes; at least one."""
    return max(1, round((log.log_end_offset - log.log_start_offset) * (1 - copied_part)))


def _moving_copies(
    directory: str, ctx: Context, wanted: set[tuple[str, int]] | None, *, with_status: bool
) -> list[DescribeLogDirsTopic]:
    """List the copies of partitions that move to the directory: few, as each keeps a disk busy."""
    return [
        DescribeLogDirsTopic(
            name=move.log.topic_partition.topic,
            partitions=(
                DescribeLogDirsPartition(
                    partition_index=move.log.topic_partition.partition,
                    partition_size=move.copied_bytes,
                    offset_lag=move.offset_lag,
                    is_future_key=True,
                    ottla_cleaner_status=json.dumps({"problem": move.problem}) if with_status else None,
                ),
            ),
        )
        for move in list(ctx.services.moves.shown_by(ctx.node.node_id, directory))
        if wanted is None or move.log.topic_partition in wanted
    ]


_size_bytes = attrgetter("size_bytes")
