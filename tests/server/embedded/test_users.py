"""`Broker(users=…)`: logins, the clients' settings, and refusals."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.scram import mac
from ottla.server.client.connection import Client
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security
from ottla.server.client.values import UnreachableError
from ottla.server.config.sasl.jaas import parse_jaas
from ottla.storage.topics.config import ConfigError
from support.broker.conversation import address
from support.broker.raw_client import RawClient

ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ODD = 'it\'s "odd"\\, =:; with spaces and ünicode'


def log_in(broker: ottla.Broker, security: Security) -> None:
    with Client(*address(broker), security=security) as client:
        assert client.ask(MetadataRequest(topics=())).brokers


@pytest.mark.parametrize("password", ["secret", ODD])
def test_users_log_in_by_every_mechanism(password: str) -> None:
    with ottla.Broker(users={"alice": password, "bob, or=so": "other"}) as broker:
        for mechanism in ALL:
            log_in(broker, broker.sasl("alice", mechanism).security)
            log_in(broker, broker.sasl("bob, or=so", mechanism).security)
            with pytest.raises(UnreachableError):
                log_in(broker, Security(login=Credentials(mechanism, "alice", "wrong")))
        broker.create_topic("t")
        broker.produce("t", "a value")
        assert len(broker.records("t")) == 1


def salt_of(broker: ottla.Broker, user: str) -> bytes:
    with RawClient(*address(broker)) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=abc".encode()), 2)
        _, salt, _ = answer.auth_bytes.split(b",")
        return b64decode(salt.removeprefix(b"s="))


def test_salts_of_unknown_users_do_not_follow_from_public_values(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, users={"alice": "secret"}) as broker:
        directories = json.loads((tmp_path / "ottla.json").read_text())["directories"]  # DescribeQuorum has their ids
        told = hashlib.sha256("".join(sorted(directories)).encode()).digest()
        assert salt_of(broker, "nobody") != mac("SCRAM-SHA-256", told, b"nobody")
        broker.restart()
        before = salt_of(broker, "nobody")
        broker.restart()
        assert salt_of(broker, "nobody") == before


def test_users_may_have_one_mechanism() -> None:
    with ottla.Broker(users={"alice": "secret"}, mechanism="SCRAM-SHA-512") as broker:
        log_in(broker, broker.sasl().security)
        with pytest.raises(UnreachableError, match="SASL mechanism PLAIN is not enabled; enabled: SCRAM-SHA-512"):
            log_in(broker, Security(login=Credentials("PLAIN", "alice", "secret")))
        with pytest.raises(ValueError, match="mechanism PLAIN is not enabled for alice"):
            broker.sasl("alice", "PLAIN")


def test_users_exist_after_a_reset_and_in_another_start(tmp_path: Path) -> None:
    users = {"alice": "secret"}
    with ottla.Broker(tmp_path, users=users) as broker:
        broker.reset()
        log_in(broker, broker.sasl("alice", "SCRAM-SHA-256").security)
    catalog = (tmp_path / "ottla.json").read_text()
    assert "alice" in catalog and "secret" not in catalog
    with ottla.Broker(tmp_path, users=users) as broker:
        log_in(broker, broker.sasl("alice", "SCRAM-SHA-256").security)
    assert (tmp_path / "ottla.json").read_text().split('"scram_users"')[1] == catalog.split('"scram_users"')[1]
    with ottla.Broker(tmp_path, users={"alice": "new"}) as broker:
        log_in(broker, broker.sasl("alice", "SCRAM-SHA-256").security)


def logs_in(broker: ottla.Broker, mechanism: str, user: str, password: str) -> bool:
    try:
        log_in(broker, Security(login=Credentials(mechanism, user, password)))
    except UnreachableError:
        return False
    return True


def test_a_user_removed_from_the_start_cannot_log_in(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, users={"alice": "secret", "bob": "other"}):
        pass
    with ottla.Broker(tmp_path, users={"bob": "other"}) as broker:
        assert [each for each in ALL if logs_in(broker, each, "alice", "secret")] == []
        assert [each for each in ALL if logs_in(broker, each, "bob", "other")] == list(ALL)
    assert "alice" not in (tmp_path / "ottla.json").read_text()


def test_a_password_changed_for_one_mechanism_disables_the_old_one(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, users={"alice": "old"}):
        pass
    both = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    with ottla.Broker(tmp_path, users={"alice": "new"}, mechanism="SCRAM-SHA-256", overrides=both) as broker:
        assert logs_in(broker, "SCRAM-SHA-256", "alice", "new")
        assert not logs_in(broker, "SCRAM-SHA-512", "alice", "old")


def test_a_client_without_login_is_not_served() -> None:
    with ottla.Broker(users={"alice": "secret"}) as broker, Client(*address(broker)) as client:
        client.send(MetadataRequest(topics=()))
        with pytest.raises(ConnectionError):
            client.receive()


def test_clients_receive_the_settings_of_their_library() -> None:
    with ottla.Broker(users={"alice": ODD}) as broker:
        sasl = broker.sasl("alice", "SCRAM-SHA-256")
        plainly = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": ODD,
        }
        assert sasl.kafka_python() == sasl.aiokafka() == plainly
        assert sasl.confluent_kafka()["sasl.password"] == ODD
        (module,) = parse_jaas(sasl.java()["sasl.jaas.config"])
        assert module.options == {"username": "alice", "password": ODD}
        assert module.name.endswith("ScramLoginModule")
        assert sasl.principal == "User:alice"
        assert ODD not in repr(sasl) and ODD not in repr(broker) + repr(broker._options)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no password": ({"users": {"alice": ""}}, "Invalid value for users: must have a name and a password"),
    "no name": ({"users": {"": "secret"}}, "must have a name and a password"),
    "an unknown mechanism": (
        {"users": {"a": "b"}, "mechanism": "SCRAM-SHA-1"},
        "Invalid value for users: the mechanism must be one of: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; did you",
    ),
    "a mechanism of nobody": ({"mechanism": "PLAIN"}, "mechanism requires users"),
    "a name that SCRAM does not take": ({"users": {"käthe": "secret"}}, "SCRAM user names must be ASCII"),
}


@pytest.mark.parametrize(("arguments", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_user_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        ottla.Broker(**arguments)
    assert "secret" not in str(refused.value).replace('{"alice": "secret"}', "")


def test_a_password_that_is_not_a_text_is_refused_without_showing_it() -> None:
    with pytest.raises(TypeError, match="the password of alice must be a str, found int") as refused:
        ottla.Broker(users={"alice": 12345})  # type: ignore[dict-item]
    assert "12345" not in str(refused.value)


def test_users_need_a_sasl_listener() -> None:
    broker = ottla.Broker(users={"alice": "secret"}, overrides={"listeners": "PLAINTEXT://127.0.0.1:0"})
    with pytest.raises(ConfigError, match="users require a SASL listener"):
        broker.start()


def test_without_users_sasl_settings_are_refused() -> None:
    with ottla.Broker() as broker, pytest.raises(RuntimeError, match="SASL is not enabled"):
        broker.sasl()
    with ottla.Broker(users={"alice": "secret"}) as broker, pytest.raises(ValueError, match="users: alice"):
        broker.sasl("bob")


def test_a_user_with_a_non_ascii_name_logs_in_by_plain() -> None:
    with ottla.Broker(users={"käthe": "secret"}, mechanism="PLAIN") as broker:
        log_in(broker, broker.sasl("käthe").security)


def test_logins_work_over_tls() -> None:
    pytest.importorskip("cryptography")
    with ottla.Broker(users={"alice": "secret"}, tls=True) as broker:
        for mechanism in ALL:
            sasl = broker.sasl("alice", mechanism)
            assert sasl.security_protocol == "SASL_SSL"
            log_in(broker, sasl.security)
        assert broker.sasl().kafka_python()["ssl_cafile"] and broker.sasl().java()["ssl.truststore.location"]
