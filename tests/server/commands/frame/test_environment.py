"""Environment variables as the official image of Apache Kafka names them."""

from __future__ import annotations

import pytest

from ottla.server.commands.frame.environment import (
    BITNAMI_PREFIX,
    FOR_THE_JVM,
    OF_BITNAMI,
    option_name,
    read_environment,
    variable_name,
)
from ottla.server.config.options.known_options import BROKER_OPTIONS
from ottla.storage.topics.options import ConfigError
from support.noted import each_case


@each_case(
    "variable, name",
    [
        ("KAFKA_LISTENERS", "listeners"),
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_LISTENER_NAME_INTERNAL_SSL_KEY_PASSWORD", "listener.name.internal.ssl.key.password"),
        ("KAFKA_CFG_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_CFG_A_B__C___D", "a.b_c-d"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_A_B__C___D", "a.b_c-d"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_A_____B", "a-_b"),
        ("KAFKA_log_retention_MS", "log.retention.ms"),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
    ],
)
def test_underscores_replace_characters_not_allowed_in_variables(variable: str, name: str) -> None:
    assert option_name(variable) == name


def test_every_option_has_a_variable() -> None:
    for name in (*BROKER_OPTIONS, "listener.name.a_b-c.ssl.key.password"):
        assert option_name(variable_name(name)) == name


def test_every_option_has_a_variable_of_bitnamis_image() -> None:
    names = [*BROKER_OPTIONS, "listener.name.a_b-c.ssl.key.password"]
    variables = {BITNAMI_PREFIX + variable_name(name).removeprefix("KAFKA_"): "1" for name in names}
    found = read_environment(variables)
    assert (set(found.options), found.warnings) == (set(names), ())


@pytest.mark.parametrize("option", ["auto.create.topics.enable", "num.partitions"])
def test_apache_kafkas_prefix_wins_over_bitnamis(option: str) -> None:
    plain = variable_name(option)
    found = read_environment({plain: "1", BITNAMI_PREFIX + plain.removeprefix("KAFKA_"): "2"})
    assert found.options == {option: "1"}


def test_a_compose_file_of_bitnamis_image_is_accepted_without_warnings() -> None:
    found = read_environment(
        {
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_KRAFT_CLUSTER_ID": "abc",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "BITNAMI_DEBUG": "yes",
            **dict.fromkeys(OF_BITNAMI, "x"),
        }
    )
    assert (found.cluster_id, found.warnings) == ("abc", ())
    assert found.options["auto.create.topics.enable"] == "false" and len(found.options) == 6
    assert read_environment({"CLUSTER_ID": "first", "KAFKA_KRAFT_CLUSTER_ID": "second"}).cluster_id == "first"


def test_users_and_certificates_of_bitnamis_image_are_not_ignored() -> None:
    secrets = ("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS", "KAFKA_CERTIFICATE_PASSWORD", "KAFKA_TLS_TYPE")
    found = read_environment(dict.fromkeys(secrets, "hidden"))
    assert len(found.warnings) == len(secrets) and "hidden" not in "".join(found.warnings)


def test_options_are_accepted_and_unknown_ones_reported_with_the_nearest_name() -> None:
    found = read_environment(
        {
            "KAFKA_LOG_RETENTION_MS": "5",
            "KAFKA_LISTNERS": "PLAINTEXT://:9092",
            "KAFKA_ZORK_ZORK_ZORK": "secret",
            "KAFKA_": "",
            "LOG_RETENTION_BYTES": "7",
            "CLUSTER_ID": "abc",
        }
    )
    assert found.options == {"log.retention.ms": "5"}
    assert (found.variables, found.cluster_id) == (("KAFKA_LOG_RETENTION_MS",), "abc")
    nothing, listeners, zork = found.warnings
    assert nothing == "environment variable KAFKA_: no option name, ignored"
    assert listeners == (
        "environment variable KAFKA_LISTNERS: option listners not found, ignored; did you mean KAFKA_LISTENERS (listeners)?"
    )
    assert "secret" not in zork
    assert zork.startswith("environment variable KAFKA_ZORK_ZORK_ZORK: option zork.zork.zork not found, ignored")


def test_variables_of_a_kubernetes_service_called_kafka_are_ignored() -> None:
    links = {
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_SERVICE_PORT": "9092",
        "KAFKA_SERVICE_PORT_PLAINTEXT": "9092",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_UI_SERVICE_HOST": "10.0.0.2",
        "KAFKA_UI_PORT_80_TCP_PROTO": "tcp",
    }
    found = read_environment(links)
    assert (found.options, found.warnings) == ({}, ())
    # A warning names each option of old brokers.
    assert len(read_environment({"KAFKA_PORT": "9092", "KAFKA_ADVERTISED_PORT": "9092"}).warnings) == 2


def test_options_of_the_authorizer_are_accepted() -> None:
    found = read_environment({"KAFKA_SUPER_USERS": "User:a", "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true"})
    assert (found.options, found.warnings) == (
        {"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"},
        (),
    )


@each_case(
    "text, value",
    [
        ("PLAINTEXT://:9092", "PLAINTEXT://:9092"),
        (r"-----BEGIN-----\nabc=\n", "-----BEGIN-----\nabc=\n"),
        ("-----BEGIN-----\nabc=\n", "-----BEGIN-----\nabc=\n"),
        ("-----BEGIN-----\r\nabc=\r\n", "-----BEGIN-----\nabc=\n"),
        ("-----BEGIN-----\rabc=\r", "-----BEGIN-----\nabc=\n"),
        ("first,\\\n second", "first,second"),
        ("first,\\\r\n second", "first,second"),
        ("C:\\\\\nsecond", "C:\\\nsecond"),
        (r"RULE:^(.*)\\.org$/$1/", r"RULE:^(.*)\.org$/$1/"),
        ('Module required password="a#b!c=d:e";', 'Module required password="a#b!c=d:e";'),
        ("  x  ", "x  "),
        ("", ""),
    ],
)
def test_a_value_is_written_as_in_a_properties_file(text: str, value: str) -> None:
    assert read_environment({"KAFKA_SSL_KEYSTORE_KEY": text}).options == {"ssl.keystore.key": value}


def test_variables_for_the_jvm_are_ignored() -> None:
    assert read_environment(dict.fromkeys(FOR_THE_JVM, "x")) == read_environment({})


def test_values_are_never_shown() -> None:
    assert "secret" not in repr(read_environment({"KAFKA_SSL_KEY_PASSWORD": "secret"}))


def test_a_malformed_escape_names_the_variable_and_not_its_value() -> None:
    with pytest.raises(ConfigError, match="KAFKA_SSL_KEY_PASSWORD") as refused:
        read_environment({"KAFKA_SSL_KEY_PASSWORD": r"secret\user"})
    assert "secret" not in str(refused.value)
