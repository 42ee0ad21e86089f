"""Connection limits of each node: `max.connections` and related options, with their current values.

Exceptions for addresses may name hosts. As in Apache Kafka, each name is resolved when the option is set; here also at the
start and with each change. An unknown host is rejected.
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

    def address_limit(self, host: str) -> int:
        """Return how many connections one address may have."""
        most = self.config.max_connections_per_ip
        return self._by_address.get(plain_address(host), most) if self._by_address else most


class ConnectionLimits:
    """Connection limits of all nodes of a broker."""

    def __init__(self, live_config: LiveConfig, hosts: Hosts) -> None:
        self._live_config = live_config
        self._hosts = hosts
        self._addresses: dict[str, str] = {}
        """Addresses of hosts that options have named."""
        self._nodes: dict[int, NodeLimits] = {}

    def open(self) -> None:
        """Resolve the hosts that options name at the start. Blocks.

        Raises:
            ConfigError: The static configuration names an unknown host; one line. One in a stored broker config is logged, and
                has no effect.
        """
        static = self._live_config.static
        for node_id in static.node_ids:
            config, told = self._live_config.node_config(node_id), static.node(node_id)
            for host in _hosts(config):
                address = self._addresses.get(host) or resolve(host)
                if address is not None:
                    self._addresses[host] = address
                elif host in told.max_connections_by_host:
                    raise ConfigError(_unknown(host))
                else:
                    log.error("stored broker configs of node %d: %s", node_id, _unknown(host))

    async def look_ahead(self, texts: Iterable[str]) -> dict[str, str | None]:
        """Resolve the hosts that texts of the option name; returns None for unknown ones. A resolver may take seconds, and a
        change of another option must not wait for it."""
        asked = [host for text in texts for entry in text.split(",") if (host := entry.strip().rpartition(":")[0])]
        names = {host: None for host in asked if _is_name(host)}
        return names | await self._hosts.addresses(names)

    async def look_up(self, configs: Iterable[BrokerConfig], ahead: Mapping[str, str | None]) -> None:
        """Store the addresses of the hosts that these configs name, with which nodes will run.

        Args:
            ahead: Hosts that were resolved before; others, from config layers that become visible again, are resolved now.

        Raises:
            KafkaError: INVALID_REQUEST: unknown host.
        """
        asked = [host for config in configs for host in _hosts(config)]
        known = {host: ahead[host] for host in asked if host in ahead}
        known |= await self._hosts.addresses(host for host in asked if host not in known)
        found = {host: address for host, address in known.items() if address is not None}
        for host in asked:
            if host not in found:
                raise KafkaError(ErrorCode.INVALID_REQUEST, _unknown(host))
        in_use = {
            host for node_id in self._live_config.static.node_ids for host in _hosts(self.node_limits(node_id).config)
        }
        self._addresses = {host: address for host, address in self._addresses.items() if host in in_use} | found

    def changed(self) -> None:
        """Drop cached limits: options have changed."""
        self._nodes.clear()

    def node_limits(self, node_id: int) -> NodeLimits:
        """Return the limits of the node with this id."""
        limits = self._nodes.get(node_id)
        if limits is None:
            limits = self._nodes[node_id] = NodeLimits(self._live_config.node_config(node_id), self._addresses)
        return limits


def _hosts(config: BrokerConfig) -> list[str]:
    """List the hosts that are names, not addresses."""
    return [host for host in config.max_connections_by_host if _is_name(host)]


def _is_name(host: str) -> bool:
    return not is_literal_address(host.strip("[]"))


def _unknown(host: str) -> str:
    return f"{OVERRIDES}: {host[:255]!r} is not an address, and the host name cannot be resolved"


RESOLVED_AT_ONCE = 4
"""Number of resolver threads. A lookup that is never answered keeps its thread."""
RESOLVED_WITHIN_S = 10.0
"""Time limit for all host names of one request together; a name that is not resolved by then is unknown."""


class Hosts:
    """Resolver for hosts that options and quotas name, for one broker. It does not block Trio's thread."""

    def __init__(self) -> None:
        self._resolving = trio.CapacityLimiter(RESOLVED_AT_ONCE)

    async def addresses(self, names: Iterable[str | None]) -> dict[str, str]:
        """Return the address of each name that is not itself an address and that is resolved in time."""
        found: dict[str, str] = {}
        time_slice = TimeSlice()
        distinct = await time_slice.distinct(names)
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
    """Return the address of a host, IPv4 if it has one, as Java prefers; None if it has none. Blocks."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # UnicodeError among them: not a host name
        return None
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])
