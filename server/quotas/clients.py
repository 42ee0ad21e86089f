"""Quotas of clients: what they use is measured, and above their quota they are told how long to wait.

Throttle times are Apache Kafka's: for how long nothing may be used until the rate is the quota again. For `request_percentage`
a sample's length is the most. A client shares its quota with those that `entities.QuotaLimits` names; each node has its own, as brokers have,
but for mutations, which one controller counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from .entities import Entity, Limit, QuotaLimits, Sharing
from .rates import Rate, Sensors, TokenBucket, Window, bounded
from .validation import CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE

NS_OF_A_PERCENT = 1e7
"""Of a second: a quota of 1 % is so much in each."""


class QuotaClient(NamedTuple):
    """Who sends a request, and to which node."""

    node_id: int
    user: str
    client_id: str
    """Empty for who has none."""


class Using(NamedTuple):
    """What a sensor is of."""

    key: str
    node_id: int
    """−1: all nodes."""
    sharing: Sharing


class Usage:
    """What one of those has used, and how it was throttled."""

    __slots__ = ("bucket", "limit", "muted_until_ms", "rate", "throttle_ms_max", "throttle_ms_total", "throttled")

    limit: Limit
    """The last that was asked about."""

    def __init__(self) -> None:
        self.rate = Rate()
        self.bucket = TokenBucket()
        self.throttled = 0
        self.throttle_ms_total = 0
        self.throttle_ms_max = 0
        self.muted_until_ms = 0

    def mute(self, throttle_ms: int, elapsed_ms: int) -> None:
        """A connection is silenced for so long."""
        self.throttled += 1
        self.throttle_ms_total += throttle_ms
        self.throttle_ms_max = max(self.throttle_ms_max, throttle_ms)
        self.muted_until_ms = max(self.muted_until_ms, elapsed_ms + throttle_ms)


class Throttled(NamedTuple):
    """Who may not go on yet, and why."""

    key: str
    node_id: int
    sharing: Sharing
    entity: Entity
    bound: float
    rate: float
    """A second, of what the key measures; of mutations how many tokens there are."""
    left_ms: int


class Mutations:
    """The quota of controller mutations during one request.

    Strict: what comes when the quota is exhausted is refused, and only then there is something to wait for. Else all is taken,
    and waited for afterwards: for versions of requests that do not know THROTTLING_QUOTA_EXCEEDED.
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
        """So many are to be made or deleted. Raises KafkaError THROTTLING_QUOTA_EXCEEDED; they may not be then."""
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
        """How long the client is to wait from now on."""
        return max(0, self._throttle_ms - (self._elapsed_ms() - self._throttled_at_ms))


class ClientQuotas:
    """Those of one broker, in one life.

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
        """Have these hold from now on, by key. What clients have used lately counts for those of other amounts, too."""
        self._limits = limits
        self._sensors.keep(lambda using: using.key in limits)

    @property
    def keys(self) -> frozenset[str]:
        """Those of which there are quotas."""
        return frozenset(self._limits)

    def limit(self, key: str, client: QuotaClient) -> Limit | None:
        """What holds for a client; None for no limit."""
        limits = self._limits.get(key)
        return None if limits is None else limits.find(client.user, client.client_id)

    def use(self, key: str, client: QuotaClient, amount: float) -> int:
        """The client has used, or is about to use, so much more: how many ms it is to wait, 0 within its quota."""
        usage = self._usage(key, client)
        if usage is None:
            return 0
        elapsed_ms = self._elapsed_ms()
        usage.rate.record(amount, self.window, elapsed_ms)
        throttle_ms = usage.rate.throttle_ms(usage.limit.bound, self.window, elapsed_ms)
        return min(throttle_ms, self.window.sample_ms) if key == REQUEST_PERCENTAGE else throttle_ms

    def take_back(self, key: str, client: QuotaClient, amount: float) -> None:
        """It has not used that after all."""
        usage = self._usage(key, client)
        if usage is not None:
            usage.rate.record(-amount, self.window, self._elapsed_ms())

    def bytes_without_throttling(self, client: QuotaClient, key: str) -> int | None:
        """As much as a client may be given at once that has had nothing lately; more would always be throttled."""
        limit = self.limit(key, client)
        if limit is None:
            return None
        return min(int(limit.bound * (self.window.samples - 1) * self.window.sample_ms / 1000), 2**31 - 1)

    def mutations(self, client: QuotaClient, *, strict: bool) -> Mutations | None:
        """The quota of a request that changes topics; None for no limit."""
        usage = self._usage(CONTROLLER_MUTATION_RATE, client)
        if usage is None:
            return None
        return Mutations(usage, usage.limit, self._mutation_window, self._elapsed_ms, strict=strict)

    def mute(self, key: str, client: QuotaClient, throttle_ms: int) -> None:
        """A connection of the client is silenced, for a quota of this key."""
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
        """Of all who have used something lately, the last one first."""
        return self._sensors.items()

    def used(self, using: Using, usage: Usage) -> float:
        """A second, of what the key measures; of mutations how many tokens there are."""
        elapsed_ms = self._elapsed_ms()
        if using.key == CONTROLLER_MUTATION_RATE:
            return usage.bucket.peek(usage.limit.bound, self._mutation_window, elapsed_ms)
        return usage.rate.measure(self.window, elapsed_ms)

    def throttled(self, using: Using, usage: Usage) -> Throttled | None:
        """How it is throttled at this moment; None if it is not."""
        elapsed_ms = self._elapsed_ms()
        if usage.muted_until_ms <= elapsed_ms:
            return None
        limit, left_ms = usage.limit, usage.muted_until_ms - elapsed_ms
        rate = self.used(using, usage)
        return Throttled(using.key, using.node_id, using.sharing, limit.entity, limit.bound, rate, left_ms)
