"""Client instances that push metrics (KIP-714): the metrics of each, and whether it may push now.

In memory only, the most recent INSTANCES_MAX: one that was dropped asks again.
"""

from __future__ import annotations

import logging
import math
import random
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.schema import ZERO_UUID
from ..config.broker_config import Texts
from ..runtime.time_slices import TimeSlice
from .subscriptions import ALL_METRICS, DEFAULT_INTERVAL_MS, Subscription, subscription_of

log = logging.getLogger("ottla.telemetry")

CODECS = range(5)
"""Codecs: none, gzip, snappy, lz4, zstd."""

INSTANCES_MAX = 16_384
"""Largest number of instances, as in Apache Kafka."""

LISTS_MAX = 1_000
"""Largest number of distinct metric lists that are kept. If many subscriptions select by client id, each client may have its
own list."""

EXPIRY_MS = 60_000
"""An instance without requests for this time, and for three of its intervals, is dropped."""

RESERVED = (ZERO_UUID, b"\0" * 15 + b"\1")
"""Ids that no instance may have."""


@dataclass(slots=True)
class Instance:
    """A client instance, under the subscriptions of `version`."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    version: int
    connection: weakref.ref[object]
    """Connection of the instance; on another one it starts again, as Apache Kafka drops it at the end of its connection."""
    asked_ms: float = -math.inf
    pushed_ms: float = -math.inf
    seen_ms: float = -math.inf
    is_terminating: bool = False

    def may_ask(self, elapsed_ms: float) -> bool:
        """Return whether an interval has passed since its last request; then notes this one."""
        if elapsed_ms - max(self.asked_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.asked_ms = elapsed_ms
        return True

    def may_push(self, elapsed_ms: float) -> bool:
        """Return whether it may push now; then notes this push. It may push at once after it got its subscription, as its first
        push has jitter."""
        if self.asked_ms <= self.pushed_ms and elapsed_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = elapsed_ms
        return True


@dataclass(slots=True)
class Instances:
    """Instances of one broker. Times are elapsed milliseconds. Scans of all subscriptions let other tasks run."""

    rng: random.Random
    _subscriptions: dict[str, tuple[Texts, Subscription]] = field(default_factory=dict)
    """Subscriptions by name, with their texts."""
    _version: int = 0
    _by_id: OrderedDict[bytes, Instance] = field(default_factory=OrderedDict)
    """Instances by id, the one without requests for longest first."""
    _metrics: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    """The metric lists of instances, each once: thousands have the same."""

    def __len__(self) -> int:
        return len(self._by_id)

    async def subscribe(self, subscriptions: Mapping[str, Texts]) -> None:
        """Replace all subscriptions; an instance that asks again gets them at once. An invalid one is skipped, with a line in
        the log: it was checked when it was set, but the catalog may have been edited."""
        time_slice, held = TimeSlice(), dict[str, tuple[Texts, Subscription]]()
        async for name, texts in time_slice.each(subscriptions.items()):
            known = self._subscriptions.get(name)
            try:
                made = known[1] if known is not None and known[0] == texts else subscription_of(texts)
            except KafkaError as error:
                log.warning("stored client metrics subscription %s ignored: %s", name, error.message)
                continue
            held[name] = texts, made
        self._subscriptions = held
        self._metrics.clear()
        self._version += 1

    async def ask(
        self, instance_id: bytes, facts: Mapping[str, str | None], connection: object, elapsed_ms: float
    ) -> tuple[bytes, Instance | ErrorCode]:
        """Return the instance that asks for its subscription, and its id, a new one for ZERO_UUID; THROTTLING_QUOTA_EXCEEDED if
        it asks too soon."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = await self._instance(instance_id, facts, connection, elapsed_ms)
        return instance_id, instance if instance.may_ask(elapsed_ms) else ErrorCode.THROTTLING_QUOTA_EXCEEDED

    async def push(
        self,
        instance_id: bytes,
        facts: Mapping[str, str | None],
        connection: object,
        elapsed_ms: float,
        *,
        subscription_id: int,
        is_terminating: bool,
        codec: int,
        size_bytes: int,
        size_bytes_max: int,
    ) -> ErrorCode:
        """Return whether a push is accepted; NONE if so."""
        if instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = await self._instance(instance_id, facts, connection, elapsed_ms)
        was_terminating, instance.is_terminating = instance.is_terminating, is_terminating
        if was_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(elapsed_ms) and not is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size_bytes > size_bytes_max else ErrorCode.NONE

    def _new_id(self) -> bytes:
        while (found := self.rng.randbytes(16)) in self._by_id or found in RESERVED:
            pass
        return found

    async def _instance(
        self, instance_id: bytes, facts: Mapping[str, str | None], connection: object, elapsed_ms: float
    ) -> Instance:
        self._forget(elapsed_ms)
        instance = self._by_id.get(instance_id)
        while instance is None or instance.version != self._version or instance.connection() is not connection:
            instance = await self._make_instance(instance_id, facts, connection)
            self._forget(elapsed_ms)
        instance.seen_ms = elapsed_ms
        self._by_id.pop(instance_id, None)
        self._by_id[instance_id] = instance
        return instance

    async def _make_instance(self, instance_id: bytes, facts: Mapping[str, str | None], connection: object) -> Instance:
        time_slice, version, meant = TimeSlice(), self._version, list[Subscription]()
        async for _, each in time_slice.each(self._subscriptions.values()):  # another dict, if they change during this
            if each.means(facts):
                meant.append(each)
        metrics = tuple(sorted({name for each in meant for name in each.metrics}))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        if len(self._metrics) >= LISTS_MAX:
            self._metrics.clear()
        metrics = self._metrics.setdefault(metrics, metrics)
        interval_ms = min((each.interval_ms for each in meant), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        number = zlib.crc32(f"{metrics}{interval_ms}".encode("utf-8", "surrogatepass") + instance_id)
        return Instance(number - (1 << 31), interval_ms, metrics, version, weakref.ref(connection))

    def _forget(self, elapsed_ms: float) -> None:
        while self._by_id:
            instance_id, oldest = next(iter(self._by_id.items()))
            is_over = elapsed_ms - oldest.seen_ms > max(EXPIRY_MS, 3 * oldest.interval_ms)
            if not is_over and len(self._by_id) < INSTANCES_MAX:
                return
            del self._by_id[instance_id]
