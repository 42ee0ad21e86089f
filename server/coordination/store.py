"""The seam between a coordinator and the topic that its state is kept in; and tombstones for many things in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from ...protocol.errors import KafkaError
from ...storage.disk.paths import TopicPartition
from ..partitions.appends import Flushed
from .records import Pair, Producer, Records

WhenFlushed = Callable[[Collection[TopicPartition], Flushed, int], None]
"""Calls the second once as much of the first is on disk as `flush.messages` asks for: at once, with the third for
`now_ms`, if nothing is missing."""


def at_once(_: Collection[TopicPartition], then: Flushed, now_ms: int) -> None:
    """`WhenFlushed` where nobody asks for it."""
    then((), now_ms)


class Chunk(Protocol):
    """Batches still on disk; `read` may be called in any thread."""

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...


class RecordStore(Protocol):
    """The partitions of one topic. `log_store` is the real one; tests bring one in memory."""

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        """Append all records as one batch, or none; transactional if there is a `producer`.

        Returns:
            The offset of the first.

        Raises:
            KafkaError: The partition does not take them; the code is fit for the coordinator's client.
        """

    def max_batch_bytes(self, partition: int) -> int:
        """What `append` takes at the most."""

    def leader_epoch(self, partition: int) -> int:
        """The epoch of the partition's leader, which is the epoch of its coordinator."""

    def start_offset(self, partition: int) -> int:
        """The first offset that `read` gives. Raises KafkaError if there is no such partition."""

    def read(self, partition: int, offset: int) -> Chunk:
        """Whole batches from the one that holds `offset` on; empty at the end of the log.

        Raises:
            KafkaError: The partition cannot be read.
        """


Thing = TypeVar("Thing")


class Tombstones(Generic[Thing]):
    """Those of one round in one partition, in as many batches as it takes them in: what expires need not go all at once. A batch that is refused keeps its own things; the round goes on with the others.

    Args:
        forget: Takes a thing out of the tables; called once its tombstone is in the log.
    """

    def __init__(self, store: RecordStore, partition: int, now_ms: int, forget: Callable[[Thing], None]) -> None:
        self._store = store
        self._partition = partition
        self._now_ms = now_ms
        self._forget = forget
        self._records = Records()
        self._things: list[Thing] = []
        self.refused_count = 0
        """Things that stay."""
        self.refusal: KafkaError | None = None
        """The first one; None while there is none."""

    def add(self, thing: Thing, key: bytes, *, is_last: bool = False) -> None:
        """One more. A batch that has no room for it is written first; a key that no batch has room for is refused alone.

        Args:
            is_last: It goes only when all before it have gone: after a refusal nothing is added.
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
        """Write what was added, and forget it. To be called before others get their turn."""
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
        """Raise the first refusal, if there was one."""
        if self.refusal is not None:
            raise self.refusal
