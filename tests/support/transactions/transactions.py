"""Transaction coordination without broker, disk or clock: a coordinator whose time the test moves.

transactions = Transactions()
producer = transactions.init("x")
transactions.add("x", producer, A0)
transactions.end("x", producer, commit=True)
assert transactions.markers.of(A0) == [Marker(producer.producer_id, 1, commit=True)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.jobs import IsOver, never
from ottla.server.coordination.records import Pair, Producer, Records
from ottla.server.partitions.appends import Flushed
from ottla.server.transactions.coordinator import TransactionCoordinator
from ottla.server.transactions.metadata import TransactionMetadata, TransactionState
from ottla.server.transactions.records import TransactionRecord, read_record
from ottla.server.transactions.settings import MARKER_RETRY_MS, TransactionSettings
from ottla.storage.disk.paths import TopicPartition
from support.groups.groups import MemoryStore
from support.groups.settings import transaction_settings

A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
B0 = TopicPartition("b", 0)

TIMEOUT_MS = 60_000
SWEEP_MS = 10_000


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int = 0
    transaction_version: int = 2


class PowerLossError(BaseException):
    """The process ended here."""


class Power:
    """A limit on writes: `steps` of them succeed (None: all), the next ones raise `error`."""

    def __init__(self, steps: int | None = None, error: type[BaseException] = PowerLossError) -> None:
        self.steps = steps
        self.error = error
        self.used = 0

    def use(self) -> None:
        if self.steps == self.used:
            raise self.error
        self.used += 1


class Markers:
    """The markers that were written: those of all data partitions."""

    def __init__(self, power: Power) -> None:
        self.written: list[tuple[TopicPartition, Marker]] = []
        self.refusing: set[TopicPartition] = set()
        """Partitions without a leader."""
        self.broken: set[TopicPartition] = set()
        """Partitions whose log has a fault of Ottla's own."""
        self.deleted: set[TopicPartition] = set()
        self.power = power

    def __call__(
        self,
        topic_partition: TopicPartition,
        /,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None:
        if topic_partition in self.deleted:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")
        if topic_partition in self.refusing:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no leader")
        if topic_partition in self.broken:
            raise ZeroDivisionError
        self.power.use()
        marker = Marker(producer_id, producer_epoch, commit, coordinator_epoch, transaction_version)
        self.written.append((topic_partition, marker))

    def of(self, topic_partition: TopicPartition) -> list[Marker]:
        return [marker for partition, marker in self.written if partition == topic_partition]


class Flushes:
    """Flushes. By default none waits; once the test enables it, all wait until the test completes them."""

    def __init__(self) -> None:
        self.is_asked_for = False
        self.waiting: list[tuple[Collection[TopicPartition], Flushed]] = []

    def __call__(self, partitions: Collection[TopicPartition], then: Flushed, now_ms: int) -> None:
        if self.is_asked_for and partitions:
            self.waiting.append((partitions, then))
        else:
            then((), now_ms)

    def done(self, now_ms: int, *, failed: Collection[TopicPartition] = ()) -> None:
        """Complete the oldest flush."""
        partitions, then = self.waiting.pop(0)
        then([one for one in partitions if one in failed], now_ms)


class TransactionStore(MemoryStore):
    """`__transaction_state` in memory."""

    def __init__(self, power: Power, partition_count: int = 4) -> None:
        super().__init__(partition_count)
        self.power = power

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        self.power.use()
        return super().append(partition, records, now_ms, producer=producer)

    def history(self, transactional_id: str) -> list[TransactionMetadata | None]:
        """Return all states that were written about an id; None for a tombstone."""
        return [one.metadata for one in self._all() if one.transactional_id == transactional_id]

    def _all(self) -> Iterator[TransactionRecord]:
        for partition in range(len(self.partitions)):
            for record in self.records(partition):
                found = read_record(record.key, record.value)
                assert found is not None
                yield found


class Transactions:
    """A coordinator over a store in memory, at a time that only `advance` moves; `set_wall` moves the wall time.

    A restart is a new one over the same store and markers.

    Args:
        version: The finalized transaction.version.
    """

    def __init__(
        self,
        *,
        version: int = 2,
        after: Transactions | None = None,
        power: Power | None = None,
        settings: TransactionSettings | None = None,
        loads: bool = True,
    ) -> None:
        power = power or Power()
        self.version = version
        self.settings: TransactionSettings = settings or (after.settings if after else transaction_settings())
        self.elapsed_ms: int = after.elapsed_ms if after else 1_000_000
        self._wall_ahead_ms: int = after._wall_ahead_ms if after else 0
        self.store: TransactionStore = after.store if after else TransactionStore(power)
        self.markers: Markers = after.markers if after else Markers(power)
        self.producer_ids: Iterator[int] = after.producer_ids if after else count(1000)
        self.is_over: IsOver = never
        """Whether the coordinator's time slice is over, while due work is left. Then, and at the end, `between` is called."""
        self.between: Callable[[], None] = lambda: None
        self.flushes = Flushes()
        self.store.power = self.markers.power = power
        self.coordinator = TransactionCoordinator(
            self.settings,
            self.store,
            write_marker=self.markers,
            when_flushed=self.flushes,
            take_producer_id=lambda: next(self.producer_ids),
            transaction_version=lambda: version,
            elapsed_ms=lambda: self.elapsed_ms,
        )
        if loads:
            self.load_all()
            self.coordinator.run_due(self.now_ms)

    def load_all(self) -> None:
        """Read all partitions of the store; the work that is due then has not begun."""
        self.coordinator.open(len(self.store.partitions))
        for partition in range(len(self.store.partitions)):
            self._load(partition)

    @property
    def now_ms(self) -> int:
        """Return the wall time."""
        return self.elapsed_ms + self._wall_ahead_ms

    def set_wall(self, by_ms: int) -> None:
        """Set the wall clock ahead, or with a negative number back."""
        self._wall_ahead_ms += by_ms

    def load(self, partition: int) -> None:
        """Read a partition, and do the work that is due then."""
        self._load(partition)
        self.coordinator.run_due(self.now_ms)

    def _load(self, partition: int) -> None:
        shard = self.coordinator.shards[partition]
        try:
            shard.replay(self.store.read(partition, 0).read())
        except KafkaError as error:
            self.coordinator.fail(shard, error)
        else:
            self.coordinator.activate(shard, self.now_ms)

    @property
    def client_version(self) -> int:
        """Return the transaction version of clients: 2 if the cluster uses 2, else 0, as in the wire versions."""
        return 2 if self.version == 2 else 0

    def init(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS, expected: Producer | None = None) -> Producer:
        return self.coordinator.init_producer_id(
            self.coordinator.shard_for(transactional_id), transactional_id, timeout_ms, expected, self.now_ms
        )

    def init_until_done(self, transactional_id: str, expected: Producer | None = None) -> Producer:
        """Initialize a producer as clients do: repeat after CONCURRENT_TRANSACTIONS."""
        for _ in range(10):
            try:
                return self.init(transactional_id, expected=expected)
            except KafkaError as error:
                assert error.code is ErrorCode.CONCURRENT_TRANSACTIONS, error
                self.advance(MARKER_RETRY_MS)
        raise AssertionError("never done")

    def add(self, transactional_id: str, producer: Producer, *partitions: TopicPartition) -> None:
        self.coordinator.add_partitions(
            self.coordinator.shard_for(transactional_id),
            transactional_id,
            producer,
            partitions,
            self.client_version,
            self.now_ms,
        )

    def verify(self, transactional_id: str, producer: Producer, *partitions: TopicPartition) -> list[TopicPartition]:
        return self.coordinator.verify_partitions(
            self.coordinator.shard_for(transactional_id), transactional_id, producer, partitions
        )

    def end(self, transactional_id: str, producer: Producer, *, commit: bool) -> Producer:
        return self.coordinator.end_transaction(
            self.coordinator.shard_for(transactional_id),
            transactional_id,
            producer,
            commit,
            self.client_version,
            self.now_ms,
        )

    def metadata(self, transactional_id: str) -> TransactionMetadata:
        return self.coordinator.shard_of(transactional_id).transactions[transactional_id]

    def state(self, transactional_id: str) -> TransactionState:
        return self.metadata(transactional_id).state

    def knows(self, transactional_id: str) -> bool:
        return transactional_id in self.coordinator.shard_of(transactional_id).transactions

    def producer(self, transactional_id: str) -> Producer:
        metadata = self.metadata(transactional_id)
        return Producer(metadata.producer_id, metadata.producer_epoch)

    def advance(self, by_ms: int) -> None:
        """Move the time, stopping wherever something is due."""
        end_ms = self.elapsed_ms + by_ms
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.elapsed_ms = max(self.elapsed_ms, due_ms)
            self.coordinator.run_due(self.now_ms, self.is_over)
            self.between()
        self.elapsed_ms = end_ms


def code_of(request: Callable[[], object]) -> ErrorCode:
    """Return the error code of a request's answer."""
    try:
        request()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
