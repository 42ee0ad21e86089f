"""A broker of either kind with every listener of the table, and the keys, certificates and users that belong to it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..support.brokers.apache_kafka import ApacheKafkaProcess
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.certificates import Certificates
from .actions import TABLE
from .issuer import ALLOWED, Issuer
from .logins import LISTENERS, OAUTHBEARER, PLAIN, SCRAMS, SHORT_SESSION_MS
from .rights import kinds_for

ALICE, ADMIN = "alice", "admin"
PASSWORD = "a-password"
ACTING_AT = "SASL_PLAINTEXT"
"""The listener at which users with and without rights log in, by PLAIN."""
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


PORTS = range(20_000, 32_000)
"""Ports below the ephemeral range: in it, a client that waits for its broker could occupy one with its own connection."""


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.sample(PORTS, 50 * count):
        with socket.socket() as probe:
            if len(found) < count and probe.connect_ex(("127.0.0.1", port)):
                found.append(port)
    return found


def acting_user(action: str, kind: str) -> str:
    """Return the user who carries out this action with its rights in this way."""
    return f"{action}-{kind}"


class World:
    """Keys and addresses, before there is a broker."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory / "keys")
        self.issuer = Issuer(directory)
        self.elsewhere = self.certificates.written(
            "elsewhere", self.certificates.authority.issue("elsewhere.test", ["elsewhere.test"])
        )
        self.foreign_ca = self.certificates.directory / "foreign-ca.pem"
        self.foreign_ca.write_text(self._foreign())
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(LISTENERS, _free_ports(len(LISTENERS)), strict=True)
        }

    def _foreign(self) -> str:
        return Certificates(self.certificates.directory / "foreign").authority.certificate

    @contextmanager
    def broker(self, against: str, *, keep: bool = False) -> Iterator[BrokerProcess]:
        """Start a broker, `ottla` or `apache-kafka`. Every client of PLAINTEXT is a super user."""
        process: BrokerProcess
        kinds = ",".join(f"{name}:{listener.protocol}" for name, listener in LISTENERS.items())
        named = [f"{name}://{address}" for name, address in self.addresses.items()]
        overrides = self._options() | {"listener.security.protocol.map": kinds}
        if against == "ottla":
            arguments = tuple(each for one in named if not one.startswith("PLAINTEXT:") for each in ("--listener", one))
            process = OttlaProcess(overrides=overrides, arguments=arguments, keep=keep)
        else:
            process = _AllowingKafka(self.issuer, overrides, keep)
            process.overrides |= {
                "listeners": ",".join([*named, f"CONTROLLER://127.0.0.1:{process.controller_port}"]),
                "advertised.listeners": ",".join(named),
                "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{kinds}",
                "inter.broker.listener.name": "PLAINTEXT",
            }
        process.addresses = [self.addresses["PLAINTEXT"]]
        with process:
            yield process

    def _options(self) -> dict[str, str]:
        options = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
            "delegation.token.secret.key": "a-key",
            "auto.create.topics.enable": "true",
            "num.partitions": "2",
            "default.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "listener.name.short.connections.max.reauth.ms": str(SHORT_SESSION_MS),
            "listener.name.ssl_elsewhere.ssl.keystore.location": str(self.elsewhere),
            "listener.name.ssl_elsewhere.ssl.keystore.type": "PEM",
        } | self.certificates.broker_options()
        for name, listener in LISTENERS.items():
            prefix = f"listener.name.{name.lower()}"
            options[f"{prefix}.ssl.client.auth"] = listener.client_auth
            if listener.mechanisms:
                options[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
            for mechanism in listener.mechanisms:
                if mechanism == PLAIN:
                    options[f"{prefix}.plain.sasl.jaas.config"] = _plain_users(name)
                elif mechanism in SCRAMS:
                    options[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = SCRAM_MODULE
                elif mechanism == OAUTHBEARER:
                    options |= self.issuer.broker_options(name)
        return options


class _AllowingKafka(ApacheKafkaProcess):
    """Apache Kafka, which reads the issuer's keys only where a property of the system allows."""

    def __init__(self, issuer: Issuer, overrides: dict[str, str], keep: bool) -> None:
        super().__init__(overrides=overrides, keep=keep)
        self.jwks = issuer.jwks_path

    def command(self) -> list[str]:
        program, *rest = super().command()
        return [program, f"-D{ALLOWED}.urls={self.jwks.as_uri()}", f"-D{ALLOWED}.files={self.jwks}", *rest]


def _plain_users(listener: str) -> str:
    names = [ALICE, ADMIN]
    if listener == ACTING_AT:
        names += [acting_user(action.name, kind) for action in TABLE for kind in kinds_for(action.needs)]
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in names)
    return f"{PLAIN_MODULE} {users};"
