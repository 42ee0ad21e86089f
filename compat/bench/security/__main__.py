"""TLS beside Apache Kafka 4.3.1, in interleaved rounds of one run: what a gigabyte and a handshake cost the broker.

librdkafka is the client of both, over a plain and a TLS listener of the same broker: TLS 1.3, a certificate with a key on the
curve P-256, no certificate of the client. Handshakes are whole ones, one after the other, by OpenSSL from Python.
"""

import argparse
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.certificates import Certificates
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, Row, print_table
from ..wire.load import Load

SIZES = {"1 KB": 1_000, "10 KB": 10_000}
HANDSHAKES, QUICK_HANDSHAKES = 1_000, 100


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    rounds = options.rest.rounds or (1 if options.quick else 5)
    bytes_a_round = (options.rest.megabytes or (50 if options.quick else 200)) * 1_000_000
    handshakes = QUICK_HANDSHAKES if options.quick else HANDSHAKES
    with tempfile.TemporaryDirectory(prefix="compat-certificates-") as directory:
        certificates = Certificates(Path(directory))
        with kafka(certificates, options) as theirs, ottla(certificates, options) as ours:
            sides: dict[str, Side] = {KAFKA: Side(theirs, certificates), OTTLA: Side(ours, certificates)}
            rows = make_rows()
            for side in sides.values():  # the JVM compiles what it runs often: not measured
                side.load(SIZES["1 KB"], bytes_a_round // 4, is_secured=True)
                side.shake_hands(handshakes)
            for number in range(rounds):
                order = list(sides.items())[:: 1 if number % 2 else -1]
                for name, size in SIZES.items():
                    for side_name, side in order:
                        for kind, is_secured in (("plain", False), ("TLS", True)):
                            produce, fetch = side.load(size, bytes_a_round, is_secured=is_secured)
                            rows[f"produce {kind} {name}"].values[side_name].append(produce)
                            rows[f"fetch {kind} {name}"].values[side_name].append(fetch)
                for side_name, side in order:
                    per_second, cpu_ms = side.shake_hands(handshakes)
                    rows["handshakes"].values[side_name].append(per_second)
                    rows["handshake cpu"].values[side_name].append(cpu_ms)
    suite.note(f"{rounds} rounds of {bytes_a_round / 1e6:.0f} MB a size and kind")
    print_table(suite, list(rows.values()))
    suite.check("both sides were measured", all(row.values[KAFKA] and row.values[OTTLA] for row in rows.values()))


def make_rows() -> dict[str, Row]:
    rows = {
        f"{what} {kind} {name}": Row(f"{what} {name}, {kind}: broker CPU", "s/GB")
        for name in SIZES
        for what in ("produce", "fetch")
        for kind in ("plain", "TLS")
    }
    rows["handshakes"] = Row("handshakes, one after the other", "1/s", more_is_better=True)
    rows["handshake cpu"] = Row("a handshake: broker CPU", "ms")
    return rows


def ottla(certificates: Certificates, options: Options) -> OttlaProcess:
    plain, secured = free_port(), free_port()
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{secured}"}
    return OttlaProcess(overrides=listeners | certificates.broker_options(), keep=options.keep)


def kafka(certificates: Certificates, options: Options) -> ApacheKafkaProcess:
    broker = ApacheKafkaProcess(heap="1g", keep=options.keep)
    plain, secured = f"PLAINTEXT://{broker.bootstrap}", f"SSL://127.0.0.1:{free_port()}"
    broker.overrides |= certificates.broker_options() | {
        "listeners": f"{plain},{secured},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"{plain},{secured}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    }
    return broker


class Side:
    """One broker, and how to reach its TLS listener."""

    def __init__(self, broker: BrokerProcess, certificates: Certificates) -> None:
        self.broker = broker
        listeners = broker.overrides["listeners"].split(",")
        self.port = int(next(each for each in listeners if each.startswith("SSL:")).rpartition(":")[2])
        self.client = certificates.librdkafka() | {"bootstrap.servers": f"127.0.0.1:{self.port}"}
        self.context = ssl.create_default_context(cafile=str(certificates.ca))

    def load(self, size: int, total_bytes: int, *, is_secured: bool) -> tuple[float, float]:
        """Broker CPU for a gigabyte produced, and fetched, in seconds."""
        measured = Load(self.broker, size, total_bytes, "none", self.client if is_secured else {}).run()
        return measured.produce_cpu_s_per_gb, measured.fetch_cpu_s_per_gb

    def shake_hands(self, count: int) -> tuple[float, float]:
        """Handshakes a second, and broker CPU for one in ms."""
        cpu_s, started_s = self.broker.cpu_seconds(), time.perf_counter()
        for _ in range(count):
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock,
                self.context.wrap_socket(sock, server_hostname="localhost"),
            ):
                pass
        wall_s = time.perf_counter() - started_s
        return count / wall_s, (self.broker.cpu_seconds() - cpu_s) * 1e3 / count


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int, help="per round, size, kind and side")


if __name__ == "__main__":
    sys.exit(run_suite("bench.security", body, doc=__doc__, more_arguments=arguments))
