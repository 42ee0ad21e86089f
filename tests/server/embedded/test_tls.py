"""`ottla.Broker(tls=True)`: each client connects with the settings that the broker returns."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

import ottla
from ottla.server.embedded.tls import PASSWORD

pytest.importorskip("cryptography")


def test_the_brokers_own_calls_use_tls() -> None:
    with ottla.Broker(tls=True) as broker:
        broker.produce("t", "v", key="k")
        assert [record.value for record in broker.records("t")] == [b"v"]
        broker.restart()  # with the same certificates
        assert [record.value for record in broker.records("t")] == [b"v"]


def test_clients_connect_with_a_certificate_and_without() -> None:
    with ottla.Broker(tls=True, nodes=2) as broker:
        for with_certificate in (True, False):
            tls = {"with_certificate": with_certificate}
            with KafkaProducer(bootstrap_servers=broker.bootstrap, **broker.tls.kafka_python(**tls)) as producer:
                producer.send("t", b"kafka-python").get(60)
            confluent = Producer({"bootstrap.servers": broker.bootstrap, **broker.tls.confluent_kafka(**tls)})
            confluent.produce("t", b"confluent-kafka")
            assert confluent.flush(60) == 0
        values = sorted(record.value or b"" for record in broker.records("t"))
        assert values == [b"confluent-kafka"] * 2 + [b"kafka-python"] * 2


def test_asyncio_clients_connect() -> None:
    import asyncio

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **broker.tls.aiokafka()) as producer:
            await producer.send_and_wait("t", b"aiokafka")

    with ottla.Broker(tls=True) as broker:
        asyncio.run(produce())
        assert [record.value for record in broker.records("t")] == [b"aiokafka"]


def test_a_clients_principal_is_in_its_certificate() -> None:
    with ottla.Broker(tls=True, overrides={"ssl.client.auth": "required"}) as broker:
        assert broker.tls.principal == "User:CN=client"
        alice = broker.tls.user("alice")
        assert alice.principal == "User:CN=alice" and broker.tls.user("alice") is alice
        with KafkaProducer(bootstrap_servers=broker.bootstrap, **alice.kafka_python()) as producer:
            producer.send("t", b"v").get(60)


def test_certificate_files_are_private_and_deleted_at_exit(tmp_path: Path) -> None:
    program = (
        "import ottla, os, sys\n"
        "with ottla.Broker(tls=True) as broker:\n"
        "    tls = broker.tls\n"
        "    paths = [tls.ca_path, tls.certificate_path, tls.key_path, tls.key_store_path, tls.pkcs12_path]\n"
        "    assert {os.stat(path).st_mode & 0o777 for path in paths} == {0o600}\n"
        "    print(os.path.dirname(tls.key_path))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not os.path.exists(done.stdout.strip()) and done.stderr == ""


def test_the_pkcs12_file_is_a_key_store() -> None:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    with ottla.Broker(tls=True) as broker:
        content = Path(broker.tls.pkcs12_path).read_bytes()
        assert broker.tls.pkcs12_password == PASSWORD
        assert load_pkcs12(content, PASSWORD.encode()).key is not None
        assert set(broker.tls.java()) >= {"security.protocol", "ssl.truststore.location", "ssl.keystore.location"}


def test_certificates_are_valid_for_one_broker() -> None:
    with ottla.Broker(tls=True) as one, ottla.Broker(tls=True) as other:
        context = ssl.create_default_context(cadata=one.tls.ca)
        host, port = other.bootstrap.split(":")
        import socket

        with (
            socket.create_connection((host, int(port))) as sock,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(sock, server_hostname=host)


def test_a_plain_broker_has_no_certificates() -> None:
    with pytest.raises(RuntimeError, match=r"ottla\.Broker\(tls=True\)"):
        print(ottla.Broker().tls)
    with pytest.raises(TypeError, match="tls: expected bool"):
        ottla.Broker(tls="yes")  # type: ignore[arg-type]


def test_no_secret_is_shown() -> None:
    with ottla.Broker(tls=True) as broker:
        assert "PRIVATE KEY" not in repr(broker) + repr(broker.tls) + repr(broker._options) + repr(
            broker.inner.config.static
        )
