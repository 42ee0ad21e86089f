"""What logs look like: see `..control.pictures`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ....storage.disk.paths import OFFSET_MAX
from ....storage.pictures.contents import BUCKETS_MAX
from ....storage.pictures.taking import BARS_MAX
from ...control.pictures.look import BUCKETS, PartitionPicture, partition_picture
from ...control.pictures.taking import TopicPicture, topic_picture
from ..call import Call, Lives
from ..fields import PartitionId, Range, TopicName


@dataclass(frozen=True, slots=True)
class TopicPictureRequest:
    topic: TopicName
    partition: PartitionId | None = None
    """Null: all."""
    bars_max: Annotated[int, Range(1, 10_000)] = BARS_MAX
    """Of a partition with more segments, neighbours that the cleaner takes for the same stand together in one bar."""


@dataclass(frozen=True, slots=True)
class PartitionPictureRequest:
    topic: TopicName
    partition: PartitionId
    from_offset: Annotated[int, Range(0, OFFSET_MAX)] | None = None
    """Null: the log's start."""
    to_offset: Annotated[int, Range(0, OFFSET_MAX)] | None = None
    """Exclusive. Null: the log's end."""
    buckets: Annotated[int, Range(1, BUCKETS_MAX)] = BUCKETS
    """Into how many parts the range is divided, at most."""


async def of_topic(lives: Lives, request: TopicPictureRequest) -> TopicPicture:
    partitions = None if request.partition is None else [request.partition]
    return await topic_picture(lives.broker, request.topic, partitions, bars_max=request.bars_max)


async def of_partition(lives: Lives, request: PartitionPictureRequest) -> PartitionPicture:
    return await partition_picture(
        lives.broker,
        request.topic,
        request.partition,
        from_offset=request.from_offset,
        to_offset=request.to_offset,
        buckets=request.buckets,
    )


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/topics/{topic}/picture",
        "The logs of a topic as the cleaner sees them: segments, offsets, the pass under way, before and after of the last one.",
        TopicPictureRequest,
        TopicPicture,
        of_topic,
        statuses=(404, 409),
        only_waits=True,
    ),
    Call(
        "GET",
        "/v1/topics/{topic}/partitions/{partition}/picture",
        "One log likewise, and which offsets of a range still have a record.",
        PartitionPictureRequest,
        PartitionPicture,
        of_partition,
        statuses=(404, 409),
        only_waits=True,
    ),
)
