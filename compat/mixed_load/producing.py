"""Producers, and readers at the end of the topics: each record once and in order."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer

from .load import Load, Scene
from .topics import BOTH, COMPACTED, COPIED, KEPT, KEYS, PARTITIONS, Ledger, Sequence, number_of, numbered

# Its other strategy hangs in librdkafka 2.16 when the only broker is away (see compat/exactly_once/copier.py).
RECOVERY = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": 500, "log_level": 0}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FLUSH_S = 60.0


def idempotent(scene: Scene, codec: str = "none") -> Producer:
    return Producer(
        {
            "bootstrap.servers": scene.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": codec,
            "message.timeout.ms": 120_000,
            **RECOVERY,
        }
    )


class Numbers(Load):
    """Numbered records without keys to each partition of a topic, by one producer for its whole life; `each` a turn and partition."""

    every_s = 0.25

    def __init__(self, scene: Scene, ledger: Ledger, topic: str, each: int) -> None:
        super().__init__(scene, f"Numbers of {topic}")
        self.topic, self.each = topic, each
        self.ledger, self.next = ledger, [0] * PARTITIONS
        self.producer: Producer | None = idempotent(scene)

    def turn(self) -> None:
        assert self.producer is not None
        for partition in range(PARTITIONS):
            for _ in range(self.each):
                value = numbered(self.next[partition], self.chance.randrange(200))
                self.producer.produce(self.topic, value, partition=partition, on_delivery=self.ledger.delivered)
                self.next[partition] += 1
        self.producer.poll(0)

    def close(self) -> None:
        left = flushed(self)
        if left or any(self.ledger.acknowledged[self.topic, each] != sent for each, sent in enumerate(self.next)):
            self.scene.complain(self.name, f"{left} left, of {self.next}: {dict(self.ledger.acknowledged)}")


class Keys(Load):
    """Updates and tombstones of the keys of compacted topics; a new producer, with another codec, every now and then."""

    every_s, each, life = 0.25, 20, 120

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        super().__init__(scene)
        self.ledger = ledger
        self.producer: Producer | None = idempotent(scene)

    def turn(self) -> None:
        if self.turns % self.life == self.life - 1:
            self.close()
            self.producer = idempotent(self.scene, CODECS[self.turns // self.life % len(CODECS)])
        assert self.producer is not None
        for topic in (COMPACTED, BOTH):
            for _ in range(self.each):
                number = self.chance.randrange(KEYS)
                value = None if self.chance.random() < 0.1 else numbered(number, self.chance.randrange(1000))
                key = b"key-%d" % number
                partition = number % PARTITIONS
                self.producer.produce(topic, value, key, partition=partition, on_delivery=self.ledger.delivered)
        self.producer.poll(0)

    def close(self) -> None:
        if left := flushed(self):
            self.scene.complain(self.name, f"{left} were not delivered")


def flushed(load: Numbers | Keys) -> int:
    """Flush all records and close the producer's connections; return the number of undelivered records."""
    assert load.producer is not None
    left = int(load.producer.flush(FLUSH_S))
    load.producer = None
    return left


class OneByOne(Load):
    """kafka-python, one record a request, and each is waited for; an id of its own every now and then."""

    every_s, life = 0.05, 400
    topic = "one-by-one"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.connect()

    def connect(self) -> None:
        self.producer = KafkaProducer(bootstrap_servers=self.scene.bootstrap, acks=("all", 1)[self.turns % 2])

    def turn(self) -> None:
        if self.turns % self.life == self.life - 1:
            self.again()
        self.producer.send(self.topic, numbered(self.turns, 100), partition=0).get(30)

    def again(self) -> None:
        self.close()
        self.connect()

    def close(self) -> None:
        self.producer.close(5)


class Reader(Load):
    """Reads a topic of numbered records from the beginning, all the time, without a group; incremental fetch sessions."""

    every_s = 0.3

    def __init__(self, scene: Scene, topic: str) -> None:
        super().__init__(scene, f"Reader of {topic}")
        self.seen = [Sequence() for _ in range(PARTITIONS)]
        self.consumer = Consumer(
            {
                "bootstrap.servers": scene.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                **RECOVERY,
            }
        )
        self.consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])

    def turn(self) -> None:
        for message in self.consumer.consume(1000, 0.05):
            error = message.error()
            if error is None:
                self.seen[message.partition()].see(number_of(message.value()))
            elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise KafkaException(error)

    def close(self) -> None:
        self.consumer.close()


def readers(scene: Scene) -> list[Reader]:
    return [Reader(scene, KEPT), Reader(scene, COPIED)]
