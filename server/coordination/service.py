"""A coordinator inside Trio: loads it, wakes it when its next deadline comes, and lets handlers wait for its answers.

The base of each coordinator's service. `services.coordinators` owns one of each kind, for all nodes of a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..cluster.nodes import Node
from ..network.connection import PEER_CHECK_MS
from ..partitions.topics import NO_LEADER
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice, Waking, passes
from .coordinator import Coordinator
from .ground import Ground
from .log_store import LogStore
from .shard import Shard, ShardState
from .store import Chunk, RecordStore

log = logging.getLogger("ottla.coordination")

# What is replayed at once in one pass of the scheduler, of all partitions together: a start has its small ones before it serves, and a
# node that stops may leave fifty. The rest is replayed meanwhile, in a thread. There are three coordinators, 4 ms each.
INLINE_LOAD_BYTES = 32 << 10
# A chunk counts as no less: it ends with its segment, and there may be thousands of those with a record each.
LEAST_CHUNK_BYTES = 512

# When to try again what could not be created or loaded for want of memory, descriptors, threads and the like.
RELOAD_MS = 10_000

Answer = TypeVar("Answer")
C = TypeVar("C", bound=Coordinator[Any])
S = TypeVar("S", bound=Shard)


class WaitingClient(Protocol):
    """Whoever waits for an answer: a connection."""

    def check_peer(self) -> None:
        """Raise if nobody waits any more."""


class ParkedAnswer(Generic[Answer]):
    """The answer of a request that the coordinator may keep waiting: call it with the answer, once; `wait` for it."""

    __slots__ = ("_answer", "_event", "_waking")

    def __init__(self, waking: Waking) -> None:
        self._waking = waking
        self._answer: Answer | None = None
        self._event: trio.Event | None = None

    def __call__(self, answer: Answer) -> None:
        self._answer = answer
        if self._event is not None:  # else nobody waits yet, or any more
            self._waking.wake(self)

    def wake_now(self) -> None:
        """Only `Waking` calls it."""
        if self._event is not None:
            self._event.set()

    async def wait(self, client: WaitingClient) -> Answer:
        """The answer, once it is there. Raises what `client.check_peer` does, if the client leaves before.

        The end of a rebalance answers all members of a group at once; they go on a few at a time.
        """
        if self._answer is None:
            event = self._event = trio.Event()
            try:
                while not event.is_set():
                    with trio.move_on_after(PEER_CHECK_MS / 1000):
                        await event.wait()
                    if self._answer is None:
                        client.check_peer()
            finally:
                self._event = None  # The answer may come when nobody is here who would leave his place.
                self._waking.left(self)
        assert self._answer is not None
        return self._answer


class _Load(NamedTuple):
    """A shard to load, from this chunk on.

    Attributes:
        size_bytes: Of its log.
    """

    size_bytes: int
    shard: Shard
    chunk: Chunk


class CoordinatorService(Generic[C, S]):
    """One coordinator of a broker.

    Args:
        make: Makes the coordinator from its store and from what it calls when it has to be woken earlier.
        base_sequence: As for `LogStore`.
    """

    def __init__(
        self,
        ground: Ground,
        make: Callable[[RecordStore, Callable[[], None]], C],
        *,
        topic: str,
        base_sequence: int,
    ) -> None:
        self.ground = ground
        self._topic = topic
        self._store = LogStore(ground.topics, ground.appends, topic, base_sequence=base_sequence)
        self.waking = Waking()
        """Of the requests that it keeps waiting."""
        self._sleep = trio.CancelScope()
        self._is_closed = False
        self._to_reload: set[int] = set()
        self._refused: str | None = None
        """Why the disk refused the topic last. Requests need not ask it again before `_retry_at_ms`."""
        self._retry_at_ms = 0
        self._inline_pass, self._inline_left_bytes = -1, 0
        self._loads, self._loads_todo = trio.open_memory_channel[_Load](inf)
        self.coordinator: C = make(self._store, self._wake)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load everything, then do whatever falls due until cancelled.

        Started once the small partitions are loaded. Until a larger one is, its keys answer
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not self.coordinator.shards:
            self._open_existing()
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            nursery.start_soon(self._reload)
            async for load in self._loads_todo:
                await self._load_waiting([load])

    async def route(self, node: Node, key: str) -> S:
        """`shard_led`. Creates the topic on first need.

        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (stopping, or the topic cannot be created).
        """
        if not self.coordinator.shards:
            await self.ensure_topic()
        return self.shard_led(node, key)

    def shard_led(self, node: Node, key: str) -> S:
        """Where all that is known of `key` is, ACTIVE or not, for all of a request. NOT_COORDINATOR if `node` is not the one to ask."""
        shard: S = self.coordinator.shard_for(key)
        if self.ground.topics.partition(self._topic, shard.partition).present_leader != node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node.node_id} is not the coordinator of {key}")
        return shard

    def is_settled(self, shard: S) -> bool:
        """Whether `settle` has nothing to wait for."""
        return bool(self.coordinator.shards) and self._store.is_flushed(shard.partition)

    async def settle(self, shard: S) -> None:
        """Return once everything that the coordinator of the shard's keys knows is on disk, as far as `flush.messages` asks for it.

        The end of each request that wrote or was told something: what is answered survives a power loss, as with Apache
        Kafka, which tells of nothing before it is flushed.

        Raises:
            KafkaError: NOT_COORDINATOR: it never will be, and the coordinator has given the partition up.
        """
        if not self.coordinator.shards:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self._topic} does not exist")
        await self._store.settle(shard.partition)

    def end_offset(self, shard: S) -> int:
        """Where the log that the shard is kept in ends."""
        return self._store.end_offset(shard.partition)

    def is_flushed(self, shard: S, up_to: int) -> bool:
        """Whether that log is on disk below this offset, as far as `flush.messages` asks for it."""
        return not self.coordinator.shards or self._store.is_flushed(shard.partition, up_to)

    async def settle_all(self, node: Node) -> None:
        """`settle`, of all keys that `node` coordinates. A partition that has been given up is passed over."""
        for partition in self.partitions_led_by(node):
            with suppress(KafkaError):
                await self._store.settle(partition)

    def leader_of(self, partition: int) -> int:
        """The node that coordinates the keys of this partition; NO_LEADER while there is none."""
        return self.ground.topics.partition(self._topic, partition).present_leader

    def partitions_led_by(self, node: Node) -> list[int]:
        """The partitions whose keys `node` coordinates; none while the topic does not exist."""
        return [shard.partition for shard in self.coordinator.shards if self.leader_of(shard.partition) == node.node_id]

    async def ensure_topic(self) -> None:
        """Have the topic, created if it is not there. A disk that refused it is asked again after `RELOAD_MS`.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        if self._refused is not None and self.ground.clock.elapsed_ms() < self._retry_at_ms:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._refused)
        try:
            await self.ground.ensure_topic(self._topic)
            self._refused = None
        except KafkaError as error:
            log.warning("cannot create %s: %s", self._topic, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._refused, self._retry_at_ms = error.message, self.ground.clock.elapsed_ms() + RELOAD_MS
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if not self.coordinator.shards and not self._is_closed:
            self._open_existing()

    def leadership_changed(self, partition: int) -> None:
        """Another node leads the partition, or none: its tables are loaded anew from the log, or given up.

        What no record tells (a rebalance under way, parked requests) is lost, as it is to a new coordinator.
        """
        if self._is_closed or not self.coordinator.shards:
            return
        now_ms = self.ground.clock.now_ms()
        if self.leader_of(partition) == NO_LEADER:
            self.coordinator.unload(partition, ErrorCode.NOT_COORDINATOR, now_ms)
        else:
            self._load(self.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, now_ms))

    def topic_gone(self) -> None:
        """The topic that all is kept in has been deleted; the next who needs it has it made anew, empty."""
        self._to_reload.clear()
        if not self._is_closed:
            self.coordinator.forget(ErrorCode.NOT_COORDINATOR, self.ground.clock.now_ms())

    def close(self) -> None:
        """Answer all parked requests, so that their connections can end, and take no more. Writes nothing."""
        self._is_closed = True
        self.coordinator.close(ErrorCode.NOT_COORDINATOR, self.ground.clock.now_ms())

    # Loading

    def _open_existing(self) -> None:
        """Open the topic if it exists; load its small partitions, and leave the others to `run`."""
        topic = self.ground.topics.get(self._topic)
        if topic is None:
            return
        self.coordinator.open(len(topic.partitions))
        for shard in tuple(self.coordinator.shards):
            if self.leader_of(shard.partition) == NO_LEADER:
                self.coordinator.unload(shard.partition, ErrorCode.NOT_COORDINATOR, self.ground.clock.now_ms())
            else:
                self._load(shard)

    def _load(self, shard: Shard) -> None:
        """Load a shard, or leave it to `run` if there is much to load, in it or in those that this pass loads with it."""
        if self._inline_pass != (now := passes()):
            self._inline_pass, self._inline_left_bytes = now, INLINE_LOAD_BYTES
        try:
            shard.next_offset = self._store.start_offset(shard.partition)
            while len(chunk := self._store.read(shard.partition, shard.next_offset)):
                cost_bytes = max(len(chunk), LEAST_CHUNK_BYTES)
                if cost_bytes > self._inline_left_bytes:
                    self._loads.send_nowait(_Load(self._size_bytes(shard), shard, chunk))
                    return
                self._inline_left_bytes -= cost_bytes
                shard.replay(chunk.read())
            self.coordinator.activate(shard, self.ground.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - one partition's trouble is that partition's alone
            self._failed(shard, error)

    async def _load_waiting(self, waiting: list[_Load]) -> None:
        """Load these and all that come meanwhile, the smallest first: a partition of a few records waits for none of a million."""
        while waiting:
            with suppress(trio.WouldBlock):
                while True:
                    waiting.append(self._loads_todo.receive_nowait())
            waiting.sort(key=lambda load: load.size_bytes)
            load = waiting.pop(0)
            await self._load_large(load.shard, load.chunk)

    def _size_bytes(self, shard: Shard) -> int:
        """Of the shard's log; 0 where the topic is gone."""
        log_of = self.ground.logs.logs.get(TopicPartition(self._topic, shard.partition))
        return 0 if log_of is None else log_of.size_bytes

    async def _load_large(self, shard: Shard, chunk: Chunk) -> None:
        """Read chunk by chunk on this thread, which owns the log, and replay each in a worker thread; of a shard that was replaced
        meanwhile the rest is left unread."""
        try:
            while len(chunk) and self.coordinator.is_open(shard):
                await in_thread(Work.READ, self._data_dir_of(shard), _replay, shard, chunk)
                chunk = self._store.read(shard.partition, shard.next_offset)
            self.coordinator.activate(shard, self.ground.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(shard, error)

    def _data_dir_of(self, shard: Shard) -> str:
        return self.ground.logs.data_dir_of(TopicPartition(self._topic, shard.partition))

    def _failed(self, shard: Shard, error: Exception) -> None:
        self.coordinator.fail(shard, error)
        was_refused = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
        # No more threads can be had: that is a RuntimeError.
        if was_refused or isinstance(error, OSError | MemoryError | RuntimeError):
            self._to_reload.add(shard.partition)

    async def _reload(self) -> None:
        """Load again what could not be loaded for a reason that may pass."""
        while True:
            await self.ground.clock.sleep(RELOAD_MS)
            for partition in tuple(self._to_reload):
                self._to_reload.discard(partition)
                shards = self.coordinator.shards[partition : partition + 1]  # none: the topic is gone
                has_failed = not self._is_closed and any(shard.state is ShardState.FAILED for shard in shards)
                log_of = self.ground.logs.logs.get(TopicPartition(self._topic, partition))
                if has_failed and log_of is not None and log_of.failure is None:
                    self._load(
                        self.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, self.ground.clock.now_ms())
                    )

    # Time

    async def _keep_time(self) -> None:
        clock, time_slice = self.ground.clock, TimeSlice()
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            with trio.CancelScope() as self._sleep:
                if due_ms is None:
                    await trio.sleep_forever()
                else:
                    await clock.sleep_until(due_ms)
            # A turn each time: deadlines that are always due, set by a member with time-outs of zero, must not starve the
            # rest, nor thousands that are due together.
            await time_slice.next()
            try:
                self.coordinator.run_due(clock.now_ms(), time_slice.is_over)
            except Exception:
                log.exception("a timer of the coordinator of %s failed", self._topic)

    def _wake(self) -> None:
        self._sleep.cancel()


def _replay(shard: Shard, chunk: Chunk) -> None:
    shard.replay(chunk.read())
