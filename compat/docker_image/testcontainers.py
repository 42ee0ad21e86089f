"""The start of a container by the stock Kafka modules of testcontainers.

Each has a command, an environment, a script that is copied in late, and the output to wait for. These are facts about the
modules in the summer of 2026, whose files are named; none of their code is here.

`{host}` and `{port}` are the address and port published on the host, `{name}` is the container's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
KRAFT_READY = r".*Transitioning from RECOVERY to RUNNING.*"
ZOOKEEPER_READY = r".*\[KafkaServer id=\d+\] started.*"

ONE_BROKER = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
KRAFT = {
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
ZOOKEEPER = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


def listeners(public: int, broker: int, *, kraft: bool, host: str = "0.0.0.0") -> dict[str, str]:
    """Return the addresses of the listeners in the container."""
    names = {"PLAINTEXT": public, "BROKER": broker, **({"CONTROLLER": 9094} if kraft else {})}
    return {"KAFKA_LISTENERS": ",".join(f"{name}://{host}:{port}" for name, port in names.items())}


@dataclass(frozen=True, slots=True)
class Module:
    """One way to start one."""

    name: str
    source: str
    environment: Mapping[str, str]
    script: str
    """The file that is copied in once the port is known."""
    ready: str
    path: str = "/tmp/testcontainers_start.sh"
    mode: int = 0o777
    public: int = 9092
    """The port in the container that clients on the host connect to."""
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] = ("sh", "-c", "while [ ! -f {path} ]; do sleep 0.1; done; {path}")
    by_exec: bool = False
    """Whether the script is written by a shell in the container, as its user."""

    def words(self) -> list[str]:
        """Return the arguments after the image's name."""
        return [word.replace("{path}", self.path) for word in self.command]


WAITING = ("-c", "while [ ! -f {path} ]; do sleep 0.1; done; {path}")
ZOOKEEPER_BESIDE = """\
echo 'clientPort=2181' > {where}zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> {where}zookeeper.properties
echo 'dataLogDir=/var/lib/zookeeper/log' >> {where}zookeeper.properties
zookeeper-server-start {where}zookeeper.properties &
"""
FORMAT = """\
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo 'kafka-storage format --ignore-formatted -t "{id}" -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure
"""
TOLD = "PLAINTEXT://{host}:{port},BROKER://{name}:"
ADVERTISE = "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS="

MODULES = (
    Module(
        "java KafkaContainer",
        "testcontainers-java org/testcontainers/kafka/KafkaContainer.java, KafkaHelper.java",
        {**ONE_BROKER, **KRAFT, **listeners(9092, 9093, kraft=True)},
        f"{ADVERTISE}{TOLD}9093\n/etc/kafka/docker/run \n",
        KRAFT_READY,
    ),
    Module(
        "java ConfluentKafkaContainer",
        "testcontainers-java org/testcontainers/kafka/ConfluentKafkaContainer.java",
        {**ONE_BROKER, **KRAFT, **listeners(9092, 9093, kraft=True)},
        f"{ADVERTISE}{TOLD}9093\n/etc/confluent/docker/run \n",
        KRAFT_READY,
    ),
    Module(
        "java containers.KafkaContainer, ZooKeeper",
        "testcontainers-java org/testcontainers/containers/KafkaContainer.java (deprecated)",
        {**ONE_BROKER, **ZOOKEEPER, **listeners(9093, 9092, kraft=False)},
        f"{ADVERTISE}{TOLD}9092\necho '' > /etc/confluent/docker/ensure \n"
        + ZOOKEEPER_BESIDE.replace("{where}", "/tmp/")
        + "/etc/confluent/docker/run \n",
        ZOOKEEPER_READY,
        public=9093,
        entrypoint=("sh",),
        command=WAITING,
    ),
    Module(
        "java containers.KafkaContainer, KRaft",
        "testcontainers-java org/testcontainers/containers/KafkaContainer.java (deprecated)",
        {**ONE_BROKER, **KRAFT, "KAFKA_BROKER_ID": "1", **listeners(9093, 9092, kraft=True)},
        f"{ADVERTISE}{TOLD}9092\necho '' > /etc/confluent/docker/ensure \n"
        + FORMAT.replace("{id}", CLUSTER_ID)
        + "/etc/confluent/docker/run \n",
        KRAFT_READY,
        public=9093,
        entrypoint=("sh",),
        command=WAITING,
    ),
    Module(
        "python KafkaContainer, ZooKeeper",
        "testcontainers-python testcontainers/community/kafka/__init__.py",
        {**ONE_BROKER, **ZOOKEEPER, **listeners(9093, 9092, kraft=False)},
        "#!/bin/bash\n\n"
        + ZOOKEEPER_BESIDE.replace("{where}", "")
        + "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i):9092\n"
        ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        ZOOKEEPER_READY,
        path="/tc-start.sh",
        mode=0o644,
        public=9093,
        command=("sh", "-c", "while [ ! -f {path} ]; do sleep 0.1; done; sh {path}"),
    ),
    Module(
        "python KafkaContainer, KRaft",
        "testcontainers-python testcontainers/community/kafka/__init__.py",
        {**ONE_BROKER, **KRAFT, "KAFKA_BROKER_ID": "1", **listeners(9093, 9092, kraft=True)},
        "#!/bin/bash\n\n"
        + FORMAT.replace("{id}", CLUSTER_ID)
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i | cut -d' ' -f1):9092\n"
        ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        r".*Kafka Server started.*",
        path="/tc-start.sh",
        mode=0o644,
        public=9093,
        command=("sh", "-c", "while [ ! -f {path} ]; do sleep 0.1; done; sh {path}"),
    ),
    Module(
        "go kafka.Run",
        "testcontainers-go modules/kafka/kafka.go",
        {
            **ONE_BROKER,
            **KRAFT,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
            **listeners(9093, 9092, kraft=True),
        },
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        f"export KAFKA_ADVERTISED_LISTENERS={TOLD}9092\necho Starting Kafka KRaft mode\n"
        + FORMAT.replace("{id}", "$(kafka-storage random-uuid)")
        + "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        KRAFT_READY,
        path="/usr/sbin/testcontainers_start.sh",
        mode=0o755,
        public=9093,
        entrypoint=("sh",),
        command=("-c", "while [ ! -f {path} ]; do sleep 0.1; done; bash {path}"),
    ),
    Module(
        "node KafkaContainer, KRaft",
        "testcontainers-node packages/modules/kafka/src/kafka-container.ts",
        {
            **ONE_BROKER,
            **KRAFT,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
            **listeners(9093, 9092, kraft=True),
        },
        f"{ADVERTISE}BROKER://{{name}}:9092,PLAINTEXT://{{host}}:{{port}}\n/etc/confluent/docker/run \n",
        r"^ready ",  # no words, but that the port is listened at
        public=9093,
        entrypoint=("sh",),
        command=("-c", "echo 'Waiting for script...'; while [ ! -f {path} ]; do sleep 0.1; done; {path}"),
    ),
    Module(
        "dotnet KafkaBuilder, Apache's",
        "testcontainers-dotnet src/Testcontainers.Kafka/ApacheConfiguration.cs, KafkaBuilder.cs",
        {**ONE_BROKER, **KRAFT, "KAFKA_BROKER_ID": "1", **listeners(9092, 9093, kraft=True, host="")},
        f"{ADVERTISE}PLAINTEXT://{{host}}:{{port}},BROKER://127.0.0.1:9093,\nexec /etc/kafka/docker/run\n",
        KRAFT_READY,
        path="/testcontainers.sh",
        mode=0o755,
        entrypoint=("/bin/sh", "-c"),
        command=("while [ ! -f {path} ]; do sleep 0.1; done; {path}",),
    ),
    Module(
        "dotnet KafkaBuilder, Confluent's with ZooKeeper",
        "testcontainers-dotnet src/Testcontainers.Kafka/ConfluentConfiguration.cs, KafkaBuilder.cs",
        {
            **ONE_BROKER,
            **{name: text for name, text in KRAFT.items() if "ROLES" not in name and "LISTENER_NAMES" not in name},
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
            **listeners(9092, 9093, kraft=True, host=""),
        },
        "#!/bin/bash\necho '' > /etc/confluent/docker/ensure\n"
        + ZOOKEEPER_BESIDE.replace("{where}", "")
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://127.0.0.1:9093,\n"
        "exec /etc/confluent/docker/run\n",
        ZOOKEEPER_READY,
        path="/testcontainers.sh",
        mode=0o755,
        entrypoint=("/bin/sh", "-c"),
        command=("while [ ! -f {path} ]; do sleep 0.1; done; {path}",),
    ),
    Module(
        "rust kafka::apache",
        "testcontainers-rs-modules-community src/kafka/apache.rs",
        {
            **KRAFT,
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            **listeners(9092, 9093, kraft=True),
        },
        "#!/usr/bin/env bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://localhost:9093\n"
        "/etc/kafka/docker/run \n",
        r"Kafka Server started",
        path="/opt/kafka/testcontainers_start.sh",
        entrypoint=("bash",),
        command=("-c", "while [ ! -f {path}  ]; do sleep 0.1; done; chmod 755 {path} && {path}"),
        by_exec=True,
    ),
)
