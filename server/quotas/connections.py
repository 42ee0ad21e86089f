"""How fast connections may be made: to a node, to one of its listeners, from an address; Apache Kafka's ConnectionQuotas.

Above the rate of a node or listener the next connection waits before anything is read from it, at most a sample's length. One
above the rate of its address is not served at all: it is closed after as long, and does not count.
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
    """How many connections a second each address may make."""

    default: int = UNLIMITED
    by_address: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of_quotas(cls, quotas: Quotas, addresses: Mapping[str, str]) -> AddressBounds:
        """`addresses`: those of entities that are names of hosts."""
        default, by_address = UNLIMITED, {}
        for entity, values in quotas.items():
            bound = values.get(CONNECTION_CREATION_RATE)
            if bound is None:
                continue
            name = entity.names[IP]
            if name is None:
                default = whole(bound)
            else:
                by_address[plain_address(addresses.get(name, name))] = whole(bound)
        return cls(default, by_address)

    def of(self, host: str) -> int:
        """UNLIMITED if it has no quota."""
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
    """An address some of whose connections are not served."""

    node_id: int
    address: str
    is_default: bool
    """Whether the quota is the one for all that have none of their own."""
    bound: int
    rate: float
    left_ms: int


class Arrivals:
    """The connections to a node, or to one of its listeners."""

    __slots__ = ("rate", "refused", "refused_ms_total", "waited", "waited_ms_total")

    def __init__(self) -> None:
        self.rate = Rate()
        self.waited = 0
        """That had to wait, as the node or the listener had too many."""
        self.waited_ms_total = 0
        self.refused = 0
        """That were not served, as their addresses had too many."""
        self.refused_ms_total = 0


class ConnectionRates:
    """Those of one broker, in one life. Times are elapsed ones, in ms."""

    def __init__(self, elapsed_ms: Callable[[], int], window: Window) -> None:
        self.bounds = AddressBounds()
        self._elapsed_ms = elapsed_ms
        self._window = window
        self._listeners: dict[Where, Arrivals] = {}
        self._addresses: Sensors[tuple[int, str], _Address] = Sensors(_Address)

    def arrived(self, bounds: Mapping[Where, int]) -> int:
        """One more connection, to these: after how many ms it may be taken."""
        elapsed_ms = self._elapsed_ms()
        wait_ms = 0
        for where, bound in bounds.items():
            rate = self._arrivals(where).rate
            rate.record(1, self._window, elapsed_ms)
            if bound != UNLIMITED:
                wait_ms = max(wait_ms, self._throttle_ms(rate, bound, elapsed_ms))
        if wait_ms:
            for where in bounds:
                arrivals = self._arrivals(where)
                arrivals.waited += 1
                arrivals.waited_ms_total += wait_ms
        return wait_ms

    def refused(self, listener: Where, host: str, bounds: Mapping[Where, int]) -> int:
        """After how many ms a connection of an address to a listener, which `arrived` at these, is to be closed; 0 if it is to be
        served."""
        bound = self.bounds.of(host)
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
                self._arrivals(where).rate.record(-1, self._window, elapsed_ms)
            arrivals = self._arrivals(listener)
            arrivals.refused += 1
            arrivals.refused_ms_total += wait_ms
        return wait_ms

    def refusing(self) -> Iterator[RefusedAddress]:
        """Addresses some of whose connections wait for their end, the last one first."""
        elapsed_ms = self._elapsed_ms()
        for (node_id, address), found in self._addresses.items():
            if found.refused_until_ms > elapsed_ms:
                yield RefusedAddress(
                    node_id,
                    address,
                    address not in self.bounds.by_address,
                    self.bounds.of(address),
                    found.rate.measure(self._window, elapsed_ms),
                    found.refused_until_ms - elapsed_ms,
                )

    def arrivals(self) -> Iterator[tuple[Where, Arrivals, float]]:
        """Those of each node and listener that had any, and how many a second they are now."""
        elapsed_ms = self._elapsed_ms()
        for where, arrivals in self._listeners.items():
            yield where, arrivals, arrivals.rate.measure(self._window, elapsed_ms)

    def rates(self) -> Iterator[tuple[int, str, float]]:
        """Node, address, and connections a second of those that have a quota, the last one first."""
        elapsed_ms = self._elapsed_ms()
        for (node_id, address), found in self._addresses.items():
            yield node_id, address, found.rate.measure(self._window, elapsed_ms)

    def _arrivals(self, where: Where) -> Arrivals:
        arrivals = self._listeners.get(where)
        if arrivals is None:
            arrivals = self._listeners[where] = Arrivals()
        return arrivals

    def _throttle_ms(self, rate: Rate, bound: int, elapsed_ms: int) -> int:
        if bound <= 0:  # nothing may come: looked at again a sample later
            return self._window.sample_ms
        return min(rate.throttle_ms(bound, self._window, elapsed_ms), self._window.sample_ms)


def whole(bound: float) -> int:
    """A rate as Apache Kafka takes it for addresses."""
    return UNLIMITED if math.isnan(bound) else int(min(bound, UNLIMITED))
