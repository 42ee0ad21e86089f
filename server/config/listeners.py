"""What the options `listeners`, `advertised.listeners` and `listener.security.protocol.map` mean.

Used by the configuration, so that a bad address is refused before anything is opened. Nothing is resolved here.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...storage.topics.options import ConfigError

PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
OFFERED = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Security protocols that a listener may have; any other ends the start."""
OVER_TLS = (SSL, SASL_SSL)
OVER_SASL = (SASL_PLAINTEXT, SASL_SSL)
_ANY_ADDRESS = ("0.0.0.0", "::")
_ENDPOINT = re.compile(r"(?P<name>[^:/,\s]+)://(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})")


class Endpoint(NamedTuple):
    """One named address. An empty `host` means every interface; port 0 means a free one."""

    name: str
    host: str
    port: int


class ListenerConfig(NamedTuple):
    """One listener of a node: where it listens, and what clients are told.

    An empty `advertised_host` stands for this machine's name, `advertised_port` 0 for the port that was bound.
    """

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    security_protocol: str = PLAINTEXT
    controller_id: int | None = None
    """Who answers there: the controller with this id; None for the broker."""


def parse_endpoint(option: str, text: str) -> Endpoint:
    """`NAME://HOST:PORT`; the host may be empty or an IPv6 address in brackets. Names are upper case, as in Kafka.

    Raises:
        ConfigError: Naming `option` and `text`.
    """
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(
            f"Invalid value {text} for configuration {option}: must be NAME://HOST:PORT, port up to 65535"
        )
    return Endpoint(match["name"].upper(), match["ipv6"] or match["host"] or "", int(match["port"]))


def resolve_listeners(
    listeners: Iterable[str],
    advertised: Iterable[str] | None,
    protocol_map: Mapping[str, str] | None,
    controllers: Iterable[str],
    controller_id: int = 0,
) -> tuple[ListenerConfig, ...]:
    """The listeners of one node, those for clients of the broker first, each kind in order.

    Args:
        listeners: The items of the option `listeners`.
        advertised: The items of `advertised.listeners`; None advertises the listeners themselves.
        protocol_map: Security protocols by listener name; None takes a listener of any name for PLAINTEXT.
        controllers: Names of listeners that a controller answers at (`controller.listener.names`).
        controller_id: Its id, the node's.

    Raises:
        ConfigError: Malformed, twice the same name or address, no protocol, a protocol that is not offered, an
            advertised name without listener or an address nobody can connect to.
    """
    of_controllers = {name.upper() for name in controllers}
    endpoints = _named_endpoints("listeners", listeners)
    if not endpoints.keys() - of_controllers:
        raise ConfigError("Invalid value for configuration listeners: must contain a listener that clients can use")
    protocols = {name: _protocol(name, protocol_map) for name in endpoints}
    _check_addresses(endpoints.values())
    told = dict(endpoints) if advertised is None else _named_endpoints("advertised.listeners", advertised)
    for endpoint in list(told.values()):
        if endpoint.name in of_controllers:
            if endpoint.host in _ANY_ADDRESS:
                del told[endpoint.name]  # Nobody but tools asks for it, so this machine's name will do.
        elif endpoint.name not in endpoints:
            raise _refused("advertised.listeners", endpoint, "must be a listener name from listeners")
        elif endpoint.host in _ANY_ADDRESS:
            raise _refused(
                "advertised.listeners",
                endpoint,
                "must be an address that clients can connect to; set advertised.listeners, or omit the host in"
                " listeners to advertise the name of this machine",
            )
    found = [_joined(endpoint, told.get(endpoint.name), protocols[endpoint.name]) for endpoint in endpoints.values()]
    return (
        *(each for each in found if each.name not in of_controllers),
        *(each._replace(controller_id=controller_id) for each in found if each.name in of_controllers),
    )


def controller_listener(controller_id: int, name: str, address: str, protocol_map: Mapping[str, str]) -> ListenerConfig:
    """The listener of a controller that a file's comment line names; `address` is HOST:PORT.

    Raises:
        ConfigError: No address, or a protocol that is not offered.
    """
    endpoint = parse_endpoint("# controllers", f"{name}://{address}")
    found = _joined(endpoint, None, _protocol(endpoint.name, protocol_map or None))
    return found._replace(controller_id=controller_id)


def _named_endpoints(option: str, texts: Iterable[str]) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    for text in texts:
        endpoint = parse_endpoint(option, text)
        if endpoint.name in found:
            raise _refused(option, endpoint, "listener names must be unique")
        found[endpoint.name] = endpoint
    return found


def _refused(option: str, endpoint: Endpoint, bound: str) -> ConfigError:
    return ConfigError(
        f"Invalid value {endpoint.name}://{endpoint.host}:{endpoint.port} for configuration {option}: {bound}"
    )


def _joined(endpoint: Endpoint, told: Endpoint | None, protocol: str) -> ListenerConfig:
    if told is None:  # not advertised: only clients that were given its address come here
        told = Endpoint(endpoint.name, "" if endpoint.host in _ANY_ADDRESS else endpoint.host, endpoint.port)
    return ListenerConfig(endpoint.name, endpoint.host, endpoint.port, told.host, told.port, protocol)


def _check_addresses(endpoints: Iterable[Endpoint]) -> None:
    taken = set()
    for endpoint in endpoints:
        address = (endpoint.host, endpoint.port)
        if endpoint.port and address in taken:
            raise _refused("listeners", endpoint, "another listener uses this address")
        taken.add(address)


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…` as a mapping. ConfigError for a malformed entry or an unknown protocol."""
    protocols = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        if protocol.strip().upper() not in _PROTOCOLS:
            raise ConfigError(
                f"Invalid value {entry} for configuration listener.security.protocol.map: must be NAME:PROTOCOL with"
                f" one of {', '.join(_PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _protocol(name: str, protocol_map: Mapping[str, str] | None) -> str:
    default = name if name in _PROTOCOLS else PLAINTEXT
    protocol = default if protocol_map is None else protocol_map.get(name)
    if protocol is None:
        raise ConfigError(
            f"Invalid value {name} for configuration listeners: listener.security.protocol.map has no protocol for this"
            " listener"
        )
    if protocol not in OFFERED:
        raise ConfigError(
            f"Invalid value {name} for configuration listeners: security protocol {protocol} is not supported; must be"
            f" one of: {', '.join(OFFERED)}"
        )
    return protocol
