"""Quotas of clients: their use is measured, and above the quota a throttle time is returned.

Throttle times are Apache Kafka's: the time without use after which the rate is the quota again. For `request_percentage` it is
at most the length of a sample. A client shares its quota with those that `entities.QuotaLimits` names. Each node has its own
quota, as brokers have, except for mutations, which one controller counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from .entities import Entity, Limit, QuotaLimits, Sharing
from .rates import Rate, Sensors, TokenBucket, Window, bounded
from .validation import CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE

NS_OF_A_PERCENT = 1e7
"""Nanoseconds in a percent of a second: a quota of 1 % allows this time each second."""


class QuotaClient(NamedTuple):
    """Client of a request, and its node."""

    node_id: int
    user: str
    client_id: str
    """Empty for a client without one."""


class Using(NamedTuple):
    """Key of a sensor."""

    key: str
    node_id: int
    """Node of the use; −1: all nodes."""
    sharing: Sharing


class Usage:
    """Use of one sensor, and its throttling."""

    __slots__ = ("bucket", "limit", "muted_until_ms", "rate", "throttle_ms_max", "throttle_ms_total", "throttled")

    limit: Limit
    """The limit at the last request."""

    def __init__(self) -> None:
        self.rate = Rate()
        self.bucket = TokenBucket()
        self.throttled = 0
        self.throttle_ms_total = 0
        self.throttle_ms_max = 0
        self.muted_until_ms = 0

    def mute(self, throttle_ms: int, elapsed_ms: int) -> None:
        """Count a connection that is muted for this time."""
        self.throttled += 1
        self.throttle_ms_total += throttle_ms
        self.throttle_ms_max = max(self.throttle_ms_max, throttle_ms)
        self.muted_until_ms = max(self.muted_until_ms, elapsed_ms + throttle_ms)


class Throttled(NamedTuple):
    """A throttled client, and why."""

    key: str
    node_id: int
    sharing: Sharing
    entity: Entity
    bound: float
    rate: float
    """Rate per second, in the unit of the key; for mutations the number of tokens."""
    left_ms: int


class Mutations:
    """The quota of controller mutations during one request.

    Strict: a mutation beyond the quota is refused, and only then the client has to wait. Otherwise all are accepted, and the
    client waits afterwards: for request versions that do not know THROTTLING_QUOTA_EXCEEDED.
    """

    def __init__(
        self, usage: Usage, limit: Limit, window: Window, elapsed_ms: Callable[[], int], *, strict: bool
    ) -> None:
        self.usage = usage
        self._bound = limit.bound
        self._window = window
        self._elapsed_ms = elapsed_ms
        self._is_strict = strict
        self._throttle_ms = 0
        self._throttled_at_ms = 0

    def record(self, partitions: int) -> None:
        """Count partitions that will be created or deleted. Raises KafkaError THROTTLING_QUOTA_EXCEEDED; then they must not
        be."""
        elapsed_ms, bucket = self._elapsed_ms(), self.usage.bucket
        if not self._is_strict:
            bucket.take(partitions, self._bound, self._window, elapsed_ms)
        throttle_ms = bucket.throttle_ms(self._bound, self._window, elapsed_ms)
        is_exhausted = bucket.tokens(self._bound, self._window, elapsed_ms) < 0
        if is_exhausted:
            self._throttle_ms, self._throttled_at_ms = throttle_ms, elapsed_ms
        if self._is_strict:
            if is_exhausted:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            bucket.take(partitions, self._bound, self._window, elapsed_ms)

    @property
    def throttle_ms(self) -> int:
        """Remaining time that the client has to wait."""
        return max(0, self._throttle_ms - (self._elapsed_ms() - self._throttled_at_ms))


class ClientQuotas:
    """Client quotas of one broker, in one run.

    Args:
        elapsed_ms: The broker's clock.
        window: `quota.window.num` and `quota.window.size.seconds`.
        mutation_window: The same for `controller_mutation_rate`.
    """

    def __init__(self, elapsed_ms: Callable[[], int], window: Window, mutation_window: Window) -> None:
        self._elapsed_ms = elapsed_ms
        self.window = window
        self._mutation_window = mutation_window
        self._limits: Mapping[str, QuotaLimits] = {}
        self._sensors: Sensors[Using, Usage] = Sensors(Usage)

    def set(self, limits: Mapping[str, QuotaLimits]) -> None:
        """Put limits into effect, by key. Recent use of clients counts for changed limits as well."""
        self._limits = limits
        self._sensors.keep(lambda using: using.key in limits)

    @property
    def keys(self) -> frozenset[str]:
        """Keys that have quotas."""
        return frozenset(self._limits)

    def limit(self, key: str, client: QuotaClient) -> Limit | None:
        """Return the limit of a client; None for no limit."""
        limits = self._limits.get(key)
        return None if limits is None else limits.find(client.user, client.client_id)

    def use(self, key: str, client: QuotaClient, amount: float) -> int:
        """Count what the client has used, or is about to use; return its throttle time in ms, 0 within the quota."""
        usage = self._usage(key, client)
        if usage is None:
            return 0
        elapsed_ms = self._elapsed_ms()
        usage.rate.record(amount, self.window, elapsed_ms)
        throttle_ms = usage.rate.throttle_ms(usage.limit.bound, self.window, elapsed_ms)
        return min(throttle_ms, self.window.sample_ms) if key == REQUEST_PERCENTAGE else throttle_ms

    def take_back(self, key: str, client: QuotaClient, amount: float) -> None:
        """Subtract use that did not happen after all."""
        usage = self._usage(key, client)
        if usage is not None:
            usage.rate.record(-amount, self.window, self._elapsed_ms())

    def bytes_without_throttling(self, client: QuotaClient, key: str) -> int | None:
        """Return how much a client without recent use may get at once; more would always be throttled."""
        limit = self.limit(key, client)
        if limit is None:
            return None
        return min(int(limit.bound * (self.window.samples - 1) * self.window.sample_ms / 1000), 2**31 - 1)

    def mutations(self, client: QuotaClient, *, strict: bool) -> Mutations | None:
        """Return the quota of a request that changes topics; None for no limit."""
        usage = self._usage(CONTROLLER_MUTATION_RATE, client)
        if usage is None:
            return None
        return Mutations(usage, usage.limit, self._mutation_window, self._elapsed_ms, strict=strict)

    def mute(self, key: str, client: QuotaClient, throttle_ms: int) -> None:
        """Count a connection of the client that is muted, for a quota of this key."""
        usage = self._usage(key, client)
        if usage is not None:
            usage.mute(throttle_ms, self._elapsed_ms())

    def _usage(self, key: str, client: QuotaClient) -> Usage | None:
        limit = self.limit(key, client)
        if limit is None:
            return None
        sharing = Sharing(*map(bounded, limit.sharing))
        node_id = -1 if key == CONTROLLER_MUTATION_RATE else client.node_id
        usage = self._sensors.get(Using(key, node_id, sharing), self._elapsed_ms())
        usage.limit = limit._replace(sharing=sharing)  # a client's own name may have 32 KiB
        return usage

    def usages(self) -> Iterator[tuple[Using, Usage]]:
        """Yield all sensors with recent use, the last used first."""
        return self._sensors.items()

    def used(self, using: Using, usage: Usage) -> float:
        """Return the rate per second, in the unit of the key; for mutations the number of tokens."""
        elapsed_ms = self._elapsed_ms()
        if using.key == CONTROLLER_MUTATION_RATE:
            return usage.bucket.peek(usage.limit.bound, self._mutation_window, elapsed_ms)
        return usage.rate.measure(self.window, elapsed_ms)

    def throttled(self, using: Using, usage: Usage) -> Throttled | None:
        """Return the client's present throttling; None if it is not throttled."""
        elapsed_ms = self._elapsed_ms()
        if usage.muted_until_ms <= elapsed_ms:
            return None
        limit, left_ms = usage.limit, usage.muted_until_ms - elapsed_ms
        rate = self.used(using, usage)
        return Throttled(using.key, using.node_id, using.sharing, limit.entity, limit.bound, rate, left_ms)
