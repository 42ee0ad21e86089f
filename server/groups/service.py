"""Group coordination inside Trio: loads it, wakes it when its next deadline comes, and lets handlers wait for it.

The only file of this package that knows the event loop. `Broker` owns one `GroupService` for all its nodes.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from math import inf
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ..connection import PEER_CHECK_MS
from ..internal_topics import OFFSETS_TOPIC
from .coordinator import GroupCoordinator
from .log_store import LogStore
from .settings import GroupSettings
from .shard import Shard
from .store import Chunk

if TYPE_CHECKING:
    from ..broker import Broker
    from ..nodes import Node

log = logging.getLogger("ottla.groups")

# Partitions with no more than this to replay are loaded before the broker serves; others meanwhile, in a thread.
INLINE_LOAD_BYTES = 64 << 10

Answer = TypeVar("Answer")


class Client(Protocol):
    """Whoever waits for an answer: a connection."""

    def check_peer(self) -> None:
        """Raise if nobody waits any more."""


class Parked(Generic[Answer]):
    """The answer of a request that the coordinator may keep waiting: call it with the answer, once; `wait` for it."""

    __slots__ = ("_answer", "_event")

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._event: trio.Event | None = None

    def __call__(self, answer: Answer) -> None:
        self._answer = answer
        if self._event is not None:
            self._event.set()

    async def wait(self, client: Client) -> Answer:
        """The answer, once it is there. Raises what `client.check_peer` does, if the client leaves before."""
        self._event = trio.Event()
        while self._answer is None:
            with trio.move_on_after(PEER_CHECK_MS / 1000):
                await self._event.wait()
            if self._answer is None:
                client.check_peer()
        return self._answer


class GroupService:
    """The group coordinator of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = LogStore(broker)
        self._sleep = trio.CancelScope()
        self._is_closed = False
        self._loads, self._loads_todo = trio.open_memory_channel[tuple[Shard, Chunk]](inf)
        settings = GroupSettings(**{one.name: getattr(broker.config, one.name) for one in fields(GroupSettings)})
        self.coordinator = GroupCoordinator(settings, self._store, on_earlier=self._wake)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load all groups, then do whatever falls due until cancelled.

        Started once the small partitions are loaded. Until a larger one is, its groups answer
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not self.coordinator.shards:
            self._open_existing()
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            async for shard, chunk in self._loads_todo:
                await self._load_large(shard, chunk)

    async def route(self, node: Node, group_id: str) -> GroupCoordinator:
        """The coordinator, if `node` is the one to ask about the group. Creates `__consumer_offsets` on first need.

        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (stopping, or the topic cannot be created).
        """
        if not self.coordinator.shards:
            await self.ensure_topic()
        self.check_coordinates(node, group_id)
        return self.coordinator

    def check_coordinates(self, node: Node, group_id: str) -> None:
        """Raise NOT_COORDINATOR if `node` is not the one to ask about the group."""
        if self.leader_of(self.coordinator.partition_for(group_id)) != node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node.node_id} does not coordinate group {group_id}")

    def leader_of(self, partition: int) -> int:
        """The node that coordinates the groups of this partition."""
        return self._broker.topics.partition(OFFSETS_TOPIC, partition).leader

    def partitions_led_by(self, node: Node) -> list[int]:
        """The partitions whose groups `node` coordinates; none while the topic does not exist."""
        return [shard.partition for shard in self.coordinator.shards if self.leader_of(shard.partition) == node.node_id]

    async def ensure_topic(self) -> None:
        """Have `__consumer_offsets`, created if it is not there.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
        try:
            await self._broker.ensure_internal_topic(OFFSETS_TOPIC)
        except KafkaError as error:
            log.warning("cannot create %s: %s", OFFSETS_TOPIC, error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if not self.coordinator.shards and not self._is_closed:
            self._open_existing()

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """Forget the offsets committed in a topic that was deleted."""
        self.coordinator.topic_deleted(name, topic_id, self._broker.clock.now_ms())

    def close(self) -> None:
        """Answer all parked requests, so that their connections can end, and take no more. Writes nothing."""
        self._is_closed = True
        self.coordinator.close(ErrorCode.NOT_COORDINATOR, self._broker.clock.now_ms())

    # Loading

    def _open_existing(self) -> None:
        """Open the topic if it exists; load its small partitions, and leave the others to `run`."""
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return
        coordinator = self.coordinator
        coordinator.open(len(topic.partitions))
        for shard in coordinator.shards:
            try:
                shard.next_offset = self._store.start_offset(shard.partition)
                while len(chunk := self._store.read(shard.partition, shard.next_offset)):
                    if len(chunk) > INLINE_LOAD_BYTES:
                        self._loads.send_nowait((shard, chunk))
                        break
                    shard.replay(chunk.read())
                else:
                    coordinator.activate(shard, self._broker.clock.now_ms())
            except (KafkaError, OSError) as error:
                coordinator.fail(shard, error)

    async def _load_large(self, shard: Shard, chunk: Chunk) -> None:
        """Read chunk by chunk on this thread, which owns the log, and replay each in a worker thread."""
        try:
            while len(chunk):
                await trio.to_thread.run_sync(_replay, shard, chunk)
                chunk = self._store.read(shard.partition, shard.next_offset)
        except (KafkaError, OSError) as error:
            self.coordinator.fail(shard, error)
        else:
            self.coordinator.activate(shard, self._broker.clock.now_ms())

    # Time

    async def _keep_time(self) -> None:
        clock = self._broker.clock
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            with trio.CancelScope() as self._sleep:
                if due_ms is None:
                    await trio.sleep_forever()
                else:
                    await clock.sleep_until(due_ms)
            # Deadlines that are always due, set by a member with time-outs of zero, must not starve the rest.
            await trio.lowlevel.checkpoint()
            try:
                self.coordinator.run_due(clock.now_ms())
            except Exception:
                log.exception("a deadline of the group coordinator failed")

    def _wake(self) -> None:
        self._sleep.cancel()


def _replay(shard: Shard, chunk: Chunk) -> None:
    shard.replay(chunk.read())
