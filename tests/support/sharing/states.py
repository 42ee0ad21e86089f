"""A share coordinator at a time that only `advance` moves, over records in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.coordination.records import Pair, Producer, Records
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_states import ShareState, WrittenState
from ottla.server.sharing.state_batches import ShareStateBatch
from ottla.server.sharing.state_coordinator import ShareStateCoordinator, ShareStateSettings
from support.groups.groups import MemoryChunk, MemoryStore
from support.transactions.transactions import Flushes, Power

PARTITIONS = 3
TOPIC, OTHER = bytes(range(16)), bytes(range(1, 17))


class PrunedStore(MemoryStore):
    """A store whose partitions can be made to begin later."""

    def __init__(self, power: Power | None = None) -> None:
        super().__init__(PARTITIONS)
        self.starts = [0] * PARTITIONS
        self.power = power or Power()

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        self.power.use()
        return super().append(partition, records, now_ms, producer=producer)

    def start_offset(self, partition: int) -> int:
        return self.starts[partition]

    def read(self, partition: int, offset: int) -> MemoryChunk:
        later = (each for each in self.batches(partition) if each.next_offset > max(offset, self.starts[partition]))
        return MemoryChunk(b"".join(bytes(each.view) for each in later))


class States:
    """A share coordinator in memory; it loads what `store` contains, if that belongs to another one."""

    def __init__(self, store: PrunedStore | None = None, *, updates: int = 3, prune_interval_ms: int = 10_000) -> None:
        self.store = store or PrunedStore()
        self.elapsed_ms = 0
        self._wall_ms = 1_000_000
        self.topics = {TOPIC: 8, OTHER: 8}
        self.flushes = Flushes()
        self.coordinator = ShareStateCoordinator(
            ShareStateSettings(updates, prune_interval_ms, cold_interval_ms=60_000),
            self.store,
            exists=lambda topic_id, partition: partition < self.topics.get(topic_id, 0),
            prune=self._prune,
            when_flushed=self.flushes,
            elapsed_ms=lambda: self.elapsed_ms,
        )
        self.load()

    def _prune(self, partition: int, offset: int) -> None:
        self.store.starts[partition] = offset

    def load(self) -> None:
        """Load as after a start: the log has everything."""
        self.coordinator.open(PARTITIONS)
        for shard in tuple(self.coordinator.shards):
            shard.next_offset = self.store.start_offset(shard.partition)
            shard.replay(self.store.read(shard.partition, shard.next_offset).read())
            self.coordinator.activate(shard, self.now_ms)
        self.coordinator.run_due(self.now_ms)

    @property
    def now_ms(self) -> int:
        return self._wall_ms + self.elapsed_ms

    def set_wall(self, by_ms: int) -> None:
        self._wall_ms += by_ms

    def advance(self, ms: int) -> None:
        self.elapsed_ms += ms
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= self.elapsed_ms:
            self.coordinator.run_due(self.now_ms)

    def begin(self, key: SharePartitionKey, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.coordinator.initialize(key, state_epoch, start_offset, self.now_ms)

    def write(
        self, key: SharePartitionKey, *batches: ShareStateBatch, leader_epoch: int = 0, start_offset: int = 0
    ) -> None:
        self.coordinator.write(key, WrittenState(0, leader_epoch, start_offset, 0, batches), self.now_ms)

    def all(self) -> dict[SharePartitionKey, ShareState]:
        found = {}
        for shard in self.coordinator.shards:
            for key in shard.states:
                state = shard.states.get(key)
                assert state is not None
                found[key] = state
        return found


def key(partition: int = 0, group: str = "g", topic_id: bytes = TOPIC) -> SharePartitionKey:
    return SharePartitionKey(group, topic_id, partition)
