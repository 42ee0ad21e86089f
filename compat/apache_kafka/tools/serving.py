"""A broker for one theme, behind the launch protocol of `apache_kafka.suite`: Ottla and Apache Kafka get the same file."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...support.brokers.apache_kafka import METADATA_VERSION
from ...support.brokers.process import START_TIMEOUT_S, LineReader, free_port
from ..suite.runner import end_session
from .themes import filled

CLUSTER_ID = "ToolsOfApacheKafka4w_w"
CONTROLLER = 3000
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="admin" password="admin-secret"'
    ' user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret";'
)


@contextmanager
def serving(
    command: Sequence[str], config: Sequence[str], work: Path, metadata: str = METADATA_VERSION
) -> Iterator[dict[str, str]]:
    """Start a broker, and yield the values of the placeholders in a theme.

    RuntimeError with the end of its output if it does not start.
    """
    nodes = next((int(line.partition("=")[2]) for line in config if line.startswith("# nodes=")), 1)
    ports = [free_port() for _ in range(2 * nodes + 1)]
    places = {
        "broker": f"localhost:{ports[0]}",
        "login": f"localhost:{ports[nodes]}",
        "controller": f"localhost:{ports[-1]}",
        "work": str(work),
        "cluster": CLUSTER_ID,
        "log-dir": str(work / "data-0"),
        **{f"broker-{node}": f"localhost:{ports[node]}" for node in range(1, nodes)},
        **{f"log-dir-{node}": str(work / f"data-{node}") for node in range(1, nodes)},
    }
    login = any(line == "login" for line in config)
    file = work / "server.properties"
    rest = lines(config, ports, nodes, work, places, login=login)
    file.write_text("".join(f"{line}\n" for line in (f"# metadata.version={metadata}", *rest)))
    with open(work / "broker.log", "wb") as log:
        process = subprocess.Popen(
            [*command, "serve", "--config", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        reader = LineReader(process.stdout, work / "broker.out")
        reader.start()
        if reader.line("ready", START_TIMEOUT_S) is None:
            output = (work / "broker.log").read_text(errors="replace")
            raise RuntimeError(f"the broker did not come up: {' / '.join(output.splitlines()[-8:])}")
        yield places
    finally:
        process.send_signal(signal.SIGTERM)
        end_session(process)


def lines(
    config: Sequence[str], ports: Sequence[int], nodes: int, work: Path, places: dict[str, str], *, login: bool
) -> Iterator[str]:
    """Yield the lines of the launch protocol's file."""
    if nodes == 1 and not any("# nodes" in line for line in config):
        yield "# nodes=1"
    yield f"# cluster.id={CLUSTER_ID}"
    yield "# standalone=false"
    yield f"# controllers={CONTROLLER}@localhost:{ports[-1]}"
    yield "# controller.listener=CONTROLLER"
    for node in range(nodes):
        listeners = f"EXTERNAL://localhost:{ports[node]}"
        if login:
            listeners += f",LOGIN://localhost:{ports[nodes + node]}"
        head = "" if node == 0 else f"# node.{node}."
        yield f"{head}listeners={listeners}"
        yield f"{head}log.dirs={work / f'data-{node}'}"
    yield "inter.broker.listener.name=EXTERNAL"
    kinds = "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    if login:
        kinds += ",LOGIN:SASL_PLAINTEXT"
        yield "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        yield f"listener.name.login.plain.sasl.jaas.config={PLAIN}"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            yield f"listener.name.login.{mechanism}.sasl.jaas.config={module}"
    yield f"listener.security.protocol.map={kinds}"
    yield "offsets.topic.num.partitions=2"
    yield "transaction.state.log.num.partitions=2"
    small = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    yield from (f"{name}.replication.factor=1" for name in small)
    yield from (f"{name}.min.isr=1" for name in small[1:])
    yield from (filled(line, places) for line in config if line != "login")
