"""A topic as a table: the newest value of each key, as read_committed consumers see it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from types import TracebackType
from typing import Self

from ...protocol.errors import KafkaError
from ...protocol.records import Record as LogRecord
from ...storage.topics.versions import VersionSource
from .configs import configs
from .follower import Follower
from .key_offsets import KeyOffsets
from .newest import UNREADABLE, note, versions_in, versions_unknown
from .nodes import NodeConnections
from .reading import records
from .security import PLAIN, Security
from .values import Record, partition_of

WAIT_MS = 250
"""Longest wait in one request; a waiting call then checks its time limit."""
SHOWN = 100


def is_there(value: bytes | None) -> bool:
    """Return whether there is a value."""
    return value is not None


class Table(Mapping[str | bytes, bytes]):
    """The newest value of each key of a topic. Each method first reads what was committed up to its call.

    Only keys and offsets are in memory; values are read from the broker. Records without a key are ignored. A key whose records
    are in several partitions has the value of the partition that clients choose for it; `len` and loops count it in each.

    With an `ottla.compaction.strategy`, as it is at the first call, the record with the highest version is the newest. Then deleted
    keys stay in memory: a tombstone that was read wins against lower versions, also when a clean pass has removed it. If the
    topic's options cannot be read, a UserWarning says so, and the last record of a key is the newest.

    Any thread may call the methods; one waits for the other. `close`, and the end of a `with` block, close the connections.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        security: Security = PLAIN,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._security = security
        self._nodes = NodeConnections(bootstrap, security=security)
        self._elapsed_s = elapsed_s
        self._newest: dict[int, KeyOffsets] = {}
        self._versions: VersionSource | None = None
        self._follower = Follower(
            self._nodes, topic, begin=self._begin, take=self._take, forget_below=self._forget_below
        )
        self._last: tuple[int, LogRecord | None] = -1, None
        """The last record that was read, with its partition: a wait for its key needs no second fetch."""
        self._lock = threading.Lock()
        self._closings = 0

    def __repr__(self) -> str:
        return f"Table({self.topic!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the waits of other threads; a later call makes new connections."""
        self._closings += 1
        self._nodes.is_closing = True
        with self._lock:
            self._nodes.close()

    def __len__(self) -> int:
        with self._lock:
            self._follower.catch_up()
            return sum(map(len, self._newest.values()))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys of this moment."""
        with self._lock:
            self._follower.catch_up()
            found = [newest.copy() for _, newest in sorted(self._newest.items())]
        for newest in found:
            yield from newest

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str | bytes):
            return False
        with self._lock:
            self._follower.catch_up()
            return self._place(_encoded(key)) is not None

    def __getitem__(self, key: str | bytes) -> bytes:
        with self._lock:
            self._follower.catch_up()
            value = self._value(_encoded(key))
        if value is None:
            raise KeyError(key)
        return value

    def items(self) -> ItemsView[bytes, bytes]:
        """Return the keys and values. A loop reads the topic once, as `records`."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Return the values. A loop reads the topic once, as `records`."""
        return _Values(self)

    def records(self) -> Iterator[Record]:
        """Yield the newest record of each key, as of now, in the order of partitions and offsets.

        A record that a clean pass has removed since is replaced by the newest record of its key at that time.
        """
        with self._lock:
            self._follower.catch_up()
            found = {partition: newest.copy() for partition, newest in sorted(self._newest.items()) if newest}
        nodes = NodeConnections(self._bootstrap, security=self._security)
        try:
            for partition, newest in found.items():
                for record in records(nodes, self.topic, partition, "read_committed"):
                    if record.key is not None and newest.get(record.key) == record.offset:
                        newest.delete(record.key)
                        yield record
                for key in newest:
                    with self._lock:
                        self._follower.catch_up()
                        superseded_by = self._record(key)
                    if superseded_by is not None:
                        yield superseded_by
        finally:
            nodes.close()

    def wait_for(
        self, key: str | bytes, predicate: Callable[[bytes | None], bool] = is_there, timeout_s: float = 10.0
    ) -> bytes | None:
        """Wait until the value of a key is as required, and return it; None stands for no value, or a deleted key.

        Args:
            predicate: Called with the present value, and again after it has changed; by default the key must have a value. A
                value that is soon replaced may be skipped.
            timeout_s: Time limit in seconds of real time.

        Raises:
            TimeoutError: The value was not as required in time; the message has the last one.
            RuntimeError: Another thread has called `close`.
        """
        encoded, until_s, closings = _encoded(key), self._elapsed_s() + timeout_s, self._closings
        value: bytes | None = None
        place: tuple[int, int] | None = (-1, -1)
        with self._lock:
            self._follower.catch_up()
        while True:
            with self._lock:
                is_new = self._place(encoded) != place
                if is_new:
                    value = self._value(encoded)
                    place = self._place(encoded)
            if is_new and predicate(value):
                return value
            if self._closings != closings:
                raise RuntimeError(f"table {self.topic!r} was closed while it waited for key {key!r:.{SHOWN}}")
            left_ms = round(1_000 * (until_s - self._elapsed_s()))
            if left_ms <= 0:
                raise TimeoutError(
                    f"{self.topic}: the value of key {key!r:.{SHOWN}} is not as required after {timeout_s:g} s:"
                    f" {value!r:.{SHOWN}}"
                )
            with self._lock:
                self._follower.wait(min(left_ms, WAIT_MS))

    def _value(self, key: bytes) -> bytes | None:
        found = self._record(key)
        return None if found is None else found.value

    def _record(self, key: bytes) -> Record | None:
        """Read the newest record of a key; None without one."""
        missed: tuple[int, int] | None = None
        while (place := self._place(key)) is not None and place != missed:
            partition, offset = place
            last_in, last = self._last
            is_last = last is not None and (last_in, last.offset) == place
            found = last if is_last else self._follower.read_one(partition, offset)
            if found is not None and found.key == key:
                return Record(self.topic, partition, offset, found.timestamp, found.key, found.value, found.headers)
            # A clean pass has removed the record for a newer one, or it was deleted with all records before it.
            self._follower.catch_up()
            if self._place(key) == place and self._versions is None:
                self._newest[partition].delete(key)
            elif self._place(key) == place:  # it may have won against records that are still there
                missed = place
                self._follower.read_again(partition)
                self._follower.catch_up()
        return None

    def _place(self, key: bytes) -> tuple[int, int] | None:
        """Return the partition and offset of the newest record of a key; None without one."""
        newest = self._newest
        for partition in (partition_of(key, self._follower.partition_count), *sorted(newest)):
            if partition in newest and (offset := newest[partition].get(key)) is not None:
                return partition, offset
        return None

    def _begin(self) -> None:
        self._newest.clear()
        try:
            self._versions = versions_in(configs(self._nodes, "topic", self.topic))
        except KafkaError as error:
            if error.code not in UNREADABLE:
                raise
            self._versions = None
            warnings.warn(versions_unknown(self.topic, error), stacklevel=2)

    def _take(self, partition: int, record: LogRecord) -> None:
        self._last = partition, record
        if partition not in self._newest:
            self._newest[partition] = KeyOffsets(self._versions)
        note(self._newest[partition], record, record.timestamp)

    def _forget_below(self, partition: int, offset: int) -> bool:
        """Forget records; return whether these may have won against later ones."""
        if self._versions is not None:
            return self._newest.pop(partition, None) is not None
        if partition in self._newest:
            self._newest[partition].delete_below(offset)
        return False


class _Items(ItemsView[bytes, bytes]):
    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for record in self._table.records():
            if record.key is not None and record.value is not None:
                yield record.key, record.value


class _Values(ValuesView[bytes]):
    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._table.items())


def _encoded(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key
