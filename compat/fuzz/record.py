"""Records the requests of real clients: a proxy between them and the broker, and a session with each client.

The broker advertises the proxy's address, so that clients reconnect to the proxy after their first answer.
"""

import contextlib
import socket
import struct
import threading
import time
import warnings

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from ..support.clients.steps import CODECS


class RecordingProxy:
    """Copies bytes both ways and keeps the client's frames (with their size), each once."""

    def __init__(self) -> None:
        self.frames: dict[bytes, None] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._target: tuple[str, int] | None = None

    def start(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> list[bytes]:
        self._listener.close()
        return list(self.frames)

    def _accept(self) -> None:
        assert self._target is not None
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
                threading.Thread(target=self._copy, args=(client, broker, True), daemon=True).start()
                threading.Thread(target=self._copy, args=(broker, client, False), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, keep: bool) -> None:
        pending = bytearray()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                if keep:
                    pending += data
                    self._cut(pending)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _cut(self, pending: bytearray) -> None:
        while len(pending) >= 4:
            (size,) = struct.unpack_from(">i", pending)
            if len(pending) < 4 + size:
                return
            self.frames[bytes(pending[: 4 + size])] = None
            del pending[: 4 + size]


def sessions(bootstrap: str) -> None:
    """Let confluent-kafka, kafka-python and aiokafka do what they do all day."""
    _confluent(bootstrap)
    _kafka_python(bootstrap)
    _aiokafka(bootstrap)


def _confluent(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic("fuzz", 2, 1, config={"cleanup.policy": "compact"})]).values():
        done.result(30)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
        for number in range(30):
            producer.produce("fuzz", key=f"k{number}", value=b"v" * number, headers={"h": b"1"})
        producer.flush(30)
    group = {"bootstrap.servers": bootstrap, "group.id": "fuzz-c", "auto.offset.reset": "earliest"}
    consumer = Consumer(group | {"session.timeout.ms": 6000})
    consumer.subscribe(["fuzz"])
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not consumer.consume(200, 0.5):
        pass
    consumer.commit(asynchronous=False)
    consumer.close()
    admin.describe_configs([ConfigResource("topic", "fuzz")])[ConfigResource("topic", "fuzz")].result(30)
    admin.describe_cluster().result(30)
    admin.list_consumer_groups().result(30)
    admin.delete_consumer_groups(["fuzz-c"])["fuzz-c"].result(30)
    admin.list_topics(timeout=10)


def _kafka_python(bootstrap: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.admin import KafkaAdminClient
    with KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        for number in range(20):
            producer.send("fuzz", key=b"k%d" % number, value=None if number % 5 == 0 else b"v")
    consumer = KafkaConsumer(
        "fuzz", bootstrap_servers=bootstrap, group_id="fuzz-k", auto_offset_reset="earliest", consumer_timeout_ms=1500
    )
    assert sum(1 for _ in consumer) > 0
    partition = TopicPartition("fuzz", 0)
    consumer.beginning_offsets([partition])
    consumer.offsets_for_times({partition: 1})
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.describe_topics(["fuzz"])
    admin.close()


def _aiokafka(bootstrap: str) -> None:
    import asyncio

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def session() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait("fuzz", key=b"k%d" % number, value=b"v")
        consumer = AIOKafkaConsumer(
            "fuzz", bootstrap_servers=bootstrap, group_id="fuzz-a", auto_offset_reset="earliest"
        )
        async with consumer:
            await consumer.getone()
            await consumer.commit()

    asyncio.run(session())
