"""Three broker ids in one process: clients spread over them, and are sent on when they ask the wrong one.

Starts `ottla serve --nodes 3`; a topic with 6 partitions and 3 replicas is written and read with kafka-python and
confluent-kafka, then nodes stop and start under them. Apache Kafka is not run here: it would need three machines' worth
of memory.
"""

import struct
import sys
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import InvalidReplicationFactorError

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.one_batch import one_record_batch
from ..support.clients.raw import RawConnection, produce_body, produce_result
from ..support.clients.steps import admin
from ..support.suite import NotRunError, Options, Suite, run_suite
from .failover import failover

NODES, PARTITIONS, RECORDS = 3, 6, 3_000
NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR = 6, 16


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("its own Ottla with three nodes")
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with OttlaProcess(nodes=NODES, overrides=overrides, keep=options.keep) as broker:
        suite.equal("an address for each node", NODES, len(set(broker.addresses)))
        create(suite, broker.bootstrap)
        leaders = spread(suite, broker)
        wrong_nodes(suite, broker, leaders)
        expected = write(suite, broker.addresses)
        read_with_kafka_python(suite, broker.addresses, expected)
        read_with_confluent(suite, broker.addresses, expected)
        leaders_after(suite, broker, leaders)
        failover(suite, broker)


def create(suite: Suite, bootstrap: str) -> None:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    client.create_topics([NewTopic("spread", PARTITIONS, NODES)])
    try:
        client.create_topics([NewTopic("too-wide", 1, NODES + 1)])
        answer = "created"
    except InvalidReplicationFactorError:
        answer = "refused"
    suite.equal("more replicas than nodes", "refused", answer)
    client.close()


def spread(suite: Suite, broker: OttlaProcess) -> dict[int, int]:
    """Check that every node gives the same answers; return partition -> leader."""
    stories = []
    for address in broker.addresses:
        metadata = admin(address).list_topics(timeout=10)
        partitions = metadata.topics["spread"].partitions.values()
        known = {node.id: f"{node.host}:{node.port}" for node in metadata.brokers.values()}
        layout = {p.id: (p.leader, tuple(p.replicas), tuple(sorted(p.isrs))) for p in partitions}
        stories.append((known, metadata.cluster_id, layout))
    suite.equal("every node lists the same nodes, cluster and leaders", [stories[0]] * NODES, stories)
    known, _, layout = stories[0]
    suite.equal("node ids and addresses as announced", dict(enumerate(broker.addresses)), known)
    leaders = {partition: leader for partition, (leader, _, _) in layout.items()}
    suite.equal("two partitions lead on each node", {0: 2, 1: 2, 2: 2}, dict(Counter(leaders.values())))
    good = all(sorted(replicas) == [0, 1, 2] == list(isrs) for _, replicas, isrs in layout.values())
    suite.check("three replicas each, all in sync", good, layout)
    first = Counter(replicas[0] for _, replicas, _ in layout.values())
    suite.check("the leader is the preferred replica", all(r[0] == leader for leader, r, _ in layout.values()), first)
    return leaders


def wrong_nodes(suite: Suite, broker: OttlaProcess, leaders: dict[int, int]) -> None:
    """Check that a node that does not lead a partition, or does not coordinate a group, answers with that error."""
    batch = one_record_batch(b"value")
    for node, address in enumerate(broker.addresses):
        host, _, port = address.rpartition(":")
        with RawConnection(host, int(port)) as connection:
            codes = {
                partition: produce_result(connection.request(0, 3, produce_body("spread", partition, batch)), "spread")[
                    0
                ]
                for partition in leaders
            }
            expected = {p: 0 if leader == node else NOT_LEADER_OR_FOLLOWER for p, leader in leaders.items()}
            suite.equal(f"node {node}: produce is taken where it leads, else NOT_LEADER_OR_FOLLOWER", expected, codes)
            group = b"some-group"
            body = struct.pack(f">h{len(group)}s", len(group), group)
            (coordinator,) = struct.unpack_from(">i", connection.request(10, 0, body), 2)
            heartbeat = body + struct.pack(">ih1s", 1, 1, b"m")
            (code,) = struct.unpack(">h", connection.request(12, 0, heartbeat))
            answers_itself = code != NOT_COORDINATOR
            suite.equal(f"node {node}: NOT_COORDINATOR unless it coordinates", coordinator == node, answers_itself)


def write(suite: Suite, addresses: list[str]) -> set[bytes]:
    """Write half of the values with each client, which knows only one node at first; return all values."""
    first = {b"kafka-python-%d" % n for n in range(RECORDS)}
    producer = KafkaProducer(bootstrap_servers=addresses[1], linger_ms=5)
    done = [producer.send("spread", value, value) for value in sorted(first)]
    partitions = Counter(future.get(30).partition for future in done)
    producer.close()
    suite.equal("kafka-python wrote to all partitions", PARTITIONS, len(partitions))
    second = {b"confluent-%d" % n for n in range(RECORDS)}
    acknowledged: Counter[int] = Counter()
    errors: list[KafkaError] = []
    librdkafka = Producer({"bootstrap.servers": addresses[2], "linger.ms": 5})
    for value in sorted(second):
        librdkafka.produce(
            "spread",
            value,
            value,
            on_delivery=lambda error, message: (
                errors.append(error) if error else acknowledged.update([message.partition()])
            ),
        )
    librdkafka.flush(30)
    suite.equal("confluent-kafka had no errors", [], errors[:3])
    suite.equal(
        "confluent-kafka wrote to all partitions", (PARTITIONS, RECORDS), (len(acknowledged), acknowledged.total())
    )
    return first | second | {b"value"}


def read_with_kafka_python(suite: Suite, addresses: list[str], expected: set[bytes]) -> None:
    consumer = KafkaConsumer(
        "spread",
        bootstrap_servers=addresses[0],
        group_id="kafka-python-readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=5000,
    )
    values = Counter(record.value for record in consumer)
    consumer.close()
    judge(suite, "kafka-python", values, expected)


def read_with_confluent(suite: Suite, addresses: list[str], expected: set[bytes]) -> None:
    consumer = Consumer(
        {"bootstrap.servers": addresses[1], "group.id": "confluent-readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["spread"])
    values: Counter[bytes] = Counter()
    empty = 0.0
    while empty < 5:
        messages = consumer.consume(1000, 1.0)
        values.update(message.value() for message in messages if message.error() is None)
        empty = empty + 1 if values and not messages else empty + (not messages) * 0.2
    consumer.close()
    judge(suite, "confluent-kafka", values, expected)


def judge(suite: Suite, client: str, values: Counter[bytes], expected: set[bytes]) -> None:
    extra = {b"value": PARTITIONS}  # the raw produces of `wrong_nodes`, one for each partition
    wanted = Counter({value: extra.get(value, 1) for value in expected})
    missing, more = wanted - values, values - wanted
    detail = f"{missing.total()} missing, {more.total()} too many" if missing or more else values.total()
    suite.check(f"{client} in a group reads every record once, from all nodes", not missing and not more, detail)


def leaders_after(suite: Suite, broker: OttlaProcess, leaders: dict[int, int]) -> None:
    metadata = admin(broker.addresses[2]).list_topics("spread", timeout=10)
    now = {p.id: p.leader for p in metadata.topics["spread"].partitions.values()}
    suite.equal("leaders did not move", leaders, now)


if __name__ == "__main__":
    sys.exit(run_suite("nodes", body, doc=__doc__))
