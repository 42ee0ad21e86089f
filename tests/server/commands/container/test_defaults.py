"""Listeners of a container without further options."""

from __future__ import annotations

import pytest

from ottla.server.commands.container.defaults import image_defaults
from ottla.server.config.properties import Properties
from ottla.server.config.static_config import static_config
from ottla.storage.topics.options import ConfigError


def listeners_of(given: dict[str, str], protocol: str = "PLAINTEXT") -> tuple[str, str]:
    """Return listeners and advertised listeners."""
    values = image_defaults(Properties(), given, protocol, 1).values
    return values["listeners"], values["advertised.listeners"]


@pytest.mark.parametrize(
    ("given", "listeners", "advertised"),
    [
        ({}, "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://localhost:9092"),
        (
            {"advertised.listeners": "PLAINTEXT://broker:19092,EXTERNAL://host:7"},
            "PLAINTEXT://0.0.0.0:19092,EXTERNAL://0.0.0.0:7",
            "PLAINTEXT://broker:19092,EXTERNAL://host:7",
        ),
        ({"listeners": "PLAINTEXT://:7"}, "PLAINTEXT://:7", "PLAINTEXT://localhost:7"),
        ({"listeners": "PLAINTEXT://[::]:7"}, "PLAINTEXT://[::]:7", "PLAINTEXT://localhost:7"),
        (
            {"listeners": "A://0.0.0.0:1,B://kafka:2,C://0.0.0.0:3", "controller.listener.names": "c"},
            "A://0.0.0.0:1,B://kafka:2,C://0.0.0.0:3",
            "A://localhost:1,B://kafka:2",
        ),
        (
            {"listeners": "A://0.0.0.0:1", "advertised.listeners": "A://host:32768"},
            "A://0.0.0.0:1",
            "A://host:32768",
        ),
    ],
)
def test_addresses_follow_from_the_given_options(given: dict[str, str], listeners: str, advertised: str) -> None:
    assert listeners_of(given) == (listeners, advertised)


def test_the_only_listener_uses_the_requested_logins_and_tls() -> None:
    assert listeners_of({}, "SASL_SSL") == ("SASL_SSL://0.0.0.0:9092", "SASL_SSL://localhost:9092")


def test_data_are_in_the_images_directory_unless_another_is_given() -> None:
    assert image_defaults(Properties(), {}, "PLAINTEXT", 1).values["log.dirs"] == "/var/lib/ottla"
    for name in ("log.dirs", "log.dir"):
        given = Properties({name: "/d"})
        assert image_defaults(given, given.values, "PLAINTEXT", 1).values.get(name) == "/d"
        assert not {"log.dir", "log.dirs"} - {name} & image_defaults(given, given.values, "PLAINTEXT", 1).values.keys()


def test_further_nodes_use_the_next_ports() -> None:
    file = image_defaults(Properties(), {"node.id": "4"}, "PLAINTEXT", 3)
    static = static_config(file=file, nodes=3, overrides={"node.id": "4"})
    found = [
        (each.port, each.advertised_host, each.advertised_port)
        for node_id in static.node_ids
        for each in static.node(node_id).listener_configs
    ]
    assert (static.node_ids, static.warnings) == ((4, 5, 6), ())
    assert found == [(9092, "localhost", 9092), (9093, "localhost", 9093), (9094, "localhost", 9094)]


def test_nodes_in_a_file_keep_their_addresses_and_port_0_is_allowed() -> None:
    own = {1: {"listeners": "PLAINTEXT://:7", "broker.rack": "b"}, 2: {"broker.rack": "c"}}
    file = image_defaults(Properties(node_values=own), {"listeners": "PLAINTEXT://:0"}, "PLAINTEXT", 3)
    assert file.node_values[1] == own[1]
    assert file.node_values[2] == {
        "listeners": "PLAINTEXT://:0",
        "advertised.listeners": "PLAINTEXT://localhost:0",
        "broker.rack": "c",
    }


def test_an_invalid_address_or_id_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="Invalid value nonsense for configuration listeners"):
        listeners_of({"listeners": "nonsense"})
    # The configuration says which ids are allowed.
    assert image_defaults(Properties(), {"node.id": "x"}, "PLAINTEXT", 3).node_values == {}


def test_an_excessive_number_of_nodes_gets_no_defaults() -> None:
    assert image_defaults(Properties(), {}, "PLAINTEXT", 10**12).node_values == {}
