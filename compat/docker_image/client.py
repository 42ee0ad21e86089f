"""A client in a container's network: `python -m compat.docker_image.client ACTION …`; prints its results as JSON.

    round HOST:PORT [PORT:PORT…]    creates a topic, writes ten records and reads them; `said` is the advertised address
    write HOST:PORT TOPIC COUNT     appends records
    read HOST:PORT TOPIC            the number of records
    told HOST:PORT                  the addresses of all nodes
    schemas URL PASSWORD            registers a schema; the subjects of the registry

Pairs of ports are forwarded, the first to the second, as an engine publishes them. KAFKA_CLIENT has more properties, as JSON.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from ..support.clients.steps import read_partitions

WAIT_S = 30


def properties(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 3, **json.loads(os.environ.get("KAFKA_CLIENT", "{}"))}


def told(bootstrap: str) -> list[str]:
    metadata = AdminClient(properties(bootstrap)).list_topics(timeout=WAIT_S)
    return sorted(f"{each.id} {each.host}:{each.port}" for each in metadata.brokers.values())


def schemas(url: str, password: str) -> list[str]:
    client = SchemaRegistryClient({"url": url, "basic.auth.user.info": f"any:{password}"})
    client.register_schema("orders-value", Schema('"string"', "AVRO"))
    return list(client.get_subjects())


def write(bootstrap: str, topic: str, count: str) -> int:
    producer = Producer(properties(bootstrap))
    for index in range(int(count)):
        producer.produce(topic, key=str(index), value=b"x" * 100)
    return int(producer.flush(WAIT_S))


def read(bootstrap: str, topic: str) -> int:
    return len(read_partitions(bootstrap, [(topic, 0)], timeout_s=WAIT_S)[topic, 0])


def whole_round(bootstrap: str) -> dict[str, Any]:
    said = told(bootstrap)
    client = AdminClient(properties(bootstrap))
    for created in client.create_topics([NewTopic("round", 1, 1)]).values():
        created.result(WAIT_S)
    left = write(bootstrap, "round", "10")
    return {"said": said, "left": left, "read": None if "KAFKA_CLIENT" in os.environ else read(bootstrap, "round")}


def forward(pair: str) -> None:
    """Forward connections of the first port to the second."""
    outside, inside = map(int, pair.split(":"))
    listener = socket.create_server(("127.0.0.1", outside))

    def pump(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", inside))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main(action: str, bootstrap: str, *words: str) -> None:
    arguments = [word for word in words if ":" not in word]
    for pair in set(words) - set(arguments):
        forward(pair)
    actions: dict[str, Callable[..., Any]] = {
        "told": told,
        "write": write,
        "read": read,
        "round": whole_round,
        "schemas": schemas,
    }
    found = actions[action](bootstrap, *arguments)
    print(json.dumps(found), flush=True)
    os._exit(0)  # librdkafka's threads and ours have nothing to end


if __name__ == "__main__":
    main(*sys.argv[1:])
