"""`ottla dev --tls`, `ottla serve --tls`: TLS listeners whose certificates an authority of the data directory signs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import socket
import ssl
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from ottla.server.commands.frame.command_line import parse_command_line
from ottla.server.commands.serve import configuration
from ottla.server.config.static_config import StaticConfig
from ottla.server.security.tls.dev_certificates import DAYS, LAST_DAYS, Authority
from ottla.storage.topics.options import ConfigError
from support.broker.serve_process import ServeProcess
from support.commands.command_runs import run_command
from support.sizes import full_only, size, some

from .test_dev_command import FREE, dev

pytest.importorskip("cryptography")

DAY_MS = 86_400_000
AUTHORITY = "ottla-tls-authority.pem"


def exports_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"^    export (\w+)=(\S+)$", text, re.MULTILINE))


def options_of(text: str) -> dict[str, Any]:
    """Return the printed options of kafka-python's clients, as a dictionary."""
    found = re.search(r"^    (?:tls|login) = (\{.*?\})$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    read = ast.literal_eval(found[1])
    assert isinstance(read, dict)
    return read


def librdkafka_of(text: str) -> dict[str, str]:
    """Return the printed options of kcat, as properties."""
    found = re.search(r"^    kcat +(kcat .*)$", text, re.MULTILINE)
    assert found is not None
    words = shlex.split(found[1])
    return dict(word.split("=", 1) for before, word in pairwise(words) if before == "-X")


def start(*words: str) -> StaticConfig:
    line = parse_command_line(["serve", *words])
    assert line is not None
    return configuration(line.options)[0]


def names_of(static: StaticConfig) -> set[str]:
    """Return the names in the certificate of the listeners."""
    from cryptography import x509

    chain = str(static.node(static.node_ids[0]).value("ssl.keystore.certificate.chain"))
    names = x509.load_pem_x509_certificate(chain.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(each.value) for each in names.value}


def test_each_client_connects_with_what_is_printed_for_it() -> None:
    with dev(*FREE, "--tls", "--nodes", "2") as (_, text):
        exports = exports_of(text)
        address = exports["OTTLA_BOOTSTRAP"]
        with KafkaProducer(bootstrap_servers=address, **options_of(text)) as producer:
            producer.send("t", b"kafka-python").get(60)
        confluent = Producer({"bootstrap.servers": address, **librdkafka_of(text)})
        confluent.produce("t", b"confluent-kafka")
        assert confluent.flush(60) == 0
        printed = re.search(r"^    confluent-kafka +(.*)$", text, re.MULTILINE)
        assert printed is not None and json.loads(f"{{{printed[1]}}}") == librdkafka_of(text)
        given = ("--bootstrap", address, "--command-config", exports["OTTLA_COMMAND_CONFIG"])
        read = run_command("consume", "t", "--until-end", *given)
        assert read.code == 0 and "kafka-python" in read.out and "confluent-kafka" in read.out
        assert run_command("nodes", "list", "--admin", exports["OTTLA_ADMIN"]).out.count("yes") == 2
        plain = run_command("topics", "list", "--bootstrap", address)
        assert plain.code != 0 and plain.err.count("\n") == 1
        assert "PRIVATE KEY" not in text


@full_only  # `test_a_clients_certificate_may_be_wanted` has a login over TLS, `test_dev_command` what is printed with users
def test_with_users_clients_log_in_over_tls_and_no_password_is_printed() -> None:
    with dev(*FREE, "--tls", "--user", "alice:top:secret") as (_, text):
        exports = exports_of(text)
        address, file = exports["OTTLA_BOOTSTRAP"], exports["OTTLA_COMMAND_CONFIG"]
        assert "secret" not in text and Path(file).stat().st_mode & 0o777 == 0o600
        login = options_of(text) | {"sasl_plain_password": "top:secret"}
        assert login["security_protocol"] == "SASL_SSL"
        with KafkaProducer(bootstrap_servers=address, **login) as producer:
            producer.send("t", b"v").get(60)
        confluent = Producer({"bootstrap.servers": address, **librdkafka_of(text), "sasl.password": "top:secret"})
        confluent.produce("t", b"v")
        assert confluent.flush(60) == 0
        assert run_command("topics", "list", "--bootstrap", address, "--command-config", file).code == 0


def test_what_clients_trust_stays_from_start_to_start_and_through_a_reset(tmp_path: Path) -> None:
    data, seen = tmp_path / "data", set()
    for _ in range(size(1, 2)):  # `test_the_authority_is_kept_where_a_directory_takes_it…` has several starts
        with dev(*FREE, "--tls", "--data", str(data)) as (_, text):
            seen.add((data / AUTHORITY).read_text() + (data / "ottla-tls-ca.pem").read_text())
            assert run_command("reset", "--admin", exports_of(text)["OTTLA_ADMIN"]).code == 0
            kept = sorted(data.glob("ottla-tls-*"))
            assert [path.name for path in kept] == [AUTHORITY, "ottla-tls-ca.pem", "ottla-tls-client.pem"]
            assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
            seen.add((data / AUTHORITY).read_text() + (data / "ottla-tls-ca.pem").read_text())
    assert len(seen) == 1


def test_serve_prints_it_with_hello_and_its_log_names_the_file_to_trust_else(tmp_path: Path) -> None:
    with ServeProcess(
        "--data", tmp_path, "--listener", "127.0.0.1:0", "--tls", "--user", "alice:secret", "--hello"
    ) as process:
        host, port = process.addresses[0]
        context = ssl.create_default_context(cafile=tmp_path / "ottla-tls-ca.pem")
        with socket.create_connection((host, port)) as sock, context.wrap_socket(sock, server_hostname=host):
            pass


@pytest.mark.parametrize("prefix", some(["listener.name.sasl_ssl.", "", "listener.name.ssl."], 1))
def test_a_clients_certificate_may_be_wanted(prefix: str) -> None:
    users = ("--user", "alice:secret") if "sasl" in prefix else ()
    with dev(*FREE, "--tls", "--override", f"{prefix}ssl.client.auth=required", *users) as (_, text):
        address = exports_of(text)["OTTLA_BOOTSTRAP"]
        python, properties = options_of(text), librdkafka_of(text)
        if users:
            python["sasl_plain_password"] = properties["sasl.password"] = "secret"
        with KafkaProducer(bootstrap_servers=address, **python) as producer:
            producer.send("t", b"v").get(60)
        confluent = Producer({"bootstrap.servers": address, **properties})
        confluent.produce("t", b"v")
        assert confluent.flush(60) == 0
        file = exports_of(text)["OTTLA_COMMAND_CONFIG"]
        assert run_command("topics", "list", "--bootstrap", address, "--command-config", file).code == 0


def test_the_certificate_is_for_all_hosts_that_clients_are_told(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# nodes=2\n# node.1.advertised.listeners=SSL://second.example:9\n")
    static = start(
        *("--tls", "--data", str(tmp_path / "d"), "--config", str(file), "--listener", "127.0.0.2:9092"),
        *("--override", "advertised.listeners=SSL://broker.example:9092"),
    )
    told = {"localhost", "127.0.0.1", "::1", "127.0.0.2", "broker.example"}
    assert told <= names_of(static)
    assert socket.gethostname() in names_of(start("--tls", "--data", str(tmp_path / "d")))
    assert not (tmp_path / "d").exists()  # Nothing is written before the directories are open.


LISTENERS: dict[tuple[str, ...], dict[str, str]] = {
    (): {"SSL": "SSL"},
    ("--profile", "dev"): {"SSL": "SSL"},
    ("--listener", ":1"): {"SSL": "SSL"},
    ("--listener", ":1", "--user", "a:b"): {"SASL_SSL": "SASL_SSL"},
    ("--user", "a:b"): {"SASL_SSL": "SASL_SSL"},
    ("--listener", "INSIDE://:1", "--listener", ":2"): {"INSIDE": "SSL", "SSL": "SSL"},
    ("--listener", "INSIDE://:1", "--user", "a:b"): {"INSIDE": "SASL_SSL"},
    (
        *("--override", "listeners=SSL://:1,CONTROLLER://:2"),
        *("--override", "controller.listener.names=CONTROLLER"),
    ): {"SSL": "SSL", "CONTROLLER": "PLAINTEXT"},
}


@pytest.mark.parametrize(("words", "protocols"), LISTENERS.items())
def test_all_listeners_for_clients_speak_tls(words: tuple[str, ...], protocols: dict[str, str], tmp_path: Path) -> None:
    static = start("--tls", "--data", str(tmp_path), "--nodes", "2", *words)
    for node_id in static.node_ids:
        assert {each.name: each.security_protocol for each in static.node(node_id).listener_configs} == protocols


REFUSED = {
    "listener.security.protocol.map=SSL:SSL": "Invalid value SSL:SSL for configuration listener.security.protocol.map: --tls applies to all listeners",
    "ssl.keystore.location=/k.pem": "Invalid value /k.pem for configuration ssl.keystore.location: --tls generates its own keys",
    "ssl.keystore.password=secret": "Invalid value [hidden] for configuration ssl.keystore.password",
    "ssl.key.password=secret": "Invalid value [hidden] for configuration ssl.key.password",
    "ssl.keystore.key=secret": "Invalid value [hidden] for configuration ssl.keystore.key",
    "ssl.truststore.type=PEM": "Invalid value PEM for configuration ssl.truststore.type",
    "listener.name.ssl.ssl.keystore.location=/k": "Invalid value /k for configuration listener.name.ssl.ssl.keystore.location",
    "listeners=PLAINTEXT://:1": "Invalid value PLAINTEXT://:1 for configuration listeners: --tls applies to all listeners; rename it to SSL",
    "listeners=SSL://:1,SASL_PLAINTEXT://:2": "Invalid value SASL_PLAINTEXT://:2 for configuration listeners",
    "advertised.listeners=PLAINTEXT://a:1": "Invalid value PLAINTEXT://a:1 for configuration advertised.listeners",
    "listeners=SSL//:1": "must be NAME://HOST:PORT",
    "advertised.listeners=SSL://bücher.example:1": "Invalid value bücher.example for the host of a listener",
}


@pytest.mark.parametrize(("override", "told"), REFUSED.items())
def test_what_goes_against_it_is_refused_in_a_line(override: str, told: str, tmp_path: Path) -> None:
    done = run_command("serve", "--tls", "--data", str(tmp_path / "d"), "--override", override)
    assert done.code == 2 and told in done.err and "secret" not in done.err
    assert len([line for line in done.err.splitlines() if "INFO" not in line]) == 1
    assert not (tmp_path / "d").exists()


def test_users_need_a_listener_that_takes_logins_over_tls_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="users require a SASL listener"):
        start("--tls", "--data", str(tmp_path), "--listener", "SSL://:1", "--user", "a:secret")


def test_an_authority_that_is_damaged_or_in_other_hands_is_told_in_a_line(tmp_path: Path) -> None:
    kept = tmp_path / AUTHORITY
    good = Authority(int(time.time() * 1000)).pem
    key, _, certificate = good.partition("-----BEGIN CERTIFICATE")
    other = Authority(int(time.time() * 1000)).pem.partition("-----BEGIN CERTIFICATE")[2]
    for content in ("", "nonsense", "ä", key, certificate, f"{key}-----BEGIN CERTIFICATE{other}"):
        kept.write_text(content)
        kept.chmod(0o600)
        with pytest.raises(ConfigError, match=r"does not contain the key and certificate of a CA; remove it") as caught:
            start("--tls", "--data", str(tmp_path))
        assert "PRIVATE" not in str(caught.value)
    kept.write_text(good)
    kept.chmod(0o604)
    with pytest.raises(ConfigError, match="but other users can access it; remove it"):
        start("--tls", "--data", str(tmp_path))
    kept.chmod(0o600)
    assert str(start("--tls", "--data", str(tmp_path)).node(0).value("ssl.truststore.certificates")) in good


def test_an_authority_is_used_until_it_is_nearly_over() -> None:
    made = Authority(0)
    last_ms = (DAYS - LAST_DAYS) * DAY_MS
    again = Authority.read(made.pem, last_ms)
    assert again is not None and again.pem == made.pem
    assert Authority.read(made.pem, last_ms + 1) is None


def test_a_file_that_cannot_be_written_ends_the_start_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "ottla-tls-ca.pem").mkdir()
    done = run_command("serve", "--tls", "--data", str(tmp_path), "--listener", "127.0.0.1:0")
    lines = [line for line in done.err.splitlines() if " INFO " not in line]
    assert done.code == 2 and len(lines) == 1 and "ottla-tls-ca.pem" in lines[0]
    assert not list(tmp_path.glob("*.tmp"))


def test_no_secret_is_shown(tmp_path: Path) -> None:
    assert "PRIVATE KEY" not in repr(start("--tls", "--data", str(tmp_path)))


def test_the_authority_is_kept_where_a_directory_takes_it_and_found_wherever_it_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    first.write_text("no directory: this disk has failed")
    line = parse_command_line(["serve", "--tls", "--data", f"{first},{second}", "--listener", "127.0.0.1:0"])
    assert line is not None
    trusted = set()
    for is_there in (False, False, True):
        if is_there:  # an existing, empty directory
            first.unlink()
            first.mkdir()
        _, secured = configuration(line.options)
        assert secured is not None
        secured.keep()
        assert {path.parent for path in tmp_path.glob("*/ottla-tls-*")} == {second}
        trusted.add(Path(secured.tls.ca_path).read_text())
        assert secured.tls.ca_path == str(second / "ottla-tls-ca.pem")
    assert len(trusted) == 1


def test_an_authority_that_no_directory_takes_ends_the_start_in_a_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / AUTHORITY).mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}/a/{AUTHORITY}: Is a directory"):
        start("--tls", "--data", f"{tmp_path}/a,{tmp_path}/b")
