"""`Broker(mechanism="OAUTHBEARER")`: an issuer for tests, the clients' settings, and the expiry of their tokens."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.client.connection import Client
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security
from ottla.server.client.values import UnreachableError
from ottla.server.commands.kafka.asking import security_from
from ottla.storage.topics.config import ConfigError
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.security.logging_in import authenticate, shake_hands

pytest.importorskip("jwt")
METADATA = MetadataRequest(topics=())


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(mechanism="OAUTHBEARER") as broker:
        yield broker


def by(token: str) -> Security:
    return Security(login=Credentials("OAUTHBEARER", token=token))


def log_in(broker: ottla.Broker, token: str) -> None:
    with Client(*address(broker), security=by(token)) as client:
        assert client.ask(METADATA).brokers


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_a_user_with_an_issued_token_logs_in(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    broker.produce("t", "a value")
    assert len(broker.records("t")) == 1
    with Client(*address(broker), security=broker.sasl("alice").security) as client:
        assert client.ask(METADATA).brokers
        assert "User:alice" in {str(each.principal) for each in broker.inner.connections}


def test_foreign_and_expired_tokens_are_refused(broker: ottla.Broker) -> None:
    with ottla.Broker(mechanism="OAUTHBEARER") as other, pytest.raises(UnreachableError):
        log_in(broker, other.token("alice"))
    with pytest.raises(UnreachableError):
        log_in(broker, broker.token("alice", lifetime_s=-1))


def test_tokens_expire_by_the_brokers_clock() -> None:
    with ottla.Broker(mechanism="OAUTHBEARER") as broker, RawClient(*address(broker)) as client:
        broker.clock.freeze()
        token = broker.token("alice", lifetime_s=60)
        assert shake_hands(client, "OAUTHBEARER").error_code == 0
        assert authenticate(client, bearer(token)).session_lifetime_ms == 60_000
        broker.clock.advance(seconds=59)
        log_in(broker, token)
        shake_hands(client, "OAUTHBEARER")
        assert authenticate(client, bearer(broker.token("alice", lifetime_s=10))).session_lifetime_ms == 10_000
        broker.clock.advance(seconds=1)
        with pytest.raises(UnreachableError):
            log_in(broker, token)
        assert client.ask(METADATA).brokers
        broker.clock.advance(seconds=9)
        client.send(METADATA)
        assert client.is_closed_by_peer()


def test_the_brokers_own_calls_continue_after_a_clock_move() -> None:
    with ottla.Broker(mechanism="OAUTHBEARER") as broker:
        broker.produce("t", "first")
        broker.clock.advance(hours=2)
        broker.produce("t", "second")
        assert len(broker.records("t")) == 2


def test_tokens_stay_valid_after_a_restart_and_a_reset(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, mechanism="OAUTHBEARER") as broker:
        token = broker.token("alice")
        broker.restart()
        log_in(broker, token)
        broker.reset()
        log_in(broker, token)


def test_settings_for_python_clients_log_them_in(broker: ottla.Broker) -> None:
    kafka = pytest.importorskip("kafka")
    confluent_kafka = pytest.importorskip("confluent_kafka")
    aiokafka = pytest.importorskip("aiokafka")
    sasl = broker.sasl("alice")

    async def in_asyncio() -> int:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **sasl.aiokafka()) as producer:
            return int((await producer.send_and_wait("c", b"v")).offset)

    broker.create_topic("c")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, **sasl.kafka_python())
    assert producer.send("c", b"v").get(60).offset == 0
    producer.close()
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **sasl.confluent_kafka()})
    other.produce("c", b"v")
    assert other.flush(60) == 0
    assert asyncio.run(in_asyncio()) == 2


def test_java_gets_a_private_token_file(broker: ottla.Broker) -> None:
    path = broker.sasl("alice").java()["sasl.oauthbearer.token.endpoint.url"].removeprefix("file:")
    assert os.stat(path).st_mode & 0o777 == 0o600
    log_in(broker, Path(path).read_text())


def test_the_directory_of_temporary_files_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a#b%20?c").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a#b%20?c"))
    with ottla.Broker(mechanism="OAUTHBEARER") as broker:
        properties = broker.sasl("alice").java()
        with Client(*address(broker), security=security_from(properties)) as client:
            assert client.ask(METADATA).brokers


def test_a_forked_process_that_ends_keeps_the_keys() -> None:
    program = """
        import os, sys, ottla
        with ottla.Broker(mechanism="OAUTHBEARER") as broker:
            child = os.fork()
            if child == 0:
                sys.exit(0)  # runs what is to be run at the end
            os.waitpid(child, 0)
            broker.restart()
            print(broker.state)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout == "serving\n"


def test_no_token_is_shown(broker: ottla.Broker) -> None:
    sasl = broker.sasl("alice")
    sasl.java()
    assert "ey" not in repr(sasl)


def test_no_token_of_the_admin_listener_is_shown() -> None:
    assert "a-long-secret-token" not in repr(ottla.Broker(admin=0, admin_token="a-long-secret-token")._options)


def test_tokens_can_be_combined_with_tls() -> None:
    with ottla.Broker(mechanism="OAUTHBEARER", tls=True) as broker:
        assert broker.sasl("alice").security_protocol == "SASL_SSL"
        broker.create_topic("t")


def test_contradicting_arguments_are_refused(broker: ottla.Broker) -> None:
    with pytest.raises(ConfigError, match=r"users cannot be combined with OAUTHBEARER, .* broker\.sasl\(NAME\)"):
        ottla.Broker(mechanism="OAUTHBEARER", users={"alice": "secret"})
    with pytest.raises(ConfigError, match=r"mechanism requires users; .*; did you mean OAUTHBEARER"):
        ottla.Broker(mechanism="oauthbearer")
    with pytest.raises(ValueError, match="mechanism PLAIN is not enabled \\(enabled: OAUTHBEARER\\)"):
        broker.sasl("alice", "PLAIN")
    with pytest.raises(ValueError, match="user name of a token is empty"):
        broker.token(" ")
    with pytest.raises(ValueError, match="less than 1e9 seconds, found nan"):
        broker.token("alice", lifetime_s=float("nan"))
    with ottla.Broker() as plain, pytest.raises(RuntimeError, match="tokens are not enabled"):
        plain.token("alice")
