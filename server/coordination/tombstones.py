"""Tombstones in as many batches as the partition takes them in: what expires or is deleted need not go all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...protocol.errors import KafkaError
from .records import Records
from .store import RecordStore

Thing = TypeVar("Thing")


class Tombstones(Generic[Thing]):
    """Those of one round in one partition. A batch that is refused keeps its own things; the round goes on with the others.

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
