"""What groups are made to have without any member: committed offsets, and an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import trio

from ....protocol.errors import KafkaError
from ....protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ....storage.disk.paths import TopicPartition
from ...broker.broker import Broker
from ...partitions.internal_topics import OFFSETS_TOPIC
from ...runtime.time_slices import TimeSlice, run_cooperatively

_OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VERSION = 8, 9


@dataclass(frozen=True, slots=True)
class Position:
    """What a group has committed in a partition."""

    offset: int
    metadata: str = ""


async def commit_offsets(broker: Broker, group_id: str, positions: Mapping[TopicPartition, Position]) -> None:
    """Commit as an administrator does: for a group without members, which is made if it is not there.

    Raises:
        KafkaError: A topic or partition is not there, the group has members, its coordinator is not at hand, or metadata is too
            long: nothing is committed then. What the disk or the append failed with.
    """
    services, time_slice = broker.services, TimeSlice()
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)  # in a thread, what groups need
    from ...groups.offsets.commits import TopicCommit

    groups = services.coordinators.groups
    await groups.ensure_topic()
    coordinator = groups.coordinator
    request = OffsetCommitRequest(group_id=group_id, topics=())
    while True:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        async for (name, index), position in time_slice.each(positions.items()):
            services.topics.partition(name, index)
            by_topic.setdefault(name, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=position.offset,
                    committed_leader_epoch=-1,
                    committed_metadata=position.metadata,
                )
            )
        found = {name: services.topics.get(name) for name in by_topic}
        commits = [TopicCommit(name, topic.id, by_topic[name]) for name, topic in found.items() if topic is not None]
        now_ms = services.clock.now_ms()
        shard = coordinator.shard_for(group_id)
        prepared = await run_cooperatively(coordinator.prepare(shard, request, commits, now_ms), time_slice)
        for place, code in prepared.refused.items():
            raise KafkaError(
                code, f"the offset of group {group_id} in {TopicPartition(*place)} is refused: {code.name}"
            )
        if coordinator.is_current(prepared):
            break
    refused = coordinator.commit(shard, request, _OFFSET_COMMIT_VERSION, prepared, now_ms)
    for place, code in refused.items():
        raise KafkaError(code, f"the offset of group {group_id} in {TopicPartition(*place)} is refused: {code.name}")
    await groups.settle(groups.coordinator.shard_for(group_id))


async def begin_group_at(broker: Broker, group_id: str, epoch: int) -> None:
    """Make an empty consumer group (KIP-848) whose epoch is this one.

    Raises:
        KafkaError: NON_EMPTY_GROUP (there is a group of that name), UNSUPPORTED_VERSION (the broker serves no such groups), its
            coordinator is not at hand, or what the append failed with.
    """
    services = broker.services
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = services.coordinators.groups
    groups.check_consumer_protocol()
    await groups.ensure_topic()
    groups.coordinator.begin_at(group_id, epoch, services.clock.now_ms())
    try:
        await groups.settle(groups.coordinator.shard_for(group_id))
    except BaseException:
        with trio.CancelScope(shield=True), suppress(KafkaError):
            await remove_group(broker, group_id)
        raise


async def remove_group(broker: Broker, group_id: str) -> None:
    """Forget a group without members, and its offsets. KafkaError as DeleteGroups answers."""
    services = broker.services
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = services.coordinators.groups
    await run_cooperatively(groups.coordinator.delete_group(group_id, services.clock.now_ms()), TimeSlice())
    await groups.settle(groups.coordinator.shard_for(group_id))


async def group_exists(broker: Broker, group_id: str) -> bool:
    """Whether there is a group of this name. KafkaError: its coordinator is not at hand."""
    if broker.services.topics.get(OFFSETS_TOPIC) is None:
        return False
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = broker.services.coordinators.groups
    await groups.ensure_topic()
    return group_id in groups.coordinator.shard_of(group_id).groups
