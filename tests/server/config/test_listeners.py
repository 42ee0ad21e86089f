"""The meaning of the listener options, and combinations that no client could use."""

import pytest

from ottla.server.config.listeners import (
    Endpoint,
    ListenerConfig,
    parse_endpoint,
    parse_protocol_map,
    resolve_listeners,
)
from ottla.server.config.properties import parse_server_properties
from ottla.server.config.static_config import static_config
from ottla.storage.topics.options import ConfigError
from support.noted import each_case


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://localhost:9092", Endpoint("PLAINTEXT", "localhost", 9092)),
        ("internal://10.0.0.1:0", Endpoint("INTERNAL", "10.0.0.1", 0)),
        ("PLAINTEXT://:9092", Endpoint("PLAINTEXT", "", 9092)),
        ("A_B-1://[::1]:65535", Endpoint("A_B-1", "::1", 65535)),
    ],
)
def test_an_endpoint_is_name_host_and_port(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint("listeners", text) == endpoint


@each_case(
    "text",
    ["", "9092", "localhost:9092", "://h:1", "A://h", "A://h:", "A://h:65536", "A://h:-1", "A://::1:5", "A://h:1/x"],
)
def test_any_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"configuration listeners: must be NAME://HOST:PORT"):
        parse_endpoint("listeners", text)


def test_listeners_advertise_themselves_by_default() -> None:
    found = resolve_listeners(["A://h:1", "B://0.0.0.0:2"], ["B://example.org:5"], None, [])
    assert found == (ListenerConfig("A", "h", 1, "h", 1), ListenerConfig("B", "0.0.0.0", 2, "example.org", 5))


def test_a_listener_that_is_not_advertised_shows_no_wildcard_address() -> None:
    found = resolve_listeners(["A://h:1", "B://0.0.0.0:2"], ["A://h:1"], None, [])
    assert found[1] == ListenerConfig("B", "0.0.0.0", 2, "", 2)


def test_a_controllers_listener_follows_those_for_clients_with_its_id() -> None:
    texts = ["CONTROLLER://h:2", "A://h:1"]
    found = resolve_listeners(texts, texts, {"A": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}, ["controller"], 7)
    assert [(listener.name, listener.controller_id) for listener in found] == [("A", None), ("CONTROLLER", 7)]


def test_a_wildcard_controller_listener_needs_no_advertised_address() -> None:
    found = resolve_listeners(["A://h:1", "C://0.0.0.0:2"], None, None, ["C"])
    assert found[1] == ListenerConfig("C", "0.0.0.0", 2, "", 2, controller_id=0)


def test_a_comment_line_may_declare_a_controllers_listener() -> None:
    file = parse_server_properties("# controllers=3000@localhost:19124\n# controller.listener=QUORUM\n")
    assert static_config(file=file).controllers == (
        ListenerConfig("QUORUM", "localhost", 19124, "localhost", 19124, controller_id=3000),
    )


def test_a_comment_line_is_ignored_if_listeners_include_a_controller() -> None:
    lines = "# controllers=0@localhost:19124\n"
    options = "controller.listener.names=C\nlisteners=PLAINTEXT://h:1,C://h:2\n"
    static = static_config(file=parse_server_properties(lines + options))
    assert static.controllers == ()
    assert [each.controller_id for each in static.node(0).listener_configs] == [None, 0]


@pytest.mark.parametrize("address", ["localhost", "localhost:x", "localhost:65536"])
def test_a_controller_with_an_unusable_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"Invalid value CONTROLLER://{address} for configuration # controllers"):
        static_config(file=parse_server_properties(f"# controllers=3000@{address}\n"))


def test_several_listeners_may_request_free_ports() -> None:
    assert len(resolve_listeners(["A://h:0", "B://h:0"], None, None, [])) == 2


@each_case(
    "listeners, advertised, protocols, told",
    [
        ([], None, None, "must contain a listener"),
        (["C://h:1"], None, None, "must contain a listener"),
        (["A://h:1", "a://h:2"], None, None, "must be unique"),
        (["A://h:1", "B://h:1"], None, None, "this address"),
        (["A://h:1"], ["B://h:1"], None, "must be a listener name from listeners"),
        (["A://h:1"], ["A://h:1", "A://h:2"], None, "must be unique"),
        (["A://0.0.0.0:1"], None, None, "set advertised.listeners"),
        (["A://[::]:1"], None, None, "set advertised.listeners"),
        (["A://h:1"], ["A://0.0.0.0:1"], None, "set advertised.listeners"),
        (["A://h:1"], None, {"B": "PLAINTEXT"}, "has no protocol for this listener"),
    ],
)
def test_unusable_combinations_are_refused(
    listeners: list[str], advertised: list[str] | None, protocols: dict[str, str] | None, told: str
) -> None:
    with pytest.raises(ConfigError, match="listeners") as refused:
        resolve_listeners(listeners, advertised, protocols, ["C"])
    assert told in str(refused.value)


def test_the_protocol_map_is_case_insensitive() -> None:
    assert parse_protocol_map(" a:plaintext, B:SSL,") == {"A": "PLAINTEXT", "B": "SSL"}


@pytest.mark.parametrize("text", ["A", "A:", "A:TLS"])
def test_an_unknown_protocol_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        parse_protocol_map(text)
