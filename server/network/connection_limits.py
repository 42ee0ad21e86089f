"""How many connections each node takes: `max.connections` and its kin, as they are now.

Exceptions for addresses may name hosts. Apache Kafka asks for the address of each when the option is set; so do we, at the start
and with each change, and a host that there is not is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.config import ConfigError
from ..config.broker_config import BrokerConfig
from ..config.live_config import LiveConfig
from ..quotas.validation import is_literal_address
from ..runtime.addresses import plain_address
from .hosts import Hosts, resolve

log = logging.getLogger("ottla.acceptor")

OVERRIDES = "max.connections.per.ip.overrides"


class NodeLimits:
    """How many connections one node takes."""

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
    return f"{OVERRIDES}: {host[:255]!r} is no address, and no host of this name is known"
