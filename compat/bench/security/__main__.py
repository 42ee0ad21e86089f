"""TLS and SASL compared with Apache Kafka: the broker's cost of a gigabyte, a handshake and a login.

Both are measured in interleaved rounds of one run. librdkafka is the client of both, over four listeners of the same broker:
plain, TLS (TLS 1.3, a certificate with a key on the curve P-256, no client certificate), and a SCRAM-SHA-256 login over either.
Then clients connect one after the other, over bare sockets: they shake hands, send ApiVersions, log in by each mechanism, and
disconnect.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.scram import CODES, ITERATIONS_MIN, salted
from ottla.server.client.connection import Client

from ...security.issuer import ALLOWED, Issuer
from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.certificates import Certificates
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, Row, print_table
from ..wire.load import Load
from .logins import Comer, LogIn, bearer, measured, plain, scram

SIZES = {"1 KB": 1_000, "10 KB": 10_000}
PLAIN, TLS, MUTUAL, LOGIN, BOTH = "PLAINTEXT", "SSL", "MUTUAL", "LOGIN", "SECURE"
LISTENERS = {PLAIN: "PLAINTEXT", TLS: "SSL", MUTUAL: "SSL", LOGIN: "SASL_PLAINTEXT", BOTH: "SASL_SSL"}
"""Listener -> its security protocol."""
SHOWN = {PLAIN: "plain", TLS: "TLS", LOGIN: "SCRAM", BOTH: "SCRAM over TLS"}
USER, PASSWORD, SALT = "alice", "alice-secret", b"salt-of-alice"
MECHANISMS = ("PLAIN", *CODES.values(), "OAUTHBEARER")
COMERS, QUICK_COMERS = 500, 50


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    rounds = options.rest.rounds or (1 if options.quick else 5)
    bytes_a_round = (options.rest.megabytes or (20 if options.quick else 100)) * 1_000_000
    comers = options.rest.clients or (QUICK_COMERS if options.quick else COMERS)
    with tempfile.TemporaryDirectory(prefix="compat-certificates-") as directory:
        certificates, issuer = Certificates(Path(directory)), Issuer(Path(directory))
        with kafka(certificates, issuer, options) as theirs, ottla(certificates, issuer, options) as ours:
            sides = {KAFKA: Side(theirs, certificates, issuer), OTTLA: Side(ours, certificates, issuer)}
            loads, logins = load_rows(), login_rows()
            for side in sides.values():  # the JVM compiles what it runs often: not measured
                for listener in SHOWN:
                    side.load(SIZES["1 KB"], bytes_a_round // 4, listener)
                for _, comer in side.comers():
                    measured(side.broker, comer, comers)
            for number in range(rounds):
                order = list(sides.items())[:: 1 if number % 2 else -1]
                for name, size in SIZES.items():
                    for listener in SHOWN:
                        for side_name, side in order:
                            figures = side.load(size, bytes_a_round, listener)
                            for what, figure in zip(("produce", "fetch"), figures, strict=True):
                                loads[what, name, listener].values[side_name].append(figure)
                for side_name, side in order:
                    for kind, comer in side.comers():
                        per_second, cpu_ms = measured(side.broker, comer, comers)
                        logins["rate", kind].values[side_name].append(per_second)
                        logins["cpu", kind].values[side_name].append(cpu_ms)
                        if comer.resumes and number == 0:
                            suite.note(f"{side_name}: {comer.reused} of {comers} connections {kind} were resumed ones")
    suite.note(
        f"{rounds} rounds of {bytes_a_round / 1e6:.0f} MB a size and listener, and {comers} clients of each kind"
    )
    rows = [*loads.values(), *logins.values()]
    print_table(suite, rows)
    suite.check("both sides were measured", all(row.values[KAFKA] and row.values[OTTLA] for row in rows))


def load_rows() -> dict[tuple[str, str, str], Row]:
    return {
        (what, size, listener): Row(f"{what} {size}, {SHOWN[listener]}: broker CPU", "s/GB")
        for size in SIZES
        for what in ("produce", "fetch")
        for listener in SHOWN
    }


def login_rows() -> dict[tuple[str, str], Row]:
    kinds = (
        "no TLS, no login",
        "TLS",
        "TLS, resumed",
        "mutual TLS",
        *(f"{mechanism}{where}" for where in ("", " over TLS") for mechanism in MECHANISMS),
    )
    rates = {("rate", kind): Row(f"{kind}: clients", "1/s", more_is_better=True) for kind in kinds}
    return rates | {("cpu", kind): Row(f"{kind}: broker CPU for one", "ms") for kind in kinds}


def ottla(certificates: Certificates, issuer: Issuer, options: Options) -> OttlaProcess:
    return OttlaProcess(overrides=listener_options(certificates, issuer), keep=options.keep)


def kafka(certificates: Certificates, issuer: Issuer, options: Options) -> ApacheKafkaProcess:
    broker = TrustingKafka(heap="1g", keep=options.keep)
    broker.jwks = issuer.jwks_path
    given = listener_options(certificates, issuer)
    controller = f"CONTROLLER://127.0.0.1:{broker.controller_port}"
    given["advertised.listeners"] = given["listeners"]
    given["listeners"] += f",{controller}"
    given["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    broker.overrides |= given
    broker.addresses = [given["listeners"].split(",")[0].removeprefix(f"{PLAIN}://")]
    return broker


class TrustingKafka(ApacheKafkaProcess):
    """Apache Kafka that reads the keys that sign tokens from a file. Java needs system properties that allow this."""

    jwks: Path

    def command(self) -> list[str]:
        java, *others = super().command()
        return [java, f"-D{ALLOWED}.urls={self.jwks.as_uri()}", f"-D{ALLOWED}.files={self.jwks}", *others]


def listener_options(certificates: Certificates, issuer: Issuer) -> dict[str, str]:
    """Return broker options for Ottla and Apache Kafka alike: LISTENERS, and how their clients log in."""
    given = certificates.broker_options() | {
        "listeners": ",".join(f"{name}://127.0.0.1:{free_port()}" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{spoken}" for name, spoken in LISTENERS.items()),
        "inter.broker.listener.name": PLAIN,
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    modules = "org.apache.kafka.common.security"
    for listener in (LOGIN, BOTH):
        name = f"listener.name.{listener.lower()}"
        given[f"{name}.plain.sasl.jaas.config"] = f'{modules}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        for mechanism in CODES.values():
            given[f"{name}.{mechanism.lower()}.sasl.jaas.config"] = f"{modules}.scram.ScramLoginModule required;"
        given |= issuer.broker_options(listener)
    return given


class Side:
    """One broker, and how to reach its listeners."""

    def __init__(self, broker: BrokerProcess, certificates: Certificates, issuer: Issuer) -> None:
        self.broker = broker
        self.certificates = certificates
        self.issuer = issuer
        where = (each.split("://") for each in broker.overrides["listeners"].split(","))
        self.ports = {name: int(address.rpartition(":")[2]) for name, address in where}
        with Client("127.0.0.1", self.ports[PLAIN]) as at:
            for code in CODES:
                (answer,) = at.ask(AlterUserScramCredentialsRequest(upsertions=(credential(code),))).results
                if answer.error_code:
                    raise RuntimeError(f"a user was refused: {answer.error_message}")

    def client(self, listener: str) -> dict[str, str]:
        """Return properties of librdkafka for a listener."""
        given = {"bootstrap.servers": f"127.0.0.1:{self.ports[listener]}"}
        if "SSL" in LISTENERS[listener]:
            given |= self.certificates.librdkafka()
        if "SASL" in LISTENERS[listener]:
            given |= {"sasl.mechanism": CODES[1], "sasl.username": USER, "sasl.password": PASSWORD}
        return given | {"security.protocol": LISTENERS[listener]}

    def load(self, size: int, total_bytes: int, listener: str) -> tuple[float, float]:
        """Broker CPU for a gigabyte produced, and fetched, in seconds."""
        done = Load(self.broker, size, total_bytes, "none", self.client(listener)).run()
        return done.produce_cpu_s_per_gb, done.fetch_cpu_s_per_gb

    def comers(self) -> Iterator[tuple[str, Comer]]:
        """Yield each kind of client in `login_rows`, with a client of that kind."""
        ports = self.ports
        yield "no TLS, no login", Comer(ports[PLAIN])
        yield "TLS", Comer(ports[TLS], self.tls())
        yield "TLS, resumed", Comer(ports[TLS], self.tls(), resumes=True)
        yield "mutual TLS", Comer(ports[MUTUAL], self.tls(shown=self.certificates.client))
        log_ins: dict[str, Callable[[], LogIn]] = {
            "PLAIN": lambda: plain(USER, PASSWORD),
            **{name: lambda name=name: scram(name, USER, PASSWORD) for name in CODES.values()},  # type: ignore[misc]
            "OAUTHBEARER": lambda: bearer(self.issuer.token(USER)),
        }
        for mechanism, log_in in log_ins.items():
            yield mechanism, Comer(ports[LOGIN], log_in=log_in())
        for mechanism, log_in in log_ins.items():
            yield f"{mechanism} over TLS", Comer(ports[BOTH], self.tls(), log_in=log_in())

    def tls(self, shown: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        if shown is not None:
            context.load_cert_chain(shown)
        return context


def credential(code: int) -> ScramCredentialUpsertion:
    password = salted(CODES[code], PASSWORD, SALT, ITERATIONS_MIN)
    return ScramCredentialUpsertion(
        name=USER, mechanism=code, iterations=ITERATIONS_MIN, salt=SALT, salted_password=password
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int, help="per round, size, listener and side")
    parser.add_argument("--clients", type=int, help="of each kind, per round and side")


if __name__ == "__main__":
    sys.exit(run_suite("bench.security", body, doc=__doc__, more_arguments=arguments))
