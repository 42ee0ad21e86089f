"""Client instances that push metrics (KIP-714): what each is asked for, and whether it may push now.

In memory only, the most recent INSTANCES_MAX: one that is forgotten asks again.
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
"""None, gzip, snappy, lz4, zstd."""

INSTANCES_MAX = 16_384
"""As many as Apache Kafka keeps."""

LISTS_MAX = 1_000
"""Of metrics, that are known again. Where many subscriptions choose by client id, each client may be asked for others."""

EXPIRY_MS = 60_000
"""An instance that is silent for so long, and for three of its intervals, is forgotten."""

RESERVED = (ZERO_UUID, b"\0" * 15 + b"\1")
"""Ids that no instance has."""


@dataclass(slots=True)
class Instance:
    """One of them, under the subscriptions of `version`."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    version: int
    connection: weakref.ref[object]
    """By which it came; from another one it begins anew, as Apache Kafka forgets it at the end of its connection."""
    asked_ms: float = -math.inf
    pushed_ms: float = -math.inf
    seen_ms: float = -math.inf
    is_terminating: bool = False

    def may_ask(self, elapsed_ms: float) -> bool:
        """Whether it has waited for an interval since its last request; notes this one if so."""
        if elapsed_ms - max(self.asked_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.asked_ms = elapsed_ms
        return True

    def may_push(self, elapsed_ms: float) -> bool:
        """Likewise; after it was told its subscription it may at once, as its first push comes with jitter."""
        if self.asked_ms <= self.pushed_ms and elapsed_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = elapsed_ms
        return True


@dataclass(slots=True)
class Instances:
    """Those of one broker. Times are elapsed milliseconds. What looks at all subscriptions does so in turns."""

    rng: random.Random
    _subscriptions: dict[str, tuple[Texts, Subscription]] = field(default_factory=dict)
    """By name, with the texts that they are made of."""
    _version: int = 0
    _by_id: OrderedDict[bytes, Instance] = field(default_factory=OrderedDict)
    """The one that was silent longest first."""
    _metrics: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    """Those that instances are asked for, each once: thousands are asked for the same."""

    def __len__(self) -> int:
        return len(self._by_id)

    async def subscribe(self, subscriptions: Mapping[str, Texts]) -> None:
        """These are all subscriptions from now on; who asks again is told at once. One that means nothing is passed over, with a
        line in the log: they have been checked, but may have been written by another hand."""
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
        """The instance that asks what to send, and its id, a new one for ZERO_UUID; THROTTLING_QUOTA_EXCEEDED too soon."""
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
        """Whether what an instance pushes is taken; NONE if so."""
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
            instance = await self._made(instance_id, facts, connection)
            self._forget(elapsed_ms)
        instance.seen_ms = elapsed_ms
        self._by_id.pop(instance_id, None)
        self._by_id[instance_id] = instance
        return instance

    async def _made(self, instance_id: bytes, facts: Mapping[str, str | None], connection: object) -> Instance:
        time_slice, version, meant = TimeSlice(), self._version, list[Subscription]()
        async for _, each in time_slice.each(
            self._subscriptions.values()
        ):  # another dict, should they change meanwhile
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
