"""Transactions: KEPT is copied into COPIED exactly once; and short-lived transactional ids."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer

from .consuming import configuration
from .load import Load, Scene
from .producing import RECOVERY
from .topics import COPIED, KEPT

TIMEOUT_S = 30.0
TRANSACTION_MS = 10_000


def producer(scene: Scene, transactional_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": scene.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": 5,
            **RECOVERY,
        }
    )
    again(lambda: made.init_transactions(TIMEOUT_S))
    return made


def again(step: Callable[[], object]) -> None:
    """Run a step of a transaction, and repeat it while the client allows that."""
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


class Copying(Load):
    """Consume, change nothing, produce, commit the position in the transaction; each eighth is aborted."""

    every_s, most, name_of = 0.5, 400, "copy"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None

    def turn(self) -> None:
        if self.producer is None:
            self.producer = producer(self.scene, self.name_of)
        if self.consumer is None:
            more = {"isolation.level": "read_committed"}
            self.consumer = Consumer(configuration(self.scene.bootstrap, self.name_of, "classic") | more)
            self.consumer.subscribe([KEPT])
        messages = [each for each in self.consumer.consume(self.most, 0.1) if each.error() is None]
        if messages:
            self.transact(self.producer, self.consumer, messages)

    def transact(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(COPIED, message.value(), partition=message.partition())
            positions = [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]
            metadata = consumer.consumer_group_metadata()
            again(lambda: producer.send_offsets_to_transaction(positions, metadata, TIMEOUT_S))
            if self.chance.random() > 1 / 8:
                again(lambda: producer.commit_transaction(TIMEOUT_S))
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.scene.complain(self.name, f"had to be aborted: {error}")
        again(lambda: producer.abort_transaction(TIMEOUT_S))
        self.stand_at_committed()

    def stand_at_committed(self) -> None:
        """Continue at the committed position, with another member."""
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.close()

    def again(self) -> None:
        self.producer = None
        self.stand_at_committed()

    close = again


class PassingIds(Load):
    """A new transactional id for each turn: commits, aborts, or vanishes within its transaction."""

    every_s, records = 1.5, 5
    topic = "passing-ids"

    def turn(self) -> None:
        made = producer(self.scene, f"passing-{self.begun}")
        made.begin_transaction()
        for number in range(self.records):
            made.produce(self.topic, b"%d" % number)
        made.flush(TIMEOUT_S)
        if self.turns % 3 == 0:
            again(lambda: made.commit_transaction(TIMEOUT_S))
        elif self.turns % 3 == 1:
            again(lambda: made.abort_transaction(TIMEOUT_S))
