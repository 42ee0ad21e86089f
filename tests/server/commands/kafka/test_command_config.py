"""`--command-config`: commands connect to a TLS listener with the properties of Apache Kafka's clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from support.commands.command_runs import Ran, run_command

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    with ottla.Broker(tls=True, overrides={"ssl.client.auth": "required"}) as broker:
        broker.create_topic("t")
        yield broker


def listed(broker: ottla.Broker, path: Path, properties: dict[str, str]) -> Ran:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return run_command("topics", "list", "--bootstrap", broker.bootstrap, "--command-config", str(path))


def test_a_command_connects_with_the_properties_of_java(secured: ottla.Broker, tmp_path: Path) -> None:
    done = listed(secured, tmp_path / "client.properties", secured.tls.java())
    assert (done.code, done.err) == (0, "") and "t" in done.out.split()
    pkcs12 = secured.tls.java(with_certificate=False) | {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": secured.tls.pkcs12_path,
        "ssl.keystore.password": secured.tls.pkcs12_password,
        "ssl.protocol": "TLSv1.3",
        "acks": "all",
    }
    assert listed(secured, tmp_path / "client.properties", pkcs12).code == 0


def test_the_environment_may_name_the_file(
    secured: ottla.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "client.properties"
    listed(secured, path, secured.tls.java())
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(path))
    assert run_command("topics", "list", "--bootstrap", secured.bootstrap).code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"security.protocol": "TLS"}, "must be one of: PLAINTEXT, SSL"),
        ({"ssl.truststore.location": "/none/ca.pem"}, "/none/ca.pem for configuration ssl.truststore.location"),
        ({"ssl.truststore.locatoin": "/x"}, "did you mean ssl.truststore.location"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.password is not set"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "must be https, or empty"),
        ({"ssl.enabled.protocols": "SSLv3"}, "must contain one of: TLSv1.2, TLSv1.3"),
        ({"security.protocol": "PLAINTEXT"}, "no broker answers"),
        ({"ssl.truststore.type": "", "ssl.truststore.location": ""}, "certificate was rejected"),
    ],
)
def test_incompatible_properties_are_reported_in_one_line(
    secured: ottla.Broker, tmp_path: Path, change: dict[str, str], told: str
) -> None:
    done = listed(secured, tmp_path / "client.properties", secured.tls.java() | change)
    assert done.code == 2 and told in done.err and done.err.count("\n") == 1, done.err


def test_a_missing_file_is_reported(secured: ottla.Broker) -> None:
    done = run_command("topics", "list", "--bootstrap", secured.bootstrap, "--command-config", "/none")
    assert (done.code, done.err) == (2, "ottla: cannot read /none: No such file or directory\n")
