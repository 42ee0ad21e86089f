"""Rate limits for new connections: to a node, to one of its listeners, from an address; Apache Kafka's ConnectionQuotas.

Above the rate of a node or listener the next connection waits before anything is read from it, at most the length of a sample.
A connection above the rate of its address is not served at all: it is closed after such a wait, and does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..runtime.addresses import plain_address
from .entities import IP, Quotas
from .rates import MAX_INT, Rate, Sensors, Window
from .validation import CONNECTION_CREATION_RATE

UNLIMITED = MAX_INT

Where = tuple[int, str]
"""Node id, and a listener's name, empty for the whole node."""


class AddressBounds(NamedTuple):
    """Connections per second that each address may make."""

    default: int = UNLIMITED
    by_address: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def from_quotas(cls, quotas: Quotas, addresses: Mapping[str, str]) -> AddressBounds:
        """Make the bounds from quotas; `addresses` has the addresses of entities that are host names."""
        default, by_address = UNLIMITED, {}
        for entity, values in quotas.items():
            bound = values.get(CONNECTION_CREATION_RATE)
            if bound is None:
                continue
            name = entity.names[IP]
            if name is None:
                default = integer_rate(bound)
            else:
                by_address[plain_address(addresses.get(name, name))] = integer_rate(bound)
        return cls(default, by_address)

    def bound_of(self, host: str) -> int:
        """Return the bound of an address; UNLIMITED without a quota."""
        return self.by_address.get(plain_address(host), self.default)

    def __bool__(self) -> bool:
        return self.default != UNLIMITED or bool(self.by_address)


class _Address:
    """The connections of one address to one node."""

    __slots__ = ("rate", "refused_until_ms")

    def __init__(self) -> None:
        self.rate = Rate()
        self.refused_until_ms = 0


class RefusedAddress(NamedTuple):
    """An address some of whose connections are refused."""

    node_id: int
    address: str
    is_default: bool
    """Whether the quota is the default for addresses without their own."""
    bound: int
    rate: float
    left_ms: int


class ConnectionCounts:
    """The connections to a node, or to one of its listeners."""

    __slots__ = ("rate", "refused", "refused_ms_total", "waited", "waited_ms_total")

    def __init__(self) -> None:
        self.rate = Rate()
        self.waited = 0
        """Number of connections that had to wait, because the node or the listener had too many."""
        self.waited_ms_total = 0
        self.refused = 0
        """Number of connections that were refused, because their addresses had too many."""
        self.refused_ms_total = 0


class ConnectionRates:
    """Connection rates of one broker, in one run. Times are elapsed ones, in ms."""

    def __init__(self, elapsed_ms: Callable[[], int], window: Window) -> None:
        self.bounds = AddressBounds()
        self._elapsed_ms = elapsed_ms
        self._window = window
        self._listeners: dict[Where, ConnectionCounts] = {}
        self._addresses: Sensors[tuple[int, str], _Address] = Sensors(_Address)

    def count_connection(self, bounds: Mapping[Where, int]) -> int:
        """Count a new connection to these; return the ms after which it may be accepted."""
        elapsed_ms = self._elapsed_ms()
        wait_ms = 0
        for where, bound in bounds.items():
            rate = self._counts_of(where).rate
            rate.record(1, self._window, elapsed_ms)
            if bound != UNLIMITED:
                wait_ms = max(wait_ms, self._throttle_ms(rate, bound, elapsed_ms))
        if wait_ms:
            for where in bounds:
                arrivals = self._counts_of(where)
                arrivals.waited += 1
                arrivals.waited_ms_total += wait_ms
        return wait_ms

    def close_after_ms(self, listener: Where, host: str, bounds: Mapping[Where, int]) -> int:
        """Return the ms after which a connection from an address must be closed, after `count_connection` has counted it; 0 to serve
        it."""
        bound = self.bounds.bound_of(host)
        if bound == UNLIMITED:
            return 0
        elapsed_ms = self._elapsed_ms()
        address = plain_address(host)
        found = self._addresses.get((listener[0], address), elapsed_ms)
        rate = found.rate
        rate.record(1, self._window, elapsed_ms)
        wait_ms = self._throttle_ms(rate, bound, elapsed_ms)
        if wait_ms:
            found.refused_until_ms = elapsed_ms + wait_ms
            rate.record(-1, self._window, elapsed_ms)
            for where in bounds:
                self._counts_of(where).rate.record(-1, self._window, elapsed_ms)
            arrivals = self._counts_of(listener)
            arrivals.refused += 1
            arrivals.refused_ms_total += wait_ms
        return wait_ms

    def refused_addresses(self) -> Iterator[RefusedAddress]:
        """Yield addresses with refused connections that are not closed so far, the last one first."""
        elapsed_ms = self._elapsed_ms()
        for (node_id, address), found in self._addresses.items():
            if found.refused_until_ms > elapsed_ms:
                yield RefusedAddress(
                    node_id,
                    address,
                    address not in self.bounds.by_address,
                    self.bounds.bound_of(address),
                    found.rate.measure(self._window, elapsed_ms),
                    found.refused_until_ms - elapsed_ms,
                )

    def arrivals(self) -> Iterator[tuple[Where, ConnectionCounts, float]]:
        """Yield the arrivals of each node and listener with connections, and their present rate per second."""
        elapsed_ms = self._elapsed_ms()
        for where, arrivals in self._listeners.items():
            yield where, arrivals, arrivals.rate.measure(self._window, elapsed_ms)

    def rates(self) -> Iterator[tuple[int, str, float]]:
        """Yield node, address, and connections per second of addresses with a quota, the last one first."""
        elapsed_ms = self._elapsed_ms()
        for (node_id, address), found in self._addresses.items():
            yield node_id, address, found.rate.measure(self._window, elapsed_ms)

    def _counts_of(self, where: Where) -> ConnectionCounts:
        arrivals = self._listeners.get(where)
        if arrivals is None:
            arrivals = self._listeners[where] = ConnectionCounts()
        return arrivals

    def _throttle_ms(self, rate: Rate, bound: int, elapsed_ms: int) -> int:
        if bound <= 0:  # no connection is allowed: checked again after a sample
            return self._window.sample_ms
        return min(rate.throttle_ms(bound, self._window, elapsed_ms), self._window.sample_ms)


def integer_rate(bound: float) -> int:
    """Convert a rate as Apache Kafka does for addresses."""
    return UNLIMITED if math.isnan(bound) else int(min(bound, UNLIMITED))
