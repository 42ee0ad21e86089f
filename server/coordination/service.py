"""A coordinator inside Trio: the service loads it, runs it at its deadlines, and lets handlers wait for its answers.

The base class of each coordinator's service. `services.coordinators` owns one service of each kind, for all nodes of a broker.
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
from ..runtime.time_slices import TimeSlice, WakeupThrottle, passes
from .coordinator import Coordinator
from .deps import CoordinatorDeps
from .log_store import LogStore
from .shard import Shard, ShardState
from .store import Chunk, RecordStore

log = logging.getLogger("ottla.coordination")

# Number of bytes that one pass of the scheduler replays at once, of all partitions together: small partitions are loaded before
# the broker serves, and a stopping node may leave fifty. A thread replays the rest while requests run. There are three
# coordinators; each takes 4 ms.
INLINE_LOAD_BYTES = 32 << 10
# Minimum size with which a chunk is counted: it ends with its segment, and thousands of segments may have one record each.
LEAST_CHUNK_BYTES = 512

# Time after which a topic is created or loaded again, if memory, descriptors, threads or the like were missing.
RELOAD_MS = 10_000

Answer = TypeVar("Answer")
C = TypeVar("C", bound=Coordinator[Any])
S = TypeVar("S", bound=Shard)


class WaitingClient(Protocol):
    """Client that waits for an answer: a connection."""

    def check_peer(self) -> None:
        """Raise if the client no longer waits."""


class ParkedAnswer(Generic[Answer]):
    """Answer of a request that the coordinator may park: it calls the object once, with the answer, and the handler awaits
    `wait`."""

    __slots__ = ("_answer", "_event", "_wakeup_throttle")

    def __init__(self, wakeup_throttle: WakeupThrottle) -> None:
        self._wakeup_throttle = wakeup_throttle
        self._answer: Answer | None = None
        self._event: trio.Event | None = None

    def __call__(self, answer: Answer) -> None:
        self._answer = answer
        if self._event is not None:  # otherwise no handler waits yet, or any more
            self._wakeup_throttle.wake(self)

    def wake_now(self) -> None:
        """Wake the handler. Only `WakeupThrottle` calls it."""
        if self._event is not None:
            self._event.set()

    async def wait(self, client: WaitingClient) -> Answer:
        """Return the answer once it is available. Raises as `client.check_peer` if the client disconnects before.

        The end of a rebalance answers all members of a group at once; their handlers are woken a few at a time.
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
                self._event = None  # The answer may come when no handler is left to release its place.
                self._wakeup_throttle.leave(self)
        assert self._answer is not None
        return self._answer


class _Load(NamedTuple):
    """A shard that must be loaded from this chunk on.

    Attributes:
        size_bytes: Size of its log.
    """

    size_bytes: int
    shard: Shard
    chunk: Chunk


class CoordinatorService(Generic[C, S]):
    """One coordinator of a broker.

    Args:
        make: Function that makes the coordinator from its store and from the function that it calls to be woken earlier.
        base_sequence: Argument of `LogStore`.
    """

    def __init__(
        self,
        deps: CoordinatorDeps,
        make: Callable[[RecordStore, Callable[[], None]], C],
        *,
        topic: str,
        base_sequence: int,
    ) -> None:
        self.deps = deps
        self._topic = topic
        self._store = LogStore(deps.topics, deps.appends, topic, base_sequence=base_sequence)
        self.wakeup_throttle = WakeupThrottle()
        """Wakes the parked requests, a few at a time."""
        self._sleep = trio.CancelScope()
        self._is_closed = False
        self._to_reload: set[int] = set()
        self._refused: str | None = None
        """Reason of the disk's last refusal to create the topic. Requests do not try again before `_retry_at_ms`."""
        self._retry_at_ms = 0
        self._inline_pass, self._inline_left_bytes = -1, 0
        self._loads, self._loads_todo = trio.open_memory_channel[_Load](inf)
        self.coordinator: C = make(self._store, self._wake)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load everything, then run what is due until cancelled.

        It is started once the small partitions are loaded. Until a larger one is loaded, requests for its keys get
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
        """Run `shard_led`, and create the topic before if it does not exist.

        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (stopping, or the topic cannot be created).
        """
        if not self.coordinator.shards:
            await self.ensure_topic()
        return self.shard_led(node, key)

    def shard_led(self, node: Node, key: str) -> S:
        """Return the shard of `key`, ACTIVE or not, to be used for a whole request. Raises NOT_COORDINATOR if `node` does not
        lead it."""
        shard: S = self.coordinator.shard_for(key)
        if self.deps.topics.partition(self._topic, shard.partition).present_leader != node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node.node_id} is not the coordinator of {key}")
        return shard

    def is_settled(self, shard: S) -> bool:
        """Whether `settle` would return at once."""
        return bool(self.coordinator.shards) and self._store.is_flushed(shard.partition)

    async def settle(self, shard: S) -> None:
        """Return once everything that the coordinator knows of the shard's keys is on disk, as `flush.messages` requires.

        Every request that wrote or read something ends with it: the contents of an answer survive a power loss. Apache Kafka
        also answers nothing before it is flushed.

        Raises:
            KafkaError: NOT_COORDINATOR: the flush failed, and the coordinator has unloaded the partition.
        """
        if not self.coordinator.shards:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self._topic} does not exist")
        await self._store.settle(shard.partition)

    def end_offset(self, shard: S) -> int:
        """Return the end of the log that contains the shard's records."""
        return self._store.end_offset(shard.partition)

    def is_flushed(self, shard: S, up_to: int) -> bool:
        """Whether that log is on disk below this offset, as `flush.messages` requires."""
        return not self.coordinator.shards or self._store.is_flushed(shard.partition, up_to)

    async def settle_all(self, node: Node) -> None:
        """Run `settle` for all keys that `node` coordinates. A partition that has been unloaded is skipped."""
        for partition in self.partitions_led_by(node):
            with suppress(KafkaError):
                await self._store.settle(partition)

    def leader_of(self, partition: int) -> int:
        """Return the node that coordinates the keys of this partition; NO_LEADER if none does."""
        return self.deps.topics.partition(self._topic, partition).present_leader

    def partitions_led_by(self, node: Node) -> list[int]:
        """Return the partitions whose keys `node` coordinates; none while the topic does not exist."""
        return [shard.partition for shard in self.coordinator.shards if self.leader_of(shard.partition) == node.node_id]

    async def ensure_topic(self) -> None:
        """Create the topic if it does not exist. If the disk refused that, it is tried again only after `RELOAD_MS`.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        if self._refused is not None and self.deps.clock.elapsed_ms() < self._retry_at_ms:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._refused)
        try:
            await self.deps.ensure_topic(self._topic)
            self._refused = None
        except KafkaError as error:
            log.warning("cannot create %s: %s", self._topic, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._refused, self._retry_at_ms = error.message, self.deps.clock.elapsed_ms() + RELOAD_MS
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if not self.coordinator.shards and not self._is_closed:
            self._open_existing()

    def leadership_changed(self, partition: int) -> None:
        """Reload the tables of a partition that another node leads now, or unload them if none does.

        State without records (a running rebalance, parked requests) is lost, as for a new coordinator.
        """
        if self._is_closed or not self.coordinator.shards:
            return
        now_ms = self.deps.clock.now_ms()
        if self.leader_of(partition) == NO_LEADER:
            self.coordinator.unload(partition, ErrorCode.NOT_COORDINATOR, now_ms)
        else:
            self._load(self.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, now_ms))

    def topic_gone(self) -> None:
        """Forget everything after the deletion of the topic; the next request that needs it creates it again, empty."""
        self._to_reload.clear()
        if not self._is_closed:
            self.coordinator.forget(ErrorCode.NOT_COORDINATOR, self.deps.clock.now_ms())

    def close(self) -> None:
        """Answer all parked requests, so that their connections can end, and accept no more. Writes nothing."""
        self._is_closed = True
        self.coordinator.close(ErrorCode.NOT_COORDINATOR, self.deps.clock.now_ms())

    # Loading

    def _open_existing(self) -> None:
        """Open the topic if it exists; load its small partitions, and leave the others to `run`."""
        topic = self.deps.topics.get(self._topic)
        if topic is None:
            return
        self.coordinator.open(len(topic.partitions))
        for shard in tuple(self.coordinator.shards):
            if self.leader_of(shard.partition) == NO_LEADER:
                self.coordinator.unload(shard.partition, ErrorCode.NOT_COORDINATOR, self.deps.clock.now_ms())
            else:
                self._load(shard)

    def _load(self, shard: Shard) -> None:
        """Load a shard; leave it to `run` if much must be loaded, in it or in all shards that this pass loads."""
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
            self.coordinator.activate(shard, self.deps.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - a failure concerns one partition only
            self._failed(shard, error)

    async def _load_waiting(self, waiting: list[_Load]) -> None:
        """Load these shards and all that are added during that, the smallest first: a partition of a few records does not wait
        for one of a million."""
        while waiting:
            with suppress(trio.WouldBlock):
                while True:
                    waiting.append(self._loads_todo.receive_nowait())
            waiting.sort(key=lambda load: load.size_bytes)
            load = waiting.pop(0)
            await self._load_large(load.shard, load.chunk)

    def _size_bytes(self, shard: Shard) -> int:
        """Return the size of the shard's log; 0 if the topic was deleted."""
        log_of = self.deps.logs.logs.get(TopicPartition(self._topic, shard.partition))
        return 0 if log_of is None else log_of.size_bytes

    async def _load_large(self, shard: Shard, chunk: Chunk) -> None:
        """Read chunk by chunk on this thread, which owns the log, and replay each in a worker thread. If the shard is replaced
        during that, the rest is not read."""
        try:
            while len(chunk) and self.coordinator.is_open(shard):
                await in_thread(Work.READ, self._data_dir_of(shard), _replay, shard, chunk)
                chunk = self._store.read(shard.partition, shard.next_offset)
            self.coordinator.activate(shard, self.deps.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(shard, error)

    def _data_dir_of(self, shard: Shard) -> str:
        return self.deps.logs.data_dir_of(TopicPartition(self._topic, shard.partition))

    def _failed(self, shard: Shard, error: Exception) -> None:
        self.coordinator.fail(shard, error)
        was_refused = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
        # A RuntimeError: no more threads can be started.
        if was_refused or isinstance(error, OSError | MemoryError | RuntimeError):
            self._to_reload.add(shard.partition)

    async def _reload(self) -> None:
        """Load the partitions again that failed for a reason that may pass."""
        while True:
            await self.deps.clock.sleep(RELOAD_MS)
            for partition in tuple(self._to_reload):
                self._to_reload.discard(partition)
                shards = self.coordinator.shards[partition : partition + 1]  # none: the topic was deleted
                has_failed = not self._is_closed and any(shard.state is ShardState.FAILED for shard in shards)
                log_of = self.deps.logs.logs.get(TopicPartition(self._topic, partition))
                if has_failed and log_of is not None and log_of.failure is None:
                    self._load(self.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, self.deps.clock.now_ms()))

    # Time

    async def _keep_time(self) -> None:
        clock, time_slice = self.deps.clock, TimeSlice()
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            with trio.CancelScope() as self._sleep:
                if due_ms is None:
                    await trio.sleep_forever()
                else:
                    await clock.sleep_until(due_ms)
            # A time slice each time: deadlines that are always due, set by a member with time-outs of zero, must not starve
            # other tasks, nor must thousands that are due together.
            await time_slice.next()
            try:
                self.coordinator.run_due(clock.now_ms(), time_slice.is_over)
            except Exception:
                log.exception("a timer of the coordinator of %s failed", self._topic)

    def _wake(self) -> None:
        self._sleep.cancel()


def _replay(shard: Shard, chunk: Chunk) -> None:
    shard.replay(chunk.read())
