"""Defaults of listeners and data directory in a container: weaker than all options of the user, stronger than the profile.

log.dirs                /var/lib/ottla
listeners               the addresses of advertised.listeners on all interfaces, as in Kafka's images; else port 9092
advertised.listeners    for a listener on all interfaces `localhost`, where a published port is; else its own address
for a further node      both, on the next ports: 9093, 9094 … can be published, free ones cannot
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...config.listeners import Endpoint, parse_endpoint
from ...config.properties import Properties
from ...config.static_config import NODES_MAX

DATA_DIR = "/var/lib/ottla"
PORT = 9092
HOST = "localhost"
ALL_INTERFACES = "0.0.0.0"

_ANY_ADDRESS = ("", ALL_INTERFACES, "::")
_LISTENERS, _ADVERTISED = "listeners", "advertised.listeners"


def image_defaults(file: Properties, given: Mapping[str, str], protocol: str, nodes: int) -> Properties:
    """Return the properties of a start with these defaults added.

    Args:
        file: The options of the file and the environment.
        given: Each option that has a value, from any source.
        protocol: The security protocol of a listener without a name.
        nodes: Number of nodes.

    Raises:
        ConfigError: An invalid address.
    """
    told = _endpoints(_ADVERTISED, given.get(_ADVERTISED, ""))
    heard = _endpoints(_LISTENERS, given.get(_LISTENERS, ""))
    listeners = (
        heard or [each._replace(host=ALL_INTERFACES) for each in told] or [Endpoint(protocol, ALL_INTERFACES, PORT)]
    )
    controllers = {each.strip().upper() for each in given.get("controller.listener.names", "").split(",")}
    advertised = told or [
        each._replace(host=HOST) if each.host in _ANY_ADDRESS else each
        for each in listeners
        if each.name not in controllers
    ]
    values = {_LISTENERS: _text(listeners), _ADVERTISED: _text(advertised)}
    if not {"log.dirs", "log.dir"} & given.keys():
        values["log.dirs"] = DATA_DIR
    # An invalid or too large number is refused later.
    first = given.get("node.id", given.get("broker.id", "0")).strip()
    node_values = {
        int(first) + step: {_LISTENERS: _text(_above(listeners, step)), _ADVERTISED: _text(_above(advertised, step))}
        for step in range(1, nodes if nodes <= NODES_MAX and first.isascii() and first.isdigit() else 1)
    }
    for node_id, own in file.node_values.items():
        node_values[node_id] = own if _LISTENERS in own else node_values.get(node_id, {}) | own
    return replace(file, values=values | file.values, node_values=node_values)


def _endpoints(option: str, text: str) -> list[Endpoint]:
    return [parse_endpoint(option, item.strip()) for item in text.split(",") if item.strip()]


def _above(endpoints: Iterable[Endpoint], step: int) -> list[Endpoint]:
    """Return the endpoints with ports higher by `step`; a free port (0) stays a free port."""
    return [each._replace(port=each.port and each.port + step) for each in endpoints]


def _text(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(
        f"{each.name}://{f'[{each.host}]' if ':' in each.host else each.host}:{each.port}" for each in endpoints
    )
