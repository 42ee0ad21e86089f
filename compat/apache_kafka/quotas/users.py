"""Users authenticated by SASL and by certificate: which of the eight kinds of quotas applies to them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.describe_client_quotas import EntityData
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security
from ottla.server.security.tls.dev_certificates import Authority

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.suite import Suite
from .throttling import Seen, Throttling

PASSWORD = "a-password"
DEFAULT = None
BOUNDS = (100, 300, 250, 700, 900, 450, 600, 800)
"""Bytes a second, of the levels from the strongest on: one record is beyond all of them."""
LEVELS = (
    "user and client id",
    "user and default",
    "user",
    "default and client id",
    "defaults",
    "default user",
    "client id",
    "default client id",
)

Entity = tuple[tuple[str, str | None], ...]


class User(NamedTuple):
    how: str
    name: str
    """The name as quotas have it."""
    port: int
    security: Security


class Secured:
    """A broker at which users log in: by SASL PLAIN, and by certificate."""

    def __init__(self, kind: type[BrokerProcess], directory: Path, overrides: dict[str, str]) -> None:
        authority = Authority(time.time_ns() // 1_000_000)
        server, client = authority.issue("localhost", ["localhost", "127.0.0.1"]), authority.issue("alice")
        files = {"ca": authority.certificate, "server": server.key + server.certificate}
        files["client"] = client.key + client.certificate
        paths = {name: directory / f"{kind.__name__}-{name}.pem" for name in files}
        for name, text in files.items():
            paths[name].write_text(text)
        plain, sasl, tls = free_port(), free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls}"
        options = overrides | {
            "listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required"
                f' user_alice="{PASSWORD}" user_bob="{PASSWORD}";'
            ),
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(paths["server"]),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(paths["ca"]),
        }
        self.process: BrokerProcess
        if kind is OttlaProcess:
            self.process = OttlaProcess(overrides=options)
        else:
            self.process = kafka = ApacheKafkaProcess(overrides=options)
            kafka.addresses = [f"127.0.0.1:{plain}"]
            kafka.overrides |= {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{kafka.controller_port}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL"
                ),
                "inter.broker.listener.name": "PLAINTEXT",
            }
        context = ssl.create_default_context(cafile=str(paths["ca"]))
        context.load_cert_chain(str(paths["client"]))
        self.plain = f"127.0.0.1:{plain}"
        self.users = [
            User("SASL PLAIN", "alice", sasl, Security(login=Credentials("PLAIN", "alice", PASSWORD))),
            User("a certificate", "CN=alice", tls, Security(tls=context)),
        ]


@contextmanager
def secured(overrides: dict[str, str]) -> Iterator[list[Secured]]:
    """Ottla and Apache Kafka."""
    with TemporaryDirectory(prefix="compat-certificates-") as directory:
        both = [Secured(kind, Path(directory), overrides) for kind in (OttlaProcess, ApacheKafkaProcess)]
        with both[0].process, both[1].process:
            yield both


def levels(user: str, client_id: str) -> list[Entity]:
    """Return the entities of all levels, the strongest first."""
    return [
        (("user", user), ("client-id", client_id)),
        (("user", user), ("client-id", DEFAULT)),
        (("user", user),),
        (("user", DEFAULT), ("client-id", client_id)),
        (("user", DEFAULT), ("client-id", DEFAULT)),
        (("user", DEFAULT),),
        (("client-id", client_id),),
        (("client-id", DEFAULT),),
    ]


def told_by_level(side: Secured, number: int) -> list[dict[str, Seen]]:
    """Set all eight quotas, and remove the strongest again and again; return one user's answers each time, by client id."""
    user, throttling = side.users[number], Throttling(side.plain)
    client_id = f"app-{number}"
    entities = levels(user.name, client_id)
    for entity, bound in zip(entities, BOUNDS, strict=True):
        _set(throttling, entity, bound)
    throttling.reach(user.port, user.security)
    found = []
    for gone in (None, *entities):
        if gone is not None:
            _set(throttling, gone, None)
        time.sleep(0.5)  # Apache Kafka's broker learns of it a moment later.
        found.append({str(name): throttling.produced(name, 1) for name in (client_id, "", None)})
    return found


def compare_users(suite: Suite, both: list[Secured], tolerance: float, tolerance_ms: int, *, quick: bool) -> None:
    for number, user in enumerate(both[0].users[: 1 if quick else None]):
        with ThreadPoolExecutor(len(both)) as threads:
            ours, theirs = threads.map(partial(told_by_level, number=number), both)
        for level, mine, yours in zip((*LEVELS, "none"), ours, theirs, strict=True):
            told = [{name: seen.told[0] for name, seen in each.items()} for each in (yours, mine)]
            is_near = all(abs(a - told[1][name]) <= max(tolerance * a, tolerance_ms) for name, a in told[0].items())
            suite.check(f"{user.how}, quotas from {level} on: throttle times", is_near, f"{told[0]} ms, {told[1]} here")


def _set(throttling: Throttling, entity: Entity, bound: float | None) -> None:
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=(OpData(key="producer_byte_rate", value=bound or 0.0, remove=bound is None),),
    )
    with throttling.admin() as client:
        (row,) = client.ask(AlterClientQuotasRequest(entries=(entry,))).entries
        assert row.error_code == 0, row
