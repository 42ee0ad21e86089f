"""Three clients against Ottla as each release of Apache Kafka from 2.8 on: how they use an older broker's ApiVersions.

Each writes keyed records in a codec, reads them as a member of a classic group, commits, and continues at its position. A
feature that a release introduced is refused by the release before.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.server.client.connection import Client
from ottla.server.config.emulation import RELEASES, release_of
from ottla.server.handlers.api_versions import OF_METRICS

from ..support.brokers.ottla_process import OttlaProcess
from ..support.suite import NotRunError, Options, Suite, run_suite

QUICK = ("2.8", "3.9", "4.0")
PATIENCE_S = 20
RECORDS = [(f"k{number}".encode(), f"v{number}".encode()) for number in range(20)]

Rows = list[tuple[bytes | None, bytes | None]]


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("Ottla, which plays the older brokers")
    for release in QUICK if options.quick else RELEASES:
        with OttlaProcess(profile="dev", keep=options.keep, arguments=("--emulate", release)) as broker:
            suite.check(f"{release}: ApiVersions", *advertised(broker.bootstrap, release))
            with ThreadPoolExecutor(len(CLIENTS)) as lanes:
                outcomes = list(lanes.map(lambda client: outcome(client, broker.bootstrap), CLIENTS))
            for name, problem in zip(CLIENTS, outcomes, strict=True):
                suite.check(f"{release}: {name} writes, reads in a group, commits and continues", not problem, problem)


def outcome(name: str, bootstrap: str) -> str:
    """Return the client's error; empty if it had none."""
    try:
        write_and_read, topic = CLIENTS[name], f"t-{name}"
        first, then = write_and_read(bootstrap, topic)
        if sorted(first, key=str) != sorted(RECORDS, key=str):
            return f"read {len(first)} records of {len(RECORDS)}"
        return f"read {len(then)} records again behind its commit" if then else ""
    except Exception as error:  # noqa: BLE001 - whatever a client raises is an outcome
        return f"{type(error).__name__}: {error}"


def kafka_python(bootstrap: str, topic: str) -> tuple[Rows, Rows]:
    with KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        for key, value in RECORDS:
            producer.send(topic, key=key, value=value).get(PATIENCE_S)

    def read() -> Rows:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=2_000,
        )
        rows = [(each.key, each.value) for each in consumer]
        consumer.commit()
        consumer.close()
        return rows

    return read(), read()


def confluent(bootstrap: str, topic: str) -> tuple[Rows, Rows]:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for key, value in RECORDS:
        producer.produce(topic, key=key, value=value)
    if left := producer.flush(PATIENCE_S):
        raise RuntimeError(f"{left} records were not taken")

    def read() -> Rows:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe([topic])
        rows: Rows = []
        for _ in range(10 * PATIENCE_S):
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                break
            if message is not None:
                rows.append((message.key(), message.value()))
        if rows:
            consumer.commit(asynchronous=False)
        consumer.close()
        return rows

    return read(), read()


def aiokafka(bootstrap: str, topic: str) -> tuple[Rows, Rows]:
    async def work() -> tuple[Rows, Rows]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd")
        await producer.start()
        for key, value in RECORDS:
            await producer.send_and_wait(topic, value, key)
        await producer.stop()
        return await read(), await read()

    async def read() -> Rows:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        rows: Rows = []
        while found := await consumer.getmany(timeout_ms=2_000):
            rows += [(each.key, each.value) for records in found.values() for each in records]
        await consumer.commit()
        await consumer.stop()
        return rows

    return asyncio.run(work())


CLIENTS: dict[str, Callable[[str, str], tuple[Rows, Rows]]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
}


def advertised(bootstrap: str, release: str) -> tuple[bool, str]:
    """Return whether the answer is the release's, in its newest version and, if it has no version 4, for a request of that."""
    host, _, port = bootstrap.rpartition(":")
    api, expected = APIS[18], release_of(release)
    asked = ApiVersionsRequest(client_software_name="compat", client_software_version="1")
    with Client(host, int(port)) as client:
        newest = expected.of_kafka[api.key][1]
        rows = {row.api_key: (row.min_version, row.max_version) for row in client.ask(asked, newest).api_keys}
        if newest < 4:
            client._socket.sendall(encode_request(api, 4, 9, "compat", asked))
            refused = parse_response(api, 0, client.receive_frame())[1]
            if refused.error_code != 35:
                return False, f"version 4 is answered with error {refused.error_code}"
    wanted = {
        key: versions
        for key, each in APIS.items()
        if (versions := expected.advertised(key)) is not None
        and each.name not in OF_METRICS  # the broker receives no metrics
    }
    return rows == wanted, f"{len(rows)} APIs"


if __name__ == "__main__":
    sys.exit(run_suite("old_brokers", body, doc=__doc__))
