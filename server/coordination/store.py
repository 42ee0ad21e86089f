"""The seam between a coordinator and the topic that its state is kept in; and tombstones for many things in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from ...protocol.errors import KafkaError
from ...storage.disk.paths import TopicPartition
from ..partitions.appends import Flushed
from .records import Pair, Producer, Records

WhenFlushed = Callable[[Collection[TopicPartition], Flushed, int], None]
"""Function that calls its second argument once the partitions in the first are on disk as `flush.messages` requires. If nothing
is missing, it calls it at once, with the third argument as `now_ms`."""


def call_at_once(_: Collection[TopicPartition], then: Flushed, now_ms: int) -> None:
    """Call `then` at once: the `WhenFlushed` where flushing is not required."""
    then((), now_ms)


class Chunk(Protocol):
    """Batches that are still on disk; `read` may be called in any thread."""

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...


class RecordStore(Protocol):
    """The partitions of one topic. `log_store` has the real one; tests have one in memory."""

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        """Append all records as one batch, or none; transactional if there is a `producer`.

        Returns:
            The offset of the first record.

        Raises:
            KafkaError: The partition refuses them; the code is fit for the coordinator's client.
        """

    def max_batch_bytes(self, partition: int) -> int:
        """Return the maximum size of a batch for `append`."""

    def leader_epoch(self, partition: int) -> int:
        """Return the epoch of the partition's leader, which is the epoch of its coordinator."""

    def start_offset(self, partition: int) -> int:
        """Return the first offset that can be read. Raises KafkaError if the partition does not exist."""

    def read(self, partition: int, offset: int) -> Chunk:
        """Return whole batches from the one that contains `offset` on; empty at the end of the log.

        Raises:
            KafkaError: The partition cannot be read.
        """


Thing = TypeVar("Thing")


class Tombstones(Generic[Thing]):
    """Tombstones of one round in one partition, in one or more batches: expiry and deletion need not be atomic.

    If a batch is refused, its things stay in the tables, and the round continues with the others.

    Args:
        forget: Function that removes a thing from the tables; called once its tombstone is in the log.
    """

    def __init__(self, store: RecordStore, partition: int, now_ms: int, forget: Callable[[Thing], None]) -> None:
        self._store = store
        self._partition = partition
        self._now_ms = now_ms
        self._forget = forget
        self._records = Records()
        self._things: list[Thing] = []
        self.refused_count = 0
        """Number of things that stay in the tables."""
        self.refusal: KafkaError | None = None
        """Error of the first refused batch; None if no batch was refused."""

    def add(self, thing: Thing, key: bytes, *, is_last: bool = False) -> None:
        """Add a tombstone. If it does not fit into the present batch, that is written first; a key that fits into no batch is
        refused alone.

        Args:
            is_last: The tombstone is added only if all before it were written: not after a refusal.
        """
        if is_last and self.refusal is not None:
            return
        if not self._records.add_within(self._store.max_batch_bytes(self._partition), (key, None)):
            self.write()
            if is_last and self.refusal is not None:
                return
            self._records.add((key, None))
        self._things.append(thing)

    def write(self) -> None:
        """Write the added tombstones, and remove their things from the tables. The caller must do so before the end of its
        piece."""
        records, things = self._records, self._things
        self._records, self._things = Records(), []
        if not things:
            return
        try:
            self._store.append(self._partition, records, self._now_ms)
        except KafkaError as error:
            self.refused_count += len(things)
            self.refusal = self.refusal or error
            return
        for thing in things:
            self._forget(thing)

    def check(self) -> None:
        """Raise the first refusal, if any."""
        if self.refusal is not None:
            raise self.refusal
