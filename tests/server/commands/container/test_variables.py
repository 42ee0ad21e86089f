"""`OTTLA_*` as options of serve, and `KAFKA_*` as the scripts of Kafka's images use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.server.commands.container.variables import broker_variables, serve_words
from ottla.server.commands.frame.errors import WRONG_CALL, CommandError
from ottla.server.commands.serve_command import COMMAND

OPTIONS = COMMAND.parser().options


def words(given: list[str] | None = None, **variables: str) -> tuple[list[str], list[str]]:
    return serve_words(OPTIONS, given or [], variables)


def test_a_variable_is_an_option_of_serve_unless_given_there() -> None:
    assert words(OTTLA_NODES="3", OTTLA_PROFILE="dev", OTTLA_ADMIN_TOKEN_FILE="/f") == (
        ["--admin-token-file=/f", "--nodes=3", "--profile=dev"],
        [],
    )
    assert words(["--nodes", "2", "--profile=kafka"], OTTLA_NODES="3", OTTLA_PROFILE="dev") == ([], [])
    assert words(OTTLA_NODES="", PATH="/bin", KAFKA_NODE_ID="1") == ([], [])


def test_each_line_of_a_repeatable_option_is_one_value() -> None:
    assert words(OTTLA_USER="alice:a b:PLAIN\n\nbob:c\n")[0] == ["--user=alice:a b:PLAIN", "--user=bob:c"]


@pytest.mark.parametrize(
    ("text", "found"), [("true", ["--tls"]), ("YES", ["--tls"]), ("false", []), ("0", []), ("", [])]
)
def test_a_switch_is_on_or_off(text: str, found: list[str]) -> None:
    assert words(OTTLA_TLS=text)[0] == found


def test_an_invalid_switch_is_refused() -> None:
    with pytest.raises(
        CommandError,
        match="OTTLA_TLS must be true or false, found 'maybe'",
        check=lambda error: error.exit_code == WRONG_CALL,
    ):
        words(OTTLA_TLS="maybe")


def test_an_unknown_variable_is_reported_unless_another_program_sets_it() -> None:
    found, warnings = words(
        OTTLA_NODE="3",
        OTTLA_BOOTSTRAP="localhost:9092",
        OTTLA_ADMIN_TOKEN="secret",
        OTTLA_COMMAND_CONFIG="/f",
        # Kubernetes sets these for a service called ottla.
        OTTLA_PORT="tcp://10.0.0.1:9092",
        OTTLA_SERVICE_HOST="10.0.0.1",
        OTTLA_SERVICE_PORT="9092",
        OTTLA_PORT_9092_TCP_ADDR="10.0.0.1",
    )
    assert found == []
    assert warnings == ["environment variable OTTLA_NODE: option --node not found, ignored; did you mean OTTLA_NODES?"]


def test_secrets_may_be_files_as_in_kafkas_images(tmp_path: Path) -> None:
    (tmp_path / "creds").write_text("s3cret\n")
    found = broker_variables(
        {
            "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "",
        },
        str(tmp_path),
    )
    assert found == {
        "KAFKA_SSL_KEYSTORE_LOCATION": f"{tmp_path}/broker.p12",
        "KAFKA_SSL_KEYSTORE_PASSWORD": "s3cret",
        "KAFKA_SSL_KEY_PASSWORD": "s3cret",
    }
    with pytest.raises(
        CommandError,
        match=r"KAFKA_SSL_KEY_CREDENTIALS: cannot read .*none: No such file",
        check=lambda error: error.exit_code == WRONG_CALL,
    ):
        broker_variables({"KAFKA_SSL_KEY_CREDENTIALS": "none"}, str(tmp_path))


def test_addresses_may_have_surplus_commas_or_be_empty() -> None:
    assert broker_variables({"KAFKA_ADVERTISED_LISTENERS": "A://b:1,C://d:2,", "KAFKA_LISTENERS": ""}) == {
        "KAFKA_ADVERTISED_LISTENERS": "A://b:1,C://d:2"
    }


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"KAFKA_PROCESS_ROLES": "broker"},
        {"KAFKA_PROCESS_ROLES": "", "KAFKA_CONTROLLER_QUORUM_VOTERS": ""},
        {"KAFKA_PROCESS_ROLES": "controller, broker", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094"},
        {"KAFKA_HEAP_OPTS": "-Xmx1G", "CLUSTER_ID": "x"},
    ],
)
def test_a_broker_with_its_own_controller_needs_no_change(variables: dict[str, str]) -> None:
    assert broker_variables(variables) == variables


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"KAFKA_PROCESS_ROLES": "controller"}, "KAFKA_PROCESS_ROLES=controller"),
        ({"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"}, "is not supported \\(3 controllers\\)"),
    ],
)
def test_settings_of_a_multi_process_cluster_are_refused(variables: dict[str, str], named: str) -> None:
    with pytest.raises(CommandError, match=named, check=lambda error: error.exit_code == WRONG_CALL):
        broker_variables(variables)
