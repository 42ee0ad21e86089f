"""How many connections each node takes: `max.connections` and its kin, as they are now.

Exceptions for addresses may name hosts. Apache Kafka asks for the address of each when the option is set; so do we, at the start
and with each change, and a host that there is not is refused.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping
from functools import partial

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.config import ConfigError
from ..config.broker_config import BrokerConfig
from ..config.live_config import LiveConfig
from ..quotas.validation import is_literal_address
from ..runtime.addresses import plain_address
from ..runtime.time_slices import TimeSlice

log = logging.getLogger("ottla.acceptor")

OVERRIDES = "max.connections.per.ip.overrides"


class NodeLimits:
    """Connection limits of one node."""

    def __init__(self, config: BrokerConfig, addresses: Mapping[str, str]) -> None:
        self.config = config
        self._by_address = {
            plain_address(addresses.get(host, host)): limit for host, limit in config.max_connections_by_host.items()
        }

    def of_address(self, host: str) -> int:
        """How many connections one address may have."""
        most = self.config.max_connections_per_ip
        return self._by_address.get(plain_address(host), most) if self._by_address else most


class ConnectionLimits:
    """Those of all nodes of a broker."""

    def __init__(self, live_config: LiveConfig, hosts: Hosts) -> None:
        self._live_config = live_config
        self._hosts = hosts
        self._addresses: dict[str, str] = {}
        """Of hosts that options have named."""
        self._nodes: dict[int, NodeLimits] = {}

    def open(self) -> None:
        """Look up the hosts that options name at the start. Blocks.

        Raises:
            ConfigError: There is no such host; one line. What clients have set since is told, and counts for nobody.
        """
        static = self._live_config.static
        for node_id in static.node_ids:
            config, told = self._live_config.of(node_id), static.node(node_id)
            for host in _hosts(config):
                address = self._addresses.get(host) or resolve(host)
                if address is not None:
                    self._addresses[host] = address
                elif host in told.max_connections_by_host:
                    raise ConfigError(_unknown(host))
                else:
                    log.error("stored broker configs of node %d: %s", node_id, _unknown(host))

    async def look_ahead(self, texts: Iterable[str]) -> dict[str, str | None]:
        """The hosts that texts of the option name, and their addresses if they have any: a resolver may take seconds, for which
        nobody is to wait who changes something else."""
        asked = [host for text in texts for entry in text.split(",") if (host := entry.strip().rpartition(":")[0])]
        names = {host: None for host in asked if _is_name(host)}
        return names | await self._hosts.addresses(names)

    async def look_up(self, configs: Iterable[BrokerConfig], ahead: Mapping[str, str | None]) -> None:
        """Take over the hosts that these name, which nodes are to run with.

        Args:
            ahead: Those that have been looked up; others, of layers that show again, are now.

        Raises:
            KafkaError: INVALID_REQUEST: there is no such host.
        """
        asked = [host for config in configs for host in _hosts(config)]
        known = {host: ahead[host] for host in asked if host in ahead}
        known |= await self._hosts.addresses(host for host in asked if host not in known)
        found = {host: address for host, address in known.items() if address is not None}
        for host in asked:
            if host not in found:
                raise KafkaError(ErrorCode.INVALID_REQUEST, _unknown(host))
        in_use = {host for node_id in self._live_config.static.node_ids for host in _hosts(self.of(node_id).config)}
        self._addresses = {host: address for host, address in self._addresses.items() if host in in_use} | found

    def changed(self) -> None:
        """Options are others now."""
        self._nodes.clear()

    def of(self, node_id: int) -> NodeLimits:
        """Those of the node with this id."""
        limits = self._nodes.get(node_id)
        if limits is None:
            limits = self._nodes[node_id] = NodeLimits(self._live_config.of(node_id), self._addresses)
        return limits


def _hosts(config: BrokerConfig) -> list[str]:
    """Names that are no addresses themselves."""
    return [host for host in config.max_connections_by_host if _is_name(host)]


def _is_name(host: str) -> bool:
    return not is_literal_address(host.strip("[]"))


def _unknown(host: str) -> str:
    return f"{OVERRIDES}: {host[:255]!r} is not an address, and the host name cannot be resolved"


RESOLVED_AT_ONCE = 4
"""One that its resolver never answers keeps its thread."""
RESOLVED_WITHIN_S = 10.0
"""All names of hosts of one request, together; those that are not found by then count as none."""


class Hosts:
    """Looks up hosts that options and quotas name, for one broker: off Trio's thread, as a resolver may take its time."""

    def __init__(self) -> None:
        self._resolving = trio.CapacityLimiter(RESOLVED_AT_ONCE)

    async def addresses(self, names: Iterable[str | None]) -> dict[str, str]:
        """Of those that are no address availablees themselves, and that are found in time."""
        found: dict[str, str] = {}
        time_slice = TimeSlice()
        distinct = await time_slice.once(names)
        with trio.move_on_after(RESOLVED_WITHIN_S):
            async for name in time_slice.each(distinct):
                if name and not is_literal_address(name):
                    address = await trio.to_thread.run_sync(
                        partial(resolve, name), limiter=self._resolving, abandon_on_cancel=True
                    )
                    if address is not None:
                        found[name] = address
        return found


def resolve(name: str) -> str | None:
    """The address of a host, of IPv4 if it has one, as Java prefers them; None if it has none. Blocks."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # UnicodeError among them: no name of a host
        return None
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])
